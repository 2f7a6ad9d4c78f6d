"""Events into state, in place, O(1) each.

The table says whether an event may follow, its handler (`handlers`) what it does to the state. An illegal event raises
`Illegal` and leaves the state as it was (L2). The live run, resume, `verify`, the doctor and the tests all use this fold,
over a `State` or over the view of a `Draft`.
"""

from __future__ import annotations

from collections.abc import Iterable

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.record import Entry, Record
from outlast.lifecycle.handlers import nodes, outside, people, run
from outlast.lifecycle.handlers.registry import HANDLERS
from outlast.lifecycle.state import Outline, State
from outlast.lifecycle.transitions import TABLE, Rule, may_follow

_unhandled = set(e.EVENT_TYPES.values()) - set(HANDLERS)
assert not _unhandled, f"{nodes}, {outside}, {people} and {run} do not answer {_unhandled}"
_ALWAYS = {
    status: {kind: HANDLERS[kind] for kind, rule in row.items() if rule is Rule.ALWAYS} for status, row in TABLE.items()
}
"""The handlers of what may follow in a status whatever else there is: nearly everything that is ever folded."""


def apply(state: State, event: e.AnyEvent, seq: int, time: int) -> None:
    """Fold one event that stands at `seq` and was recorded at `time`."""
    apply_all(state, (event,), seq, time)


def apply_all(state: State, events: Iterable[e.AnyEvent], seq: int, time: int) -> None:
    """Fold the events of one append, which stand one after the other from `seq` on and were recorded at `time`. Those
    before an illegal one are folded."""
    outline = state.outline
    if seq <= outline.seq:
        raise Illegal("V1", f"event {seq} comes after event {outline.seq}", seq=seq)
    times = outline.time, outline.created
    if time > outline.time:
        if seq == 1:
            outline.created = time
        outline.time = time  # before the events: a wait knows when it was opened
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
        return Illegal("V2", f"a log begins with RunCreated, not with {name}", seq=seq)
    if kind is e.RunCreated:
        return Illegal("V2", "a run is created once", seq=seq)
    return Illegal("V5", f"{name} may not follow in a run that is {outline.base}", seq=seq)
