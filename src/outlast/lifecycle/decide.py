"""Decisions: from an intention to the events that record it. Pure, and checked against the state.

A driver appends the events through the ledger and folds them after they land. Times are microseconds; the time and the user
are arguments. `NotAllowed` refuses what the state of the run does not allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import structs

from outlast.definition.retry import Retry
from outlast.errors import CRASH_LIMIT, NODE_INTERRUPTED, RUN_ENDED, WORKER_RESTARTED, NotAllowed
from outlast.history import events as e
from outlast.history.lineage import Branch, holder
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply_all
from outlast.lifecycle.requests import Request, Requests, left_open, newest
from outlast.lifecycle.state import CLEANUP, OPEN, Child, NodeState, NodeStatus, State
from outlast.lifecycle.status import RunStatus

CRASHES_BEFORE_HOLD = 5
"""A node that was interrupted this often holds its run."""

RECOVERABLE: dict[e.Category, bool] = {
    "transient": True,  # the network, a rate limit
    "timeout": True,
    "crash": True,
    "cancelled": True,
    "permanent": True,  # a bug: correct the code first
    "rejected": False,
    "denied": False,
    "invalid": False,
}
"""Whether a failed run may be resumed, by the category of its error. RunFailed records it."""

_KEEPING_ANSWERS: frozenset[e.BranchCause] = frozenset({"recovery", "migrate", "retry"})

Cause: TypeAlias = Literal["claimed", "expired", "dead"]
_WHY: dict[Cause, str] = {
    "claimed": "its worker released the run",
    "expired": "the claim of its worker expired: its process ended, or was suspended or blocked for longer than its lease",
    "dead": "the process of its worker ended",
}

Cleanup: TypeAlias = Literal["none", "completed", "failed", "expired", "stopped"]

Decision = list[e.AnyEvent]
Ending = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued


def next_request(state: State) -> Request | None:
    """The open request that the owner of a run obeys next: a cancellation before a jump, a jump before a pause, the newer of
    two of one kind. A run that is paused or held ignores a pause; a run that is over only obeys a jump. A run in its
    clean-up obeys its cancellation already, and otherwise only a forced cancellation."""
    requests, outline = state.outline.requests, state.outline
    if not requests:
        return None
    cancel, jump, pause = (newest(requests, kind) for kind in (e.CancelRequested, e.JumpRequested, e.PauseRequested))
    forced = next((each for each in reversed(requests) if _is_forced(each.event)), None)
    if cancel is not None and not state.is_closed and (outline.cleanup is None or forced is not None):
        return (forced or cancel).event
    if outline.is_cleaning:
        return None
    if jump is not None:
        return jump.event
    is_going = outline.base in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING)
    return pause.event if pause is not None and is_going else None


def _is_forced(event: Request) -> bool:
    return isinstance(event, e.CancelRequested) and event.force


def ends_at_once(state: State, request: e.CancelRequested) -> bool:
    """Whether a cancellation ends the run without its code: the clean-up is not wanted, or the run never started."""
    return request.force or state.outline.base in (None, RunStatus.CREATED)


def cancelled(state: State, cleanup: Cleanup = "none", error: e.Failure | None = None) -> e.RunCancelled:
    """The end of a cancelled run. `by` and `reason` come from the open cancellations, or from the one that began its
    clean-up."""
    asked = [each.event for each in state.outline.requests if isinstance(each.event, e.CancelRequested)]
    first = state.outline.cleanup
    by = next((each.by for each in reversed(asked) if each.by), first.by if first is not None else "")
    reason = next((each.reason for each in reversed(asked) if each.reason), first.reason if first is not None else "")
    return e.RunCancelled(by=by, reason=reason, cleanup=cleanup, error=error)


def cut_short(asked: e.CancelRequested | e.RunCancelled) -> e.Failure:
    """The failure of a call that was open when its run was cancelled."""
    message = f"the run was cancelled{f': {asked.reason}' if asked.reason else ''}"
    return e.Failure(RUN_ENDED, message, category="cancelled")


def refusals(state: State, ending: e.AnyEvent) -> Decision:
    """The refusals that precede the end of a run, for the requests that it does not obey; empty before any other event."""
    requests = state.outline.requests
    if not requests or not isinstance(ending, Ending) or (isinstance(ending, e.RunFailed) and ending.held):
        return []
    return _refused(left_open(requests, ending), "ended", "the run ended first")


def _refused(requests: Requests, code: Literal["ended", "superseded", "cannot", "still"], reason: str) -> Decision:
    return [e.RequestRefused(request=each.seq, code=code, reason=reason) for each in requests]


def take_over(
    state: State,
    epoch: int,
    worker: str,
    *,
    previous: str = "",
    cause: Cause = "claimed",
    seen: int = 0,
    hold: bool = False,
) -> Decision:
    """Begin a new epoch. If the previous owner was interrupted, repeat its started nodes or hold the run (C1, G1)."""
    events: Decision = [e.RunTakenOver(epoch=epoch, worker=worker, previous=previous, cause=cause, seen=seen)]
    interrupted = cause != "claimed" and state.status in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    if not interrupted or isinstance(next_request(state), e.CancelRequested):  # a cancellation needs no decision
        return events
    held = held_by_interruption(state, hold=hold, cause=cause)
    return [*events, *([held] if held is not None else _started_again(state, "crash"))]


def held_by_interruption(state: State, *, hold: bool = False, cause: Cause = "expired") -> e.RunFailed | None:
    """The hold of a run whose owner was interrupted, or None if the run continues without a user's decision."""
    left = [(name, node) for name, node in state.nodes.items() if node.status is NodeStatus.STARTED]
    crashed = [name for name, node in left if node.crashes + 1 >= CRASHES_BEFORE_HOLD]
    unrepeatable = [name for name, node in left if not node.is_repeatable]
    if (hold or state.outline.on_restart == "hold") and not state.outline.is_cleaning:  # a clean-up needs no decision
        return held(e.Failure(WORKER_RESTARTED, "Server restarted while workflow was running", category="crash"))
    if unrepeatable:
        return not_repeated(unrepeatable[0])
    if crashed:
        times = f"node {crashed[0]} was interrupted {CRASHES_BEFORE_HOLD} times, the last time because {_WHY[cause]}"
        return held(e.Failure(CRASH_LIMIT, times, category="crash"), crashed[0])
    return None


