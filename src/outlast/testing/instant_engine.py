"""An engine for tests whose sleeps take no time: a store in memory and a clock that jumps while the test waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from outlast.client import BlockingEngine, Engine
from outlast.client.loop_thread import LoopThread
from outlast.store import Store
from outlast.stores.memory import MemoryStore
from outlast.testing.processes import engine_and_worker
from outlast.testing.time_skipping import TimeSkippingLoop

T = TypeVar("T")
FOREVER = 1e9
"""Seconds of a claim: the clock jumps, and no other worker exists."""


@contextmanager
def engine(store: Store | None = None, *, concurrency: int = 2000) -> Iterator[BlockingEngine]:
    """An engine over a new store in memory, or over the given store. While the test waits for something (`result()`,
    `watch()`), the clock jumps to the next timer: a sleep of days takes no time.

    The engine runs in its own thread, for plain and async tests alike; to let other tasks run while you wait, `await
    asyncio.to_thread(handle.result)`."""
    thread = _TimeSkippingThread()
    opened = BlockingEngine(_opened(store or MemoryStore(), thread.loop, concurrency), thread)
    try:
        yield opened
    finally:
        opened.close()


class _TimeSkippingThread(LoopThread):
    """An event loop in its own thread, whose clock jumps while a caller waits."""

    def __init__(self) -> None:
        self._waiting = 0
        self.loop = TimeSkippingLoop()
        self.loop.may_skip = lambda: self._waiting > 0 and self.loop.has_something_to_come()
        super().__init__(self.loop)

    def _awaited(self, future: Future[T]) -> T:
        self._waiting += 1
        try:
            return super()._awaited(future)
        finally:
            self._waiting -= 1


@asynccontextmanager
async def _opened(store: Store, loop: TimeSkippingLoop, concurrency: int) -> AsyncIterator[Engine]:
    loop.clock.rule(store)
    try:
        async with engine_and_worker(store, concurrency, FOREVER, loop.clock) as (client, worker):
            loop.threads = lambda: worker.attempts._threads.busy
            loop.is_attempting = lambda: any(driver.in_flight for driver in worker.drivers.values())
            yield client
    finally:
        loop.clock.leave(store)
        await asyncio.sleep(0)
