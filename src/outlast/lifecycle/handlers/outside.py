"""Handlers of the events of triggers, outbox messages and children."""

from __future__ import annotations

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.lifecycle.handlers import on
from outlast.lifecycle.state import Child, State, Trigger, Wait


@on(e.TriggerRegistered)
def _trigger_registered(state: State, event: e.TriggerRegistered, seq: int) -> None:
    if state.triggers.get(event.trigger) is not None:
        raise Illegal("V7", f"trigger {event.trigger} is already registered", seq=seq)
    state.triggers[event.trigger] = Trigger(event.kind)
    wait = Wait("trigger", event.trigger, text=event.kind, since=state.outline.time)
    state.loose[wait.name] = wait


@on(e.TriggerInputReceived)
def _trigger_input_received(state: State, event: e.TriggerInputReceived, seq: int) -> None:
    source = _source(state, event.trigger, seq)
    cursor = source.cursor if event.cursor is None else event.cursor
    _check_not_behind(source, cursor, event.trigger, seq)
    state.triggers[event.trigger] = Trigger(source.kind, cursor, source.received + 1)


@on(e.TriggerCursorAdvanced)
def _trigger_cursor_advanced(state: State, event: e.TriggerCursorAdvanced, seq: int) -> None:
    source = _source(state, event.trigger, seq)
    _check_not_behind(source, event.cursor, event.trigger, seq)
    state.triggers[event.trigger] = Trigger(source.kind, event.cursor, source.received)


def _source(state: State, name: str, seq: int) -> Trigger:
    source = state.triggers.get(name)
    if source is None:
        raise Illegal("V7", f"trigger {name} is not registered", seq=seq)
    return source


def _check_not_behind(source: Trigger, cursor: e.Cursor | None, name: str, seq: int) -> None:
    old = source.cursor
    if old is None or cursor is None:
        return
    if _is_before(cursor, old):
        raise Illegal("V6", f"the cursor of trigger {name} decreases from {old!r} to {cursor!r}", seq=seq)


def _is_before(one: e.Cursor, other: e.Cursor) -> bool:
    """Numbers compare as numbers and texts as texts; a cursor that changes its type counts as decreased."""
    if isinstance(one, str):
        return not isinstance(other, str) or one < other
    return isinstance(other, str) or one < other


@on(e.OutboxEnqueued)
def _outbox_enqueued(state: State, event: e.OutboxEnqueued, seq: int) -> None:
    wait = Wait("outbox", event.message, event.node, text=event.target, detail=event.data, since=state.outline.time)
    if state.loose.get(wait.name) is not None or state.sent.get(event.message) is not None:
        raise Illegal("V7", f"message {event.message} is already in the outbox", seq=seq)
    state.loose[wait.name] = wait


@on(e.OutboxSent)
def _outbox_sent(state: State, event: e.OutboxSent, seq: int) -> None:
    name = f"outbox:{event.message}"
    if state.loose.get(name) is None:
        raise Illegal("V7", f"message {event.message} is not in the outbox, or was already sent", seq=seq)
    state.loose.pop(name, None)
    state.sent[event.message] = event.adopted or seq


@on(e.ChildStarted)
def _child_started(state: State, event: e.ChildStarted, seq: int) -> None:
    if state.children.get(event.child) is not None:
        raise Illegal("V7", f"child {event.child} was already started", seq=seq)
    state.children[event.child] = Child(event.node, event.detached)
    wait = Wait("child", event.child, event.node, text=event.workflow, since=state.outline.time)
    table = state.loose if event.detached else state.waits
    table[wait.name] = wait


@on(e.ChildEnded)
def _child_ended(state: State, event: e.ChildEnded, seq: int) -> None:
    child = state.children.get(event.child)
    if child is None or child.status:
        raise Illegal("V7", f"child {event.child} was not started, or has already ended", seq=seq)
    place = event.adopted or seq
    state.children[event.child] = Child(
        child.node, child.detached, event.status, event.output, event.error, place, child.cancelled
    )
    state.waits.pop(f"child:{event.child}", None)
    state.loose.pop(f"child:{event.child}", None)