def _started_again(state: State, cause: Literal["crash", "pause"]) -> Decision:
    return [
        e.NodeScheduled(node=name, attempt=node.attempt + 1, cause=cause)
        for name, node in state.nodes.items()
        if node.status is NodeStatus.STARTED
    ]


def held(error: e.Failure, node: str = "") -> e.RunFailed:
    """The run stops until a user decides."""
    return e.RunFailed(error=error, node=node, recoverable=True, held=True)


def not_repeated(node: str, how: str = "interrupted") -> e.RunFailed:
    """Held because a node with `repeatable=False` was interrupted: only a user can find out whether it took effect."""
    reason = f"node {node} was {how} and must not be repeated before a person decides"
    return held(e.Failure(NODE_INTERRUPTED, reason, category="crash"), node)


def fail_node(
    state: State, node: str, error: e.Failure, retry: Retry, *, now: int, chance: float = 0.5, ms: float = 0.0
) -> Decision:
    """One attempt failed: retry at the time that the policy gives, or fail the node."""
    known = state.nodes.get(node)
    if known is None:
        raise NotAllowed(f"node {node} is not part of this run")
    wait = retry.wait_us(error, known.retries + 1, chance)
    due = None if wait is None else now + wait
    return [e.NodeFailed(node=node, attempt=known.attempt, error=error, ms=ms, retry_at=due)]


def retry_node(state: State, node: str, feedback: e.Value = e.NULL) -> Decision:
    """Repeat a failed node on this branch. A completed node can only be repeated on a new branch."""
    known = state.nodes.get(node)
    if known is None:
        raise NotAllowed(f"node {node} is not part of this run")
    if known.status is NodeStatus.RETRYING:
        return [e.NodeScheduled(node=node, attempt=known.attempt + 1, cause="retry", feedback=feedback)]
    if known.status is not NodeStatus.FAILED:
        raise NotAllowed(f"node {node} is {known.status.name.lower()}: only a failed node can be retried on its branch")
    return [e.NodeScheduled(node=node, attempt=known.attempt + 1, cause="reset", feedback=feedback)]


def end(state: State, ending: Ending, reason: str = "the run ended") -> Decision:
    """The ending, after the outcomes of all open nodes, questions and timers."""
    cut_short = e.Failure(RUN_ENDED, reason, category="cancelled")
    events: Decision = [
        e.NodeFailed(node=name, attempt=node.attempt, error=cut_short)
        for name, node in state.nodes.items()
        if node.status in OPEN
    ]
    for wait in state.waits.values():
        if wait.kind == "interaction":
            events.append(e.InteractionWithdrawn(interaction=wait.id, reason=reason))
        elif wait.kind == "timer" and wait.id != CLEANUP:
            events.append(e.TimerCancelled(timer=wait.id, reason=reason))
    return [*events, *refusals(state, ending), ending]


