"""A comparison of two lineages: the events that are the same, that differ, and that only one side has.

Events are matched by their type, their node, question, timer, child or step and their attempt, not by their position: the
order in which parallel work ends is chance. Fields that differ by chance or are bookkeeping (durations, times, epochs,
workers) do not count as differences, and events with only such fields are not compared. The cost is one look-up per event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from outlast.history import events as e
from outlast.history.ids import RunId, question_of
from outlast.history.lineage import Interval
from outlast.history.record import Entry
from outlast.lifecycle.difference import Change, changes_between

Verdict: TypeAlias = Literal["same", "differs", "left", "right"]
Key: TypeAlias = tuple[str, ...]

_ENDINGS: dict[type[e.Event], str] = {
    e.RunCompleted: "completed",
    e.RunContinued: "continued",
    e.RunCancelled: "cancelled",
    e.RunPaused: "paused",
    e.RunStarted: "",
    e.BranchOpened: "",
}


class Row(Struct, frozen=True, gc=False):
    """One event on the left, on the right, or on both sides; `changes` lists the differences."""

    verdict: Verdict
    left: Entry | None
    right: Entry | None
    changes: tuple[Change, ...] = ()


class Side(Struct, frozen=True):
    """One of the two lineages; `events` counts the shared events and those with rows."""

    run: RunId
    branch: int
    events: int
    ending: str = ""


class Comparison(Struct, frozen=True):
    """Rows in the order of the left side, with events of the right side in between. Both branches share the events up to
    `shared`; those have no rows. `moved` rows have another order on the right."""

    left: Side
    right: Side
    shared: int
    rows: list[Row]
    counts: dict[Verdict, int]
    moved: int = 0
    unremarkable: int = 0

    @property
    def is_same(self) -> bool:
        return not (self.counts["differs"] or self.counts["left"] or self.counts["right"])


def shared_upto(left: Sequence[Interval], right: Sequence[Interval]) -> int:
    """The last event that two lineages of one run share, found without reading any event. 0 if they share none."""
    upto = 0
    for (first, last), (other_first, other_last) in zip(left, right, strict=False):
        if first != other_first:
            break
        upto = min(last, other_last)
        if last != other_last:
            break
    return upto


def length_of(intervals: Sequence[Interval], upto: int) -> int:
    """The number of events in these intervals, up to `upto`."""
    return sum(max(0, min(last, upto) - first + 1) for first, last in intervals)


def compare(left: Iterable[Entry], right: Iterable[Entry]) -> tuple[list[Row], int, int]:
    """The rows, the number of rows in another order on the right, and the number of events that were not compared."""
    ours, theirs = _Indexed(left), _Indexed(right)
    paired = [theirs.places.get(key) for key in ours.keys]
    rows: list[Row] = []
    only_right = [key not in ours.places for key in theirs.keys]
    done = 0  # events of the right side before this position have rows, or are matched with the left side
    for entry, place in zip(ours.entries, paired, strict=True):
        if place is None:
            rows.append(Row("left", entry, None))
            continue
        rows += [Row("right", None, theirs.entries[at]) for at in range(done, place) if only_right[at]]
        done = max(done, place)
        rows.append(_pair(entry, theirs.entries[place]))
    rows += [Row("right", None, theirs.entries[at]) for at in range(done, len(only_right)) if only_right[at]]
    return rows, _moved([place for place in paired if place is not None]), ours.skipped + theirs.skipped


def counted(rows: Iterable[Row]) -> dict[Verdict, int]:
    found = Counter(row.verdict for row in rows)
    return {verdict: found[verdict] for verdict in ("same", "differs", "left", "right")}


def ending_of(entries: Iterable[Entry]) -> str:
    """The status in which these events end: `completed`, `continued`, `failed`, `held`, `cancelled`, `paused` or empty."""
    ending = ""
    for entry in entries:
        ending = _ENDINGS.get(type(entry.event), ending)
        if isinstance(entry.event, e.RunFailed):
            ending = "held" if entry.event.held else "failed"
    return ending


# --- matching


class _Indexed:
    """The compared events of one side, each under a unique key."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: list[Entry] = []
        self.keys: list[tuple[Key, int]] = []
        self.skipped = 0
        self._counts: Counter[Key] = Counter()
        self._children: dict[str, str] = {}
        entries = list(entries)
        end = len(entries)
        while end and isinstance(entries[end - 1].event, e.RunTakenOver):
            end -= 1  # the owner that opened the next branch: nothing happened under it on this one
        for place, entry in enumerate(entries):
            if place >= end or is_unremarkable(entry.event):
                self.skipped += 1
            else:
                key = self._key(entry.event)
                self._counts[key] += 1
                self.entries.append(entry)
                self.keys.append((key, self._counts[key]))
        self.places = {key: place for place, key in enumerate(self.keys)}

    def _key(self, event: e.AnyEvent) -> Key:
        """Children of different runs have different ids, so they are matched by the node that started them."""
        if isinstance(event, e.ChildStarted):
            self._children[event.child] = event.node or event.workflow
        if isinstance(event, e.ChildStarted | e.ChildEnded):
            return type(event).__name__, self._children.get(event.child, event.child)
        if isinstance(event, e.InteractionRequested | e.InteractionAnswered | e.InteractionWithdrawn):
            return type(event).__name__, question_of(event.interaction)  # a repeated question counts as the same one
        fields = ABOUT.get(type(event), ())
        return type(event).__name__, *(str(getattr(event, name)) for name in fields)


