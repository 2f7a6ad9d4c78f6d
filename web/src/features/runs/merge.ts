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

/**
 * What is shown after `fresh`, the first runs that match, was read. `isComplete`: there are no more that match. `isSorted`: by
 * an attribute, not the newest first.
 */
export function merged(before: Shown | null, fresh: Run[], isComplete: boolean, isSorted = false): Shown {
  if (!before?.rows.length) return { rows: fresh, gone: new Set(), waiting: 0 };
  const found = new Map(fresh.map((run) => [run.run, run]));
  const shown = new Set(before.rows.map((run) => run.run));
  const oldest = fresh.at(-1)?.created ?? "";
  const lastFound = before.rows.findLastIndex((run) => found.has(run.run));
  const gone = new Set<string>();
  const rows = before.rows.map((run, index) => {
    const now = found.get(run.run);
    const isBefore = isSorted ? index < lastFound : (run.created ?? "") > oldest;
    if (!now && (isComplete || isBefore)) gone.add(run.run);
    return now ?? run;
  });
  // What follows the last row comes after it: that moves nothing.
  const last = before.rows.at(-1)?.created ?? "";
  const lastShown = fresh.findLastIndex((run) => shown.has(run.run));
  const unseen = fresh.filter((run) => !shown.has(run.run));
  const older = unseen.filter((run) => (isSorted ? fresh.indexOf(run) > lastShown : (run.created ?? "") < last));
  return { rows: [...rows, ...older], gone, waiting: unseen.length - older.length };
}
