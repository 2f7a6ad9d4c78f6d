"""Going back: from the place a person names to the branch that goes on from there. Pure; nothing is appended here.

A turn cuts as little as it can. What was asked for before a result was known cannot depend on it, so to do a completed node
again the lineage is cut just before its completion; a place that a person names is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
"""The place before everything that the run did."""


class BranchPlan(Struct, frozen=True, kw_only=True):
    """What a branch needs to be opened: where it is cut, what is to be done again (`redo`), what is said first (`then`).
    If it repairs something, `code` names the state in the catalogue and `evidence` the events that show it."""

    cutoff: int
    cause: e.BranchCause = "jump"
    by: str = ""
    reason: str = ""
    redo: tuple[str, ...] = ()
    then: tuple[e.AnyEvent, ...] = ()
    code: str = ""
    evidence: tuple[int, ...] = ()
    request: int = 0
    """The place of the JumpRequested that asks for it, if one does."""
    children: e.Children = "cancel"
    """What becomes of the children of the part that is left. A recovery cancels none."""


def to_place(log: Sequence[Entry], place: str, *, by: str = "", reason: str = "") -> BranchPlan:
    """A jump to an event by its number, to before a node, a child or a question by its name, or to the `start`."""
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
        f"there is no node and no question {place!r} on this branch{_similar(log, place)}; "
        "an event is named by its number, and `start` is before all of them"
    )


def _within(log: Sequence[Entry], place: str) -> int:
    """The number of an event that there is, on whichever branch: the newest one ends the current lineage."""
    last = log[-1].seq if log else 0
    if len(place) > len(str(last)) + 10 or int(place) > last:
        raise NotAllowed(
            f"event {place[:20]}{'…' if len(place) > 20 else ''} is not in the log, which ends at event {last}"
        )
    return int(place)


def _similar(log: Sequence[Entry], place: str) -> str:
    names = {entry.event.node for entry in log if isinstance(entry.event, e.NodeScheduled)}
    near = sorted(name for name in names if place.casefold() in name.casefold())[:5]
    return f" (there is {', '.join(near)})" if near else ""


def back(log: Sequence[Entry], nodes: int, *, by: str = "", reason: str = "") -> BranchPlan:
    """A jump back over the last completed nodes."""
    if nodes < 1:
        raise InvalidInput(f"a run is rewound by at least one node, not by {nodes}")
    done = list({entry.event.node: entry for entry in log if isinstance(entry.event, e.NodeCompleted)}.values())
    done.sort(key=lambda entry: entry.seq)
    if nodes > len(done):
        raise NotAllowed(f"the run has completed {len(done)} nodes on this branch, it cannot be rewound by {nodes}")
    cutoff = done[-nodes].seq - 1
    redo = tuple(entry.event.node for entry in done[-nodes:] if isinstance(entry.event, e.NodeCompleted))
    return BranchPlan(cutoff=cutoff, by=by, reason=reason, redo=redo, then=reset(log, redo, cutoff))


def reset(log: Sequence[Entry], nodes: tuple[str, ...], cutoff: int) -> tuple[e.AnyEvent, ...]:
    """Of these nodes, those that are under way at the cut are begun anew by the word of a person, whatever they are."""
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
    """Do a node again that has an outcome, perhaps with feedback or with other inputs."""
    outcome = outcome_of(log, node)
    attempt = _attempt(outcome.event)
    started = _last(log, e.NodeStarted, lambda event: event.node == node and event.attempt == attempt)
    again: Literal["first", "reset"]
    if started is None:  # it took its result over: there is no attempt to count on from
        begun = _last(log, e.NodeScheduled, lambda event: event.node == node and event.attempt == 1)
        cutoff, attempt, again = (begun or outcome).seq - 1, 0, "first"
    else:
        cutoff, again = outcome.seq - 1, "reset"
    word = e.NodeScheduled(
        node=node,
        attempt=attempt + 1,
        cause=again,
        feedback=feedback,
        inputs=inputs,
    )
    return BranchPlan(cutoff=cutoff, cause=cause, by=by, reason=reason, redo=(node,), then=(word,))


def instead(log: Sequence[Entry], node: str, output: e.Value, *, by: str = "", reason: str = "") -> BranchPlan:
    """Go on as if a node had returned something else. A run that stopped inside the node goes on as if it had returned."""
    stopped = stopped_inside(log, node)
    if stopped is not None:
        place, attempt = stopped
        word = e.NodeCompleted(node=node, attempt=attempt, output=output, by=by or "someone")
        return BranchPlan(cutoff=place - 1, by=by, reason=reason, redo=(node,), then=(word,))
    outcome = outcome_of(log, node)
    word = e.NodeCompleted(node=node, attempt=_attempt(outcome.event), output=output, by=by or "someone")
    return BranchPlan(cutoff=outcome.seq - 1, by=by, reason=reason, redo=(node,), then=(word,))


def stopped_inside(log: Sequence[Entry], node: str) -> tuple[int, int] | None:
    """Where a run was held or paused inside a node that had started, and which attempt that was."""
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
    """The place where the newest outcome of a node stands."""
    for entry in reversed(log):
        event = entry.event
        if isinstance(event, e.NodeScheduled | e.NodeStarted) and event.node == node:
            raise NotAllowed(f"node {node} is under way: it has no outcome yet")
        if isinstance(event, e.NodeCompleted | e.NodeFailed) and event.node == node:
            return entry
    raise NotAllowed(f"there is no node {node!r} on this branch{_similar(log, node)}")


_DONE = (e.NodeCompleted, e.StepCompleted, e.InteractionAnswered)
_WRITTEN_AGAIN = (
    e.RunTakenOver,
    e.StepStarted,
    e.StepCompleted,
    e.NewsHeard,
    e.InteractionRequested,
    e.TimerSet,
    e.SignalAwaited,
)
"""Events that the run's code or its next owner appends again, whatever is cut off before them."""


