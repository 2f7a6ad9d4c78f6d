"""Events into state, in place, O(1) each.

One small function per event type, found by type in a dictionary. Each checks first and changes afterwards, so an illegal
event raises `Illegal` and leaves the state as it was (L2). The live run, resume, `verify`, the doctor and the tests all use
this fold, over a `State` or over the view of a `Draft`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.lineage import BEFORE_FIRST
from outlast.history.record import Entry, Record
from outlast.lifecycle.state import (
    OPEN,
    Child,
    Interaction,
    NodeState,
    NodeStatus,
    Outline,
    Signal,
    State,
    Trigger,
    Wait,
)
from outlast.lifecycle.status import Status
from outlast.lifecycle.transitions import TABLE, Rule, may_follow

Kind = TypeVar("Kind", bound=e.Event)
Handler = Callable[[State, Any, int], None]
_handlers: dict[type[e.Event], Handler] = {}


def apply(state: State, event: e.AnyEvent, seq: int, time: int) -> None:
    """Fold one event that stands at `seq` and was recorded at `time`."""
    outline = state.outline
    kind = type(event)
    if TABLE[outline.base].get(kind) is not Rule.ALWAYS and not may_follow(outline, kind):
        raise _out_of_place(outline, kind, seq)
    if seq <= outline.seq:
        raise Illegal("V1", f"event {seq} comes after event {outline.seq}", seq=seq)
    _handlers[kind](state, event, seq)
    outline.seq = seq
    if time > outline.time:
        outline.time = time
        if seq == 1:
            outline.created = time


def fold(state: State, entries: Iterable[Entry]) -> State:
    """Fold entries that follow what `state` holds; returns the same state."""
    for entry in entries:
        apply(state, entry.event, entry.seq, entry.time)
    return state


def fold_records(state: State, records: Iterable[Record]) -> State:
    """Fold whole append records that follow what `state` holds; returns the same state."""
    for record in records:
        seq, time = record.first, record.time
        for event in record.events():
            apply(state, event, seq, time)
            seq += 1
    return state


def _out_of_place(outline: Outline, kind: type[e.Event], seq: int) -> Illegal:
    name = kind.__name__
    if outline.base is None:
        return Illegal("V2", f"a log begins with RunCreated, not with {name}", seq=seq)
    if kind is e.RunCreated:
        return Illegal("V2", "a run is created once", seq=seq)
    return Illegal("V5", f"{name} may not follow in a run that is {outline.base}", seq=seq)


def _on(
    kind: type[Kind],
) -> Callable[[Callable[[State, Kind, int], None]], Callable[[State, Kind, int], None]]:
    def register(handler: Callable[[State, Kind, int], None]) -> Callable[[State, Kind, int], None]:
        _handlers[kind] = handler
        return handler

    return register


def _nothing_to_keep(_state: State, _event: e.Event, _seq: int) -> None:
    """A fact for people and later drivers; the state does not depend on it."""


for _kind in (e.RunTakenOver, e.RunRecovered, e.GraphExtended):
    _handlers[_kind] = _nothing_to_keep


# --- the run -----------------------------------------------------------------------------------------------------------


@_on(e.RunCreated)
def _run_created(state: State, event: e.RunCreated, seq: int) -> None:
    if seq != 1:
        raise Illegal("V2", "RunCreated is the first event of the log", seq=seq)
    outline = state.outline
    outline.base = Status.CREATED
    outline.workflow, outline.version, outline.kind = event.workflow, event.version, event.kind
    outline.parent, outline.title, outline.tags = event.parent, event.title, event.tags
    outline.on_restart = event.on_restart


@_on(e.RunStarted)
def _run_started(state: State, event: e.RunStarted, seq: int) -> None:
    outline = state.outline
    if outline.base is Status.CREATED and event.resumed:
        raise Illegal("V5", "a run that never started cannot be resumed", seq=seq)
    if outline.base is not Status.CREATED and not event.resumed:
        raise Illegal("V5", f"a run that is {outline.base} starts again only as resumed", seq=seq)
    outline.base = Status.RUNNING
    outline.recoverable = outline.held = outline.pause_requested = outline.cancel_requested = False
    outline.reason, outline.error = "", None


@_on(e.RunPaused)
def _run_paused(state: State, event: e.RunPaused, _seq: int) -> None:
    outline = state.outline
    outline.base, outline.reason, outline.pause_requested = Status.PAUSED, event.reason, False


@_on(e.PauseRequested)
def _pause_requested(state: State, _event: e.PauseRequested, _seq: int) -> None:
    state.outline.pause_requested = True


@_on(e.CancelRequested)
def _cancel_requested(state: State, _event: e.CancelRequested, _seq: int) -> None:
    state.outline.cancel_requested = True


@_on(e.RunCompleted)
def _run_completed(state: State, event: e.RunCompleted, seq: int) -> None:
    _end(state, Status.COMPLETED, seq)
    state.outline.output = event.output


@_on(e.RunFailed)
def _run_failed(state: State, event: e.RunFailed, seq: int) -> None:
    outline = state.outline
    if event.held:
        outline.base = Status.FAILED
    else:
        _end(state, Status.FAILED, seq)
    outline.held, outline.recoverable = event.held, event.recoverable or event.held
    outline.reason, outline.error = event.error.message, event.error


@_on(e.RunCancelled)
def _run_cancelled(state: State, event: e.RunCancelled, seq: int) -> None:
    _end(state, Status.CANCELLED, seq)
    state.outline.reason = event.reason


@_on(e.RunContinued)
def _run_continued(state: State, event: e.RunContinued, seq: int) -> None:
    _end(state, Status.COMPLETED, seq)
    state.outline.successor = event.successor


def _end(state: State, status: Status, seq: int) -> None:
    outline = state.outline
    if outline.open_nodes:
        raise Illegal(
            "V5",
            f"the run ends with {outline.open_nodes} nodes in flight; their outcomes come first",
            seq=seq,
        )
    outline.base, outline.open_nodes = status, 0
    outline.held = outline.recoverable = outline.pause_requested = outline.cancel_requested = False
    outline.jump_requested = None
    if len(state.waits):
        for wait in list(state.waits.values()):
            if wait.kind == "child":
                state.loose[wait.name] = wait
        state.waits.clear()


@_on(e.VersionChanged)
def _version_changed(state: State, event: e.VersionChanged, _seq: int) -> None:
    state.outline.version = event.version


# --- branches ----------------------------------------------------------------------------------------------------------


@_on(e.BranchOpened)
def _branch_opened(state: State, event: e.BranchOpened, seq: int) -> None:
    outline = state.outline
    if event.branch <= outline.branch:
        raise Illegal("V8", f"branch {event.branch} opens after branch {outline.branch}", seq=seq)
    if max(event.cutoff, 1) != outline.seq:
        place = "before the first event" if event.cutoff == BEFORE_FIRST else f"at event {event.cutoff}"
        raise Illegal("V8", f"branch {event.branch} is cut {place}, the lineage ends at {outline.seq}", seq=seq)
    outline.branch, outline.branch_first = event.branch, seq
    outline.jump_requested = None
    for child in event.detached:
        if state.children.get(child) is None:
            state.children[child] = Child("", True)
            state.loose[f"child:{child}"] = Wait("child", child)


@_on(e.JumpRequested)
def _jump_requested(state: State, event: e.JumpRequested, _seq: int) -> None:
    state.outline.jump_requested = event.target


# --- steps and nodes ---------------------------------------------------------------------------------------------------


@_on(e.StepStarted)
def _step_started(state: State, event: e.StepStarted, _seq: int) -> None:
    if state.steps.get(event.step) is None:
        state.steps[event.step] = False


@_on(e.StepCompleted)
def _step_completed(state: State, event: e.StepCompleted, seq: int) -> None:
    if state.steps.get(event.step) is None:
        raise Illegal("V3", f"step {event.step} completes without having started", seq=seq)
    state.steps[event.step] = True


@_on(e.NodeScheduled)
def _node_scheduled(state: State, event: e.NodeScheduled, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None:
        if event.attempt != 1:
            raise Illegal("V9", f"the first attempt of node {event.node} is 1, not {event.attempt}", seq=seq)
        state.nodes[event.node] = NodeState(NodeStatus.SCHEDULED, 1, seq)
        state.outline.open_nodes += 1
        return
    _node_scheduled_again(state, event, node, seq)


_AGAIN = {
    NodeStatus.RETRYING: ("retry",),
    NodeStatus.STARTED: ("crash", "pause"),
    NodeStatus.FAILED: ("reset",),
}


def _node_scheduled_again(state: State, event: e.NodeScheduled, node: NodeState, seq: int) -> None:
    if node.status not in _AGAIN:
        raise Illegal("V4", f"node {event.node} is {node.status.name.lower()} and not to be done again", seq=seq)
    if event.cause not in _AGAIN[node.status]:
        raise Illegal(
            "V9",
            f"node {event.node} is {node.status.name.lower()}, which is no case of {event.cause}",
            seq=seq,
        )
    if event.attempt != node.attempt + 1:
        raise Illegal("V9", f"attempt {event.attempt} of node {event.node} follows attempt {node.attempt}", seq=seq)
    if node.status is not NodeStatus.STARTED:
        state.outline.open_nodes += 1
    state.waits.pop(f"timer:retry:{event.node}", None)
    fresh = event.cause == "reset"
    state.nodes[event.node] = NodeState(
        NodeStatus.SCHEDULED,
        event.attempt,
        seq,
        checkpoint=None if fresh else node.checkpoint,
        crashes=0 if fresh else node.crashes + (event.cause == "crash"),
        retries=0 if fresh else node.retries + (event.cause == "retry"),
    )


@_on(e.NodeStarted)
def _node_started(state: State, event: e.NodeStarted, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None or node.status is not NodeStatus.SCHEDULED or node.attempt != event.attempt:
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} starts unscheduled", seq=seq)
    state.nodes[event.node] = NodeState(
        NodeStatus.STARTED,
        node.attempt,
        seq,
        e.NULL,
        None,
        event.hash,
        event.code,
        node.checkpoint,
        node.crashes,
        node.retries,
    )


@_on(e.NodeCheckpointed)
def _node_checkpointed(state: State, event: e.NodeCheckpointed, seq: int) -> None:
    node = _started(state, event.node, event.attempt, "checkpoints", seq)
    state.nodes[event.node] = NodeState(
        NodeStatus.STARTED,
        node.attempt,
        seq,
        e.NULL,
        None,
        node.hash,
        node.code,
        event.data,
        node.crashes,
        node.retries,
    )


@_on(e.NodeCompleted)
def _node_completed(state: State, event: e.NodeCompleted, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None or node.status is not NodeStatus.STARTED or node.attempt != event.attempt:
        node = _may_complete(node, event, seq)
    outline = state.outline
    if node is not None and node.status in OPEN:
        outline.open_nodes -= 1
    outline.done_nodes += 1
    state.nodes[event.node] = NodeState(
        NodeStatus.COMPLETED,
        event.attempt,
        seq,
        event.output,
        None,
        node.hash if node else "",
        node.code if node else "",
    )


def _may_complete(node: NodeState | None, event: e.NodeCompleted, seq: int) -> NodeState | None:
    """Only a node that takes over the parent branch's completion may skip being started here."""
    if node is not None and node.status is NodeStatus.COMPLETED:
        raise Illegal("V4", f"node {event.node} completes a second time", seq=seq)
    if not event.adopted:
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} completes without having started", seq=seq)
    if node is not None and node.status not in OPEN:
        raise Illegal("V3", f"node {event.node} is {node.status.name.lower()} and adopts a completion", seq=seq)
    return node


