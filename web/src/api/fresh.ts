/** Queries are renewed by the stream: what changed is read again, at most once a second, and not in hidden tabs. */

import type { View } from "./client";
import { useLive } from "./live";
import { keys, queries } from "./queries";
import { onChanged } from "./stream";

const EVERY_MS = 1_000;
/** Counts look at many runs. */
const COUNTS_MS = 5_000;

export function keepFresh(): void {
  const dirty = new Set<string>();
  let isDirty = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = 0;
  let lastCounts = 0;

  const renew = () => {
    timer = undefined;
    if (document.hidden || !isDirty) return;
    isDirty = false;
    last = Date.now();
    for (const run of dirty) void queries.invalidateQueries({ queryKey: keys.run(run) });
    dirty.clear();
    void queries.invalidateQueries({ queryKey: keys.runs });
    void queries.invalidateQueries({ queryKey: keys.inbox });
    void queries.invalidateQueries({ queryKey: keys.workers });
    renewCounts();
  };
  let counting: ReturnType<typeof setTimeout> | undefined;
  const renewCounts = () => {
    if (counting !== undefined) return;
    counting = setTimeout(
      () => {
        counting = undefined;
        lastCounts = Date.now();
        void queries.invalidateQueries({ queryKey: keys.counts });
      },
      Math.max(0, lastCounts + COUNTS_MS - Date.now()),
    );
  };
  const renewSoon = () => {
    if (timer === undefined) timer = setTimeout(renew, Math.max(50, last + EVERY_MS - Date.now()));
  };
  onChanged((runs) => {
    // Only what was read can be out of date: in a tab that stays hidden, the others would become more and more.
    for (const run of runs) if (hasRead(run)) dirty.add(run);
    isDirty = true;
    renewSoon();
  });
  document.addEventListener("visibilitychange", renewSoon);
  let opened = 1;
  useLive.subscribe(({ state }) => {
    if (state.opened <= opened) return;
    opened = state.opened; // what changed meanwhile was not announced
    const before = versions();
    void queries.invalidateQueries().then(() => {
      const changed = [...versions()].filter(([run, at]) => before.size > 0 && before.get(run) !== at);
      useLive.setState({ caughtUp: changed.length });
    });
  });
}

const hasRead = (run: string): boolean => queries.getQueryCache().findAll({ queryKey: keys.run(run) }).length > 0;

/** The runs that lists show, each with its last event. */
function versions(): Map<string, number> {
  const lists = queries.getQueriesData<{ runs: View<"RunView">[] }>({ queryKey: keys.runs });
  return new Map(lists.flatMap(([, list]) => (list?.runs ?? []).map((run) => [run.run, run.at] as const)));
}