def pause(state: State, asked: e.PauseRequested) -> Decision:
    """Pause the run at its current event; a resume repeats the started nodes. If one of them is not repeatable, the run is
    held instead."""
    if state.outline.is_cleaning:
        raise NotAllowed("a run that is being cancelled cannot be paused: its clean-up ends by itself")
    if state.outline.held:
        raise NotAllowed("a run that is held cannot be paused: resume it, or cancel it")
    if state.outline.base not in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING):
        raise NotAllowed(f"a run that is {state.status} cannot be paused")
    for name, node in state.nodes.items():
        if node.status is NodeStatus.STARTED and not node.is_repeatable:
            return [not_repeated(name, "stopped by a pause")]
    return [paused(asked)]


def paused(asked: e.PauseRequested) -> e.RunPaused:
    """The event that obeys a request for a pause."""
    return e.RunPaused(by=asked.by, reason=asked.reason, copied_to=asked.copied_to)


def resume(state: State, by: str = "") -> Decision:
    """Continue after a pause, a hold or a recoverable failure, on the same branch. Nodes that had started, and the node that
    failed, get another attempt."""
    outline = state.outline
    if outline.base is RunStatus.FAILED and not outline.recoverable:
        raise NotAllowed("the run failed for good: retry one of its nodes, or jump back to an earlier event")
    if outline.base not in (RunStatus.PAUSED, RunStatus.FAILED):
        raise NotAllowed(f"a run that is {state.status} cannot be resumed")
    events: Decision = [e.RunStarted(resumed=True, by=by), *_started_again(state, "pause")]
    events += [
        e.NodeScheduled(node=name, attempt=node.attempt + 1, cause="retry")
        for name, node in state.nodes.items()
        if node.status is NodeStatus.RETRYING and state.waits.get(f"timer:retry:{name}") is None
    ]
    events += [
        e.NodeScheduled(node=name, attempt=node.attempt + 1, cause="reset")
        for name, node in state.nodes.items()
        if node.status is NodeStatus.FAILED and (name == outline.failed_node or _was_cut_short(node))
    ]
    return events


def begin(state: State, by: str = "") -> Decision:
    """Begin a run that was created to begin only when a user starts it."""
    if not state.outline.awaits_start:
        raise NotAllowed(f"a run that is {state.status} cannot be started")
    return [e.RunStarted(by=by)]


def reopen(state: State, node: str | None = None, by: str = "", feedback: e.Value = e.NULL) -> Decision:
    """Resume a stopped run. If `node` is given, repeat that failed node with the feedback."""
    pauses = tuple(each for each in state.outline.requests if isinstance(each.event, e.PauseRequested))
    events = _refused(pauses, "still", f"the run was already {state.status}") + resume(state, by)
    if node is None:
        return events
    others = [event for event in events if not (isinstance(event, e.NodeScheduled) and event.node == node)]
    if len(others) == len(events):
        return [*events, *retry_node(state, node, feedback)]
    (own,) = (event for event in events if isinstance(event, e.NodeScheduled) and event.node == node)
    return [*others, structs.replace(own, feedback=feedback)]


def _was_cut_short(node: NodeState) -> bool:
    """Whether the node failed only because its run ended."""
    return node.error is not None and node.error.kind == RUN_ENDED


