/**
 * The state of a lineage, folded from its events.
 *
 * It means the same as `outlast/lifecycle/fold.py`; both give the same states for all golden histories. Here no event is
 * refused: the server has checked the log. Events of unknown types change nothing.
 */

import {
  type AttributeValue,
  attributes,
  type Failure,
  failure,
  flag,
  type Json,
  type LogEvent,
  micros,
  number,
  text,
  texts,
} from "./events";

export type RunStatus =
  | "created"
  | "running"
  | "waiting"
  | "paused"
  | "compensating"
  | "completed"
  | "failed"
  | "cancelled";
export type NodeStatus =
  | "scheduled"
  | "running"
  | "completed"
  | "failed"
  | "skipped"
  | "retrying"
  | "compensating"
  | "compensated";
export type WaitKind = "interaction" | "signal" | "timer" | "child" | "outbox" | "trigger";

export interface NodeState {
  status: NodeStatus;
  attempt: number;
  /** Its newest event. */
  seq: number;
  output: Json;
  error: Failure | null;
  /** The fields of the start of its newest attempt, until it completes. */
  started: Record<string, Json> | null;
  checkpoint?: Json;
  crashes: number;
  retries: number;
  reset: number;
  /** The fields of the event with which a user supplied feedback or other inputs. */
  given: Record<string, Json> | null;
}

/** A wait that another party will end. Times are in microseconds. */
export interface Wait {
  kind: WaitKind;
  id: string;
  node: string;
  due: number | null;
  text: string;
  hash: string;
  detail: Json;
  since: number;
}

export interface Interaction {
  node: string;
  key: string;
  hash: string;
  seq: number;
  answer?: Json;
  withdrawn: boolean;
  by: string;
}

export interface Signal {
  name: string;
  data: Json;
  seq: number;
  consumed: boolean;
}

export interface Child {
  node: string;
  detached: boolean;
  status: "" | "completed" | "failed" | "cancelled";
  output: Json;
  error: Failure | null;
  seq: number;
  cancelled: boolean;
}

export interface Trigger {
  kind: string;
  cursor: Json;
  received: number;
}

export interface Request {
  seq: number;
  type: "PauseRequested" | "CancelRequested" | "JumpRequested";
}

export class State {
  /** The status without `waiting`. */
  base: RunStatus | null = null;
  seq = 0;
  time = 0;
  branch = 0;
  branch_first = 1;
  workflow = "";
  version = "";
  kind = "function";
  created = 0;
  parent = "";
  title = "";
  tags: string[] = [];
  exclusive = "";
  queue = "";
  priority = 0;
  fairness_key = "";
  /** The search attributes by name. */
  attributes: Record<string, AttributeValue> = {};
  on_restart = "resume";
  /** It begins when a person starts it. */
  deferred = false;
  open_nodes = 0;
  done_nodes = 0;
  recoverable = false;
  held = false;
  undoing = false;
  reason = "";
  copied_to = "";
  error: Failure | null = null;
  failed_node = "";
  output: Json = null;
  successor = "";
  requests: Request[] = [];
  /** Whether a cancellation passes to the successor of the run. */
  cancel_inherited = false;
  generation = 0;
  cleanup_due: number | null = null;
  extends_cleanup = false;
  nodes = new Map<string, NodeState>();
  waits = new Map<string, Wait>();
  /** Ends that others may close although the run does not wait for them. */
  loose = new Map<string, Wait>();
  interactions = new Map<string, Interaction>();
  signals = new Map<string, Signal>();
  children = new Map<string, Child>();
  sent = new Map<string, number>();
  triggers = new Map<string, Trigger>();
  steps = new Map<string, boolean>();
  decisions = new Map<string, Json>();

  /** A running run with no open nodes and at least one wait is waiting. */
  get status(): RunStatus {
    if (this.base === null) return "created";
    return this.base === "running" && !this.open_nodes && this.waits.size ? "waiting" : this.base;
  }

  get is_over(): boolean {
    return (this.base === "completed" || this.base === "failed" || this.base === "cancelled") && !this.held;
  }
}

export function fold(state: State, events: Iterable<LogEvent>): State {
  for (const event of events) apply(state, event);
  return state;
}

/** Fold the next event of the lineage. */
export function apply(state: State, event: LogEvent): void {
  if (event.time > state.time) {
    if (event.seq === 1) state.created = event.time;
    state.time = event.time;
  }
  HANDLERS[event.type]?.(state, event);
  state.seq = event.seq;
}

type Handler = (state: State, event: LogEvent) => void;

// --- steps and nodes

const OPEN = (node: NodeState | undefined) => node?.status === "scheduled" || node?.status === "running";

function nodeState(status: NodeStatus, attempt: number, seq: number, rest: Partial<NodeState> = {}): NodeState {
  const fresh = { output: null, error: null, started: null, crashes: 0, retries: 0, reset: 0, given: null };
  return { status, attempt, seq, ...fresh, ...rest };
}

