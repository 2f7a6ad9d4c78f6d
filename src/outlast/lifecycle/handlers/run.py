"""Handlers of the events of the run as a whole, its branches included."""

from __future__ import annotations

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.lineage import BEFORE_FIRST
from outlast.lifecycle.handlers import HANDLERS, on
from outlast.lifecycle.requests import OpenRequest, Request, left_open, newest
from outlast.lifecycle.state import CLEANUP, Child, Interaction, State, Wait
from outlast.lifecycle.status import CANCELLED, COMPENSATING, COMPLETED, CREATED, FAILED, PAUSED, RUNNING, RunStatus


def _no_effect(_state: State, _event: e.Event, _seq: int) -> None:
    """The state does not depend on the event."""


for _kind in (e.RunTakenOver, e.RunRecovered, e.GraphExtended, e.GuestEventsRead, e.Recalled):
    HANDLERS[_kind] = _no_effect


@on(e.RunCreated)
def _run_created(state: State, event: e.RunCreated, seq: int) -> None:
    if seq != 1:
        raise Illegal("V2", "RunCreated must be the first event of the log", seq=seq)
    outline = state.outline
    outline.base = CREATED
    outline.workflow, outline.version, outline.kind = event.workflow, event.version, event.kind
    outline.parent, outline.title, outline.tags = event.parent, event.title, event.tags
    outline.exclusive, outline.on_restart, outline.deferred = event.exclusive, event.on_restart, event.deferred
    outline.queue, outline.priority, outline.fairness_key = event.queue, event.priority, event.fairness_key
    outline.attributes = event.attributes


@on(e.AttributesSet)
def _attributes_set(state: State, event: e.AttributesSet, _seq: int) -> None:
    changed = {**state.outline.attributes, **event.attributes}
    state.outline.attributes = {name: value for name, value in changed.items() if value is not None}


@on(e.RunStarted)
def _run_started(state: State, event: e.RunStarted, seq: int) -> None:
    outline = state.outline
    if outline.base is CREATED and event.resumed:
        raise Illegal("V5", "a run that has not started cannot be resumed", seq=seq)
    if outline.base is not CREATED and not event.resumed:
        raise Illegal("V5", f"a run that is {outline.base} can only start with resumed=True", seq=seq)
    outline.base = COMPENSATING if outline.undoing else RUNNING
    outline.recoverable = outline.held = outline.deferred = False
    outline.reason, outline.copied_to, outline.error, outline.failed_node = "", "", None, ""
    outline.extends_cleanup = outline.cleanup is not None
    for wait in [wait for wait in state.loose.values() if wait.kind == "child"] if event.resumed else ():
        child = state.children.get(wait.id)
        if child is not None and not child.detached:  # the end of the run moved the wait to `loose`
            state.loose.pop(wait.name, None)
            state.waits[wait.name] = wait


@on(e.RunPaused)
def _run_paused(state: State, event: e.RunPaused, _seq: int) -> None:
    outline = state.outline
    outline.base, outline.reason, outline.copied_to = PAUSED, event.reason, event.copied_to
    outline.requests = left_open(outline.requests, event)


def _requested(state: State, event: Request, seq: int) -> None:
    state.outline.requests += (OpenRequest(seq, event),)


HANDLERS[e.PauseRequested] = HANDLERS[e.CancelRequested] = HANDLERS[e.JumpRequested] = _requested


@on(e.RequestRefused)
def _request_refused(state: State, event: e.RequestRefused, seq: int) -> None:
    outline = state.outline
    requests = left_open(outline.requests, event)
    if len(requests) == len(outline.requests) and event.request >= outline.branch_first:
        raise Illegal("V12", f"event {event.request} is not an open request", seq=seq)
    outline.requests = requests  # `request_violations` checks requests on the branch that was left


@on(e.RunCompleted)
def _run_completed(state: State, event: e.RunCompleted, seq: int) -> None:
    _end(state, COMPLETED, event, seq)
    state.outline.output = event.output


@on(e.RunFailed)
def _run_failed(state: State, event: e.RunFailed, seq: int) -> None:
    outline = state.outline
    if event.held:
        outline.base, outline.requests = FAILED, left_open(outline.requests, event)
    else:
        _end(state, FAILED, event, seq)
    outline.held, outline.recoverable = event.held, event.recoverable or event.held
    outline.reason, outline.error, outline.failed_node = event.error.message, event.error, event.node


@on(e.CleanupStarted)
def _cleanup_started(state: State, event: e.CleanupStarted, seq: int) -> None:
    outline = state.outline
    if (outline.cleanup is not None) is not event.extended:
        raise Illegal("V5", f"the clean-up of the run has {'not' if event.extended else 'already'} started", seq=seq)
    outline.base, outline.undoing = COMPENSATING, True
    outline.cleanup, outline.extends_cleanup = event, False
    outline.recoverable = outline.held = False
    outline.reason, outline.copied_to, outline.error, outline.failed_node = "", "", None, ""
    wait = Wait("timer", CLEANUP, due=event.due, since=state.outline.time)
    state.waits[wait.name] = wait


@on(e.RunCancelled)
def _run_cancelled(state: State, event: e.RunCancelled, seq: int) -> None:
    _end(state, CANCELLED, event, seq)
    state.outline.reason = event.reason


@on(e.RunContinued)
def _run_continued(state: State, event: e.RunContinued, seq: int) -> None:
    asked = newest(state.outline.requests, e.CancelRequested)
    _end(state, COMPLETED, event, seq)
    inherited = asked.event if asked is not None and isinstance(asked.event, e.CancelRequested) else None
    state.outline.successor, state.outline.cancel_inherited = event.successor, inherited


def _end(state: State, status: RunStatus, event: e.AnyEvent, seq: int) -> None:
    outline = state.outline
    if outline.open_nodes:
        raise Illegal(
            "V5", f"the run cannot end while {outline.open_nodes} of its nodes have no outcome in the log", seq=seq
        )
    if outline.cleanup is not None and status is not CANCELLED:
        raise Illegal("V5", "a run whose clean-up has started can only end as cancelled", seq=seq)
    for request in left_open(outline.requests, event):
        raise Illegal("V12", f"the run ends while the request at event {request.seq} is open; refuse it first", seq=seq)
    outline.base, outline.open_nodes, outline.requests = status, 0, ()
    outline.held = outline.recoverable = outline.undoing = False
    outline.cleanup, outline.extends_cleanup = None, False
    if state.count("waits"):
        for wait in list(state.waits.values()):
            _stop_waiting(state, wait, seq)
        state.waits.clear()


def _stop_waiting(state: State, wait: Wait, seq: int) -> None:
    """The run is over: a child may still report its end, and a question cannot be answered any more."""
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
        raise Illegal("V8", f"branch {event.branch} cannot open after branch {outline.branch}", seq=seq)
    if max(event.cutoff, 1) != outline.seq:
        place = "before the first event" if event.cutoff == BEFORE_FIRST else f"at event {event.cutoff}"
        raise Illegal("V8", f"branch {event.branch} is cut {place}, but its lineage ends at {outline.seq}", seq=seq)
    outline.branch, outline.branch_first = event.branch, seq
    outline.requests = ()  # the append obeys or refuses all open requests, also those of the branch that is left (V12)
    if event.cause != "recovery":
        outline.generation, outline.deferred = event.branch, False
        outline.extends_cleanup = outline.cleanup is not None
    for child in (*event.detached, *event.cancelled):
        if state.children.get(child) is None:
            state.children[child] = Child("", True, cancelled=child in event.cancelled)
            state.loose[f"child:{child}"] = Wait("child", child, since=state.outline.time)
