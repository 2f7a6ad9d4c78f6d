/**
 * What happened when: the attempts of nodes, the waits, who held the run, and what the run did as a whole.
 *
 * A `TimelineBuilder` reads the events of all branches in the order of the log, one at a time, so that a live run costs no
 * more than its new events. Times are in milliseconds since 1970.
 */

import {
  type Branch,
  type Failure,
  failure,
  flag,
  type Interval,
  type LogEvent,
  lineage,
  micros,
  number,
  openedBranch,
  ROOT,
  text,
  texts,
} from "./events";
import { apply, State, type WaitKind } from "./fold";

export type Outcome = "queued" | "running" | "completed" | "failed" | "retrying" | "lost" | "stopped" | "skipped";

/** One attempt of a node, or of its compensation. */
export interface Attempt {
  node: string;
  attempt: number;
  branch: number;
  cause: string;
  isCompensation: boolean;
  scheduled: number;
  started: number | null;
  /** The end, in the log. A lost attempt has none: this is when it was last heard of. */
  ended: number | null;
  /** Its own work as the node measured it. */
  own: number;
  retryAt: number | null;
  outcome: Outcome;
  error: Failure | null;
  worker: string;
  first: number;
  last: number;
  /** A branch took over its result. */
  isAdopted: boolean;
}

/** A time in which the run waited for another party. */
export interface WaitBar {
  kind: WaitKind;
  id: string;
  node: string;
  label: string;
  branch: number;
  from: number;
  to: number | null;
  due: number | null;
  /** How it ended: `answered`, `withdrawn`, `fired`, `received`, or the status of a child. */
  outcome: string;
  by: string;
  first: number;
  last: number;
}

export interface ChildBar extends WaitBar {
  kind: "child";
  workflow: string;
  detached: boolean;
}

export type MarkKind =
  | "takeover"
  | "failed"
  | "held"
  | "resumed"
  | "paused"
  | "branch"
  | "completed"
  | "cancelled"
  | "version";

export interface Mark {
  kind: MarkKind;
  time: number;
  seq: number;
  branch: number;
  text: string;
}

/** What the run as a whole did in a span of time. */
export type SpanKind =
  | "queued"
  | "work"
  | "person"
  | "timer"
  | "retry"
  | "signal"
  | "child"
  | "nobody"
  | "paused"
  | "held"
  | "failed"
  | "cancelled"
  | "completed";

export interface Span {
  kind: SpanKind;
  from: number;
  to: number;
  /** Whom or what it waited for. */
  who: string;
}

/** A worker took the run, or nobody had it any more. A run that is `started` at once is held by the process that created
 * it, which the log does not name. */
export interface Holding {
  time: number;
  seq: number;
  worker: string;
  how: "queued" | "started" | "claimed" | "expired" | "dead" | "ended" | "held" | "paused";
}

export interface OpenBranch extends Branch {
  opened: number;
  last: number;
}

const GUESTS = new Set([
  "InteractionAnswered",
  "SignalReceived",
  "TimerFired",
  "TriggerInputReceived",
  "OutboxSent",
  "ChildEnded",
  "PauseRequested",
  "CancelRequested",
  "JumpRequested",
]);

export class TimelineBuilder {
  readonly attempts: Attempt[] = [];
  readonly waits: WaitBar[] = [];
  readonly marks: Mark[] = [];
  readonly spans: Span[] = [];
  readonly holdings: Holding[] = [];
  readonly branches = new Map<number, OpenBranch>([[0, { ...ROOT, opened: 0, last: 0 }]]);
  readonly steps = new Map<string, { from: number; to: number | null }>();
  readonly stepOf = new Map<string, string>();
  /** The fold of the newest lineage. */
  state = new State();
  created = 0;
  last = 0;
  private readonly log: LogEvent[] = [];
  private readonly open = new Map<string, Attempt>();
  private readonly ended = new Map<number, Attempt>();
  private readonly openWaits = new Map<string, WaitBar>();
  private worker = "";
  private lastOwn = 0;

  /** The events read so far, in the order of the log. */
  get events(): readonly LogEvent[] {
    return this.log;
  }

  get seq(): number {
    return this.log.at(-1)?.seq ?? 0;
  }

  add(event: LogEvent): void {
    const time = Math.max(event.time / 1000, this.last);
    if (event.seq === 1) {
      this.created = time;
      this.lastOwn = time;
    }
    if (this.log.length) this.pass(event, time);
    this.log.push(event);
    if (event.type === "BranchOpened") this.openBranch(event, time);
    apply(this.state, event);
    this.last = time;
    const branch = this.branches.get(event.branch);
    if (branch) branch.last = event.seq;
    this.read(event, time);
    if (!GUESTS.has(event.type)) this.lastOwn = time;
  }

