import { useCallback, useEffect, useRef, useState } from "react";
import { answer, api, type Problem, type View } from "@/api/client";
import { type RunMessage, useFollow } from "@/api/stream";

type Line = View<"LogLineView">;

const PAGE = 1_000;
/** So many lines are loaded by themselves; more on request. */
const ENOUGH = 20_000;
/** So many lines that come meanwhile are kept until the last page is there. */
const PENDING = 5_000;
/** If there are more lines, the oldest are dropped, many at a time. */
const KEPT = 60_000;
const LET_GO = 10_000;

interface Lines {
  /** In order; it changes in place, with `version`. */
  lines: Line[];
  version: number;
  /** All lines that there were have been loaded. */
  isComplete: boolean;
  hasMore: boolean;
  /** How many lines at the beginning were dropped. */
  dropped: number;
  error: Problem | null;
  more: () => void;
  retry: () => void;
}

/** The log lines of a run, of a node or of one attempt: those that are there, and those that come. */
export function useLines(run: string, since: number, node: string | null, attempt: number | null): Lines {
  const key = `${run} ${node} ${attempt}`;
  const kept = useRef({
    key,
    lines: [] as Line[],
    limit: ENOUGH,
    next: 0 as number | null,
    pending: [] as Line[],
    dropped: 0,
  });
  if (kept.current.key !== key) kept.current = { key, lines: [], limit: ENOUGH, next: 0, pending: [], dropped: 0 };
  const [version, setVersion] = useState(0);
  const [error, setError] = useState<Problem | null>(null);
  const [asked, setAsked] = useState(0);
  const changed = useCallback(() => setVersion((before) => before + 1), []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: asking again loads again
  useEffect(() => {
    const own = kept.current;
    const abort = new AbortController();
    const load = async () => {
      while (own.next !== null && own.lines.length < own.limit) {
        const query = { limit: PAGE, after: own.next, ...(node ? { node } : {}), ...(attempt ? { attempt } : {}) };
        const page = await answer(
          api.GET("/api/v1/runs/{run}/logs", { params: { path: { run }, query }, signal: abort.signal }),
        );
        add(own.lines, page.lines);
        own.next = page.next;
        if (page.next === null) add(own.lines, own.pending.splice(0));
        changed();
      }
    };
    load().then(
      () => setError(null),
      (problem) => {
        if (!abort.signal.aborted) setError(problem as Problem);
      },
    );
    return () => abort.abort();
  }, [run, node, attempt, asked, changed]);

  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const take = useCallback(
    (message: RunMessage) => {
      if (message.kind !== "line") return;
      const { line } = message;
      if ((node && line.node !== node) || (attempt && line.attempt !== attempt)) return;
      const own = kept.current;
      if (own.next === null) {
        add(own.lines, [line]);
        if (own.lines.length > Math.max(KEPT, own.limit)) own.dropped += own.lines.splice(0, LET_GO).length;
      } else if (own.pending.push(line) > PENDING) own.pending.shift();
      timer.current ??= setTimeout(() => {
        timer.current = undefined;
        changed();
      }, 100);
    },
    [node, attempt, changed],
  );
  useFollow(run, since, take, true);

  const { lines, next, dropped } = kept.current;
  return {
    ...{ lines, version, error, dropped, isComplete: next === null },
    hasMore: next !== null && lines.length >= kept.current.limit,
    more: () => {
      kept.current.limit += ENOUGH;
      setAsked((before) => before + 1);
    },
    retry: () => setAsked((before) => before + 1),
  };
}

/** Add lines behind those that are there; what is known already is dropped. */
function add(lines: Line[], more: readonly Line[]): void {
  for (const line of more) if (line.number > (lines.at(-1)?.number ?? -1)) lines.push(line);
}
