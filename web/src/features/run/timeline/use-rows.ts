import { useEffect, useMemo, useReducer } from "react";
import { type Row, rowsOf, shownRows } from "@/model/rows";
import type { TimelineBuilder } from "@/model/timeline";
import { useRun } from "../context";
import { loadedLog } from "../run-log";

/** The rows that are seen, with those of the child runs that are open. `isOpen` says which groups are. */
export function useRows(timeline: TimelineBuilder, isOpen: (row: Row) => boolean): Row[] {
  const { version, place } = useRun();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline changes in place, with the version of the log
  const rows = useMemo(() => rowsOf(timeline, place.branch), [timeline, version, place.branch]);
  const open = shownRows(rows, isOpen).flatMap((row) =>
    row.kind === "child" && row.child && isOpen(row) ? [row.child.id] : [],
  );
  const names = open.join("\n");
  const changed = useChildLogs(names);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the logs of children change in place
  return useMemo(() => {
    const grown = new Map<string, Row[]>();
    for (const child of names ? names.split("\n") : []) grown.set(child, rowsOf(loadedLog(child).log.timeline));
    return shownRows(grown.size ? withChildren(rows, grown) : rows, (row) => isOpen(row));
  }, [rows, names, changed, isOpen]);
}

/** Child rows with the rows of their own runs below them. */
function withChildren(rows: readonly Row[], grown: ReadonlyMap<string, Row[]>): Row[] {
  return rows.map((row) => {
    const own = row.child && grown.get(row.child.id);
    if (own) return { ...row, rows: own.map((each) => nested(each, `${row.child?.id} `, row.depth + 1)) };
    return row.rows.length ? { ...row, rows: withChildren(row.rows, grown) } : row;
  });
}

const nested = (row: Row, before: string, depth: number): Row => ({
  ...row,
  id: before + row.id,
  depth: row.depth + depth,
  rows: row.rows.map((each) => nested(each, before, depth)),
});

/** Load the logs of these runs and count their changes. */
function useChildLogs(names: string): number {
  const [changed, change] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const ends = (names ? names.split("\n") : []).map((run) => {
      const loaded = loadedLog(run);
      loaded.users += 1;
      const end = loaded.subscribe(change);
      void loaded.load();
      return () => {
        loaded.users -= 1;
        end();
      };
    });
    return () => {
      for (const end of ends) end();
    };
  }, [names]);
  return changed;
}
