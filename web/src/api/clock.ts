/** The clock of the server. Durations and "since" use it, so that a wrong clock of this machine changes nothing. */
let offset = 0;
let isPrecise = false;

/** Set by the stream: what the server's clock is ahead of this machine's, in milliseconds. */
export function setClock(ms: number): void {
  offset = ms;
  isPrecise = true;
}

/** Note the header `Date` of an answer: it has whole seconds, and counts only until the stream has reported. */
export function noteTime(date: string | null): void {
  const ms = date ? Date.parse(date) : Number.NaN;
  if (!isPrecise && Number.isFinite(ms) && Math.abs(ms + 500 - Date.now() - offset) > 1500)
    offset = ms + 500 - Date.now();
}

/** Now, by the server's clock, in milliseconds since 1970. */
export function now(): number {
  return Date.now() + offset;
}