def _pair(left: Entry, right: Entry) -> Row:
    if left is right or left.event == right.event:
        return Row("same", left, right)
    changes = _changes(left.event, right.event)
    return Row("differs" if changes else "same", left, right, changes)


def _changes(left: e.AnyEvent, right: e.AnyEvent) -> tuple[Change, ...]:
    found: list[Change] = []
    hashes: list[Change] = []
    for name in left.__struct_fields__:
        old, new = getattr(left, name), getattr(right, name, None)
        if name in VOLATILE or old == new:
            continue
        kept = hashes if name in INPUT_HASHES else found
        if isinstance(old, Raw) and isinstance(new, Raw):
            kept += changes_between(old, new, name)
        elif isinstance(old, e.Failure) and isinstance(new, e.Failure):
            kept += _failures(old, new, name)
        else:
            kept.append(Change(name, Raw(msgspec.json.encode(old)), Raw(msgspec.json.encode(new))))
    return tuple(found or hashes)


def _failures(old: e.Failure, new: e.Failure, name: str) -> list[Change]:
    """The differences of two errors; tracebacks are not compared."""
    found = [
        Change(f"{name}.{part}", Raw(msgspec.json.encode(one)), Raw(msgspec.json.encode(other)))
        for part in ("kind", "message", "category")
        if (one := getattr(old, part)) != (other := getattr(new, part))
    ]
    return found + changes_between(old.data, new.data, f"{name}.data")


def _moved(places: list[int]) -> int:
    """The number of positions outside the longest increasing subsequence."""
    tails: list[int] = []
    for place in places:
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
    return len(places) - len(tails)


# --- the fields that identify an event, to match it with an event of another run, and the fields to ignore

_COMPENSATIONS = (e.CompensationStarted, e.CompensationFailed)
_ENDS = (e.RunCompleted, e.RunFailed, e.RunContinued)
_RUN_EVENTS = (e.RunCreated, e.RunPaused, e.RunTakenOver, *_ENDS, e.VersionChanged, e.AttributesSet)
_REQUESTS = (e.PauseRequested, e.CancelRequested, e.JumpRequested)
_IDENTIFIED_BY: dict[tuple[str, ...], tuple[type[e.Event], ...]] = {
    (): (*_RUN_EVENTS, *_REQUESTS, e.BranchOpened, e.NodesRetired, e.GraphExtended, e.Recalled, e.GuestEventsRead),
    ("resumed",): (e.RunStarted,),
    ("extended",): (e.CleanupStarted,),
    ("cleanup",): (e.RunCancelled,),
    ("code",): (e.RequestRefused, e.RunRecovered),
    ("step",): (e.StepStarted, e.StepCompleted),
    ("node", "attempt"): (e.NodeScheduled, e.NodeStarted, e.NodeCheckpointed, e.NodeFailed, *_COMPENSATIONS),
    ("node",): (e.NodeCompleted, e.NodeSkipped, e.NodeCompensated),
    ("interaction",): (e.InteractionRequested, e.InteractionAnswered, e.InteractionWithdrawn),
    ("wait",): (e.SignalAwaited, e.SignalConsumed),
    ("name",): (e.SignalReceived,),
    ("timer",): (e.TimerSet, e.TimerFired, e.TimerCancelled),
    ("key",): (e.DecisionRecorded,),
    ("trigger",): (e.TriggerRegistered, e.TriggerCursorAdvanced),
    ("trigger", "input"): (e.TriggerInputReceived,),
    ("message",): (e.OutboxEnqueued, e.OutboxSent),
    ("child",): (e.ChildStarted, e.ChildEnded),
}
ABOUT = {kind: fields for fields, kinds in _IDENTIFIED_BY.items() for kind in kinds}
"""The fields that identify an event of a type. A node completes once on a lineage, so its attempt does not count."""

UNREMARKABLE: tuple[type[e.Event], ...] = (e.GuestEventsRead, e.NodesRetired, e.Recalled)
"""Bookkeeping events: news read by an owner, nodes removed from the state, origins of copied events."""

VOLATILE = frozenset(
    {
        *("ms", "epoch", "worker", "previous", "seen", "retry_at", "due", "upto", "receipt", "request"),
        *("adopted", "evidence", "parent_first", "previous_first", "previous_branch", "new_branch", "forked_at"),
        *("root", "parent", "parent_node", "as_child", "forked_from", "child", "detached", "cancelled", "successor"),
        *("signal", "cursor", "more", "interaction"),
    }
)
"""Fields that differ by chance, or that hold ids of one run."""
INPUT_HASHES = frozenset({"hash"})
"""Fields that repeat others: they count only where no other field shows the difference."""


def is_unremarkable(event: e.AnyEvent) -> bool:
    """Whether an event is only bookkeeping. A run that was released and claimed again was not interrupted."""
    return isinstance(event, UNREMARKABLE) or (isinstance(event, e.RunTakenOver) and event.cause == "claimed")
