"""Repeats appends: after errors of the store, and after guests appended first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from outlast.errors import StoreError
from outlast.history import events as e
from outlast.ledger import RunWriter
from outlast.lifecycle import decide
from outlast.lifecycle.state import State

FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 5.0
"""Seconds between two attempts."""


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


_BEGINS: Mapping[Any, str] = {e.TimerSet: "timer", e.InteractionRequested: "interaction"}
_ENDS: Mapping[Any, str] = {e.TimerCancelled: "timer", e.InteractionWithdrawn: "interaction"}


def _wait_of(event: e.AnyEvent, kinds: Mapping[Any, str]) -> str:
    """The wait that an event of one of these kinds begins or ends; empty for other events."""
    kind = kinds.get(type(event), "")
    return kind and f"{kind}:{getattr(event, kind)}"


class Backoff:
    """Waits for a failing store, longer each time. The first append of a run is not repeated: its start has not been
    confirmed to the caller."""

    def __init__(self, writer: RunWriter, wait: Callable[[StoreError, float], Awaitable[None]]) -> None:
        self._writer = writer
        self._wait = wait
        self._pause = FIRST_PAUSE_S

    async def wait_after(self, error: StoreError) -> None:
        if self._writer.head.version == 0:
            raise error
        await self._wait(error, self._pause)
        self._pause = min(self._pause * 2, MAX_PAUSE_S)
