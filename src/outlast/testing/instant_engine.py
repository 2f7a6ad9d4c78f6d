"""An engine for tests whose sleeps take no time: on a store in memory, with a clock that leaps while somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from outlast.client import BlockingEngine, Engine
from outlast.client.loop_thread import LoopThread
from outlast.compose import working
from outlast.ledger import Ledger
from outlast.settings import Settings
from outlast.store import Store
from outlast.stores.memory import MemoryStore
from outlast.testing.time_skipping import LeapingLoop

T = TypeVar("T")
FOREVER = 1e9
"""Seconds of a claim: time leaps, and nobody else is there to take over."""


@contextmanager
def engine(store: Store | None = None, *, concurrency: int = 2000) -> Iterator[BlockingEngine]:
    """An engine on a store of its own in memory, or on the one given. While you wait for something (`result()`, `watch()`),
    the clock leaps to the next moment at which something happens: a sleep of days takes no time.

    It has a thread of its own, so that it can be used in plain and in async tests alike; to let other tasks go on while
    you wait, `await asyncio.to_thread(handle.result)`."""
    opened = _Leaping(store or MemoryStore(), concurrency)
    try:
        yield opened
    finally:
        opened.close()


class _Leaping(BlockingEngine):
    def __init__(self, store: Store, concurrency: int) -> None:
        thread = _LeapingThread()
        super().__init__(_opened(store, thread.loop, concurrency), thread)


class _LeapingThread(LoopThread):
    """A loop in a thread of its own, whose time leaps while somebody waits for something."""

    def __init__(self) -> None:
        self._waiting = 0
        self.loop = LeapingLoop()
        self.loop.may_leap = lambda: self._waiting > 0 and self.loop.has_something_to_come()
        super().__init__(self.loop)

    def _awaited(self, future: Future[T]) -> T:
        self._waiting += 1
        try:
            return super()._awaited(future)
        finally:
            self._waiting -= 1


@asynccontextmanager
async def _opened(store: Store, loop: LeapingLoop, concurrency: int) -> AsyncIterator[Engine]:
    loop.clock.rule(store)
    ledger = Ledger(store, clock=loop.clock)
    try:
        async with working(ledger, Settings(store="", claim=FOREVER, concurrency=concurrency)) as worker:
            loop.threads = lambda: worker.attempts._threads.busy
            loop.is_attempting = lambda: any(driver.in_flight for driver in worker.drivers.values())
            client = Engine(ledger, worker)
            try:
                yield client
            finally:
                await client._leave()
    finally:
        await ledger.close()
        loop.clock.leave(store)
        await asyncio.sleep(0)