def open_branch(state: State, then: State, branches: Iterable[Branch], plan: BranchPlan) -> Decision:
    """Open a branch at the cutoff; `then` is the state there. Events after the cutoff stay on their branch.

    BranchOpened lists the questions and children that are open now and not at the cutoff: questions are withdrawn; children
    are cancelled or, if the plan keeps them, detached. A recovery does neither to a child that the run waits for: the code
    starts it again under the same id and so adopts it. The new branch adopts receipts that arrived since the cutoff, because
    each arrives only once, except for the end of a child that is restarted. It also adopts accepted answers (P7), unless a
    user jumps back to before the answer. All open requests are obeyed or refused by this append (V12)."""
    requests = state.outline.requests
    known = sorted(branches, key=lambda branch: branch.id)
    if max(plan.cutoff, 1) != then.outline.seq:
        raise NotAllowed(
            f"cannot cut at event {plan.cutoff}: the lineage of the new branch would end at event {then.outline.seq}"
        )
    parent = holder(known, plan.cutoff)
    cancelled, detached = _left_children(state, then, plan)
    opened = e.BranchOpened(
        branch=known[-1].id + 1,
        parent=parent.id,
        cutoff=plan.cutoff,
        parent_first=parent.first,
        previous_first=known[-1].first,
        cause=plan.cause,
        by=plan.by,
        reason=plan.reason,
        withdrawn=tuple(name for name in _questions(state) if name not in _questions(then)),
        detached=detached,
        cancelled=cancelled,
        redo=plan.redo,
        request=plan.request if any(each.seq == plan.request for each in requests) else 0,
    )
    events = [opened, *_recovered(plan, opened, known), *_received_since(state, then, plan), *_continuation(then, plan)]
    carried = left_open(requests, opened)
    if carried:
        view = Draft(then).view
        apply_all(view, events, state.outline.seq + 1, then.outline.time)
        events += _settled(view, carried, plan)
    return events


def _left_children(state: State, then: State, plan: BranchPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The open children that are not in `then`: those to cancel, and those to detach. A decision of an earlier branch about
    a child stays."""
    left = [
        (name, each) for name, each in state.children.items() if not each.status and then.children.get(name) is None
    ]
    if plan.cause == "recovery":
        left = [(name, each) for name, each in left if each.detached]
    is_cancelling = plan.cause != "recovery" and plan.children == "cancel"
    cancelled = [name for name, each in left if each.cancelled or (is_cancelling and not each.detached)]
    return tuple(cancelled), tuple(name for name, _ in left if name not in cancelled)


def _settled(view: State, requests: Requests, plan: BranchPlan) -> Decision:
    """The outcomes of other requests that were open when the branch with state `view` opened: the branch ends, pauses or
    refuses them."""
    jumps = [each for each in requests if isinstance(each.event, e.JumpRequested)]
    cannot = tuple(each for each in jumps if each.seq in plan.evidence)
    others = tuple(each for each in jumps if each.seq not in plan.evidence)
    view.outline.requests = tuple(each for each in requests if each not in jumps)
    events = _refused(cannot, "cannot", plan.reason) + _refused(
        others, "superseded", "another jump superseded this one"
    )
    match next_request(view):
        case e.CancelRequested():
            return [*events, *end(view, cancelled(view))]
        case e.PauseRequested() as asked:
            reason = asked.reason or "requested while the run jumped back"
            return [*events, *pause(view, structs.replace(asked, reason=reason))]
        case _:
            return [*events, *_refused(view.outline.requests, "ended", "the run is over on the new branch")]


def _recovered(plan: BranchPlan, opened: e.BranchOpened, known: list[Branch]) -> Decision:
    if not plan.code:
        return []
    return [
        e.RunRecovered(
            code=plan.code,
            reason=plan.reason,
            evidence=plan.evidence,
            previous_branch=known[-1].id,
            new_branch=opened.branch,
            cutoff=opened.cutoff,
        )
    ]


def _continuation(then: State, plan: BranchPlan) -> Decision:
    """The first events of the new branch. A run that was paused or held at the cutoff is resumed."""
    has_stopped = then.outline.base in (RunStatus.PAUSED, RunStatus.FAILED) and not then.is_closed
    return [*(resume(then, plan.by) if has_stopped else ()), *plan.then]


def _questions(state: State) -> list[str]:
    return [wait.id for wait in state.waits.values() if wait.kind == "interaction"]


def _received_since(state: State, then: State, plan: BranchPlan) -> Decision:
    events: Decision = []
    for wait in [*then.waits.values(), *then.loose.values()]:
        child = state.children.get(wait.id) if wait.kind == "child" else None
        if child is not None and child.status and child.node not in plan.redo:
            events.append(_adopted(wait.id, child))
        asked = state.interactions.get(wait.id) if wait.kind == "interaction" else None
        if asked is not None and asked.answer is not None and plan.cause in _KEEPING_ANSWERS:
            events.append(e.InteractionAnswered(interaction=wait.id, answer=asked.answer, by=asked.by))
        place = state.sent.get(wait.id) if wait.kind == "outbox" else None
        if place is not None:
            events.append(e.OutboxSent(message=wait.id, adopted=place))
    return events


def _adopted(name: str, child: Child) -> e.ChildEnded:
    return e.ChildEnded(
        child=name, status=child.status or "completed", output=child.output, error=child.error, adopted=child.seq
    )
