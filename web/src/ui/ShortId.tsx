import { shortId } from "@/model/names";

/** An id, shortened to what tells it from others. All of it is on hover. */
export function ShortId({ id }: { id: string }) {
  return (
    <code title={id} className="whitespace-nowrap">
      {shortId(id)}
    </code>
  );
}
