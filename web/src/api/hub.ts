/**
 * The one stream of a browser. It runs in a SharedWorker, or in the tab that leads where there is none, and serves all tabs:
 * a browser allows six connections to a server over HTTP/1.1, and ten tabs must work.
 */

/** From a tab to the hub. */
export type Ask =
  | { type: "here"; tab: string; root: string }
  | { type: "follow"; tab: string; run: string; since: number; lines: boolean }
  | { type: "unfollow"; tab: string; run: string }
  | { type: "retry"; tab: string }
  | { type: "bye"; tab: string };

/**
 * From the hub to a tab, or to all (`tab` empty). `data` is the JSON of the message, not yet read; `offset` is what the
 * server's clock is ahead of this machine's, in milliseconds, and `build` the page that the server has.
 */
export type Tell =
  | { type: "leader"; tab: "" }
  | { type: "state"; tab: string; state: State }
  | { type: "server"; tab: string; offset: number; build: string }
  | { type: "message"; tab: string; kind: string; data: string };

/**
 * `at` is when the last byte came, and `next` when the next attempt begins, by the clock of this machine. `opened` counts the
 * streams that were opened: what is announced only while it happens may have been missed between two of them.
 */
export type State =
  | { is: "connecting" | "live"; opened: number }
  | { is: "lost"; opened: number; at: number; next: number }
  | { is: "signed out"; opened: number };

interface Followed {
  /** The last event that was sent, by tab: the stream continues behind the lowest. */
  cursor: number;
  tabs: Map<string, boolean>;
}

/** Without a byte for so long, the stream is taken for lost: a heartbeat comes every 15 s. */
const SILENT_MS = 40_000;
/** A tab that said nothing for so long is gone: it says that it is here every 20 s, and every minute in the background. */
const GONE_MS = 150_000;
const RETRY_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000];

