import { ChevronDown, FlaskConical } from "lucide-react";
import type { View } from "@/api/client";
import { stringify } from "@/api/json";
import { useIsWide } from "./media";

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
  const isWide = useIsWide(700);
  return (
    // On narrow screens one line says it, so that the tabs below are within reach.
    <details open={isWide} className="group rounded-control border border-dashed border-line-strong">
      <summary className="flex items-center gap-1.5 px-3 py-1.5 text-meta text-text-2 max-md:min-h-11">
        <FlaskConical size={14} aria-hidden className="flex-none" />
        {count === 0
          ? "Dry run: no event would be appended"
          : `Dry run: ${count} ${count === 1 ? "event" : "events"} would be appended`}
        <ChevronDown size={14} aria-hidden className="ml-auto flex-none group-open:rotate-180" />
      </summary>
      <ol className="border-t border-dashed border-line-strong py-1">
        {events.map((event, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a plan has an order and no ids
          <li key={i} className="grid grid-cols-[32px_minmax(0,1fr)] gap-2 px-2 py-0.5 text-meta">
            <code className="text-right text-text-3">{after === undefined ? "" : after + i + 1}</code>
            <span className="break-words">
              <code>{event.type}</code>{" "}
              <span className="text-text-2">{event.text || stringify(event.fields).slice(0, 200)}</span>
            </span>
          </li>
        ))}
        {effects.map((effect) => (
          <li key={effect} className="px-2 py-0.5 pl-12 text-meta text-text-2">
            {effect}
          </li>
        ))}
      </ol>
    </details>
  );
}