@_on(e.NodeFailed)
def _node_failed(state: State, event: e.NodeFailed, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None or node.status not in OPEN or node.attempt != event.attempt:
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} fails without being under way", seq=seq)
    if node.status is NodeStatus.SCHEDULED and event.error.category != "cancelled":
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} fails without having started", seq=seq)
    status = NodeStatus.FAILED
    if event.retry_at is not None:
        status = NodeStatus.RETRYING
        wait = Wait("timer", f"retry:{event.node}", event.node, event.retry_at, event.error.message[:200])
        if state.waits.get(wait.name) is not None:
            raise Illegal("V7", f"timer {wait.id} is set already", seq=seq)
        state.waits[wait.name] = wait
    state.outline.open_nodes -= 1
    state.nodes[event.node] = NodeState(
        status,
        event.attempt,
        seq,
        e.NULL,
        event.error,
        node.hash,
        node.code,
        node.checkpoint,
        node.crashes,
        node.retries,
    )


@_on(e.NodeSkipped)
def _node_skipped(state: State, event: e.NodeSkipped, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is not None and node.status is not NodeStatus.SCHEDULED:
        raise Illegal("V3", f"node {event.node} is {node.status.name.lower()} and cannot be skipped", seq=seq)
    if node is not None:
        state.outline.open_nodes -= 1
    state.nodes[event.node] = NodeState(NodeStatus.SKIPPED, node.attempt if node else 0, seq)


@_on(e.CompensationStarted)
def _compensation_started(state: State, event: e.CompensationStarted, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None or node.status not in (NodeStatus.COMPLETED, NodeStatus.COMPENSATING):
        raise Illegal("V3", f"node {event.node} did not complete and cannot be compensated", seq=seq)
    state.outline.base = Status.COMPENSATING
    state.nodes[event.node] = NodeState(NodeStatus.COMPENSATING, event.attempt, seq, node.output)


@_on(e.NodeCompensated)
def _node_compensated(state: State, event: e.NodeCompensated, seq: int) -> None:
    node = _compensating(state, event.node, seq)
    state.nodes[event.node] = NodeState(NodeStatus.COMPENSATED, event.attempt, seq, node.output)


@_on(e.CompensationFailed)
def _compensation_failed(state: State, event: e.CompensationFailed, seq: int) -> None:
    node = _compensating(state, event.node, seq)
    state.nodes[event.node] = NodeState(NodeStatus.COMPENSATING, event.attempt, seq, node.output, event.error)


def _started(state: State, name: str, attempt: int, verb: str, seq: int) -> NodeState:
    node = state.nodes.get(name)
    if node is None or node.status is not NodeStatus.STARTED or node.attempt != attempt:
        raise Illegal("V3", f"attempt {attempt} of node {name} {verb} without having started", seq=seq)
    return node


def _compensating(state: State, name: str, seq: int) -> NodeState:
    node = state.nodes.get(name)
    if node is None or node.status is not NodeStatus.COMPENSATING:
        raise Illegal("V3", f"no compensation of node {name} has started", seq=seq)
    return node


# --- people and time ---------------------------------------------------------------------------------------------------


@_on(e.InteractionRequested)
def _interaction_requested(state: State, event: e.InteractionRequested, seq: int) -> None:
    if state.interactions.get(event.interaction) is not None:
        raise Illegal("V7", f"interaction {event.interaction} was asked before", seq=seq)
    wait = Wait("interaction", event.interaction, event.node, event.due, event.prompt, event.hash, event.schema)
    state.interactions[event.interaction] = Interaction(event.node, event.key, event.hash, seq)
    state.waits[wait.name] = wait


@_on(e.InteractionAnswered)
def _interaction_answered(state: State, event: e.InteractionAnswered, seq: int) -> None:
    asked = _pending(state, event.interaction, "answered", seq)
    state.interactions[event.interaction] = Interaction(asked.node, asked.key, asked.hash, seq, event.answer)
    state.waits.pop(f"interaction:{event.interaction}", None)


@_on(e.InteractionWithdrawn)
def _interaction_withdrawn(state: State, event: e.InteractionWithdrawn, seq: int) -> None:
    asked = _pending(state, event.interaction, "withdrawn", seq)
    state.interactions[event.interaction] = Interaction(asked.node, asked.key, asked.hash, seq, None, True)
    state.waits.pop(f"interaction:{event.interaction}", None)


def _pending(state: State, name: str, verb: str, seq: int) -> Interaction:
    asked = state.interactions.get(name)
    if asked is None:
        raise Illegal("V7", f"interaction {name} is {verb} but was never asked on this lineage", seq=seq)
    if asked.answer is not None or asked.withdrawn:
        raise Illegal("V7", f"interaction {name} is {verb} but was settled before", seq=seq)
    return asked


@_on(e.SignalAwaited)
def _signal_awaited(state: State, event: e.SignalAwaited, seq: int) -> None:
    wait = Wait("signal", event.wait, text=event.name)
    if state.waits.get(wait.name) is not None:
        raise Illegal("V7", f"the run waits for {event.wait} already", seq=seq)
    state.waits[wait.name] = wait


@_on(e.SignalReceived)
def _signal_received(state: State, event: e.SignalReceived, seq: int) -> None:
    if state.signals.get(event.signal) is None:  # the same signal delivered again is still one signal
        state.signals[event.signal] = Signal(event.name, event.data, seq)


@_on(e.SignalConsumed)
def _signal_consumed(state: State, event: e.SignalConsumed, seq: int) -> None:
    signal = state.signals.get(event.signal)
    if signal is None or signal.consumed:
        raise Illegal("V7", f"signal {event.signal} is consumed but was not received, or was before", seq=seq)
    state.signals[event.signal] = Signal(signal.name, e.NULL, seq, True)
    state.waits.pop(f"signal:{event.wait}", None)


@_on(e.TimerSet)
def _timer_set(state: State, event: e.TimerSet, seq: int) -> None:
    wait = Wait("timer", event.timer, event.node, event.due)
    if state.waits.get(wait.name) is not None:
        raise Illegal("V7", f"timer {event.timer} is set already", seq=seq)
    state.waits[wait.name] = wait


@_on(e.TimerFired)
def _timer_fired(state: State, event: e.TimerFired, seq: int) -> None:
    _stop_timer(state, event.timer, "fires", seq)


@_on(e.TimerCancelled)
def _timer_cancelled(state: State, event: e.TimerCancelled, seq: int) -> None:
    _stop_timer(state, event.timer, "is cancelled", seq)


def _stop_timer(state: State, timer: str, verb: str, seq: int) -> None:
    if state.waits.get(f"timer:{timer}") is None:
        raise Illegal("V7", f"timer {timer} {verb} but is not set", seq=seq)
    state.waits.pop(f"timer:{timer}", None)


@_on(e.DecisionRecorded)
def _decision_recorded(state: State, event: e.DecisionRecorded, seq: int) -> None:
    if state.decisions.get(event.key) is not None:
        raise Illegal("V7", f"decision {event.key} was made before", seq=seq)
    state.decisions[event.key] = event.value


# --- the outside -------------------------------------------------------------------------------------------------------


@_on(e.TriggerRegistered)
def _trigger_registered(state: State, event: e.TriggerRegistered, seq: int) -> None:
    if state.triggers.get(event.trigger) is not None:
        raise Illegal("V7", f"trigger {event.trigger} is registered already", seq=seq)
    state.triggers[event.trigger] = Trigger(event.kind)
    wait = Wait("trigger", event.trigger, text=event.kind)
    state.loose[wait.name] = wait


@_on(e.TriggerInputReceived)
def _trigger_input_received(state: State, event: e.TriggerInputReceived, seq: int) -> None:
    source = _source(state, event.trigger, seq)
    cursor = source.cursor if event.cursor is None else event.cursor
    _must_not_fall(source, cursor, event.trigger, seq)
    state.triggers[event.trigger] = Trigger(source.kind, cursor, source.received + 1)


@_on(e.TriggerCursorAdvanced)
def _trigger_cursor_advanced(state: State, event: e.TriggerCursorAdvanced, seq: int) -> None:
    source = _source(state, event.trigger, seq)
    _must_not_fall(source, event.cursor, event.trigger, seq)
    state.triggers[event.trigger] = Trigger(source.kind, event.cursor, source.received)


def _source(state: State, name: str, seq: int) -> Trigger:
    source = state.triggers.get(name)
    if source is None:
        raise Illegal("V7", f"trigger {name} is not registered", seq=seq)
    return source


def _must_not_fall(source: Trigger, cursor: e.Cursor | None, name: str, seq: int) -> None:
    old = source.cursor
    if old is None or cursor is None:
        return
    if _is_before(cursor, old):
        raise Illegal("V6", f"the cursor of trigger {name} falls from {old!r} to {cursor!r}", seq=seq)


def _is_before(one: e.Cursor, other: e.Cursor) -> bool:
    """Numbers compare as numbers and texts as texts; a cursor that changes its kind counts as fallen."""
    if isinstance(one, str):
        return not isinstance(other, str) or one < other
    return isinstance(other, str) or one < other


@_on(e.OutboxEnqueued)
def _outbox_enqueued(state: State, event: e.OutboxEnqueued, seq: int) -> None:
    wait = Wait("outbox", event.message, event.node, text=event.target, detail=event.data)
    if state.loose.get(wait.name) is not None or state.sent.get(event.message) is not None:
        raise Illegal("V7", f"message {event.message} was put into the outbox before", seq=seq)
    state.loose[wait.name] = wait


@_on(e.OutboxSent)
def _outbox_sent(state: State, event: e.OutboxSent, seq: int) -> None:
    name = f"outbox:{event.message}"
    if state.loose.get(name) is None:
        raise Illegal("V7", f"message {event.message} is not in the outbox, or was sent before", seq=seq)
    state.loose.pop(name, None)
    state.sent[event.message] = event.adopted or seq


@_on(e.ChildStarted)
def _child_started(state: State, event: e.ChildStarted, seq: int) -> None:
    if state.children.get(event.child) is not None:
        raise Illegal("V7", f"child {event.child} was started before", seq=seq)
    state.children[event.child] = Child(event.node, event.detached)
    wait = Wait("child", event.child, event.node, text=event.workflow)
    table = state.loose if event.detached else state.waits
    table[wait.name] = wait


@_on(e.ChildEnded)
def _child_ended(state: State, event: e.ChildEnded, seq: int) -> None:
    child = state.children.get(event.child)
    if child is None or child.status:
        raise Illegal("V7", f"child {event.child} was never started, or ended before", seq=seq)
    place = event.adopted or seq
    state.children[event.child] = Child(child.node, child.detached, event.status, event.output, event.error, place)
    state.waits.pop(f"child:{event.child}", None)
    state.loose.pop(f"child:{event.child}", None)


_missing = set(e.EVENT_TYPES.values()) - set(_handlers)
assert not _missing, f"the fold does not answer {_missing}"
