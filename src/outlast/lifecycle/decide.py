"""From an intention to the events that say it: pure, checked against the state, nothing appended yet.

A driver asks here, hands the answer to the ledger, and folds what landed. Times are microseconds; who asks and when are
arguments. What cannot be done in the run's present state is refused with a sentence for people.
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
"""A node that was interrupted this often holds its run for a person."""

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
"""Whether a run that failed may be resumed, by the category of its error. The only such table: RunFailed records it."""

_KEEPING_ANSWERS: frozenset[e.BranchCause] = frozenset({"recovery", "migrate", "retry"})

Cause: TypeAlias = Literal["claimed", "expired", "dead"]
_WHY: dict[Cause, str] = {
    "claimed": "its worker gave the run back",
    "expired": "the claim of its worker expired: its process ended, or was suspended or blocked for longer than that",
    "dead": "the process of its worker ended",
}

Cleanup: TypeAlias = Literal["none", "completed", "failed", "expired", "stopped"]

Decision = list[e.AnyEvent]
Ending = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued


def next_request(state: State) -> Request | None:
    """The open request that the owner of a run obeys next: a cancellation before a jump, a jump before a pause, of two of a
    kind the newer one. A pause means nothing in a run that stands still; a run that is over can only go back. A run in its
    clean-up obeys its cancellation already, and nothing else but one by force."""
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
    """Whether a cancellation is obeyed without the code of the run: its clean-up is not wanted, or it never started."""
    return request.force or state.outline.base in (None, RunStatus.CREATED)


def cancelled(state: State, cleanup: Cleanup = "none", error: e.Failure | None = None) -> e.RunCancelled:
    """The end of a run as somebody asked: by whom and why say the cancellations that are open, or that it cleaned up for."""
    asked = [each.event for each in state.outline.requests if isinstance(each.event, e.CancelRequested)]
    first = state.outline.cleanup
    by = next((each.by for each in reversed(asked) if each.by), first.by if first is not None else "")
    reason = next((each.reason for each in reversed(asked) if each.reason), first.reason if first is not None else "")
    return e.RunCancelled(by=by, reason=reason, cleanup=cleanup, error=error)


def cut_short(asked: e.CancelRequested | e.RunCancelled) -> e.Failure:
    """The failure of what was open when its run was cancelled."""
    message = f"the run was cancelled{f': {asked.reason}' if asked.reason else ''}"
    return e.Failure(RUN_ENDED, message, category="cancelled")


def refusals(state: State, ending: e.AnyEvent) -> Decision:
    """What is said before the end of a run of the requests that it does not obey; nothing before any other event."""
    if not isinstance(ending, Ending) or (isinstance(ending, e.RunFailed) and ending.held):
        return []
    return _refused(left_open(state.outline.requests, ending), "ended", "the run ended first")


def _refused(requests: Requests, code: Literal["ended", "superseded", "cannot", "still"], reason: str) -> Decision:
    return [e.RequestRefused(request=each.seq, code=code, reason=reason) for each in requests]


def take_over(
    state: State,
    epoch: int,
    worker: str,
    *,
    previous: str = "",
    cause: Cause = "claimed",
    hold: bool = False,
) -> Decision:
    """Begin a new epoch. If the owner before was interrupted, say what becomes of the nodes it left behind (C1, G1)."""
    events: Decision = [e.RunTakenOver(epoch=epoch, worker=worker, previous=previous, cause=cause)]
    interrupted = cause != "claimed" and state.status in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    if not interrupted:
        return events
    if isinstance(next_request(state), e.CancelRequested):  # a person has decided already
        return events
    held = held_by_interruption(state, hold=hold, cause=cause)
    return [*events, *([held] if held is not None else _done_again(state))]


def held_by_interruption(state: State, *, hold: bool = False, cause: Cause = "expired") -> e.RunFailed | None:
    """What is said of a run whose owner was interrupted, if a person has to decide before it goes on."""
    left = [(name, node) for name, node in state.nodes.items() if node.status is NodeStatus.STARTED]
    tired = [name for name, node in left if node.crashes + 1 >= CRASHES_BEFORE_HOLD]
    unrepeatable = [name for name, node in left if not node.is_repeatable]
    if (hold or state.outline.on_restart == "hold") and not state.outline.is_cleaning:  # a person has decided already
        return held(e.Failure(WORKER_RESTARTED, "Server restarted while workflow was running", category="crash"))
    if unrepeatable:
        return not_repeated(unrepeatable[0])
    if tired:
        times = f"node {tired[0]} was interrupted {CRASHES_BEFORE_HOLD} times, the last time because {_WHY[cause]}"
        return held(e.Failure(CRASH_LIMIT, times, category="crash"), tired[0])
    return None


def _done_again(state: State) -> Decision:
    return [
        e.NodeScheduled(node=name, attempt=node.attempt + 1, cause="crash")
        for name, node in state.nodes.items()
        if node.status is NodeStatus.STARTED
    ]


def held(error: e.Failure, node: str = "") -> e.RunFailed:
    """The run waits for a person's decision."""
    return e.RunFailed(error=error, node=node, recoverable=True, held=True)


