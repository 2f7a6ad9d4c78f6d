"""The timeline of a run, built from its log: entries with a level and a one-line text.

`TimelineBuilder` reads entries in order and folds them. A condensed timeline joins entries of one kind until it is short
enough. No function here reads a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct, field

from outlast.history import events as e
from outlast.history.lineage import Interval
from outlast.history.record import Entry
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import State
from outlast.lifecycle.timeline import phrases as say
from outlast.lifecycle.timeline.texts import (
    ERROR,
    GROUPS,
    INFO,
    NOTICE,
    TEXTS,
    WARNING,
    Level,
    key_of,
    level_of,
    text_of,
)

__all__ = ["MAX_ENTRIES", "TEXTS", "Link", "Timeline", "TimelineBuilder", "TimelineEntry", "text_of"]

MAX_ENTRIES = 30
"""Entries of a condensed timeline: with its headline and actions, the explanation fits on a screen."""

_OPENS: dict[type[e.Event], str] = {
    e.StepStarted: "step",
    e.InteractionRequested: "interaction",
    e.TimerSet: "timer",
    e.ChildStarted: "child",
    e.NodeStarted: "node",
}
_CLOSES: dict[type[e.Event], str] = {
    e.StepCompleted: "step",
    e.InteractionAnswered: "interaction",
    e.InteractionWithdrawn: "interaction",
    e.TimerFired: "timer",
    e.TimerCancelled: "timer",
    e.ChildEnded: "child",
    e.NodeCompleted: "node",
    e.NodeFailed: "node",
}
"""The field that pairs an event with the earlier one that it closes."""
_LINKS = {
    "request": "event",
    "target": "event",
    "cutoff": "event",
    "adopted": "event",
    "evidence": "event",
    "child": "run",
    "successor": "run",
    "forked_from": "run",
}
_BARRIERS = ("Run", "Branch")
"""Entries are not joined across events of the run as a whole, as long as the timeline is short enough."""


class Link(Struct, frozen=True):
    """A reference to an `event` by its number or to a `run` by its id."""

    kind: str
    target: str


class TimelineEntry(Struct, frozen=True, kw_only=True):
    """One event, or `count` events of one kind from `seq` to `last`. `kind` is the type of the event, `elapsed_ms` the time
    since the run was created."""

    seq: int
    last: int
    time: datetime | None
    elapsed_ms: float
    kind: str
    level: Level
    text: str
    node: str = ""
    attempt: int = 1
    branch: int = 0
    count: int = 1
    links: tuple[Link, ...] = ()


class Timeline(Struct, frozen=True):
    """The entries in order. `omitted` entries are left out before entry number `gap`."""

    entries: tuple[TimelineEntry, ...]
    omitted: int = 0
    gap: int = 0


class _Item(Struct):
    """An entry of an unfinished timeline. The text is rendered only for entries that are shown."""

    entry: Entry
    key: str
    level: Level
    family: str
    extra: str = ""
    last: int = 0
    ended: int = 0
    count: int = 1
    families: list[str] = field(default_factory=list[str])
    quoted: Entry | None = None

    def join(self, later: _Item) -> None:
        self.last, self.ended, self.count = later.last, later.ended, self.count + later.count
        self.families = list(dict.fromkeys([*(self.families or [self.family]), *(later.families or [later.family])]))
        if self.level not in (WARNING, ERROR):  # failures quote the first entry, others the last
            self.extra, self.quoted = later.extra, later.quoted or later.entry

    def text(self) -> str:
        quoted = self.quoted or self.entry
        text = (text_of(quoted.event, quoted.time) or self.key) + self.extra
        if self.count == 1:
            return text
        which = "first" if self.level in (WARNING, ERROR) else "last"
        if self.key not in GROUPS:
            return f"{self.count:,} events of one kind; {which}: {text}"
        span, group = (
            say.duration(self.ended - self.entry.time),
            say.listed([say.label(family) for family in self.families or [self.family]]),
        )
        head = GROUPS[self.key].format(count=f"{self.count:,}", group=group, span=span)
        return f"{head}; {which}: {text}"


class _Left(Struct):
    """The events of a branch that a lineage left."""

    first: int = 0
    last: int = 0
    branches: dict[int, None] = field(default_factory=dict[int, None])
    done: dict[str, None] = field(default_factory=dict[str, None])
    end: str = ""

    def add(self, entry: Entry) -> None:
        self.first, self.last = self.first or entry.seq, entry.seq
        self.branches[entry.branch] = None
        match entry.event:
            case e.NodeCompleted(node=node):
                self.done[node] = None
            case e.RunCompleted() | e.RunContinued() | e.RunFailed() | e.RunCancelled():
                self.end = text_of(entry.event, entry.time)
            case e.RunStarted() | e.BranchOpened():
                self.end = ""
            case _:
                pass

    def text(self) -> str:
        if not self.first:
            return ""
        events = f"events {self.first}–{self.last} stay" if self.last > self.first else f"event {self.first} stays"
        where = f"branch{'es' * (len(self.branches) > 1)} {say.listed(list(self.branches))}"
        done = f", completed there: {say.listed(list(self.done))}" if self.done else ""
        return f"; {events} on {where}{done}{f' ({self.end})' if self.end else ''}"


class TimelineBuilder:
    """Reads a log in order. `lineage` are the intervals that the branch includes; without it all events count. `state` is
    the fold of the events read so far, `since` the time at which each open wait began, `counts` the number of events by
    their key in `TEXTS`."""

    def __init__(self, lineage: Sequence[Interval] = ()) -> None:
        self.state = State()
        self.since: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self._items: list[_Item] = []
        self._lineage = list(lineage)
        self._left = _Left()
        self._before: Entry | None = None

    def add(self, entry: Entry) -> None:
        """Read one entry. Raises `Illegal` if it may not follow."""
        while len(self._lineage) > 1 and entry.seq > self._lineage[0][1]:
            self._lineage.pop(0)
        if self._lineage and not self._lineage[0][0] <= entry.seq <= self._lineage[0][1]:
            self._left.add(entry)
            return
        apply(self.state, entry.event, entry.seq, entry.time)
        key = key_of(entry.event)
        self.counts[key] += 1
        level, extra = self._extra(entry)
        self._items.append(
            _Item(entry, key, level or level_of(key), _family(entry.event), extra, entry.seq, entry.time)
        )
        self._before = entry

    def _extra(self, entry: Entry) -> tuple[Level | None, str]:
        """The level and the addition to the text that depend on earlier events."""
        event, kind = entry.event, type(entry.event)
        if name := _OPENS.get(kind):
            self.since[f"{name}:{getattr(event, name)}"] = entry.time
        elif name := _CLOSES.get(kind):
            took = entry.time - self.since.pop(f"{name}:{getattr(event, name)}", entry.time)
            return None, f" (after {say.duration(took)})" if took >= 1000 and not getattr(event, "ms", 0) else ""
        if isinstance(event, e.RunStarted) and not event.resumed and self._before is not None:
            waited = entry.time - self._before.time
            return (
                (NOTICE, f" after waiting {say.duration(waited)} for a worker") if waited >= say.SECOND else (None, "")
            )
        if isinstance(event, e.BranchOpened):
            left, self._left = self._left.text(), _Left()
            return None, left
        return None, ""

    def timeline(self, *, full: bool = False, limit: int = MAX_ENTRIES) -> Timeline:
        """All entries, or those above level info, condensed to `limit`. Builds the timeline once."""
        items, omitted, gap = self._items, 0, 0
        if not full:
            items, omitted, gap = _condensed([item for item in items if item.level != INFO], limit)
        created = self.state.outline.created
        return Timeline(tuple(_entry(item, created) for item in items), omitted, gap)


def _entry(item: _Item, created: int) -> TimelineEntry:
    entry, event = item.entry, item.entry.event
    is_one = item.count == 1
    return TimelineEntry(
        seq=entry.seq,
        last=item.last,
        time=say.moment(entry.time),
        elapsed_ms=max(0, entry.time - created) / 1000,
        kind=type(event).__name__,
        level=item.level,
        text=item.text(),
        node=getattr(event, "node", "") if is_one else "",
        attempt=getattr(event, "attempt", 1) if is_one else 1,
        branch=entry.branch,
        count=item.count,
        links=tuple(_links(event)) if is_one else (),
    )


def _links(event: e.AnyEvent) -> Iterator[Link]:
    for name, kind in _LINKS.items():
        found = getattr(event, name, None) or ()
        yield from (Link(kind, str(target)) for target in (found if isinstance(found, tuple) else (found,)))
    if isinstance(event, e.RunCreated) and event.parent:
        yield Link("run", event.parent)


def _family(event: e.AnyEvent) -> str:
    """The common name of the node, step or timer of an event."""
    return say.base(getattr(event, "node", "") or getattr(event, "step", "") or getattr(event, "timer", ""))


# --- condensing


def _condensed(items: list[_Item], limit: int) -> tuple[list[_Item], int, int]:
    """At most `limit` items, the number of omitted items, and their position. Each step joins more than the one before."""
    for by_family, barriers in _STEPS:
        if len(items) <= limit:
            break
        items = _joined(items, by_family, barriers)
    if len(items) <= limit:
        return items, 0, 0
    head = max(1, limit // 3)
    tail = max(1, limit - head)
    return [*items[:head], *items[-tail:]], len(items) - head - tail, head


def _joined(items: list[_Item], by_family: bool, barriers: str | tuple[str, ...]) -> list[_Item]:
    """Items of one kind (and family) joined, unless an item of another kind whose key begins like a barrier is between."""
    found: list[_Item] = []
    seen: dict[tuple[str, str], _Item] = {}
    previous = ("", "")
    for item in items:
        key = item.key, item.family if by_family else ""
        if item.key.startswith(barriers) and key != previous:
            seen.clear()
        if earlier := seen.get(key):
            earlier.join(item)
        else:
            found.append(item)
            seen[key], previous = item, key
    return found


_STEPS: tuple[tuple[bool, str | tuple[str, ...]], ...] = (
    (True, ""),
    (True, _BARRIERS),
    (False, _BARRIERS),
    (True, ()),
    (False, ()),
)
"""Whether only items of one family are joined, and the barriers: all items, events of the run, none."""
