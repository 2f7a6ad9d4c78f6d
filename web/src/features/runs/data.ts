import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { answer, api, type View } from "@/api/client";
import { keys, queries, useWorkers } from "@/api/queries";
import { follow } from "@/api/stream";
import { statusOf } from "@/ui/StatusBadge";
import { asked, type Filter, filterOf, hasStatus, queryOf } from "./filter";
import { merged, type Shown } from "./merge";

type Run = View<"RunView">;

export const PAGE = 100;
/** More is not shown at once: then the list continues at an older moment. */
export const MOST = 1000;

/** The runs of a filter. What is new waits in `shown.waiting` until `show` lets it in. */
export function useRuns(filter: Filter) {
  const name = queryOf(filter).toString();
  const isSorted = filter.sort !== "";
  const order = isSorted ? { sort: filter.sort } : {};
  const [size, setSize] = useState(PAGE);
  const query = useQuery({
    queryKey: [...keys.runs, name, size],
    queryFn: async ({ signal }) => {
      const found = await answer(
        api.GET("/api/v1/runs", { params: { query: { ...asked(filter), ...order, limit: size } }, signal }),
      );
      return { ...found, name, runs: found.runs.filter((run) => hasStatus(filter, statusOf(run))) };
    },
    placeholderData: keepPreviousData,
  });
  const { data } = query;
  const [state, setState] = useState<{ name: string; shown: Shown } | null>(null);
  useEffect(() => {
    if (!data || data.name !== name) return;
    setState((before) => ({
      name,
      shown: merged(before?.name === name ? before.shown : null, data.runs, data.next === null, isSorted),
    }));
  }, [data, name, isSorted]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another filter begins at its first page
  useEffect(() => setSize(PAGE), [name]);
  const isOther = state !== null && state.name !== name;
  return {
    shown: state?.shown ?? null,
    /** The rows are still those of the filter before. */
    isOther,
    hasMore: data?.next !== null && data !== undefined,
    isLoadingMore: query.isFetching && query.isPlaceholderData,
    error: query.error,
    retry: query.refetch,
    show: () => data && setState({ name, shown: merged(null, data.runs, data.next === null) }),
    more: size < MOST ? () => setSize(Math.min(MOST, size + PAGE * (size >= 300 ? 3 : 1))) : null,
  };
}

/** How many runs each view has. */
export function useCounts(views: { query: string }[]): ({ count: number; more: boolean } | undefined)[] {
  return useQueries({
    queries: views.map(({ query }) => ({
      queryKey: [...keys.counts, query],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        answer(api.GET("/api/v1/count", { params: { query: asked(filterOf(new URLSearchParams(query))) }, signal })),
    })),
  }).map((each) => each.data);
}

/** The names of all workflows that can be chosen: those that the server can start, and those of the runs shown. */
export function useWorkflowNames(rows: Run[]): string[] {
  const known = useQuery({
    queryKey: keys.workflows,
    queryFn: ({ signal }) => answer(api.GET("/api/v1/workflows", { signal })),
  }).data;
  return useMemo(
    () => [...new Set([...(known?.workflows ?? []), ...rows].map((each) => each.workflow))].sort(),
    [known, rows],
  );
}

export interface Unknown {
  workflow: string;
  runs: Run[];
}

/** Workflows with runs to begin that no live worker knows. */
export function useUnknownWorkflows(): { unknown: Unknown[]; isUnknown: (workflow: string) => boolean } {
  const workers = useWorkers().data;
  const created = useQuery({
    queryKey: [...keys.runs, "to begin"],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/runs", { params: { query: { status: ["created"], limit: 200 } }, signal })),
  }).data;
  return useMemo(() => {
    if (!workers) return { unknown: [], isUnknown: () => false };
    const known = new Set(workers.workers.filter((worker) => worker.live).flatMap((worker) => worker.workflows));
    const waiting = new Map<string, Run[]>();
    for (const run of created?.runs ?? []) {
      if (!known.has(run.workflow)) waiting.set(run.workflow, [run, ...(waiting.get(run.workflow) ?? [])]);
    }
    return {
      unknown: [...waiting].map(([workflow, runs]) => ({ workflow, runs })),
      isUnknown: (workflow) => !known.has(workflow),
    };
  }, [workers, created]);
}

/** The most rows whose progress is followed. */
const FOLLOWED = 20;

/** The progress of runs that are at work, as the stream reports it. */
export function useProgress(rows: Run[]): Map<string, View<"ProgressView">[]> {
  const [progress, setProgress] = useState(new Map<string, View<"ProgressView">[]>());
  const working = rows.filter((run) => run.status === "running").slice(0, FOLLOWED);
  const latest = useRef(working);
  latest.current = working;
  const names = working.map((run) => run.run).join(" ");
  useEffect(() => {
    const ends = latest.current
      .filter((run) => names.split(" ").includes(run.run))
      .map((run) =>
        follow(run.run, run.at, (message) => {
          if (message.kind === "progress") setProgress((before) => new Map(before).set(run.run, message.progress));
        }),
      );
    return () => {
      for (const end of ends) end();
    };
  }, [names]);
  return progress;
}

/** Read again at once. */
export function reload(): void {
  void queries.invalidateQueries({ queryKey: keys.runs });
}
