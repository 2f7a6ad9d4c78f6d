import { duration } from "@/model/durations";
import type { Interval } from "@/model/events";
import type { Row } from "@/model/rows";
import { COLOURS, lookOf } from "./looks";

/** The parts of the run as a list, for narrow screens. */
export function GroupList({
  rows,
  intervals,
  now,
  select,
}: {
  rows: readonly Row[];
  intervals: readonly Interval[];
  now: number;
  select: (row: Row) => void;
}) {
  return (
    <ul>
      {rows.slice(0, 300).map((row) => {
        const { icon: Icon, state, word, ms, attempt } = lookOf(row, intervals, now);
        return (
          <li key={row.id} className="border-b border-line last:border-0">
            <button
              type="button"
              onClick={() => select(row)}
              className="flex min-h-12 w-full items-center gap-2 px-4 py-1.5 text-left"
            >
              <Icon size={16} aria-hidden className={`flex-none ${COLOURS[state]}`} />
              <span className="min-w-0 flex-1">
                <span className="block truncate">
                  <b className="font-medium">{row.label}</b>{" "}
                  <span className="text-text-2">{row.kind === "child" ? "child" : row.detail}</span>
                </span>
                <span className="block text-meta text-text-2">
                  {row.rows.length ? `${row.rows.length} parts, ` : ""}
                  {word}
                  {attempt > 1 ? `, attempt ${attempt}` : ""}
                </span>
              </span>
              <span className="text-meta text-text-2">{ms === null ? "" : duration(ms)}</span>
            </button>
          </li>
        );
      })}
      {rows.length > 300 ? <li className="px-4 py-2 text-text-2">300 of {rows.length} are shown.</li> : null}
    </ul>
  );
}
