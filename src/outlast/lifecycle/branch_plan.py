"""Plans for new branches: from a target that a user names to the cutoff and first events of the branch. Pure.

A branch cuts as little as possible. Calls made before a result was known cannot depend on it, so repeating a completed node
cuts the lineage just before its completion. A target that names an event is used unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from outlast.errors import InvalidInput, NotAllowed
from outlast.history import events as e
from outlast.history.codec import decode, encode
from outlast.history.ids import question_of
from outlast.history.lineage import BEFORE_FIRST
from outlast.history.record import Entry
from outlast.lifecycle.requests import newest
from outlast.lifecycle.state import State

START = "start"
"""The target before everything that the run did."""


class BranchPlan(Struct, frozen=True, kw_only=True):
    """A branch to open: its `cutoff`, the nodes to repeat (`redo`) and its first events (`then`). If it repairs the run,
    `code` names the finding and `evidence` the events that prove it."""

    cutoff: int
    cause: e.BranchCause = "jump"
    by: str = ""
    reason: str = ""
    redo: tuple[str, ...] = ()
    then: tuple[e.AnyEvent, ...] = ()
    code: str = ""
    evidence: tuple[int, ...] = ()
    request: int = 0
    """The seq of the JumpRequested that asks for it, or 0."""
    children: e.Children = "cancel"
    """Whether children started after the cutoff are cancelled. A recovery cancels none."""


def to_place(log: Sequence[Entry], place: str, *, by: str = "", reason: str = "") -> BranchPlan:
    """A jump to an event by its number; to just before a node, a child or a question by its name; or to the `start`."""
    if place == START:
        return BranchPlan(cutoff=BEFORE_FIRST, by=by, reason=reason)
    if place.isascii() and place.isdigit():
        return BranchPlan(cutoff=_within(log, place), by=by, reason=reason)
    asked = _last(
        log, e.InteractionRequested, lambda event: place in (event.interaction, question_of(event.interaction))
    )
    began = _last(log, e.NodeScheduled, lambda event: event.node == place and event.attempt == 1)
    began = began or _last(log, e.ChildStarted, lambda event: event.node == place)
    if began is not None:
        return BranchPlan(cutoff=began.seq - 1, by=by, reason=reason, redo=(place,))
    if asked is not None:
        return BranchPlan(cutoff=asked.seq - 1, by=by, reason=reason)
    raise NotAllowed(
        f"this branch has no node or question {place!r}{_similar(log, place)}; "
        "use the name of a node or a question, the number of an event, or `start`"
    )


def _within(log: Sequence[Entry], place: str) -> int:
    """The number of an existing event on any branch: the newest event ends the current lineage."""
    last = log[-1].seq if log else 0
    if len(place) > len(str(last)) + 10 or int(place) > last:
        raise NotAllowed(
            f"event {place[:20]}{'…' if len(place) > 20 else ''} is not in the log, which ends at event {last}"
        )
    return int(place)


def _similar(log: Sequence[Entry], place: str) -> str:
    names = {entry.event.node for entry in log if isinstance(entry.event, e.NodeScheduled)}
    near = sorted(name for name in names if place.casefold() in name.casefold())[:5]
    return f" (similar: {', '.join(near)})" if near else ""


def back(log: Sequence[Entry], nodes: int, *, by: str = "", reason: str = "") -> BranchPlan:
    """A jump back over the last completed nodes."""
    if nodes < 1:
        raise InvalidInput(f"the number of nodes to rewind must be at least 1, not {nodes}")
    done = list({entry.event.node: entry for entry in log if isinstance(entry.event, e.NodeCompleted)}.values())
    done.sort(key=lambda entry: entry.seq)
    if nodes > len(done):
        raise NotAllowed(f"cannot rewind by {nodes} nodes: the run has completed {len(done)} on this branch")
    cutoff = done[-nodes].seq - 1
    redo = tuple(entry.event.node for entry in done[-nodes:] if isinstance(entry.event, e.NodeCompleted))
    return BranchPlan(cutoff=cutoff, by=by, reason=reason, redo=redo, then=reset(log, redo, cutoff))


def reset(log: Sequence[Entry], nodes: tuple[str, ...], cutoff: int) -> tuple[e.AnyEvent, ...]:
    """New attempts for those of the nodes that have started at the cutoff, even if they are not repeatable: a user asked."""
    started: dict[str, int] = {}
    for entry in log:
        if entry.seq <= cutoff and isinstance(entry.event, e.NodeStarted) and entry.event.node in nodes:
            started[entry.event.node] = entry.event.attempt
        elif entry.seq <= cutoff and isinstance(entry.event, e.NodeScheduled | e.NodeCompleted | e.NodeFailed):
            started.pop(entry.event.node, None)
    return tuple(
        e.NodeScheduled(node=node, attempt=attempt + 1, cause="reset") for node, attempt in sorted(started.items())
    )


def again(
    log: Sequence[Entry],
    node: str,
    *,
    feedback: e.Value = e.NULL,
    inputs: e.Value = e.NULL,
    cause: e.BranchCause = "retry",
    by: str = "",
    reason: str = "",
) -> BranchPlan:
    """Repeat a node that has an outcome, optionally with feedback or with other inputs."""
    outcome = outcome_of(log, node)
    attempt = _attempt(outcome.event)
    started = _last(log, e.NodeStarted, lambda event: event.node == node and event.attempt == attempt)
    schedule: Literal["first", "reset"]
    if started is None:  # its result was adopted: there is no attempt to count from
        begun = _last(log, e.NodeScheduled, lambda event: event.node == node and event.attempt == 1)
        cutoff, attempt, schedule = (begun or outcome).seq - 1, 0, "first"
    else:
        cutoff, schedule = outcome.seq - 1, "reset"
    scheduled = e.NodeScheduled(node=node, attempt=attempt + 1, cause=schedule, feedback=feedback, inputs=inputs)
    return BranchPlan(cutoff=cutoff, cause=cause, by=by, reason=reason, redo=(node,), then=(scheduled,))


def instead(log: Sequence[Entry], node: str, output: e.Value, *, by: str = "", reason: str = "") -> BranchPlan:
    """Continue as if a node had returned `output`: one that has an outcome, or one that the run stopped inside."""
    stopped = stopped_inside(log, node)
    if stopped is None:
        outcome = outcome_of(log, node)
        stopped = outcome.seq, _attempt(outcome.event)
    place, attempt = stopped
    completed = e.NodeCompleted(node=node, attempt=attempt, output=output, by=by or "someone")
    return BranchPlan(cutoff=place - 1, by=by, reason=reason, redo=(node,), then=(completed,))


def stopped_inside(log: Sequence[Entry], node: str) -> tuple[int, int] | None:
    """The seq at which a run was held or paused inside a started node, and the attempt of the node."""
    place = 0
    for entry in reversed(log):
        match entry.event:
            case e.RunFailed(held=True) | e.RunPaused():
                place = entry.seq
            case e.RunStarted() | e.BranchOpened():
                return None
            case e.NodeStarted(node=name, attempt=attempt) if name == node:
                return (place, attempt) if place else None
            case e.NodeScheduled(node=name) | e.NodeCompleted(node=name) | e.NodeFailed(node=name) if name == node:
                return None
            case _:
                pass
    return None


def outcome_of(log: Sequence[Entry], node: str) -> Entry:
    """The entry of the newest outcome of a node."""
    for entry in reversed(log):
        event = entry.event
        if isinstance(event, e.NodeScheduled | e.NodeStarted) and event.node == node:
            raise NotAllowed(f"node {node} is still running: wait for its outcome")
        if isinstance(event, e.NodeCompleted | e.NodeFailed) and event.node == node:
            return entry
    raise NotAllowed(f"this branch has no node {node!r}{_similar(log, node)}")


_DONE = (e.NodeCompleted, e.StepCompleted, e.InteractionAnswered)
_WRITTEN_AGAIN = (
    e.RunTakenOver,
    e.StepStarted,
    e.StepCompleted,
    e.GuestEventsRead,
    e.InteractionRequested,
    e.TimerSet,
    e.SignalAwaited,
)
"""Events that the run's code or its next owner always appends again."""


