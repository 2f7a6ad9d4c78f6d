"""The actions that are allowed on a run: one decision for the control verbs, `explain` and every list of actions.

A verb checks before it claims the run and again in the takeover, so that a refused verb appends nothing. The verb itself
refuses anything that depends on more than the state of the run (an event that does not exist, code that cannot be imported).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from outlast.errors import RunDiverged
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.status import RunStatus

Verb: TypeAlias = Literal[
    "answer", "start", "resume", "retry", "pause", "cancel", "rewind", "jump", "activate", "migrate", "delete"
]
VERBS: tuple[Verb, ...] = get_args(Verb)
"""The most useful first."""


class Refusal(Struct, frozen=True):
    """Why a verb is refused. `code` is for programs; `reason` is a predicate whose subject is the run."""

    code: Literal[
        "over",
        "paused",
        "held",
        "final",
        "created",
        "started",
        "waiting",
        "not-asked",
        "nothing-done",
        "one-branch",
        "cleaning",
        "copied",
        "live",
        "resumable",
        "needed",
    ]
    reason: str


class Ties(Struct, frozen=True):
    """What other parts of the store need of a run: the live worker that holds it, its parent if that is unfinished or can be
    resumed, and the unfinished run that it continued as."""

    worker: str = ""
    parent: str = ""
    successor: str = ""


NO_TIES = Ties()


def inside(state: State) -> str:
    """The node that a held run stopped inside, so that a user must find out whether it took effect; "" if there is none."""
    name = state.outline.failed_node
    node = state.nodes.get(name) if state.outline.held else None
    return name if node is not None and node.status is NodeStatus.STARTED else ""


def has_diverged(state: State) -> bool:
    """Whether a run is held because its code and its log disagree."""
    error = state.outline.error
    return state.outline.held and error is not None and error.kind == RunDiverged.code


def refusal(state: State, verb: Verb, *, force: bool = False) -> Refusal | None:
    """Why this verb is refused in this state, or None if it is allowed. With `force`, a run that was copied to another store
    may continue in both."""
    if verb == "delete":
        return deletion_refusal(state, force=force)
    if state.outline.is_cleaning and verb not in ("answer", "cancel"):
        return Refusal(
            "cleaning", "is being cancelled and cleans up: wait until it ends, or cancel it again to end it at once"
        )
    copied_to = state.outline.copied_to if state.status is RunStatus.PAUSED else ""
    if copied_to and verb not in ("answer", "pause", "cancel") and not force:
        return Refusal(
            "copied",
            f"was copied to {copied_to} and continues there. To continue it in this store as well, resume it with --force "
            "(force=True)",
        )
    return _RULES[verb](state)


def deletion_refusal(state: State, ties: Ties = NO_TIES, *, force: bool = False) -> Refusal | None:
    """Why a run may not be deleted. `force` deletes one that is held or can be resumed, or that its parent or its successor
    may need; never one that is unfinished, that a worker holds, or that leads from a parent to an unfinished successor."""
    outline, status = state.outline, state.status
    if not state.is_closed and not outline.held:
        return Refusal("live", f"is {status}: cancel it first")
    if ties.worker:
        return Refusal("live", f"is completed by worker {ties.worker}: try again in a moment")
    if ties.parent and ties.successor:  # its parent would never learn of the end of the successor
        return Refusal(
            "needed",
            f"is a child of run {ties.parent} and continues as run {ties.successor}: wait for the end of run "
            f"{ties.successor}, or cancel it",
        )
    if force:
        return None
    if outline.held:
        return Refusal("held", "is held and can be resumed: delete it with --force (force=True)")
    if status is RunStatus.FAILED and outline.recoverable:
        return Refusal("resumable", "failed and can be resumed: delete it with --force (force=True)")
    if ties.parent:
        return Refusal(
            "needed",
            f"is a child of run {ties.parent}, which has not ended or can be resumed: delete it with --force (force=True)",
        )
    if ties.successor:
        return Refusal(
            "needed", f"continues as run {ties.successor}, which has not ended: delete it with --force (force=True)"
        )
    return None


def allowed(state: State) -> list[Verb]:
    """The verbs that are allowed in this state, the most useful first."""
    return [verb for verb in VERBS if refusal(state, verb) is None]


def _answer(state: State) -> Refusal | None:
    if state.is_closed:
        return Refusal("over", "is over: it accepts no answers")
    is_asking = any(wait.kind == "interaction" for wait in state.waits.values())
    return None if is_asking else Refusal("not-asked", "has no open question")


def _start(state: State) -> Refusal | None:
    if state.outline.awaits_start:
        return None
    return Refusal("started", f"is {state.status}: only a run that was created with start=False is started")


def _resume(state: State) -> Refusal | None:
    outline, status = state.outline, state.status
    if status in (RunStatus.COMPLETED, RunStatus.CANCELLED):
        return Refusal("over", f"is {status}: there is nothing to resume")
    if status is RunStatus.FAILED and not outline.recoverable:
        return Refusal("final", "failed for good: retry one of its nodes, or jump back to an earlier event")
    if outline.awaits_start:
        return Refusal("created", "was created with start=False and has not begun: start it")
    if status is RunStatus.CREATED:
        return Refusal("created", "has not started: there is nothing to resume; a worker starts it")
    if status is RunStatus.WAITING:
        names = ", ".join(wait.text or wait.id for wait in list(state.waits.values())[:3])
        return Refusal("waiting", f"is waiting ({names}): there is nothing to resume")
    return None


def _pause(state: State) -> Refusal | None:
    if state.is_closed:
        return Refusal("over", "is over and cannot be paused")
    if state.outline.held:
        return Refusal("held", "is held and cannot be paused: resume it, or cancel it")
    return Refusal("paused", "is already paused") if state.status is RunStatus.PAUSED else None


def _rewind(state: State) -> Refusal | None:
    return None if state.outline.done_nodes else Refusal("nothing-done", "cannot be rewound: it has completed no node")


def _migrate(state: State) -> Refusal | None:
    if state.is_closed and state.status is not RunStatus.FAILED:
        return Refusal("over", "is over: there is nothing to migrate. Fork it to continue with the current code.")
    return None


_RULES: dict[Verb, Callable[[State], Refusal | None]] = {
    "answer": _answer,
    "start": _start,
    "resume": _resume,
    "retry": _resume,
    "pause": _pause,
    "cancel": lambda state: Refusal("over", "is over and cannot be cancelled") if state.is_closed else None,
    "rewind": _rewind,
    "jump": lambda _: None,
    "activate": lambda state: None if state.outline.branch else Refusal("one-branch", "has only one branch"),
    "migrate": _migrate,
    "delete": deletion_refusal,
}
