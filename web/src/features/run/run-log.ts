import { useEffect, useSyncExternalStore } from "react";
import { answer, api, Problem, type View } from "@/api/client";
import { RunLog } from "@/model/run-log";

const PAGE = 1000;
/** How often a log that grows is shown anew, in milliseconds. */
const SHOW = 300;

/** The log of one run in memory. It is loaded in pages, so that the page stays free between them. */
export class LoadedLog {
  readonly log = new RunLog();
  isComplete = false;
  error: Problem | null = null;
  /** What the page shows: replaced when something changed. */
  snapshot = { log: this.log, version: 0, isComplete: false, error: this.error };
  users = 0;
  private readonly listeners = new Set<() => void>();
  private loading: Promise<void> | null = null;
  private isAgain = false;
  private shown = 0;
  private showing: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly run: string) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Load what is new. While it is being loaded, it is loaded once more afterwards. */
  load = (): Promise<void> => {
    if (this.loading) {
      this.isAgain = true;
      return this.loading;
    }
    this.loading = this.read().finally(() => {
      this.loading = null;
      if (this.isAgain && this.users) {
        this.isAgain = false;
        void this.load();
      }
    });
    return this.loading;
  };

  private async read(): Promise<void> {
    try {
      for (let next: number | null = this.log.seq; next !== null; ) {
        const page: View<"EventListView"> = await answer(this.request(next));
        this.log.add(page.events);
        next = page.next;
        if (next !== null && performance.now() - this.shown > SHOW) this.show();
      }
      this.isComplete = true;
      this.error = null;
    } catch (error) {
      this.error = error instanceof Problem ? error : new Problem(0, "page.unreachable", String(error));
    }
    this.show();
  }

  /** Take in an event that was announced; what is missing before it is loaded. */
  take(event: View<"EventView">): void {
    if (event.seq <= this.log.seq) return;
    if (this.loading || !this.log.add([event])) {
      void this.load();
      return;
    }
    this.showing ??= setTimeout(() => this.show(), Math.max(0, this.shown + SHOW - performance.now()));
  }

  private request(after: number) {
    return api.GET("/api/v1/runs/{run}/events", {
      params: { path: { run: this.run }, query: { everything: true, limit: PAGE, after } },
    });
  }

  private show(): void {
    clearTimeout(this.showing);
    this.showing = undefined;
    this.shown = performance.now();
    const { log, isComplete, error } = this;
    this.snapshot = { log, version: log.version, isComplete, error };
    for (const listener of this.listeners) listener();
  }
}

const KEPT = 4;
const logs = new Map<string, LoadedLog>();

/** The log of that run in memory; the ones that nobody uses any more are forgotten. */
export function loadedLog(run: string): LoadedLog {
  let found = logs.get(run);
  if (!found) {
    for (const [name, each] of logs) if (logs.size >= KEPT && !each.users) logs.delete(name);
    found = new LoadedLog(run);
    logs.set(run, found);
  }
  return found;
}

/** The log of a run, loaded and kept up to date with `seq`, its newest event. */
export function useRunLog(run: string, seq: number): LoadedLog["snapshot"] {
  const loaded = loadedLog(run);
  useEffect(() => {
    loaded.users += 1;
    return () => {
      loaded.users -= 1;
    };
  }, [loaded]);
  useEffect(() => {
    if (!loaded.isComplete || seq > loaded.log.seq) void loaded.load();
  }, [loaded, seq]);
  return useSyncExternalStore(loaded.subscribe, () => loaded.snapshot);
}