def recovery_cutoff(log: Sequence[Entry]) -> int:
    """The cutoff of every recovery: after the last event that a re-execution does not append again by itself.

    A recovery keeps results, accepted answers and other guest data, what a user asked for (a branch, an edit, feedback, a
    pause), children, decisions, checkpoints, failures, and the start of a node that is not repeatable."""
    return next((entry.seq for entry in reversed(log) if not _is_written_again(entry.event)), BEFORE_FIRST)


def _is_written_again(event: e.AnyEvent) -> bool:
    if isinstance(event, e.NodeScheduled):
        return not _is_reset(event)
    if isinstance(event, e.NodeStarted):
        return event.repeatable
    return isinstance(event, _WRITTEN_AGAIN)


def _is_reset(event: e.AnyEvent) -> bool:
    """Whether a user had a node repeated."""
    return isinstance(event, e.NodeScheduled) and event.cause == "reset"


def last_place(log: Sequence[Entry]) -> int:
    """The last event that a run can continue from: its end, or the last result of a run that is over."""
    endings = (e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunContinued)
    for place in range(len(log) - 1, -1, -1):
        event = log[place].event
        if isinstance(event, endings):  # a cancelled run cannot continue from an event of its clean-up
            place = next((at for at in range(place) if isinstance(log[at].event, e.CleanupStarted)), place)
            return next((entry.seq for entry in reversed(log[:place]) if _is_done(entry.event)), BEFORE_FIRST)
        if isinstance(event, e.RunStarted):
            break
    return log[-1].seq


