"""Handlers of the events of steps and nodes."""

from __future__ import annotations

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.lifecycle.handlers import on, open_wait
from outlast.lifecycle.state import OPEN, NodeState, NodeStatus, State, Wait
from outlast.lifecycle.status import RunStatus

# Names for the members: a lookup in the enum costs more than the rest of a comparison, and this code is the hottest.
(SCHEDULED, STARTED, COMPLETED, FAILED, SKIPPED, RETRYING, COMPENSATING, COMPENSATED) = NodeStatus

_UNDER_WAY = OPEN | {RETRYING, COMPENSATING}


@on(e.StepStarted)
def _step_started(state: State, event: e.StepStarted, _seq: int) -> None:
    if state.steps.get(event.step) is None:
        state.steps[event.step] = False


@on(e.StepCompleted)
def _step_completed(state: State, event: e.StepCompleted, seq: int) -> None:
    if state.steps.get(event.step) is None:
        raise Illegal("V3", f"step {event.step} completes but has not started", seq=seq)
    state.steps[event.step] = True


@on(e.NodeScheduled)
def _node_scheduled(state: State, event: e.NodeScheduled, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None:
        if event.attempt != 1:
            raise Illegal("V9", f"the first attempt of node {event.node} must be 1, not {event.attempt}", seq=seq)
        state.nodes[event.node] = NodeState(SCHEDULED, 1, seq)
        if event.feedback is not e.NULL or event.inputs is not e.NULL:
            state.nodes[event.node] = NodeState(SCHEDULED, 1, seq, given=event)
        state.outline.open_nodes += 1
        return
    _node_scheduled_again(state, event, node, seq)


def _given(event: e.NodeScheduled) -> e.NodeScheduled | None:
    """The event, if it carries feedback or inputs of a user."""
    return None if event.feedback is e.NULL and event.inputs is e.NULL else event


_CAUSES_BY_STATUS = {RETRYING: ("retry",), STARTED: ("crash", "pause", "reset"), FAILED: ("reset",)}


def _node_scheduled_again(state: State, event: e.NodeScheduled, node: NodeState, seq: int) -> None:
    if node.status not in _CAUSES_BY_STATUS:
        raise Illegal("V4", f"node {event.node} is {node.status.name.lower()} and cannot be scheduled again", seq=seq)
    if event.cause not in _CAUSES_BY_STATUS[node.status]:
        raise Illegal(
            "V9",
            f"node {event.node} is {node.status.name.lower()}: an event may not schedule it with cause {event.cause}",
            seq=seq,
        )
    if event.attempt != node.attempt + 1:
        raise Illegal("V9", f"attempt {event.attempt} of node {event.node} cannot follow {node.attempt}", seq=seq)
    if node.status is not STARTED:
        state.outline.open_nodes += 1
    state.waits.pop(f"timer:retry:{event.node}", None)
    fresh = event.cause == "reset"
    forgets_crashes = fresh or event.cause == "pause"  # a user looked at the node: the count restarts
    state.nodes[event.node] = NodeState(
        SCHEDULED,
        event.attempt,
        seq,
        checkpoint=None if fresh else node.checkpoint,
        crashes=0 if forgets_crashes else node.crashes + (event.cause == "crash"),
        retries=0 if fresh else node.retries + (event.cause == "retry"),
        reset=seq if fresh else node.reset,
        given=_given(event) or node.given,
    )


@on(e.NodeStarted)
def _node_started(state: State, event: e.NodeStarted, seq: int) -> None:
    old = state.nodes.get(event.node)
    if old is None or old.status is not SCHEDULED or old.attempt != event.attempt:
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} starts but is not scheduled", seq=seq)
    state.nodes[event.node] = NodeState(
        STARTED, old.attempt, seq, e.NULL, None, event, old.checkpoint, old.crashes, old.retries, old.reset, old.given
    )


@on(e.NodeCheckpointed)
def _node_checkpointed(state: State, event: e.NodeCheckpointed, seq: int) -> None:
    old = state.nodes.get(event.node)
    if old is None or old.status is not STARTED or old.attempt != event.attempt:
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} checkpoints but has not started", seq=seq)
    state.nodes[event.node] = NodeState(
        STARTED, old.attempt, seq, e.NULL, None, old.started, event.data, old.crashes, old.retries, old.reset, old.given
    )


