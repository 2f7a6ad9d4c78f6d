export default function Graph() {
  return null;
}
