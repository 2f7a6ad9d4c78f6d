"""Two lineages side by side: what is the same in both, what differs, and what only one of them has.

Events are matched by what they are about (their type, their node, question, timer, child or step, their attempt), not by
their place: the order in which parallel work ends is chance. What is chance or bookkeeping in an event (how long it took,
when, under which epoch, by which worker) is no difference, and events that say nothing else are not compared. All of it
costs one look-up per event.
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
from outlast.lifecycle.matching import ABOUT, INPUT_HASHES, VOLATILE, is_unremarkable

Verdict: TypeAlias = Literal["same", "differs", "left", "right"]
Key: TypeAlias = tuple[str, ...]


class Row(Struct, frozen=True, gc=False):
    """One event on the left, on the right, or on both sides; `changes` says what differs."""

    verdict: Verdict
    left: Entry | None
    right: Entry | None
    changes: tuple[Change, ...] = ()


class Side(Struct, frozen=True):
    """One of the two lineages; `events` are all of it, those that are shared included."""

    run: RunId
    branch: int
    events: int
    ending: str = ""


class Comparison(Struct, frozen=True):
    """Rows in the order of the left side, with what only the right has where it belongs. Events up to `shared` are the same
    because both branches share them; those are no rows. `moved` rows stand in another order on the right."""

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
    """The last event that both lineages of one run see, found without looking at any event. 0 if they share none."""
    upto = 0
    for (first, last), (other_first, other_last) in zip(left, right, strict=False):
        if first != other_first:
            break
        upto = min(last, other_last)
        if last != other_last:
            break
    return upto


def length_of(intervals: Sequence[Interval], upto: int | None = None) -> int:
    """How many events these intervals hold, up to that one."""
    end = intervals[-1][1] if upto is None and intervals else upto or 0
    return sum(max(0, min(last, end) - first + 1) for first, last in intervals)


def compare(left: Iterable[Entry], right: Iterable[Entry]) -> tuple[list[Row], int, int]:
    """The rows, how many of them stand in another order on the right, and how many events were not worth comparing."""
    ours, theirs = _Indexed(left), _Indexed(right)
    paired = [theirs.places.get(key) for key in ours.keys]
    rows: list[Row] = []
    strangers = [key not in ours.places for key in theirs.keys]
    told = 0  # how far the right side has been told, as far as only it has it
    for entry, place in zip(ours.entries, paired, strict=True):
        if place is None:
            rows.append(Row("left", entry, None))
            continue
        while told < place:
            if strangers[told]:
                rows.append(Row("right", None, theirs.entries[told]))
            told += 1
        rows.append(_pair(entry, theirs.entries[place]))
    rows += [Row("right", None, theirs.entries[at]) for at in range(told, len(strangers)) if strangers[at]]
    return rows, _moved([place for place in paired if place is not None]), ours.skipped + theirs.skipped


def counted(rows: Iterable[Row]) -> dict[Verdict, int]:
    found = Counter(row.verdict for row in rows)
    return {verdict: found[verdict] for verdict in ("same", "differs", "left", "right")}


def ending_of(entries: Iterable[Entry]) -> str:
    """How these events end, if they say so: `completed`, `failed`, `held`, `cancelled`, `paused`."""
    ending = ""
    for entry in entries:
        match entry.event:
            case e.RunCompleted():
                ending = "completed"
            case e.RunContinued():
                ending = "continued"
            case e.RunFailed(held=held):
                ending = "held" if held else "failed"
            case e.RunCancelled():
                ending = "cancelled"
            case e.RunPaused():
                ending = "paused"
            case e.RunStarted() | e.BranchOpened():
                ending = ""
            case _:
                pass
    return ending


# --- what an event is about


class _Indexed:
    """The events of one side that are worth comparing, each under a key of its own."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: list[Entry] = []
        self.keys: list[tuple[Key, int]] = []
        self.skipped = 0
        self._seen: Counter[Key] = Counter()
        self._children: dict[str, str] = {}
        for entry in entries:
            if is_unremarkable(entry.event):
                self.skipped += 1
            else:
                self._take(entry)
        self.places = {key: place for place, key in enumerate(self.keys)}

    def _take(self, entry: Entry) -> None:
        key = self._key(entry.event)
        nth = self._seen[key] = self._seen[key] + 1
        self.entries.append(entry)
        self.keys.append((key, nth))

    def _key(self, event: e.AnyEvent) -> Key:
        """Children of different runs have different ids: the node that started them says which is which."""
        if isinstance(event, e.ChildStarted):
            self._children[event.child] = event.node or event.workflow
        if isinstance(event, e.ChildStarted | e.ChildEnded):
            return type(event).__name__, self._children.get(event.child, event.child)
        if isinstance(event, e.InteractionRequested | e.InteractionAnswered | e.InteractionWithdrawn):
            return type(event).__name__, question_of(event.interaction)  # asked anew, it is the same question
        fields = ABOUT.get(type(event), ())
        return type(event).__name__, *(str(getattr(event, name)) for name in fields)


def _pair(left: Entry, right: Entry) -> Row:
    if left is right or left.event == right.event:
        return Row("same", left, right)
    changes = _changes(left.event, right.event)
    return Row("differs" if changes else "same", left, right, changes)


def _changes(left: e.AnyEvent, right: e.AnyEvent) -> tuple[Change, ...]:
    found: list[Change] = []
    witnesses: list[Change] = []
    for name in left.__struct_fields__:
        old, new = getattr(left, name), getattr(right, name, None)
        if name in VOLATILE or old == new:
            continue
        kept = witnesses if name in INPUT_HASHES else found
        if isinstance(old, Raw) and isinstance(new, Raw):
            kept += changes_between(old, new, name)
        elif isinstance(old, e.Failure) and isinstance(new, e.Failure):
            kept += _failures(old, new, name)
        else:
            kept.append(Change(name, Raw(msgspec.json.encode(old)), Raw(msgspec.json.encode(new))))
    return tuple(found or witnesses)


def _failures(old: e.Failure, new: e.Failure, name: str) -> list[Change]:
    """Where an error came from, line by line, is no difference; what it is and says is."""
    found = [
        Change(f"{name}.{part}", Raw(msgspec.json.encode(one)), Raw(msgspec.json.encode(other)))
        for part in ("kind", "message", "category")
        if (one := getattr(old, part)) != (other := getattr(new, part))
    ]
    return found + changes_between(old.data, new.data, f"{name}.data")


def _moved(places: list[int]) -> int:
    """How many would have to be moved to bring them into order: all but the longest run of them that is in order."""
    tails: list[int] = []
    for place in places:
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
    return len(places) - len(tails)
