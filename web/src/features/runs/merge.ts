/** How a list takes in what is new: nothing moves, until a person lets it. */
import type { View } from "@/api/client";

type Run = View<"RunView">;

export interface Shown {
  /** The rows as they are shown, in their order. */
  rows: Run[];
  /** Rows that no longer match: they stay in their place, in grey. */
  gone: ReadonlySet<string>;
  /** How many runs match and are not shown yet. */
  waiting: number;
}

/** What is shown after `fresh`, the newest runs that match, was read. `isComplete`: there are no more that match. */
export function merged(before: Shown | null, fresh: Run[], isComplete: boolean): Shown {
  if (!before?.rows.length) return { rows: fresh, gone: new Set(), waiting: 0 };
  const found = new Map(fresh.map((run) => [run.run, run]));
  const shown = new Set(before.rows.map((run) => run.run));
  const oldest = fresh.at(-1)?.created ?? "";
  const gone = new Set<string>();
  const rows = before.rows.map((run) => {
    const now = found.get(run.run);
    if (!now && (isComplete || (run.created ?? "") > oldest)) gone.add(run.run);
    return now ?? run;
  });
  // What is older than the last row comes after it: that moves nothing.
  const last = before.rows.at(-1)?.created ?? "";
  const unseen = fresh.filter((run) => !shown.has(run.run));
  const older = unseen.filter((run) => (run.created ?? "") < last);
  return { rows: [...rows, ...older], gone, waiting: unseen.length - older.length };
}