def recovery_cutoff(log: Sequence[Entry]) -> int:
    """Where every recovery cuts: after the last event that a re-execution does not write again by itself.

    Kept are results, accepted answers and other guest data, what a person asked for (a branch, an edit, feedback, a pause),
    children, decisions, checkpoints, failures, and the start of a node that must not be repeated."""
    return next((entry.seq for entry in reversed(log) if not _is_written_again(entry.event)), BEFORE_FIRST)


def _is_written_again(event: e.AnyEvent) -> bool:
    if isinstance(event, e.NodeScheduled):
        return not _is_given(event)
    if isinstance(event, e.NodeStarted):
        return event.repeatable
    return isinstance(event, _WRITTEN_AGAIN)


def _is_given(event: e.AnyEvent) -> bool:
    """Whether a person had a node done again, perhaps with feedback or other inputs."""
    return isinstance(event, e.NodeScheduled) and event.cause == "reset"


def last_place(log: Sequence[Entry]) -> int:
    """Where a run can be gone on from: its end, or if it is over, the last thing it did."""
    endings = (e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunContinued)
    for place in range(len(log) - 1, -1, -1):
        event = log[place].event
        if isinstance(event, endings):  # what a cancelled run did in its clean-up is no place to go on from
            place = next((at for at in range(place) if isinstance(log[at].event, e.CleanupStarted)), place)
            return next((entry.seq for entry in reversed(log[:place]) if _is_done(entry.event)), BEFORE_FIRST)
        if isinstance(event, e.RunStarted):
            break
    return log[-1].seq


def _is_done(event: e.AnyEvent) -> bool:
    is_result = isinstance(event, _DONE) or (isinstance(event, e.ChildEnded) and event.status == "completed")
    return is_result or _is_given(event)


def check_continues(plan: BranchPlan, then: State) -> None:
    """Refuse to go back to where there is nothing to go on from."""
    if then.is_closed and plan.cause not in ("activate", "recovery"):
        raise NotAllowed(
            f"event {plan.cutoff} is where the run was over: name an earlier event, a node or a question, "
            "or activate that branch to have its outcome again"
        )


def request_of(plan: BranchPlan, branch: int) -> e.JumpRequested:
    """The turn as a request to whoever owns the run."""
    then = e.Value(encode(plan.then)) if plan.then else e.NULL
    return e.JumpRequested(
        target=plan.cutoff,
        branch=branch,
        by=plan.by,
        reason=plan.reason,
        cause=plan.cause,
        redo=plan.redo,
        then=then,
        children=plan.children,
    )


def plan_of_request(request: e.JumpRequested, seq: int) -> BranchPlan:
    """The turn that a request at `seq` asks for."""
    then = tuple(decode(bytes(request.then))) if bytes(request.then) != b"null" else ()
    return BranchPlan(
        cutoff=request.target,
        cause=request.cause,
        by=request.by,
        reason=request.reason,
        redo=request.redo,
        then=then,
        request=seq,
        children=request.children,
    )


def unmet_request_plan(state: State, why: str) -> BranchPlan:
    """The branch that begins just before a request to go back that cannot be met (D2): the person may ask again."""
    request = newest(state.outline.requests, e.JumpRequested)
    assert request is not None
    place = request.seq
    return BranchPlan(cutoff=place - 1, cause="recovery", reason=why, code="D2", evidence=(place,))


def _attempt(event: e.AnyEvent) -> int:
    assert isinstance(event, e.NodeCompleted | e.NodeFailed)
    return event.attempt


def _last(log: Iterable[Entry], kind: type[e.Event], is_meant: Callable[[Any], bool]) -> Entry | None:
    found = None
    for entry in log:
        if isinstance(entry.event, kind) and is_meant(entry.event):
            found = entry
    return found