def not_repeated(node: str, how: str = "interrupted") -> e.RunFailed:
    """Held because a node with `repeatable=False` was interrupted: only a person knows whether it had its effect."""
    reason = f"node {node} was {how} and is not to be repeated without a person's word"
    return held(e.Failure(NODE_INTERRUPTED, reason, category="crash"), node)


def fail_node(
    state: State, node: str, error: e.Failure, retry: Retry, *, now: int, chance: float = 0.5, ms: float = 0.0
) -> Decision:
    """One attempt failed: try again later as the policy says, or let the failure stand."""
    known = state.nodes.get(node)
    if known is None:
        raise NotAllowed(f"node {node} is not part of this run")
    wait = retry.wait_us(error, known.retries + 1, chance)
    due = None if wait is None else now + wait
    return [e.NodeFailed(node=node, attempt=known.attempt, error=error, ms=ms, retry_at=due)]


def retry_node(state: State, node: str, feedback: e.Value = e.NULL) -> Decision:
    """Do a failed node again on this branch; a completed one is only done again on a new branch."""
    known = state.nodes.get(node)
    if known is None:
        raise NotAllowed(f"node {node} is not part of this run")
    if known.status is NodeStatus.RETRYING:
        return [e.NodeScheduled(node=node, attempt=known.attempt + 1, cause="retry", feedback=feedback)]
    if known.status is not NodeStatus.FAILED:
        raise NotAllowed(f"node {node} is {known.status.name.lower()}, only a failed node is retried on its branch")
    return [e.NodeScheduled(node=node, attempt=known.attempt + 1, cause="reset", feedback=feedback)]


def end(state: State, ending: Ending, reason: str = "the run ended") -> Decision:
    """The ending, after the outcome of everything that is still open: nothing is left hanging."""
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
    """Stop where the run stands; what is in flight is done again after a resume. If that must not simply be done again, the
    run is held instead."""
    if state.outline.is_cleaning:
        raise NotAllowed("a run that is being cancelled cannot be paused: its clean-up ends by itself")
    if state.outline.held:
        raise NotAllowed("a run that is held cannot be paused: it waits for a person already; resume it, or cancel it")
    if state.outline.base not in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING):
        raise NotAllowed(f"a run that is {state.status} cannot be paused")
    for name, node in state.nodes.items():
        if node.status is NodeStatus.STARTED and not node.is_repeatable:
            return [not_repeated(name, "stopped by a pause")]
    return [paused(asked)]


def paused(asked: e.PauseRequested) -> e.RunPaused:
    """What a request for a pause leads to."""
    return e.RunPaused(by=asked.by, reason=asked.reason, copied_to=asked.copied_to)


def resume(state: State, by: str = "") -> Decision:
    """Go on after a pause, a hold or a recoverable failure, on the same branch: what was in flight, and the node that
    failed, get another attempt."""
    outline = state.outline
    if outline.base is RunStatus.FAILED and not outline.recoverable:
        raise NotAllowed("the run failed for good: retry a node of it, or jump back to an earlier event")
    if outline.base not in (RunStatus.PAUSED, RunStatus.FAILED):
        raise NotAllowed(f"a run that is {state.status} cannot be resumed")
    events: Decision = [e.RunStarted(resumed=True, by=by)]
    events += [
        e.NodeScheduled(node=name, attempt=node.attempt + 1, cause="pause")
        for name, node in state.nodes.items()
        if node.status is NodeStatus.STARTED
    ]
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


