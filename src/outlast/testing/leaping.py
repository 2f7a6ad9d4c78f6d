"""Time that passes only when nothing else is to be done: hours in no time, and the same order in every run.

On a `LeapingLoop` everything that is ready runs at one moment; when all of it waits, the clock leaps to the next
timer. While threads are at work real time passes instead, so that what they bring home is not overtaken by timers.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from outlast.store import Store

BEGINNING = 1_900_000_000_000_000
"""Microseconds since 1970 at which every clock begins."""
PATIENCE = 0.02
"""Seconds of real time after which a thread at work no longer holds the clock back."""


class LeapingClock:
    """The time of one little world: of its loop, its ledgers and its stores."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._stores: list[Store] = []

    def seconds(self) -> float:
        return self._passed

    def __call__(self) -> int:
        """In microseconds, as a ledger wants it."""
        return BEGINNING + round(self._passed * 1e6)

    def leap(self, seconds: float) -> None:
        self._passed += seconds

    def rule(self, store: Store) -> None:
        """From now on the store's clock is this one."""
        self._stores.append(store)
        self.show()

    def leave(self, store: Store) -> None:
        self._stores = [each for each in self._stores if each is not store]

    def show(self) -> None:
        """Bring the clocks of the stores, which go on by themselves, back to this one."""
        skew = self() - time.time_ns() // 1000
        for store in self._stores:
            store.skew = skew


class _LeapingSelector(selectors.DefaultSelector):
    def __init__(self, loop: LeapingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self._loop
        loop.on_turn()
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            loop.clock.show()
            return found
        if timeout is None or loop.is_working():
            began = time.monotonic()
            found = super().select(None if timeout is None else min(timeout, PATIENCE))
            loop.clock.leap(time.monotonic() - began)
        else:
            loop.clock.leap(timeout)
        loop.clock.show()
        return found


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop on a `LeapingClock`. `on_turn` is called with every turn of it; `threads` says how many threads that it
    does not know of are at work."""

    def __init__(self, clock: LeapingClock | None = None) -> None:
        self.clock = clock or LeapingClock()
        self.on_turn: Callable[[], None] = lambda: None
        self.threads: Callable[[], int] = lambda: 0
        self._in_executors = 0
        super().__init__(_LeapingSelector(self))

    def time(self) -> float:
        return self.clock.seconds()

    def is_working(self) -> bool:
        return self._in_executors > 0 or self.threads() > 0

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        self._in_executors += 1
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._left_executor)
        return future

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Something that this loop does not know of is under way, as if it were in a thread."""
        self._in_executors += 1
        try:
            yield
        finally:
            self._in_executors -= 1

    def _left_executor(self, _: asyncio.Future[Any]) -> None:
        self._in_executors -= 1
