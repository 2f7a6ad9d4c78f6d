import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { answer, api, type View } from "@/api/client";
import { keys, queries } from "@/api/queries";
import { useFollow } from "@/api/stream";
import type { LogEvent } from "@/model/events";
import type { State } from "@/model/fold";
import type { RunLog } from "@/model/run-log";
import { loadedLog, useRunLog } from "./run-log";

export type RunDetail = View<"RunDetailView">;
export const TABS = ["story", "timeline", "graph", "events", "logs", "values", "branches"] as const;
export type Tab = (typeof TABS)[number];

/** Where one is in a run: all of it is in the address. */
export interface Place {
  tab: Tab;
  /** The branch that is shown; null is the current one. */
  branch: number | null;
  /** The event that was the newest at the instant that is shown; null is now. */
  at: number | null;
  node: string | null;
  attempt: number | null;
  /** An event that is pointed at. */
  event: number | null;
  /** The window of time that is shown, in milliseconds since 1970. */
  from: number | null;
  to: number | null;
  /** Which attempts are shown: null is all. */
  attempts: "last" | "failed" | null;
}

export interface RunContext {
  run: string;
  detail: RunDetail;
  /** All events that were loaded, of all branches. It changes in place: `version` tells when. */
  log: RunLog;
  version: number;
  /** All events are loaded. Until then, `events` and `state` are those of a beginning of the log. */
  isComplete: boolean;
  place: Place;
  /** The branch that is shown. */
  branch: number;
  /** The events that the branch sees, up to the instant that is shown. */
  events: LogEvent[];
  /** The state that follows from `events`. The newest one changes in place, like the log. */
  state: State;
  /** The address of another place in this run. What is not named stays, except the tab's own selection. */
  to: (place: Partial<Place>) => string;
  /** Go there; `replace` leaves no step in the history of the browser. */
  go: (place: Partial<Place>, options?: { replace?: boolean }) => void;
}

const Context = createContext<RunContext | null>(null);

export function useRun(): RunContext {
  const found = useContext(Context);
  if (!found) throw new Error("useRun needs a RunProvider");
  return found;
}

export function useRunDetail(run: string) {
  return useQuery({
    queryKey: keys.run(run),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}", { params: { path: { run } }, signal })),
  });
}

/** A node reports only some of it. */
const NO_PROGRESS = { done: 0, total: null, text: "" };

/** The run as it was loaded, with what the stream has told since. Its events go to the log. */
function useLive(loaded: RunDetail): RunDetail {
  const { run } = loaded;
  const [told, setTold] = useState<{ of: RunDetail; progress: RunDetail["progress"] } | null>(null);
  useFollow(run, loaded.at, (message) => {
    switch (message.kind) {
      case "event":
        loadedLog(run).take(message.event);
        break;
      case "progress":
        setTold({ of: loaded, progress: message.progress.map((each) => ({ ...NO_PROGRESS, ...each })) });
        break;
      case "stalled":
      case "resumed":
      case "expired":
      case "missing":
        void queries.invalidateQueries({ queryKey: keys.run(run) });
        break;
    }
  });
  return useMemo(() => (told?.of === loaded ? { ...loaded, progress: told.progress } : loaded), [loaded, told]);
}

const numberOf = (text: string | null): number | null => (text && Number.isFinite(Number(text)) ? Number(text) : null);

function placeOf(tab: Tab, search: URLSearchParams): Place {
  return {
    tab,
    branch: numberOf(search.get("branch")),
    at: numberOf(search.get("at")),
    node: search.get("node"),
    attempt: numberOf(search.get("attempt")),
    event: numberOf(search.get("event")),
    from: numberOf(search.get("from")),
    to: numberOf(search.get("to")),
    attempts: search.get("attempts") === "last" ? "last" : search.get("attempts") === "failed" ? "failed" : null,
  };
}

/** The address of a place in a run. */
export function addressOf(run: string, { tab, ...place }: Partial<Place>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(place))
    if (value !== null && value !== undefined) search.set(name, String(value));
  const query = search.size ? `?${search}` : "";
  return `/runs/${encodeURIComponent(run)}${tab && tab !== "story" ? `/${tab}` : ""}${query}`;
}

export function RunProvider({ detail: loaded, tab, children }: { detail: RunDetail; tab: Tab; children: ReactNode }) {
  const { run } = loaded;
  const detail = useLive(loaded);
  const [search] = useSearchParams();
  const navigate = useNavigate();
  const place = useMemo(() => placeOf(tab, search), [tab, search]);
  const { log, version, isComplete } = useRunLog(run, detail.at);
  const branch = place.branch ?? (place.at === null ? detail.branch : log.branchAt(place.at));
  const to = useCallback((next: Partial<Place>) => addressOf(run, { ...place, ...next }), [run, place]);
  const go = useCallback<RunContext["go"]>(
    // at once: the next key that is pressed counts from the new place
    (next, options) => void navigate(to(next), { ...options, flushSync: true }),
    [navigate, to],
  );
  const value = useMemo<RunContext>(
    () => ({
      ...{ run, detail, log, version, isComplete, place, branch, to, go },
      events: log.eventsOf(branch, place.at),
      state: log.stateOf(branch, place.at),
    }),
    [run, detail, log, version, isComplete, place, branch, to, go],
  );
  return <Context value={value}>{children}</Context>;
}
