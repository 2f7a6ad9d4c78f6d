import { useEffect, useMemo, useReducer } from "react";
import { type Row, rowsOf, shownRows } from "@/model/rows";
import { useRun } from "../context";
import { loadedLog } from "../run-log";

/** The rows of the run, with the rows of the children that are open. `isOpen` says which groups are. */
export function useRows(isOpen: (row: Row) => boolean): { rows: Row[]; shown: Row[] } {
  const { log, version, place } = useRun();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log changes in place, with its version
  const rows = useMemo(() => rowsOf(log.timeline, place.branch), [log, version, place.branch]);
  const open = shownRows(rows, isOpen).flatMap((row) =>
    row.kind === "child" && row.child && isOpen(row) ? [row.child.id] : [],
  );
  const names = open.join("\n");
  const changed = useChildLogs(names);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the logs of children change in place
  const shown = useMemo(() => {
    const grown = new Map<string, Row[]>();
    for (const child of names ? names.split("\n") : []) grown.set(child, rowsOf(loadedLog(child).log.timeline));
    return shownRows(grown.size ? withChildren(rows, grown) : rows, (row) => isOpen(row));
  }, [rows, names, changed, isOpen]);
  return { rows, shown };
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
