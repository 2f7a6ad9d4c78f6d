"""Appending against resistance: the store is troubled, or others wrote first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from outlast.errors import StoreError
from outlast.history import events as e
from outlast.ledger import RunWriter
from outlast.lifecycle import decide
from outlast.lifecycle.state import State

FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 5.0
"""Seconds between two tries."""


def without_closed(events: list[e.AnyEvent], state: State) -> list[e.AnyEvent]:
    """The events but for those that end what others have ended meanwhile."""
    said = {name for event in events if (name := _begun_wait(event))}
    return [
        event
        for event in events
        if not (name := _ended_wait(event)) or name in said or state.waits.get(name) is not None
    ]


def redecide(events: list[e.AnyEvent], state: State) -> list[e.AnyEvent]:
    """The events after others wrote first: what those ended is not ended again, and an end refuses what they asked for."""
    kept = [event for event in without_closed(events, state) if not isinstance(event, e.RequestRefused)]
    return [*kept[:-1], *decide.refusals(state, kept[-1]), kept[-1]] if kept else []


def _begun_wait(event: e.AnyEvent) -> str:
    """The wait that an event begins."""
    match event:
        case e.TimerSet(timer=name):
            return f"timer:{name}"
        case e.InteractionRequested(interaction=name):
            return f"interaction:{name}"
        case _:
            return ""


def _ended_wait(event: e.AnyEvent) -> str:
    """The wait that an event of an owner ends."""
    match event:
        case e.TimerCancelled(timer=name):
            return f"timer:{name}"
        case e.InteractionWithdrawn(interaction=name):
            return f"interaction:{name}"
        case _:
            return ""


class Backoff:
    """How long to wait for a troubled store: longer each time. What was never promised to anybody is not waited for."""

    def __init__(self, writer: RunWriter, wait: Callable[[StoreError, float], Awaitable[None]]) -> None:
        self._writer = writer
        self._wait = wait
        self._pause = FIRST_PAUSE_S

    async def wait_after(self, trouble: StoreError) -> None:
        if self._writer.head.version == 0:
            raise trouble
        await self._wait(trouble, self._pause)
        self._pause = min(self._pause * 2, MAX_PAUSE_S)