  /** The intervals of events that a branch sees. */
  lineage(branch = this.state.branch): Interval[] {
    return lineage(this.branches, branch, this.branches.get(branch)?.last ?? 0);
  }

  /** The spans up to `now`; a run that nobody advances is at work for nobody since its last event. */
  spansUntil(now: number, isStalled = false): Span[] {
    if (this.state.is_over || now <= this.last) return this.spans;
    const { kind, who } = this.kindNow();
    const stalled = isStalled && (kind === "work" || kind === "retry" || kind === "timer");
    const open: Span = { kind: stalled ? "nobody" : kind, who: stalled ? "" : who, from: this.last, to: now };
    const before = this.spans.at(-1);
    if (before?.kind !== open.kind || before.who !== open.who) return [...this.spans, open];
    return [...this.spans.slice(0, -1), { ...before, to: now }];
  }

  // --- the run as a whole

  /** Record what the run did until this event. */
  private pass(event: LogEvent, time: number): void {
    const { kind, who } = this.kindNow();
    const isLoss = event.type === "RunTakenOver" && event.fields.cause !== "claimed";
    if (isLoss)
      this.lastOwn = Math.max(this.lastOwn, Math.min(time, micros(event.fields.seen as string | null) / 1000));
    if (!isLoss || kind !== "work") {
      this.extend(time, kind, who);
      return;
    }
    for (let last = this.spans.at(-1); last && last.to > this.lastOwn; last = this.spans.at(-1)) {
      last.to = Math.max(last.from, this.lastOwn); // the worker was gone since its last event
      if (last.to > last.from) break;
      this.spans.pop();
    }
    this.extend(this.lastOwn, kind, who);
    this.extend(time, "nobody", "");
  }

  private kindNow(): { kind: SpanKind; who: string } {
    const { state } = this;
    if (state.base === "created") return { kind: "queued", who: "" };
    if (state.base === "paused") return { kind: "paused", who: "" };
    if (state.base === "failed") return { kind: state.held ? "held" : "failed", who: "" };
    if (state.base === "completed" || state.base === "cancelled") return { kind: state.base, who: "" };
    return state.open_nodes ? { kind: "work", who: "" } : this.waitNow();
  }

  private waitNow(): { kind: SpanKind; who: string } {
    let found: { kind: SpanKind; who: string } | null = null;
    for (const wait of this.state.waits.values()) {
      if (wait.kind === "interaction") return { kind: "person", who: "" };
      if (found && found.kind !== "retry") continue;
      if (wait.kind === "child") found = { kind: "child", who: wait.text || wait.id };
      else if (wait.kind === "signal") found = { kind: "signal", who: wait.text || wait.id };
      else if (wait.kind === "timer")
        found = { kind: wait.id.startsWith("retry:") ? "retry" : "timer", who: wait.node || wait.id };
    }
    return found ?? { kind: "work", who: "" };
  }

  private extend(to: number, kind: SpanKind, who: string): void {
    const before = this.spans.at(-1);
    const from = before ? before.to : this.created;
    if (to <= from) return;
    if (before && before.kind === kind && before.who === who) before.to = to;
    else this.spans.push({ kind, who, from, to });
  }

  private openBranch(event: LogEvent, time: number): void {
    const branch = openedBranch(event);
    this.branches.set(branch.id, { ...branch, opened: time, last: event.seq });
    for (const attempt of this.open.values()) this.end(attempt, time, "stopped", event.seq);
    for (const wait of this.openWaits.values()) Object.assign(wait, { to: time, outcome: "left" });
    this.open.clear();
    this.openWaits.clear();
    this.state = new State();
    const seen = lineage(this.branches, branch.parent ?? 0, branch.cutoff);
    for (const [first, last] of seen) {
      for (let at = first; at <= last; at++) {
        const earlier = this.log[at - 1];
        if (earlier) apply(this.state, earlier);
      }
    }
    this.state.time = event.time;
    for (const wait of this.state.waits.values()) {
      const again: WaitBar = {
        kind: wait.kind,
        id: wait.id,
        node: wait.node,
        label: wait.text || wait.id,
        branch: branch.id,
        from: time,
        to: null,
        due: wait.due === null ? null : wait.due / 1000,
        outcome: "",
        by: "",
        first: event.seq,
        last: event.seq,
      };
      if (wait.kind === "timer" && wait.id.startsWith("retry:")) continue;
      if (texts(event, "withdrawn").includes(wait.id)) continue;
      this.waits.push(again);
      this.openWaits.set(`${wait.kind}:${wait.id}`, again);
    }
  }

