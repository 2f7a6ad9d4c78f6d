"""What befalls the run as a whole, its branches included."""

from __future__ import annotations

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.lineage import BEFORE_FIRST
from outlast.lifecycle.handlers.registry import HANDLERS, on
from outlast.lifecycle.state import Child, Interaction, State, Wait
from outlast.lifecycle.status import Status


def _nothing_to_keep(_state: State, _event: e.Event, _seq: int) -> None:
    """A fact for people and later drivers; the state does not depend on it."""


for _kind in (e.RunTakenOver, e.RunRecovered, e.GraphExtended, e.NewsHeard, e.Recalled):
    HANDLERS[_kind] = _nothing_to_keep


@on(e.RunCreated)
def _run_created(state: State, event: e.RunCreated, seq: int) -> None:
    if seq != 1:
        raise Illegal("V2", "RunCreated is the first event of the log", seq=seq)
    outline = state.outline
    outline.base = Status.CREATED
    outline.workflow, outline.version, outline.kind = event.workflow, event.version, event.kind
    outline.parent, outline.title, outline.tags = event.parent, event.title, event.tags
    outline.on_restart = event.on_restart


@on(e.RunStarted)
def _run_started(state: State, event: e.RunStarted, seq: int) -> None:
    outline = state.outline
    if outline.base is Status.CREATED and event.resumed:
        raise Illegal("V5", "a run that never started cannot be resumed", seq=seq)
    if outline.base is not Status.CREATED and not event.resumed:
        raise Illegal("V5", f"a run that is {outline.base} starts again only as resumed", seq=seq)
    outline.base = Status.COMPENSATING if outline.undoing else Status.RUNNING
    outline.recoverable = outline.held = False
    outline.pause_requested = outline.cancel_requested = None
    outline.reason, outline.error, outline.failed_node = "", None, ""
    for wait in [wait for wait in state.loose.values() if wait.kind == "child"] if event.resumed else ():
        child = state.children.get(wait.id)
        if child is not None and not child.detached:  # the end of the run had let go of it
            state.loose.pop(wait.name, None)
            state.waits[wait.name] = wait


@on(e.RunPaused)
def _run_paused(state: State, event: e.RunPaused, _seq: int) -> None:
    outline = state.outline
    outline.base, outline.reason, outline.pause_requested = Status.PAUSED, event.reason, None


@on(e.PauseRequested)
def _pause_requested(state: State, event: e.PauseRequested, _seq: int) -> None:
    state.outline.pause_requested = event


@on(e.CancelRequested)
def _cancel_requested(state: State, event: e.CancelRequested, _seq: int) -> None:
    state.outline.cancel_requested = event


@on(e.RunCompleted)
def _run_completed(state: State, event: e.RunCompleted, seq: int) -> None:
    _end(state, Status.COMPLETED, seq)
    state.outline.output = event.output


@on(e.RunFailed)
def _run_failed(state: State, event: e.RunFailed, seq: int) -> None:
    outline = state.outline
    if event.held:
        outline.base = Status.FAILED
    else:
        _end(state, Status.FAILED, seq)
    outline.held, outline.recoverable = event.held, event.recoverable or event.held
    outline.reason, outline.error, outline.failed_node = event.error.message, event.error, event.node


@on(e.RunCancelled)
def _run_cancelled(state: State, event: e.RunCancelled, seq: int) -> None:
    _end(state, Status.CANCELLED, seq)
    state.outline.reason = event.reason


@on(e.RunContinued)
def _run_continued(state: State, event: e.RunContinued, seq: int) -> None:
    asked = state.outline.cancel_requested
    _end(state, Status.COMPLETED, seq)
    state.outline.successor, state.outline.cancel_inherited = event.successor, asked


def _end(state: State, status: Status, seq: int) -> None:
    outline = state.outline
    if outline.open_nodes:
        raise Illegal(
            "V5",
            f"the run ends with {outline.open_nodes} nodes in flight; their outcomes come first",
            seq=seq,
        )
    outline.base, outline.open_nodes = status, 0
    outline.held = outline.recoverable = outline.undoing = False
    outline.pause_requested = outline.cancel_requested = outline.jump_requested = None
    if state.count("waits"):
        for wait in list(state.waits.values()):
            _let_go(state, wait, seq)
        state.waits.clear()


def _let_go(state: State, wait: Wait, seq: int) -> None:
    """Nobody waits any more: a child may still tell its end, a question can no longer be answered."""
    if wait.kind == "child":
        state.loose[wait.name] = wait
    asked = state.interactions.get(wait.id) if wait.kind == "interaction" else None
    if asked is not None:
        state.interactions[wait.id] = Interaction(asked.node, asked.key, asked.hash, seq, None, True)


@on(e.VersionChanged)
def _version_changed(state: State, event: e.VersionChanged, _seq: int) -> None:
    state.outline.version = event.version


@on(e.BranchOpened)
def _branch_opened(state: State, event: e.BranchOpened, seq: int) -> None:
    outline = state.outline
    if event.branch <= outline.branch:
        raise Illegal("V8", f"branch {event.branch} opens after branch {outline.branch}", seq=seq)
    if max(event.cutoff, 1) != outline.seq:
        place = "before the first event" if event.cutoff == BEFORE_FIRST else f"at event {event.cutoff}"
        raise Illegal("V8", f"branch {event.branch} is cut {place}, the lineage ends at {outline.seq}", seq=seq)
    outline.branch, outline.branch_first = event.branch, seq
    outline.jump_requested = outline.pause_requested = outline.cancel_requested = None
    if event.cause != "recovery":
        outline.generation = event.branch
    for child in event.detached:
        if state.children.get(child) is None:
            state.children[child] = Child("", True)
            state.loose[f"child:{child}"] = Wait("child", child)


@on(e.JumpRequested)
def _jump_requested(state: State, event: e.JumpRequested, seq: int) -> None:
    state.outline.jump_requested, state.outline.jump_requested_at = event, seq
