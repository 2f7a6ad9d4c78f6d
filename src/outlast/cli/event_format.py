"""The telling details of an event, in few words."""

from __future__ import annotations

from typing import TypeAlias

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.views.build import plain_numbers
from outlast.views.texts import counted, cropped
from outlast.views.times import span, took

_Run: TypeAlias = (
    e.RunCreated
    | e.RunStarted
    | e.RunPaused
    | e.RunTakenOver
    | e.PauseRequested
    | e.CancelRequested
    | e.RequestRefused
    | e.RunCompleted
    | e.RunFailed
    | e.CleanupStarted
    | e.RunCancelled
    | e.RunContinued
    | e.RunRecovered
    | e.VersionChanged
)
_Branch: TypeAlias = e.BranchOpened | e.JumpRequested | e.Recalled
_Work: TypeAlias = (
    e.StepStarted
    | e.StepCompleted
    | e.NodeScheduled
    | e.NodeStarted
    | e.NodeCheckpointed
    | e.NodeCompleted
    | e.NodeFailed
    | e.NodesRetired
)
_People: TypeAlias = (
    e.InteractionRequested
    | e.InteractionAnswered
    | e.InteractionWithdrawn
    | e.TimerSet
    | e.TimerFired
    | e.TimerCancelled
    | e.NewsHeard
    | e.DecisionRecorded
)
_Child: TypeAlias = e.ChildStarted | e.ChildEnded

_AGAIN = {"first": "", "retry": "retry", "crash": "after a crash", "pause": "after a pause", "reset": "reset"}


def place(event: e.AnyEvent) -> str:
    """The node (or step) an event is about, with its attempt if it is not the first."""
    name = getattr(event, "node", "") or getattr(event, "step", "")
    attempt = getattr(event, "attempt", 1)
    return cropped(name, 60) + (f" #{attempt}" if attempt > 1 else "")


def details(entry: Entry) -> str:
    """What else it says, on one line."""
    event = entry.event
    if isinstance(event, _Run):
        said = _of_run(event)
    elif isinstance(event, _Branch):
        said = _of_branch(event)
    elif isinstance(event, _Work):
        said = _of_work(event, entry.time)
    elif isinstance(event, _People):
        said = _of_people(event, entry.time)
    elif isinstance(event, _Child):
        said = _of_child(event)
    else:  # nothing writes it yet
        said = ()
    return cropped(", ".join(filter(None, map(str.strip, said))))


def _of_run(event: _Run) -> tuple[str, ...]:
    match event:
        case e.RunCreated():
            named = f"{event.workflow} “{event.title}”" if event.title else event.workflow
            child = f"child of {event.parent}" if event.parent else ""
            return named, _by(event.by), child, " ".join(f"#{tag}" for tag in event.tags), _value(event.params)
        case e.RunStarted():
            return "resumed" if event.resumed else "", _by(event.by)
        case e.RunTakenOver():
            cause = {"claimed": "", "expired": "the claim had expired", "dead": "the worker had died"}[event.cause]
            return f"epoch {event.epoch}", cause, f"by {event.worker}" if event.worker else ""
        case e.PauseRequested() | e.RunPaused():
            return _by(event.by), event.reason
        case e.CancelRequested():
            return "at once" if event.force else "", _by(event.by), event.reason
        case e.CleanupStarted():
            return "more time" if event.extended else "the code is cancelled and cleans up", _by(event.by), event.reason
        case e.RunCancelled():
            cleanup = "" if event.cleanup == "none" else f"clean-up {event.cleanup}"
            error = _failure(event.error) if event.error is not None else ""
            return _by(event.by), event.reason, cleanup, error
        case e.RunCompleted():
            return (_value(event.output) + _took("in", event.ms),)
        case e.RunFailed():
            kept = "held for a person" if event.held else "recoverable" if event.recoverable else ""
            return kept, _failure(event.error)
        case e.RunContinued():
            return f"as {event.successor}", _value(event.carried)
        case e.RunRecovered():
            return event.code, event.reason
        case e.RequestRefused():
            return f"the request at event {event.request}", event.reason
        case e.VersionChanged():
            return f"{event.previous[:12] or 'none'} to {event.version[:12]}", event.reason


def _of_branch(event: _Branch) -> tuple[str, ...]:
    match event:
        case e.BranchOpened():
            left = [f"withdraws {counted(len(event.withdrawn), 'question')}"] if event.withdrawn else []
            left += [f"detaches {counted(len(event.detached), 'child', 'children')}"] if event.detached else []
            left += [f"cancels {counted(len(event.cancelled), 'child', 'children')}"] if event.cancelled else []
            cut = f"after event {event.cutoff}" if event.cutoff else "before everything"
            return f"branch {event.branch} {cut}", f"{event.cause} {_by(event.by)}".strip(), event.reason, *left
        case e.JumpRequested():
            return f"to event {event.target} as branch {event.branch}", _by(event.by), event.reason
        case e.Recalled():
            return (f"from event {event.at} of the run it was forked from",)


def _of_work(event: _Work, time: int) -> tuple[str, ...]:
    match event:
        case e.StepStarted() | e.StepCompleted():
            return ()
        case e.NodeScheduled():
            return _AGAIN[event.cause], _value(event.feedback)
        case e.NodeStarted():
            return (_value(event.inputs),)
        case e.NodeCheckpointed():
            return (_value(event.data),)
        case e.NodeCompleted():
            adopted = f"as in event {event.adopted}" if event.adopted else ""
            return _value(event.output) + _took("in", event.ms), adopted
        case e.NodeFailed():
            again = "" if event.retry_at is None else f"again in {span(event.retry_at - time)}"
            return _failure(event.error) + _took("after", event.ms), again
        case e.NodesRetired():
            return (f"{counted(len(event.nodes), 'node')}, from {event.nodes[0]}" if event.nodes else "none",)


def _of_people(event: _People, time: int) -> tuple[str, ...]:
    match event:
        case e.InteractionRequested():
            expires = "" if event.due is None else f"expires in {span(event.due - time)}"
            return f"{event.kind} {event.interaction}", f"“{event.prompt}”" if event.prompt else "", expires
        case e.InteractionAnswered():
            return event.interaction, _value(event.answer) or "null", _by(event.by)
        case e.InteractionWithdrawn():
            return event.interaction, event.reason
        case e.TimerSet():
            return event.timer, f"for {span(event.due - time)}"
        case e.TimerFired():
            return (event.timer,)
        case e.TimerCancelled():
            return event.timer, event.reason
        case e.NewsHeard():
            return (f"up to event {event.upto}",)
        case e.DecisionRecorded():
            return event.key, _value(event.value)


def _of_child(event: _Child) -> tuple[str, ...]:
    match event:
        case e.ChildStarted():
            return event.workflow, event.child, "detached" if event.detached else ""
        case e.ChildEnded():
            return event.status, event.child, _failure(event.error) if event.error else _value(event.output)


def _took(word: str, ms: float) -> str:
    return f" {word} {took(ms)}" if ms else ""


def _by(who: str) -> str:
    return f"by {who}" if who else ""


def _value(value: e.Value) -> str:
    """A user's value as its own JSON; null says nothing."""
    text = bytes(plain_numbers(value))[:400].decode(errors="replace")
    return "" if text == "null" else cropped(text, 100)


def _failure(error: e.Failure) -> str:
    return f"{error.kind}: {error.message}" if error.message else error.kind