  private mark(kind: MarkKind, event: LogEvent, time: number): void {
    this.marks.push({ kind, time, seq: event.seq, branch: event.branch, text: event.text });
  }

  private hold(how: Holding["how"], event: LogEvent, time: number, worker = ""): void {
    this.holdings.push({ time, seq: event.seq, worker, how });
    this.worker = worker;
  }

  // --- nodes and waits

  private begin(event: LogEvent, time: number, isCompensation: boolean): Attempt {
    const node = text(event, "node");
    const attempt: Attempt = {
      node,
      attempt: number(event, "attempt", 1),
      branch: event.branch,
      cause: text(event, "cause") || "first",
      isCompensation,
      scheduled: time,
      started: null,
      ended: null,
      own: 0,
      retryAt: null,
      outcome: "queued",
      error: null,
      worker: this.worker,
      first: event.seq,
      last: event.seq,
      isAdopted: false,
    };
    const before = this.open.get(node);
    const isLost = attempt.cause === "crash";
    if (before) this.end(before, isLost ? this.lastOwn : time, isLost ? "lost" : "stopped", event.seq);
    this.open.set(node, attempt);
    this.attempts.push(attempt);
    return attempt;
  }

  private end(attempt: Attempt, time: number, outcome: Outcome, seq: number): void {
    attempt.ended ??= Math.max(time, attempt.started ?? attempt.scheduled);
    if (attempt.outcome === "queued" || attempt.outcome === "running") attempt.outcome = outcome;
    attempt.last = outcome === "lost" || outcome === "stopped" ? attempt.last : seq;
    this.open.delete(attempt.node);
  }

  private finish(event: LogEvent, time: number, outcome: Outcome): void {
    const node = text(event, "node");
    const adopted = number(event, "adopted");
    const earlier = adopted ? this.ended.get(adopted) : undefined;
    if (earlier) earlier.isAdopted = true;
    const attempt = this.open.get(node) ?? (adopted ? undefined : this.begin(event, time, false));
    if (!attempt) return;
    attempt.own = number(event, "ms") || (attempt.started === null ? 0 : time - attempt.started);
    attempt.error = failure(event);
    attempt.retryAt = event.fields.retry_at == null ? null : micros(event.fields.retry_at as string) / 1000;
    this.end(attempt, time, adopted ? "stopped" : outcome, event.seq);
    this.ended.set(event.seq, attempt);
  }

  private wait(kind: WaitKind, id: string, event: LogEvent, time: number, label: string, extra: object = {}): void {
    const due = event.fields.due == null ? null : micros(event.fields.due as string) / 1000;
    const node = text(event, "node");
    const span = { from: time, to: null, due, outcome: "", by: "", first: event.seq, last: event.seq };
    const bar: WaitBar = { kind, id, node, label, branch: event.branch, ...span, ...extra };
    this.waits.push(bar);
    this.openWaits.set(`${kind}:${id}`, bar);
  }

  private endWait(name: string, event: LogEvent, time: number, outcome: string): void {
    const bar = this.openWaits.get(name);
    if (!bar) return;
    Object.assign(bar, { to: time, outcome, by: text(event, "by"), last: event.seq });
    this.openWaits.delete(name);
    if (bar.kind === "interaction" && bar.by) {
      for (const span of this.spans)
        if (span.kind === "person" && !span.who && span.from >= bar.from) span.who = bar.by;
    }
  }

  private lose(): void {
    for (const attempt of this.open.values()) {
      if (attempt.started === null) continue;
      attempt.outcome = "lost";
      attempt.ended = Math.max(attempt.started, this.lastOwn);
    }
  }

