"""A fork: a new run that begins with the history of another one.

The events of a lineage are said again as the first append of the new run, so that it is there whole or not at all. What
belongs to the other run alone is left out: its owners, its branches, what was requested of it. Everything that has an id of
its own gets a new one: children are other runs here. `Recalled` says where events come from and when they were said first,
because workflow code may have asked for the time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import structs

from outlast.errors import NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId, derived_run
from outlast.history.record import Entry
from outlast.lifecycle import decide
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus

_LEFT_OUT = (
    e.RunTakenOver,
    e.BranchOpened,
    e.RunRecovered,
    e.JumpRequested,
    e.PauseRequested,
    e.CancelRequested,
    e.RequestRefused,
    e.Recalled,
)
_GENERATION = re.compile(r"~b\d+$")
FORKABLE = ("function", "graph", "plan")


def forked(log: Sequence[Entry], run: RunId, cutoff: int, fork: RunId, title: str, by: str) -> list[e.AnyEvent]:
    """What the new run begins with: the lineage `log` of `run` up to `cutoff`, said again."""
    copying = _Copying(run, cutoff, fork, title, by)
    for entry in log:
        if entry.seq <= max(cutoff, 1):
            copying.copy(entry)
    return copying.concluded()


class _Copying:
    """Says events again, numbered anew, and folds them as it goes."""

    def __init__(self, run: RunId, cutoff: int, fork: RunId, title: str, by: str) -> None:
        self._run, self._cutoff, self._fork, self._title, self._by = run, cutoff, fork, title, by
        self._events: list[e.AnyEvent] = []
        self._state = State()
        self._time = 0
        self._recalled = (-1, 0)
        self._places: list[tuple[int, int]] = []
        self._children: dict[str, str] = {}

    def copy(self, entry: Entry) -> None:
        if isinstance(entry.event, e.Recalled):
            self._recalled = entry.time, entry.event.time
        if isinstance(entry.event, _LEFT_OUT):
            return
        if isinstance(entry.event, e.ChildEnded) and entry.event.child not in self._children:
            return  # of a child that was started on a branch that was left
        event = self._translated(entry.event)
        time = self._dated(entry)
        if time != self._time and entry.seq > 1:
            self._say(e.Recalled(at=entry.seq, time=time))
            self._time = time
        self._say(event)
        self._places.append((entry.seq, len(self._events)))

    def _dated(self, entry: Entry) -> int:
        """When the run came to know of it. In a fork of a fork that is what the fork recalled, as far as it was copied."""
        copied, recalled = self._recalled
        return recalled if copied == entry.time else entry.time

    def concluded(self) -> list[e.AnyEvent]:
        if self._state.is_closed:
            raise NotAllowed(f"event {self._cutoff} is where run {self._run} was over: fork it from an earlier event")
        for message in [wait.id for wait in self._state.loose.values() if wait.kind == "outbox"]:
            self._say(e.OutboxSent(message=message, receipt=f"left to run {self._run}"))
        if self._state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
            for event in decide.resume(self._state, self._by):
                self._say(event)
        return self._events

    def _say(self, event: e.AnyEvent) -> None:
        self._events.append(event)
        apply(self._state, event, len(self._events), self._time)

    def _translated(self, event: e.AnyEvent) -> e.AnyEvent:
        match event:
            case e.RunCreated():
                return self._created(event)
            case e.NewsHeard():
                return e.NewsHeard(upto=self._place_of(event.upto))
            case e.ChildStarted():
                node = _GENERATION.sub("", event.node)
                self._children[event.child] = child = derived_run(self._fork, node)
                return structs.replace(event, child=child, node=node)
            case e.ChildEnded():
                return structs.replace(event, child=self._children[event.child], adopted=0)
            case e.OutboxSent():
                return structs.replace(event, adopted=0)
            case _:
                return event

    def _created(self, event: e.RunCreated) -> e.RunCreated:
        if event.kind not in FORKABLE:
            raise NotAllowed(f"run {self._run} is a {event.kind}, which cannot be forked")
        return structs.replace(
            event,
            by=self._by,
            key="",
            title=self._title or event.title,
            parent="",
            parent_node="",
            as_child="",
            forked_from=self._run,
            forked_at=self._cutoff,
        )

    def _place_of(self, seq: int) -> int:
        """Where the last of the events up to `seq` stands here."""
        return next((here for there, here in reversed(self._places) if there <= seq), 0)