def _is_done(event: e.AnyEvent) -> bool:
    is_result = isinstance(event, _DONE) or (isinstance(event, e.ChildEnded) and event.status == "completed")
    return is_result or _is_reset(event)


def check_continues(plan: BranchPlan, then: State) -> None:
    """Refuse a cutoff at which the run is over."""
    if then.is_closed and plan.cause not in ("activate", "recovery"):
        raise NotAllowed(
            f"the run is over at event {plan.cutoff}: name an earlier event, a node or a question, "
            "or activate that branch to restore its outcome"
        )


_ALIKE = ("cause", "by", "reason", "redo", "children")
"""The fields that a plan and a request have in common."""


def request_of(plan: BranchPlan, branch: int) -> e.JumpRequested:
    """The plan as a request to the owner of the run."""
    then = e.Value(encode(plan.then)) if plan.then else e.NULL
    return e.JumpRequested(
        target=plan.cutoff,
        branch=branch,
        then=then,
        **{name: getattr(plan, name) for name in _ALIKE},
    )


def plan_of_request(request: e.JumpRequested, seq: int) -> BranchPlan:
    """The plan that the request at `seq` asks for."""
    then = tuple(decode(bytes(request.then))) if bytes(request.then) != b"null" else ()
    return BranchPlan(
        cutoff=request.target,
        then=then,
        request=seq,
        **{name: getattr(request, name) for name in _ALIKE},
    )


def unmet_request_plan(state: State, why: str) -> BranchPlan:
    """The branch that begins just before a jump request that cannot be met (D2); the user may send another request."""
    request = newest(state.outline.requests, e.JumpRequested)
    assert request is not None
    place = request.seq
    return BranchPlan(cutoff=place - 1, cause="recovery", reason=why, code="D2", evidence=(place,))


def _attempt(event: e.AnyEvent) -> int:
    assert isinstance(event, e.NodeCompleted | e.NodeFailed)
    return event.attempt


def _last(log: Sequence[Entry], kind: type[e.Event], matches: Callable[[Any], bool]) -> Entry | None:
    return next((entry for entry in reversed(log) if isinstance(entry.event, kind) and matches(entry.event)), None)
