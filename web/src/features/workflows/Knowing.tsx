import { Plug, Unplug } from "lucide-react";
import { counted } from "@/model/durations";

/** Whether a worker can do it, as a fact. */
export function Knowing({ workers }: { workers: number | undefined }) {
  if (workers === undefined) return null;
  if (!workers)
    return (
      <span className="inline-flex items-center gap-1.5 text-wait">
        <Unplug size={14} aria-hidden /> No live worker knows it
      </span>
    );
  return (
    <span className="inline-flex items-center gap-1.5">
      <Plug size={14} aria-hidden /> {counted(workers, "live worker")} {workers === 1 ? "knows" : "know"} it
    </span>
  );
}