function scheduled(state: State, event: LogEvent): void {
  const { seq } = event;
  const name = text(event, "node");
  const old = state.nodes.get(name);
  const given = event.fields.feedback != null || event.fields.inputs != null ? event.fields : null;
  if (!old) {
    state.nodes.set(name, nodeState("scheduled", 1, seq, { given }));
    state.open_nodes += 1;
    return;
  }
  if (old.status !== "running") state.open_nodes += 1;
  state.waits.delete(`timer:retry:${name}`);
  const cause = text(event, "cause");
  const isFresh = cause === "reset";
  const next = nodeState("scheduled", number(event, "attempt", 1), seq, {
    crashes: isFresh || cause === "pause" ? 0 : old.crashes + Number(cause === "crash"),
    retries: isFresh ? 0 : old.retries + Number(cause === "retry"),
    reset: isFresh ? seq : old.reset,
    given: given ?? old.given,
  });
  if (!isFresh && "checkpoint" in old) next.checkpoint = old.checkpoint;
  state.nodes.set(name, next);
}

function started(state: State, event: LogEvent): void {
  const name = text(event, "node");
  const old = state.nodes.get(name);
  const { seq, fields } = event;
  if (old) state.nodes.set(name, { ...old, status: "running", seq, output: null, error: null, started: fields });
}

function checkpointed(state: State, event: LogEvent): void {
  const name = text(event, "node");
  const old = state.nodes.get(name);
  const { seq, fields } = event;
  if (old) state.nodes.set(name, { ...old, seq, output: null, error: null, checkpoint: fields.data ?? null });
}

function completed(state: State, event: LogEvent): void {
  const name = text(event, "node");
  const old = state.nodes.get(name);
  if (OPEN(old)) state.open_nodes -= 1;
  state.done_nodes += 1;
  const rest = { output: event.fields.output ?? null, reset: old?.reset ?? 0 };
  state.nodes.set(name, nodeState("completed", number(event, "attempt", 1), event.seq, rest));
}

function failed(state: State, event: LogEvent): void {
  const name = text(event, "node");
  const old = state.nodes.get(name);
  if (!old) return;
  const error = failure(event);
  const due = event.fields.retry_at;
  if (due != null) {
    const wait = {
      id: `retry:${name}`,
      node: name,
      due: micros(due as string),
      text: [...(error?.message ?? "")].slice(0, 200).join(""),
    };
    openWait(state, state.waits, "timer", wait);
  }
  state.open_nodes -= 1;
  const attempt = number(event, "attempt", 1);
  const status = due == null ? "failed" : "retrying";
  state.nodes.set(name, { ...old, status, attempt, seq: event.seq, output: null, error });
}

function skipped(state: State, event: LogEvent): void {
  const name = text(event, "node");
  const old = state.nodes.get(name);
  if (old) state.open_nodes -= 1;
  state.nodes.set(name, nodeState("skipped", old?.attempt ?? 0, event.seq));
}

function compensating(status: "compensating" | "compensated", error: boolean): Handler {
  return (state, event) => {
    const name = text(event, "node");
    const rest = { output: state.nodes.get(name)?.output ?? null, error: error ? failure(event) : null };
    state.nodes.set(name, nodeState(status, number(event, "attempt", 1), event.seq, rest));
  };
}

// --- waits

function openWait(state: State, table: Map<string, Wait>, kind: WaitKind, rest: Partial<Wait> & { id: string }): void {
  const wait = { kind, node: "", due: null, text: "", hash: "", detail: null, since: state.time, ...rest };
  table.set(`${kind}:${rest.id}`, wait);
}

function asked(state: State, event: LogEvent): void {
  const id = text(event, "interaction");
  const [node, hash] = [text(event, "node"), text(event, "hash")];
  const due = event.fields.due == null ? null : micros(event.fields.due as string);
  openWait(state, state.waits, "interaction", {
    id,
    node,
    hash,
    due,
    text: text(event, "prompt"),
    detail: event.fields.schema,
  });
  state.interactions.set(id, { node, key: text(event, "key"), hash, seq: event.seq, withdrawn: false, by: "" });
}

function answered(state: State, event: LogEvent): void {
  const id = text(event, "interaction");
  const old = state.interactions.get(id);
  if (!old) return;
  const answer = event.fields.answer ?? null;
  state.interactions.set(id, { ...old, seq: event.seq, answer, by: text(event, "by") });
  state.waits.delete(`interaction:${id}`);
}

function withdrawn(state: State, event: LogEvent): void {
  const id = text(event, "interaction");
  const old = state.interactions.get(id);
  if (old) state.interactions.set(id, { ...old, seq: event.seq, withdrawn: true });
  state.waits.delete(`interaction:${id}`);
}