  private read(event: LogEvent, time: number): void {
    const node = text(event, "node");
    switch (event.type) {
      case "RunCreated":
        this.hold("queued", event, time);
        break;
      case "RunTakenOver": {
        const cause = text(event, "cause") as "claimed" | "expired" | "dead";
        if (cause !== "claimed") {
          this.lose();
          this.mark("takeover", event, time);
        }
        this.hold(cause, event, time, text(event, "worker"));
        break;
      }
      case "RunStarted":
        if (flag(event, "resumed")) this.mark("resumed", event, time);
        if (this.holdings.at(-1)?.how === "queued") this.hold("started", event, time);
        break;
      case "RunPaused":
        this.mark("paused", event, time);
        this.stop(event, time, "paused");
        break;
      case "RunFailed":
        this.mark(flag(event, "held") ? "held" : "failed", event, time);
        this.stop(event, time, flag(event, "held") ? "held" : "ended");
        break;
      case "RunCompleted":
      case "RunContinued":
        this.mark("completed", event, time);
        this.stop(event, time, "ended");
        break;
      case "RunCancelled":
        this.mark("cancelled", event, time);
        this.stop(event, time, "ended");
        break;
      case "VersionChanged":
        this.mark("version", event, time);
        break;
      case "BranchOpened":
        this.mark("branch", event, time);
        break;
      case "StepStarted":
        this.steps.set(text(event, "step"), { from: time, to: null });
        break;
      case "StepCompleted": {
        const step = this.steps.get(text(event, "step"));
        if (step) step.to = time;
        break;
      }
      case "NodeScheduled":
        this.begin(event, time, false);
        if (text(event, "step")) this.stepOf.set(node, text(event, "step"));
        break;
      case "CompensationStarted":
        this.begin(event, time, true);
        this.start(node, event, time);
        break;
      case "NodeStarted":
        this.start(node, event, time);
        break;
      case "NodeCheckpointed": {
        const attempt = this.open.get(node);
        if (attempt) attempt.last = event.seq;
        break;
      }
      case "NodeCompleted":
      case "NodeCompensated":
        this.finish(event, time, "completed");
        break;
      case "NodeFailed":
        this.finish(event, time, event.fields.retry_at == null ? "failed" : "retrying");
        break;
      case "CompensationFailed":
        this.finish(event, time, "failed");
        break;
      case "NodeSkipped":
        this.finish(event, time, "skipped");
        break;
      case "InteractionRequested":
        this.wait("interaction", text(event, "interaction"), event, time, text(event, "prompt"));
        break;
      case "InteractionAnswered":
        this.endWait(`interaction:${text(event, "interaction")}`, event, time, "answered");
        break;
      case "InteractionWithdrawn":
        this.endWait(`interaction:${text(event, "interaction")}`, event, time, "withdrawn");
        break;
      case "SignalAwaited":
        this.wait("signal", text(event, "wait"), event, time, text(event, "name"));
        break;
      case "SignalConsumed":
        this.endWait(`signal:${text(event, "wait")}`, event, time, "received");
        break;
      case "TimerSet":
        if (!text(event, "timer").startsWith("retry:"))
          this.wait("timer", text(event, "timer"), event, time, text(event, "timer"));
        break;
      case "TimerFired":
        this.endWait(`timer:${text(event, "timer")}`, event, time, "fired");
        break;
      case "TimerCancelled":
        this.endWait(`timer:${text(event, "timer")}`, event, time, "cancelled");
        break;
      case "ChildStarted": {
        const [child, workflow] = [text(event, "child"), text(event, "workflow")];
        this.wait("child", child, event, time, workflow || child, { workflow, detached: flag(event, "detached") });
        break;
      }
      case "ChildEnded":
        this.endWait(`child:${text(event, "child")}`, event, time, text(event, "status"));
        break;
    }
  }

  private start(node: string, event: LogEvent, time: number): void {
    const attempt = this.open.get(node);
    if (!attempt) return;
    Object.assign(attempt, { started: time, outcome: "running", last: event.seq, worker: this.worker });
  }

  /** The run paused or ended: nothing is at work, and what was has no end in the log. */
  private stop(event: LogEvent, time: number, how: "paused" | "held" | "ended"): void {
    for (const attempt of [...this.open.values()]) this.end(attempt, time, "stopped", event.seq);
    if (how !== "paused" && this.state.is_over) {
      for (const wait of this.openWaits.values()) Object.assign(wait, { to: time, outcome: "withdrawn" });
      this.openWaits.clear();
    }
    this.hold(how, event, time);
  }
}

/** Whether an event is on a lineage. */
export function isOn(intervals: readonly Interval[], seq: number): boolean {
  return intervals.some(([first, last]) => first <= seq && seq <= last);
}

/** Whether an attempt or wait was left behind: its outcome is not on this lineage, and no branch took it over. */
export function isLeft(bar: { last: number; isAdopted?: boolean }, intervals: readonly Interval[]): boolean {
  return !bar.isAdopted && !isOn(intervals, bar.last);
}

/** How long the run spent in each kind of span, longest first. Waits for persons are told apart. */
export function totals(spans: readonly Span[]): { kind: SpanKind; who: string; ms: number }[] {
  const sums = new Map<string, { kind: SpanKind; who: string; ms: number }>();
  for (const { kind, who, from, to } of spans) {
    const name = kind === "person" ? `${kind}:${who}` : kind;
    const sum = sums.get(name) ?? { kind, who: kind === "person" ? who : "", ms: 0 };
    sum.ms += to - from;
    sums.set(name, sum);
  }
  return [...sums.values()].filter((sum) => sum.ms > 0).sort((one, other) => other.ms - one.ms);
}
