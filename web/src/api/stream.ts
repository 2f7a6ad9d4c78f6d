/** The tab's side of the shared stream. */
import { useEffect, useRef } from "react";
import { ROOT, type View } from "./client";
import { setClock } from "./clock";
import { type Ask, Hub, type Tell } from "./hub";
import { parse } from "./json";
import { useLive } from "./live";
import { useSession } from "./session";
import { noteBuild } from "./version";

/** What is told of a followed run. `data` is as in docs/reference/http.md, section Streams. */
export type RunMessage =
  | { kind: "event"; event: View<"EventView"> }
  | { kind: "progress"; progress: View<"ProgressView">[] }
  | { kind: "line"; line: View<"LogLineView"> }
  | { kind: "stalled" | "resumed" | "missing" | "expired" }
  | { kind: "backfill_complete"; seq: number; status: View<"RunStatus"> };

interface Follower {
  run: string;
  since: number;
  lines: boolean;
  take: (message: RunMessage) => void;
}

const TAB = Math.random().toString(36).slice(2);
const followers = new Set<Follower>();
const onChanges = new Set<(runs: string[]) => void>();
let send: (message: Ask) => void = () => {};
let stop: (() => void) | undefined;

/** Follow a run from the event after `since` on, until the returned function is called. */
export function follow(run: string, since: number, take: Follower["take"], lines = false): () => void {
  const follower = { run, since, lines, take };
  followers.add(follower);
  send({ type: "follow", tab: TAB, run, since, lines: lines || wantsLines(run) });
  return () => {
    followers.delete(follower);
    if (![...followers].some((each) => each.run === run)) send({ type: "unfollow", tab: TAB, run });
  };
}

function wantsLines(run: string): boolean {
  return [...followers].some((each) => each.run === run && each.lines);
}

/** `take` gets what is told of the run while the component is shown; null follows nothing. */
export function useFollow(run: string | null, since: number, take: (message: RunMessage) => void, lines = false): void {
  const latest = useRef(take);
  latest.current = take;
  const from = useRef(since);
  from.current = since;
  useEffect(() => {
    if (run !== null) return follow(run, from.current, (message) => latest.current(message), lines);
  }, [run, lines]);
}

/** Called with the ids of runs that changed, followed or not. */
export function onChanged(listener: (runs: string[]) => void): () => void {
  onChanges.add(listener);
  return () => onChanges.delete(listener);
}

/** Try at once to connect again. */
export function retryNow(): void {
  send({ type: "retry", tab: TAB });
}

function hear(message: Tell): void {
  if (message.tab && message.tab !== TAB) return;
  switch (message.type) {
    case "leader":
      enter();
      break;
    case "state":
      useLive.setState({ state: message.state });
      if (message.state.is === "signed out") useSession.setState({ isSignedOut: true });
      break;
    case "server":
      setClock(message.offset);
      noteBuild(message.build);
      break;
    case "message":
      take(message.kind, parse(message.data) as Record<string, unknown>);
      break;
  }
}

function enter(): void {
  send({ type: "here", tab: TAB, root: ROOT });
  for (const { run, since, lines } of followers)
    send({ type: "follow", tab: TAB, run, since, lines: lines || wantsLines(run) });
}

function take(kind: string, data: Record<string, unknown>): void {
  if (kind === "changed") {
    for (const listener of [...onChanges]) listener(data.runs as string[]);
    return;
  }
  for (const follower of [...followers]) {
    if (follower.run !== data.run) continue;
    if (kind === "event") {
      const { seq } = data.event as View<"EventView">;
      if (seq <= follower.since) continue; // another tab has the stream begin earlier
      follower.since = seq;
    }
    if (kind === "expired") follower.since = 0;
    follower.take({ ...data, kind } as RunMessage);
  }
}

/** Connect this tab with the stream of the browser. */
export function connect(): void {
  if (stop) return;
  stop = "SharedWorker" in globalThis ? viaWorker() : viaLeader();
  const here = setInterval(() => send({ type: "here", tab: TAB, root: ROOT }), 20_000);
  addEventListener("pagehide", () => send({ type: "bye", tab: TAB }));
  addEventListener("pageshow", (event) => {
    if (event.persisted) enter();
  });
  import.meta.hot?.dispose(() => {
    clearInterval(here);
    stop?.();
  });
}

function viaWorker(): () => void {
  const worker = new SharedWorker(new URL("./stream.worker.ts", import.meta.url), { type: "module", name: "outlast" });
  worker.port.onmessage = ({ data }: MessageEvent<Tell>) => hear(data);
  worker.onerror = () => {
    stop = viaLeader();
    enter();
  };
  send = (message) => worker.port.postMessage(message);
  return () => worker.port.close();
}

/** One tab leads: it holds the lock, has the hub, and speaks with the others over a channel. The next one follows it. */
function viaLeader(): () => void {
  const channel = new BroadcastChannel(`outlast ${ROOT}`);
  const locks = navigator.locks as LockManager | undefined; // only in secure contexts
  const lead = () => {
    const hub = new Hub((message) => {
      hear(message);
      if (locks) channel.postMessage(message);
    });
    send = (message) => hub.ask(message);
    channel.onmessage = ({ data }: MessageEvent<Ask | Tell>) => {
      if (isAsk(data)) hub.ask(data);
    };
    if (locks) channel.postMessage({ type: "leader", tab: "" } satisfies Tell);
    enter();
  };
  if (!locks) {
    lead();
    return () => channel.close();
  }
  send = (message) => channel.postMessage(message);
  channel.onmessage = ({ data }: MessageEvent<Ask | Tell>) => {
    if (!isAsk(data)) hear(data);
  };
  void locks.request(`outlast ${ROOT}`, () => {
    lead();
    return new Promise(() => {});
  });
  enter(); // there may be a leader
  return () => channel.close();
}

function isAsk(message: Ask | Tell): message is Ask {
  return !["leader", "state", "server", "message"].includes(message.type);
}