function signalled(state: State, event: LogEvent): void {
  const id = text(event, "signal");
  if (state.signals.has(id)) return; // a signal that is delivered again is one signal
  state.signals.set(id, {
    name: text(event, "name"),
    data: event.fields.data ?? null,
    seq: event.seq,
    consumed: false,
  });
}

function consumed(state: State, event: LogEvent): void {
  const id = text(event, "signal");
  const name = state.signals.get(id)?.name ?? "";
  state.signals.set(id, { name, data: null, seq: event.seq, consumed: true });
  state.waits.delete(`signal:${text(event, "wait")}`);
}

const stopTimer: Handler = (state, event) => {
  state.waits.delete(`timer:${text(event, "timer")}`);
};

// --- triggers, messages, children

function received(state: State, event: LogEvent): void {
  const id = text(event, "trigger");
  const old = state.triggers.get(id) ?? { kind: "", cursor: null, received: 0 };
  const hasInput = event.type === "TriggerInputReceived";
  const cursor = event.fields.cursor ?? old.cursor;
  state.triggers.set(id, { kind: old.kind, cursor, received: old.received + Number(hasInput) });
}

function childStarted(state: State, event: LogEvent): void {
  const [id, node, detached] = [text(event, "child"), text(event, "node"), flag(event, "detached")];
  state.children.set(id, { node, detached, status: "", output: null, error: null, seq: 0, cancelled: false });
  openWait(state, detached ? state.loose : state.waits, "child", { id, node, text: text(event, "workflow") });
}

function childEnded(state: State, event: LogEvent): void {
  const id = text(event, "child");
  const old = state.children.get(id);
  if (!old) return;
  const status = text(event, "status") as Child["status"];
  const seq = number(event, "adopted") || event.seq;
  state.children.set(id, { ...old, status, output: event.fields.output ?? null, error: failure(event), seq });
  state.waits.delete(`child:${id}`);
  state.loose.delete(`child:${id}`);
}

// --- the run and its branches

function created(state: State, event: LogEvent): void {
  state.base = "created";
  state.workflow = text(event, "workflow");
  state.version = text(event, "version");
  state.kind = text(event, "kind");
  state.parent = text(event, "parent");
  state.title = text(event, "title");
  state.tags = texts(event, "tags");
  state.exclusive = text(event, "exclusive");
  state.queue = text(event, "queue");
  state.priority = number(event, "priority");
  state.fairness_key = text(event, "fairness_key");
  state.attributes = attributes(event);
  state.on_restart = text(event, "on_restart");
  state.deferred = flag(event, "deferred");
}

function attributesSet(state: State, event: LogEvent): void {
  const changed = Object.entries({ ...state.attributes, ...attributes(event) });
  state.attributes = Object.fromEntries(changed.filter(([, value]) => value !== null));
}

function clearFailure(state: State): void {
  state.recoverable = state.held = false;
  state.reason = state.copied_to = state.failed_node = "";
  state.error = null;
}

function runStarted(state: State, event: LogEvent): void {
  state.base = state.undoing ? "compensating" : "running";
  clearFailure(state);
  state.deferred = false;
  state.extends_cleanup = state.cleanup_due !== null;
  if (!flag(event, "resumed")) return;
  for (const [name, wait] of [...state.loose]) {
    const child = wait.kind === "child" ? state.children.get(wait.id) : undefined;
    if (!child || child.detached) continue;
    state.loose.delete(name); // the end of the run had moved the wait to `loose`
    state.waits.set(name, wait);
  }
}

function runPaused(state: State, event: LogEvent): void {
  state.base = "paused";
  state.reason = text(event, "reason");
  state.copied_to = text(event, "copied_to");
  state.requests = state.requests.filter((each) => each.type !== "PauseRequested");
}

const requested: Handler = (state, event) => {
  state.requests = [...state.requests, { seq: event.seq, type: event.type as Request["type"] }];
};

function refused(state: State, event: LogEvent): void {
  state.requests = state.requests.filter((each) => each.seq !== number(event, "request"));
}

function end(state: State, status: RunStatus, seq: number): void {
  state.base = status;
  state.open_nodes = 0;
  state.requests = [];
  state.held = state.recoverable = state.undoing = false;
  state.cleanup_due = null;
  state.extends_cleanup = false;
  for (const [name, wait] of state.waits) {
    if (wait.kind === "child") state.loose.set(name, wait); // a child may still report its end
    const open = wait.kind === "interaction" ? state.interactions.get(wait.id) : undefined;
    if (open) state.interactions.set(wait.id, { ...open, seq, withdrawn: true });
  }
  state.waits.clear();
}