def reopen(state: State, node: str | None = None, by: str = "", feedback: e.Value = e.NULL) -> Decision:
    """Go on with a run that stopped, and do a failed node of it again, if one is named; it is given the feedback."""
    pauses = tuple(each for each in state.outline.requests if isinstance(each.event, e.PauseRequested))
    events = _refused(pauses, "still", f"the run was {state.status} already") + resume(state, by)
    if node is None:
        return events
    others = [event for event in events if not (isinstance(event, e.NodeScheduled) and event.node == node)]
    if len(others) == len(events):
        return [*events, *retry_node(state, node, feedback)]
    (own,) = (event for event in events if isinstance(event, e.NodeScheduled) and event.node == node)
    return [*others, structs.replace(own, feedback=feedback)]


def _was_cut_short(node: NodeState) -> bool:
    """It failed only because its run ended."""
    return node.error is not None and node.error.kind == RUN_ENDED


def open_branch(state: State, then: State, branches: Iterable[Branch], plan: BranchPlan) -> Decision:
    """Leave what follows the cutoff on its branch and go on beside it, from `then`, the state at the cutoff.

    BranchOpened lists what is asked or started now and not there: questions are withdrawn, children cancelled or, if the
    turn keeps them, detached. A recovery does neither to a child that the run waits for: its code starts it again under the
    same id, and so adopts it. What was owed
    there and has been received since is taken over, because a receipt comes only once; but for the end of a child that is
    set going again. So are accepted answers (P7), unless a person goes back to where the question was open. Requests that
    are open now are obeyed or refused at once: the new branch does not hold them."""
    requests = state.outline.requests
    known = sorted(branches, key=lambda branch: branch.id)
    if max(plan.cutoff, 1) != then.outline.seq:
        raise NotAllowed(
            f"event {plan.cutoff} is not where the lineage of the new branch would end ({then.outline.seq})"
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
    events = [opened, *_recovered(plan, opened, known), *_received_since(state, then, plan), *_going_on(then, plan)]
    carried = left_open(requests, opened)
    if carried:
        view = Draft(then).view
        apply_all(view, events, state.outline.seq + 1, then.outline.time)
        events += _settled(view, carried, plan)
    return events


def _left_children(state: State, then: State, plan: BranchPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The open children that `then` does not know: those to cancel, and those to detach. What an earlier branch decided
    about a child stands."""
    left = [
        (name, each) for name, each in state.children.items() if not each.status and then.children.get(name) is None
    ]
    if plan.cause == "recovery":
        left = [(name, each) for name, each in left if each.detached]
    is_cancelling = plan.cause != "recovery" and plan.children == "cancel"
    cancelled = [name for name, each in left if each.cancelled or (is_cancelling and not each.detached)]
    return tuple(cancelled), tuple(name for name, _ in left if name not in cancelled)


def _settled(view: State, requests: Requests, plan: BranchPlan) -> Decision:
    """What becomes of other requests that were open when a branch opened, whose state is `view`: it ends or pauses there."""
    jumps = [each for each in requests if isinstance(each.event, e.JumpRequested)]
    cannot = tuple(each for each in jumps if each.seq in plan.evidence)
    others = tuple(each for each in jumps if each.seq not in plan.evidence)
    view.outline.requests = tuple(each for each in requests if each not in jumps)
    events = _refused(cannot, "cannot", plan.reason) + _refused(others, "superseded", "the run went back elsewhere")
    match next_request(view):
        case e.CancelRequested():
            return [*events, *end(view, cancelled(view))]
        case e.PauseRequested() as asked:
            reason = asked.reason or "somebody asked for it while the run went back"
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


def _going_on(then: State, plan: BranchPlan) -> Decision:
    """What the new branch says first. A run that stood still where it was cut is set going again."""
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