@on(e.NodeCompleted)
def _node_completed(state: State, event: e.NodeCompleted, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None or node.status is not STARTED or node.attempt != event.attempt:
        node = _may_complete(node, event, seq)
    outline = state.outline
    if node is not None and node.status in OPEN:
        outline.open_nodes -= 1
    outline.done_nodes += 1
    reset = node.reset if node else 0
    state.nodes[event.node] = NodeState(COMPLETED, event.attempt, seq, event.output, reset=reset)


def _may_complete(node: NodeState | None, event: e.NodeCompleted, seq: int) -> NodeState | None:
    """Only a node that adopts a completion of an earlier branch may complete without a start."""
    if node is not None and node.status is COMPLETED:
        raise Illegal("V4", f"node {event.node} completes a second time", seq=seq)
    if not event.adopted:
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} completes but has not started", seq=seq)
    if node is not None and node.status not in OPEN:
        raise Illegal("V3", f"node {event.node} is {node.status.name.lower()} and cannot adopt a completion", seq=seq)
    return node


@on(e.NodeFailed)
def _node_failed(state: State, event: e.NodeFailed, seq: int) -> None:
    old = state.nodes.get(event.node)
    if old is None or old.status not in OPEN or old.attempt != event.attempt:
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} fails but is not open", seq=seq)
    if old.status is SCHEDULED and event.error.category != "cancelled":
        raise Illegal("V3", f"attempt {event.attempt} of node {event.node} fails but has not started", seq=seq)
    status = FAILED
    if event.retry_at is not None:
        status = RETRYING
        timer, text = f"retry:{event.node}", event.error.message[:200]
        open_wait(state, Wait("timer", timer, event.node, event.retry_at, text, since=state.outline.time), seq)
    state.outline.open_nodes -= 1
    kept = old.started, old.checkpoint, old.crashes, old.retries, old.reset, old.given
    state.nodes[event.node] = NodeState(status, event.attempt, seq, e.NULL, event.error, *kept)


@on(e.NodeSkipped)
def _node_skipped(state: State, event: e.NodeSkipped, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is not None and node.status is not SCHEDULED:
        raise Illegal("V3", f"node {event.node} is {node.status.name.lower()} and cannot be skipped", seq=seq)
    if node is not None:
        state.outline.open_nodes -= 1
    state.nodes[event.node] = NodeState(SKIPPED, node.attempt if node else 0, seq)


@on(e.NodesRetired)
def _nodes_retired(state: State, event: e.NodesRetired, seq: int) -> None:
    for name in event.nodes:
        node = state.nodes.get(name)
        if node is None or node.status in _UNDER_WAY:
            raise Illegal("V3", f"node {name} is retired but has no outcome", seq=seq)
    for name in event.nodes:
        state.nodes.pop(name, None)


@on(e.CompensationStarted)
def _compensation_started(state: State, event: e.CompensationStarted, seq: int) -> None:
    node = state.nodes.get(event.node)
    if node is None or node.status not in (COMPLETED, COMPENSATING):
        raise Illegal("V3", f"node {event.node} did not complete and cannot be compensated", seq=seq)
    state.outline.base, state.outline.undoing = RunStatus.COMPENSATING, True
    state.nodes[event.node] = NodeState(COMPENSATING, event.attempt, seq, node.output)


@on(e.NodeCompensated)
def _node_compensated(state: State, event: e.NodeCompensated, seq: int) -> None:
    node = _compensating(state, event.node, seq)
    state.nodes[event.node] = NodeState(COMPENSATED, event.attempt, seq, node.output)


@on(e.CompensationFailed)
def _compensation_failed(state: State, event: e.CompensationFailed, seq: int) -> None:
    node = _compensating(state, event.node, seq)
    state.nodes[event.node] = NodeState(COMPENSATING, event.attempt, seq, node.output, event.error)


def _compensating(state: State, name: str, seq: int) -> NodeState:
    node = state.nodes.get(name)
    if node is None or node.status is not COMPENSATING:
        raise Illegal("V3", f"the compensation of node {name} has not started", seq=seq)
    return node