function runFailed(state: State, event: LogEvent): void {
  const held = flag(event, "held");
  if (held) {
    state.base = "failed";
    state.requests = state.requests.filter((each) => each.type !== "PauseRequested");
  } else {
    end(state, "failed", event.seq);
  }
  state.held = held;
  state.recoverable = flag(event, "recoverable") || held;
  state.error = failure(event);
  state.reason = state.error?.message ?? "";
  state.failed_node = text(event, "node");
}

function cleanupStarted(state: State, event: LogEvent): void {
  state.base = "compensating";
  state.undoing = true;
  state.cleanup_due = micros(event.fields.due as string);
  state.extends_cleanup = false;
  clearFailure(state);
  openWait(state, state.waits, "timer", { id: "cleanup", due: state.cleanup_due });
}

function runContinued(state: State, event: LogEvent): void {
  const inherited = state.requests.some((each) => each.type === "CancelRequested");
  end(state, "completed", event.seq);
  state.successor = text(event, "successor");
  state.cancel_inherited = inherited;
}

function branchOpened(state: State, event: LogEvent): void {
  state.branch = number(event, "branch");
  state.branch_first = event.seq;
  state.requests = []; // the append obeys or refuses all open requests
  if (event.fields.cause !== "recovery") {
    state.generation = state.branch;
    state.deferred = false;
    state.extends_cleanup = state.cleanup_due !== null;
  }
  const cancelled = texts(event, "cancelled");
  for (const id of [...texts(event, "detached"), ...cancelled]) {
    if (state.children.has(id)) continue;
    const left = { status: "" as const, output: null, error: null, seq: 0, cancelled: cancelled.includes(id) };
    state.children.set(id, { node: "", detached: true, ...left });
    openWait(state, state.loose, "child", { id });
  }
}

const HANDLERS: Record<string, Handler> = {
  RunCreated: created,
  RunStarted: runStarted,
  RunPaused: runPaused,
  PauseRequested: requested,
  CancelRequested: requested,
  JumpRequested: requested,
  RequestRefused: refused,
  RunCompleted: (state, event) => {
    end(state, "completed", event.seq);
    state.output = event.fields.output ?? null;
  },
  RunFailed: runFailed,
  CleanupStarted: cleanupStarted,
  RunCancelled: (state, event) => {
    end(state, "cancelled", event.seq);
    state.reason = text(event, "reason");
  },
  RunContinued: runContinued,
  AttributesSet: attributesSet,
  VersionChanged: (state, event) => {
    state.version = text(event, "version");
  },
  BranchOpened: branchOpened,
  StepStarted: (state, event) => {
    const step = text(event, "step");
    if (!state.steps.has(step)) state.steps.set(step, false);
  },
  StepCompleted: (state, event) => {
    state.steps.set(text(event, "step"), true);
  },
  NodeScheduled: scheduled,
  NodeStarted: started,
  NodeCheckpointed: checkpointed,
  NodeCompleted: completed,
  NodeFailed: failed,
  NodesRetired: (state, event) => {
    for (const name of texts(event, "nodes")) state.nodes.delete(name);
  },
  NodeSkipped: skipped,
  CompensationStarted: (state, event) => {
    state.base = "compensating";
    state.undoing = true;
    compensating("compensating", false)(state, event);
  },
  NodeCompensated: compensating("compensated", false),
  CompensationFailed: compensating("compensating", true),
  InteractionRequested: asked,
  InteractionAnswered: answered,
  InteractionWithdrawn: withdrawn,
  SignalAwaited: (state, event) => {
    openWait(state, state.waits, "signal", { id: text(event, "wait"), text: text(event, "name") });
  },
  SignalReceived: signalled,
  SignalConsumed: consumed,
  TimerSet: (state, event) => {
    const due = micros(event.fields.due as string);
    openWait(state, state.waits, "timer", { id: text(event, "timer"), node: text(event, "node"), due });
  },
  TimerFired: stopTimer,
  TimerCancelled: stopTimer,
  DecisionRecorded: (state, event) => {
    state.decisions.set(text(event, "key"), event.fields.value ?? null);
  },
  TriggerRegistered: (state, event) => {
    const [id, kind] = [text(event, "trigger"), text(event, "kind")];
    state.triggers.set(id, { kind, cursor: null, received: 0 });
    openWait(state, state.loose, "trigger", { id, text: kind });
  },
  TriggerInputReceived: received,
  TriggerCursorAdvanced: received,
  OutboxEnqueued: (state, event) => {
    const [id, node, target] = [text(event, "message"), text(event, "node"), text(event, "target")];
    openWait(state, state.loose, "outbox", { id, node, text: target, detail: event.fields.data ?? null });
  },
  OutboxSent: (state, event) => {
    const id = text(event, "message");
    state.loose.delete(`outbox:${id}`);
    state.sent.set(id, number(event, "adopted") || event.seq);
  },
  ChildStarted: childStarted,
  ChildEnded: childEnded,
};