export class Hub {
  private root = "";
  private readonly tabs = new Map<string, number>();
  private readonly runs = new Map<string, Followed>();
  private state: State = { is: "connecting", opened: 0 };
  private current: AbortController | undefined;
  private heard = Date.now();
  private attempts = 0;
  private server = { offset: 0, build: "" };
  private timer: ReturnType<typeof setTimeout> | undefined;
  private changing: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly tell: (message: Tell) => void,
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
  ) {
    setInterval(() => this.look(), 5_000);
  }

  ask(message: Ask): void {
    if (message.type === "bye") {
      this.leave(message.tab);
      return;
    }
    this.tabs.set(message.tab, Date.now());
    switch (message.type) {
      case "here":
        this.root = message.root;
        // Another tab may have signed in since.
        if (this.state.is === "signed out" && !this.current)
          this.state = { is: "connecting", opened: this.state.opened };
        this.tell({ type: "state", tab: message.tab, state: this.state });
        if (this.state.opened) this.tell({ type: "server", tab: message.tab, ...this.server });
        if (!this.current && this.timer === undefined) this.open();
        break;
      case "follow":
        this.follow(message.tab, message.run, message.since, message.lines);
        break;
      case "unfollow":
        this.unfollow(message.tab, message.run);
        break;
      case "retry":
        if (this.state.is !== "live") this.open();
        break;
    }
  }

  private follow(tab: string, run: string, since: number, lines: boolean): void {
    const found = this.runs.get(run);
    const hasLines = found ? [...found.tabs.values()].some(Boolean) : false;
    if (!found) this.runs.set(run, { cursor: since, tabs: new Map([[tab, lines]]) });
    else {
      found.tabs.set(tab, lines);
      if (found.cursor <= since && hasLines >= lines) return;
      found.cursor = Math.min(found.cursor, since);
    }
    this.reopenSoon();
  }

  private unfollow(tab: string, run: string): void {
    const found = this.runs.get(run);
    if (!found?.tabs.delete(tab) || found.tabs.size) return;
    this.runs.delete(run);
    this.reopenSoon();
  }

  private leave(tab: string): void {
    this.tabs.delete(tab);
    for (const run of [...this.runs.keys()]) this.unfollow(tab, run);
    if (!this.tabs.size) this.close();
  }

  private look(): void {
    const now = Date.now();
    for (const [tab, at] of [...this.tabs]) if (now - at > GONE_MS) this.leave(tab);
    if (this.current && this.state.is === "live" && now - this.heard > SILENT_MS) this.current.abort("silent");
  }

  private set(state: State): void {
    this.state = state;
    this.tell({ type: "state", tab: "", state });
  }

  private close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.current?.abort("closed");
    this.current = undefined;
    this.state = { is: "connecting", opened: this.state.opened };
  }

  /** What is followed changed: the next stream is opened before this one is closed. */
  private reopenSoon(): void {
    clearTimeout(this.changing);
    this.changing = setTimeout(() => {
      if (this.state.is === "live" || this.state.is === "connecting") this.open();
    }, 50);
  }

  private open(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (!this.tabs.size) return;
    const before = this.current;
    const controller = new AbortController();
    this.current = controller;
    void this.read(controller, () => before?.abort("replaced"))
      .then(() => "ended")
      .catch((error: unknown) => String(error))
      .then(() => {
        before?.abort("replaced");
        if (this.current !== controller) return;
        this.current = undefined;
        if (this.state.is !== "signed out" && this.tabs.size) this.retryLater();
      });
  }

  private retryLater(): void {
    const wait = RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)] ?? 15_000;
    this.attempts += 1;
    const at = this.state.is === "lost" ? this.state.at : this.heard;
    this.set({ is: "lost", opened: this.state.opened, at, next: Date.now() + wait });
    this.timer = setTimeout(() => this.open(), wait);
  }

  private address(): string {
    const query = new URLSearchParams({ changes: "true" });
    for (const [run, { cursor }] of this.runs) query.append("run", cursor ? `${run}@${cursor}` : run);
    if ([...this.runs.values()].some((followed) => [...followed.tabs.values()].some(Boolean)))
      query.set("lines", "true");
    return `${this.root}api/v1/stream?${query}`;
  }

  private async read(controller: AbortController, opened: () => void): Promise<void> {
    const response = await this.fetcher(this.address(), {
      signal: controller.signal,
      credentials: "same-origin",
      cache: "no-store",
      headers: { Accept: "text/event-stream" },
    });
    if (response.status === 401) {
      this.set({ is: "signed out", opened: this.state.opened });
      return;
    }
    if (!response.ok || !response.body) throw new Error(`${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.heard = Date.now();
      const frames = (rest + value).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        const { kind, data } = read(frame);
        if (kind === "open") {
          opened();
          this.attempts = 0;
          if (this.current === controller)
            this.set({ is: "live", opened: this.state.opened + (this.state.is === "live" ? 0 : 1) });
        }
        if (this.take(kind, data)) return;
      }
    }
  }

  /** Pass a message on; true if the stream has ended. */
  private take(kind: string, data: string): boolean {
    if (kind === "end") {
      if (data.includes("unauthenticated")) this.set({ is: "signed out", opened: this.state.opened });
      return true;
    }
    if (kind === "open" || kind === "heartbeat") {
      const told = JSON.parse(data) as { time: number; build?: string };
      this.server = { offset: told.time / 1000 - Date.now(), build: told.build ?? this.server.build };
      this.tell({ type: "server", tab: "", ...this.server });
      return false;
    }
    if (kind === "event" || kind === "expired") {
      const told = JSON.parse(data) as { run: string; event?: { seq: number } };
      const followed = this.runs.get(told.run);
      if (followed) followed.cursor = told.event?.seq ?? 0;
    }
    this.tell({ type: "message", tab: "", kind, data });
    return false;
  }
}

function read(frame: string): { kind: string; data: string } {
  let kind = "message";
  let data = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return { kind, data };
}
