"""The fold from events to state: in place, O(1) per event.

The transition table decides whether an event may follow; the handler of its type (`handlers`) changes the state. An illegal
event raises `Illegal` and leaves the state unchanged (L2). The live run, resume, `verify`, the doctor and the tests all use
this fold, over a `State` or over the view of a `Draft`.
"""

from __future__ import annotations

from collections.abc import Iterable

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.record import Entry, Record
from outlast.lifecycle.handlers import HANDLERS, nodes, outside, people, run
from outlast.lifecycle.state import Outline, State
from outlast.lifecycle.transitions import TABLE, Rule, may_follow

_unhandled = set(e.EVENT_TYPES.values()) - set(HANDLERS)
assert not _unhandled, f"{nodes}, {outside}, {people} and {run} have no handler for {_unhandled}"
_ALWAYS = {
    status: {kind: HANDLERS[kind] for kind, rule in row.items() if rule is Rule.ALWAYS} for status, row in TABLE.items()
}
"""The handlers of events that may follow in a status unconditionally: nearly all events."""


def apply(state: State, event: e.AnyEvent, seq: int, time: int) -> None:
    """Fold the event at `seq`, recorded at `time`."""
    apply_all(state, (event,), seq, time)


def apply_all(state: State, events: Iterable[e.AnyEvent], seq: int, time: int) -> None:
    """Fold the consecutive events of one append, from `seq` on, recorded at `time`. Events before an illegal one stay
    folded."""
    outline = state.outline
    if seq <= outline.seq:
        raise Illegal("V1", f"event {seq} cannot follow event {outline.seq}", seq=seq)
    times = outline.time, outline.created
    if time > outline.time:
        if seq == 1:
            outline.created = time
        outline.time = time  # before the events: a wait records when it was opened
    try:
        for event in events:
            kind = type(event)
            handler = _ALWAYS[outline.base].get(kind)
            if handler is None:
                if not may_follow(outline, kind):
                    raise _out_of_place(outline, kind, seq)
                handler = HANDLERS[kind]
            handler(state, event, seq)
            outline.seq = seq
            seq += 1
    except Illegal:
        outline.time, outline.created = times
        raise


def fold(state: State, entries: Iterable[Entry]) -> State:
    """Fold entries that follow what `state` holds; returns the same state."""
    for entry in entries:
        apply(state, entry.event, entry.seq, entry.time)
    return state


def fold_records(state: State, records: Iterable[Record]) -> State:
    """Fold whole append records that follow what `state` holds; returns the same state."""
    for record in records:
        apply_all(state, record.events(), record.first, record.time)
    return state


def _out_of_place(outline: Outline, kind: type[e.Event], seq: int) -> Illegal:
    name = kind.__name__
    if outline.base is None:
        return Illegal("V2", f"a log must begin with RunCreated, not with {name}", seq=seq)
    if kind is e.RunCreated:
        return Illegal("V2", "RunCreated may occur only once", seq=seq)
    return Illegal("V5", f"{name} is not allowed in a run that is {outline.base}", seq=seq)
