"""Plans to resume runs that failed, or were cancelled with their parent, when another attempt of a node is not enough.

A failed node normally gets its next attempt on the same branch. That is not possible if the code reacted to the failure, or
if the run waited for a child that has ended. Then the run continues on a new branch from just before the outcome that made
it fail, and the children that it waits for there and that did not complete are restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import RUN_ENDED, NotAllowed
from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.branch_plan import START, BranchPlan, again, last_place, reset

_CALLS = (
    e.TimerSet,
    e.InteractionRequested,
    e.ChildStarted,
    e.StepStarted,
    e.StepCompleted,
    e.DecisionRecorded,
    e.NodesRetired,
)


class Revival(Struct, frozen=True):
    """The branch to open, and the children to restart before. `since` are the nodes and children that were called after the
    failure and completed, such as compensations; `undone` is the earliest node that they may have undone, if each undid
    one."""

    plan: BranchPlan
    children: tuple[str, ...]
    since: tuple[str, ...] = ()
    undone: str = ""


def after_failure(log: Sequence[Entry], node: str, *, feedback: e.Value = e.NULL, by: str = "") -> Revival | None:
    """The plan for a run that failed because of a node or a child; None if another attempt of the node is enough."""
    outcome = _outcome(log, node) if node else None
    if outcome is None:
        return None
    lost = _lost(log, outcome.seq - 1)
    if isinstance(outcome.event, e.ChildEnded):
        plan = BranchPlan(cutoff=outcome.seq - 1, cause="retry", by=by)
    elif lost or _has_continuation(log, outcome.seq):
        plan = again(log, node, feedback=feedback, by=by)
    else:
        return None
    revival = _with_children(log, plan, lost)
    since = _completed(entry for entry in log if entry.seq > outcome.seq)
    before = list(_completed(entry for entry in log if entry.seq < outcome.seq))
    undone = before[-min(len(since), len(before))] if since and before else ""
    return replace(revival, since=tuple(since), undone=undone)


def check_not_undone(run: str, failed: str, revival: Revival) -> None:
    """Refuse to resume without a warning if the code may have undone earlier nodes after the failure."""
    if not revival.since:
        return
    stays = "its effect stays" if len(revival.since) == 1 else "their effects stay"
    raise NotAllowed(
        f"resuming run {run} would repeat {failed}, but {', '.join(revival.since)} ran after it failed and {stays}. Jump "
        f"back to before the undone part (outlast jump {run} --to {revival.undone or START}), or force it with "
        "--force (force=True)."
    )


def after_cancellation(log: Sequence[Entry], *, by: str = "", reason: str = "") -> Revival:
    """The plan for a run that was cancelled because its parent had ended: it continues from its last result."""
    plan = BranchPlan(cutoff=last_place(log), cause="retry", by=by, reason=reason)
    return _with_children(log, plan, _lost(log, plan.cutoff))


def _with_children(log: Sequence[Entry], plan: BranchPlan, lost: dict[str, str]) -> Revival:
    cut_short = tuple(
        entry.event.node
        for entry in log
        if isinstance(entry.event, e.NodeFailed) and entry.seq > plan.cutoff and entry.event.error.kind == RUN_ENDED
    )
    then = reset(log, tuple(node for node in cut_short if node not in plan.redo), plan.cutoff)
    return Revival(replace(plan, redo=(*plan.redo, *lost.values()), then=(*plan.then, *then)), tuple(lost))


def _outcome(log: Sequence[Entry], node: str) -> Entry | None:
    """The newest failure of a node, or of a child by the name of its call."""
    names = {entry.event.child: entry.event.node for entry in log if isinstance(entry.event, e.ChildStarted)}
    for entry in reversed(log):
        event = entry.event
        if isinstance(event, e.NodeFailed) and event.node == node:
            return entry
        if isinstance(event, e.ChildEnded) and event.status != "completed" and names.get(event.child) == node:
            return entry
    return None


def _lost(log: Sequence[Entry], cutoff: int) -> dict[str, str]:
    """The children that the run waits for at `cutoff` and that have not completed since, with the names of their calls."""
    waiting: dict[str, str] = {}
    for entry in log:
        event = entry.event
        if isinstance(event, e.ChildStarted) and not event.detached and entry.seq <= cutoff:
            waiting[event.child] = event.node
        elif isinstance(event, e.ChildEnded) and (entry.seq <= cutoff or event.status == "completed"):
            waiting.pop(event.child, None)
    return waiting


def _completed(entries: Iterable[Entry]) -> dict[str, None]:
    """The nodes, and the children by the names of their calls, that were called among these events and completed."""
    asked: dict[str, str] = {}
    done: dict[str, None] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, e.NodeScheduled) and event.cause == "first":
            asked[event.node] = event.node
        elif isinstance(event, e.ChildStarted):
            asked[event.child] = event.node
        elif isinstance(event, e.NodeCompleted) and event.node in asked:
            done[event.node] = None
        elif isinstance(event, e.ChildEnded) and event.status == "completed" and event.child in asked:
            done[asked[event.child]] = None
    return done


def _has_continuation(log: Sequence[Entry], place: int) -> bool:
    """Whether the code called anything after this event."""
    return any(
        isinstance(entry.event, _CALLS) or (isinstance(entry.event, e.NodeScheduled) and entry.event.cause == "first")
        for entry in log
        if entry.seq > place
    )
