"""The next append of a run: its events, and the commands that begin once these are durable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from outlast.functions.commands import Command, TimerCommand
from outlast.history import events as e
from outlast.history.ids import question_of
from outlast.history.record import Entry
from outlast.lifecycle import decide
from outlast.lifecycle.state import State

CommandOutcome: TypeAlias = tuple[Command, e.NodeCompleted | e.NodeFailed | e.TimerFired, Any]
"""A command, its outcome, and the decoded value of a result."""


class Batch:
    """Events that are appended together, with one date."""

    __slots__ = ("after_commit", "delivered", "events", "facts", "pending", "release", "time", "to_begin")

    def __init__(self) -> None:
        self.facts: list[e.AnyEvent] = []
        """Events about attempts. They do not depend on the outcomes that the code has received, and precede the pending
        events."""
        self.pending: list[e.AnyEvent] = []
        """Outcomes that the code received since the last append, and the commands that followed from them."""
        self.to_begin: list[Command] = []
        self.after_commit: list[Callable[[], object]] | None = None
        self.events: list[e.AnyEvent]
        """What is appended, once the batch is complete."""
        self.delivered: Sequence[CommandOutcome] = ()
        """The outcomes among the events, which the code has received."""
        self.release = False
        self.time = 0

    def drop_starts(self, commands: Iterable[Command]) -> None:
        """Remove the starts of nodes that have not begun: they remain scheduled."""
        names = {command.name for command in commands}
        for events in (self.facts, self.pending):
            events[:] = [each for each in events if not (isinstance(each, e.NodeStarted) and each.node in names)]

    def call_after_commit(self, call: Callable[[], object]) -> None:
        if self.after_commit is None:
            self.after_commit = []
        self.after_commit.append(call)

    def committed(self) -> None:
        """The append is durable, or not needed."""
        for call in self.after_commit or ():
            call()


# --- after guests appended first


def without_closed(events: list[e.AnyEvent], state: State) -> list[e.AnyEvent]:
    """The events without those that end waits which guests have already ended."""
    begun = {name for event in events if (name := _wait_of(event, _BEGINS))}
    return [
        event
        for event in events
        if not (name := _wait_of(event, _ENDS)) or name in begun or state.waits.get(name) is not None
    ]


def redecide(events: list[e.AnyEvent], state: State) -> list[e.AnyEvent]:
    """The events to append after guests appended first: waits that guests ended are not ended again, and a terminal
    event refuses open requests."""
    remaining = [event for event in without_closed(events, state) if not isinstance(event, e.RequestRefused)]
    return [*remaining[:-1], *decide.refusals(state, remaining[-1]), remaining[-1]] if remaining else []


def is_out_of_order(
    delivered: Sequence[CommandOutcome], arrived: Iterable[Entry], abandoned: Collection[str], waiting: Collection[str]
) -> bool:
    """Whether guests ended, before these outcomes, a wait that the code was still waiting for: a question, or a
    child that the code gave up because of these outcomes or that a timer competes with. The end of any other child
    may be delivered later than its place in the log: GuestEventsRead records when. `abandoned` and `waiting` are the keys of
    commands."""
    is_timed = any(isinstance(command, TimerCommand) for command, _, _ in delivered)
    for entry in arrived:
        match entry.event:
            case e.InteractionAnswered(interaction=name):
                key = f"interaction:{question_of(name)}"
                if key in abandoned or key in waiting:
                    return True
            case e.ChildEnded(child=child):
                key = f"child:{child}"
                if key in abandoned or (is_timed and key in waiting):
                    return True
            case _:
                pass
    return False


_BEGINS: Mapping[Any, str] = {e.TimerSet: "timer", e.InteractionRequested: "interaction"}
_ENDS: Mapping[Any, str] = {e.TimerCancelled: "timer", e.InteractionWithdrawn: "interaction"}


def _wait_of(event: e.AnyEvent, kinds: Mapping[Any, str]) -> str:
    """The wait that an event of one of these kinds begins or ends; empty for other events."""
    kind = kinds.get(type(event), "")
    return kind and f"{kind}:{getattr(event, kind)}"
