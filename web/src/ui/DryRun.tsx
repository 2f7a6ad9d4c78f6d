import { FlaskConical } from "lucide-react";
import type { View } from "@/api/client";
import { stringify } from "@/api/json";

/** What an action would append, event by event, beside the button that does it. `after` is the last event of the log. */
export function DryRun({
  events,
  effects = [],
  after,
}: {
  events: View<"PlannedEventView">[];
  effects?: string[];
  after?: number;
}) {
  const count = events.length;
  return (
    <div className="rounded-control border border-dashed border-line-strong">
      <p className="flex items-center gap-1.5 border-b border-dashed border-line-strong px-3 py-1.5 text-meta text-text-2">
        <FlaskConical size={14} aria-hidden />
        {count === 0
          ? "Dry run: no event would be appended"
          : `Dry run: ${count} ${count === 1 ? "event" : "events"} would be appended`}
      </p>
      <ol className="py-1 text-code">
        {events.map((event, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a plan has an order and no ids
          <li key={i} className="grid grid-cols-[44px_minmax(0,1fr)] gap-2 px-3 py-0.5 font-mono">
            <span className="text-right text-text-3">{after === undefined ? "" : after + i + 1}</span>
            <span className="break-words">
              {event.type} <span className="text-text-2">{event.text || stringify(event.fields).slice(0, 200)}</span>
            </span>
          </li>
        ))}
        {effects.map((effect) => (
          <li key={effect} className="px-3 py-0.5 pl-16 font-sans text-text-2">
            {effect}
          </li>
        ))}
      </ol>
    </div>
  );
}
