"""Appending against resistance: the store is troubled, or others wrote first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from outlast.errors import StoreError
from outlast.history import events as e
from outlast.ledger import Pen
from outlast.lifecycle.state import State

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between two tries."""


def without_what_is_over(events: list[e.AnyEvent], state: State) -> list[e.AnyEvent]:
    """The events but for those that end what others have ended meanwhile."""
    return [event for event in events if _is_still_open(event, events, state)]


def _is_still_open(event: e.AnyEvent, events: list[e.AnyEvent], state: State) -> bool:
    match event:
        case e.TimerCancelled(timer=name):
            said = any(isinstance(each, e.TimerSet) and each.timer == name for each in events)
            return said or state.waits.get(f"timer:{name}") is not None
        case e.InteractionWithdrawn(interaction=name):
            said = any(isinstance(each, e.InteractionRequested) and each.interaction == name for each in events)
            return said or state.waits.get(f"interaction:{name}") is not None
        case _:
            return True


class Patience:
    """How long to wait for a troubled store: longer each time. What was never promised to anybody is not waited for."""

    def __init__(self, pen: Pen, wait: Callable[[StoreError, float], Awaitable[None]]) -> None:
        self._pen = pen
        self._wait = wait
        self._pause = FIRST_PAUSE

    async def bear(self, trouble: StoreError) -> None:
        if self._pen.head.version == 0:
            raise trouble
        await self._wait(trouble, self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
