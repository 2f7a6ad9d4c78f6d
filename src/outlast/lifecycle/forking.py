"""Forks: a new run that begins with the history of another one.

The events of a lineage are copied into the first append of the new run, so that the fork exists completely or not at all.
Events that concern only the original run are left out: its owners, branches and requests. Children get new ids, because they
are other runs. `Recalled` records the origin of the copied events, their original time and the run that received them:
workflow code may have read the time, the id of its run, or a random value, which depends on that id.
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
from outlast.lifecycle.transitions import CONTROL

_LEFT_OUT: tuple[type[e.Event], ...] = (
    *CONTROL,
    e.RunTakenOver,
    e.BranchOpened,
    e.RunRecovered,
    e.RequestRefused,
    e.Recalled,
)
_DELIVERED = (
    e.RunStarted,
    e.NodeCompleted,
    e.NodeFailed,
    e.TimerFired,
    e.GuestEventsRead,
    e.ChildEnded,
    e.InteractionAnswered,
)
"""Events that wake the code. The code did not cause them, unless it cancelled the node."""
_GENERATION = re.compile(r"~b\d+$")
FORKABLE = ("function", "graph", "plan")


def forked(log: Sequence[Entry], run: RunId, cutoff: int, fork: RunId, title: str, by: str) -> list[e.AnyEvent]:
    """The first events of the new run: a copy of the lineage `log` of `run` up to `cutoff`."""
    copied = [entry for entry in log if entry.seq <= max(cutoff, 1)]
    decided = max((entry.seq for entry in copied if not _is_delivered(entry.event)), default=0)
    copying = _Copying(run, cutoff, decided, fork, title, by)
    for entry in copied:
        copying.copy(entry)
    return copying.concluded()


def _is_delivered(event: e.AnyEvent) -> bool:
    return isinstance(event, _DELIVERED) and not (
        isinstance(event, e.NodeFailed) and event.error.category == "cancelled"
    )


class _Copying:
    """Copies events with new numbers and folds the copies. After the event `decided` the copy holds no decision of the code:
    later decisions are made with the id of the fork."""

    def __init__(self, run: RunId, cutoff: int, decided: int, fork: RunId, title: str, by: str) -> None:
        self._run, self._cutoff, self._fork, self._title, self._by = run, cutoff, fork, title, by
        self._decided = decided
        self._events: list[e.AnyEvent] = []
        self._state = State()
        self._time = 0
        self._from = ""
        self._recalled = (-1, 0, "")
        self._places: list[tuple[int, int]] = []
        self._children: dict[str, str] = {}

    def copy(self, entry: Entry) -> None:
        if isinstance(entry.event, e.Recalled):
            self._recalled = entry.time, entry.event.time, entry.event.run
        if isinstance(entry.event, _LEFT_OUT):
            return
        if isinstance(entry.event, e.ChildEnded) and entry.event.child not in self._children:
            return  # the child was started on a branch that was left
        event = self._translated(entry.event)
        time, origin = self._origin(entry)
        if (time, origin) != (self._time, self._from) and entry.seq > 1:
            self._append(e.Recalled(at=entry.seq, time=time, run=origin))
            self._time, self._from = time, origin
        self._append(event)
        self._places.append((entry.seq, len(self._events)))

    def _origin(self, entry: Entry) -> tuple[int, str]:
        """The time of the entry, and the run whose id the code had then. In a fork of a fork, copied entries have the time
        and the run that `Recalled` records."""
        copied, recalled, run = self._recalled
        is_copied = copied == entry.time
        origin = (run if is_copied else "") or self._run
        return recalled if is_copied else entry.time, origin if entry.seq <= self._decided else ""

    def concluded(self) -> list[e.AnyEvent]:
        if self._state.is_closed:
            raise NotAllowed(f"run {self._run} is over at event {self._cutoff}: fork it from an earlier event")
        for message in [wait.id for wait in self._state.loose.values() if wait.kind == "outbox"]:
            self._append(e.OutboxSent(message=message, receipt=f"left to run {self._run}"))
        if self._state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
            for event in decide.resume(self._state, self._by):
                self._append(event)
        return self._events

    def _append(self, event: e.AnyEvent) -> None:
        self._events.append(event)
        apply(self._state, event, len(self._events), self._time)

    def _translated(self, event: e.AnyEvent) -> e.AnyEvent:
        match event:
            case e.RunCreated():
                return self._created(event)
            case e.GuestEventsRead():
                return e.GuestEventsRead(upto=self._place_of(event.upto))
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
            raise NotAllowed(f"run {self._run} is a {event.kind}: only runs of a {', '.join(FORKABLE)} can be forked")
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
            deferred=False,
            trace="",
        )

    def _place_of(self, seq: int) -> int:
        """The seq in the fork of the last copied event up to `seq`."""
        return next((here for there, here in reversed(self._places) if there <= seq), 0)
