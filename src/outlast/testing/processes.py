"""A whole engine over a given store, in a simulated process that can die at any store call.

`engine_over` opens an engine. `Processes` runs one process after the other over the same data, each until its work is
done or its store reports its death: then none of its tasks continues, as after `kill -9`.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from outlast.client import Engine
from outlast.compose import working
from outlast.engine.worker import Worker
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.settings import Settings
from outlast.store import Store
from outlast.testing.faults import Died, Faults, bare
from outlast.testing.time_skipping import TimeSkippingLoop
from outlast.testing.world import World

T = TypeVar("T")
NO_LIMITS: Mapping[str, int] = {}


@asynccontextmanager
async def engine_over(
    store: Store,
    *,
    concurrency: int = 2000,
    claim: float = 30.0,
    clock: Callable[[], int] = system_clock,
    key: bytes = b"",
) -> AsyncIterator[Engine]:
    """An engine over an open store, which stays open."""
    async with engine_and_worker(store, concurrency, claim, clock, key) as (client, _):
        yield client


@asynccontextmanager
async def engine_and_worker(
    store: Store,
    concurrency: int,
    claim: float,
    clock: Callable[[], int],
    key: bytes = b"",
    queue_limits: Mapping[str, int] = NO_LIMITS,
) -> AsyncIterator[tuple[Engine, Worker]]:
    """An engine over an open store, and its worker."""
    ledger = Ledger(store, key=key, clock=clock)
    try:
        settings = Settings(store="", claim=claim, concurrency=concurrency, queue_limits=dict(queue_limits))
        async with working(ledger, settings) as worker:
            client = Engine(ledger, worker)
            try:
                yield client, worker
            finally:
                await client._leave()
    finally:
        await ledger.close()


# --- processes that can die --------------------------------------------------------------------------------------------


class Processes:
    """Processes that run one after the other, on one loop whose clock jumps. Use it as a context manager."""

    def __init__(
        self,
        *,
        claim: float = 30.0,
        concurrency: int = 2000,
        seed: int = 0,
        queue_limits: Mapping[str, int] = NO_LIMITS,
    ) -> None:
        self.loop = TimeSkippingLoop()
        self.lives = 0
        """The number of processes so far."""
        self._claim = claim
        self._concurrency = concurrency
        self._queue_limits = queue_limits
        self._seed = seed
        self._worker: Worker | None = None
        self._world: World | None = None
        self.loop.threads = lambda: 0 if self._worker is None else self._worker.attempts._threads.busy
        self.loop.is_attempting = lambda: self.attempting > 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()

    def do(self, work: Awaitable[T]) -> T:
        """Run work outside an engine on the same loop."""
        return self.loop.run_until_complete(_of(work))

    @property
    def attempting(self) -> int:
        """How many nodes are running."""
        return 0 if self._worker is None else sum(driver.in_flight for driver in self._worker.drivers.values())

    def live(
        self,
        store: Store,
        act: Callable[[Engine], Awaitable[T]],
        faults: Faults | None = None,
        world: World | None = None,
    ) -> T:
        """One process: an engine over the store, until `act` returns. Raises `Died` if its store died before. The
        `world` counts the attempts of its nodes."""
        self.lives += 1
        random.seed(f"{self._seed}/{self.lives}")  # the jitter of retries: reproducible, and different in each process
        self._world = world
        if world is not None:
            world.faults = faults
        return self.loop.run_until_complete(self._life(store, act, faults))

    async def _life(self, store: Store, act: Callable[[Engine], Awaitable[T]], faults: Faults | None) -> T:
        death = self.loop.create_future()

        def look() -> None:
            if faults is not None and faults.is_dead and not death.done():
                death.set_result(None)

        self.loop.on_turn = look
        self.loop.clock.rule(bare(store))
        life = asyncio.ensure_future(self._engine(store, act))
        try:
            await asyncio.wait({life, death}, return_when=asyncio.FIRST_COMPLETED)
            await self._bury()
            if faults is not None and faults.is_dead:
                life.cancelled() or life.exception()
                raise Died("the process")
            return life.result()
        finally:
            self.loop.on_turn = lambda: None
            self.loop.clock.leave(bare(store))
            self._worker = None

    async def _engine(self, store: Store, act: Callable[[Engine], Awaitable[T]]) -> T:
        clock, limits = self.loop.clock, self._queue_limits
        opened = engine_and_worker(store, self._concurrency, self._claim, clock, queue_limits=limits)
        async with opened as (client, worker):
            self._worker = worker
            if self._world is not None:
                self._world.watch(worker.attempts)
            return await act(client)

    async def _bury(self) -> None:
        """End all tasks of the process."""
        self.loop.set_exception_handler(lambda *_: None)  # a dead process reports no errors
        own = asyncio.current_task()
        while left := [task for task in asyncio.all_tasks() if task is not own]:
            for task in left:
                if _has_begun(task):  # the others begin, and find their store dead
                    task.cancel()
            await asyncio.wait(left, timeout=0.001)
            for task in left:
                if task.done() and not task.cancelled():
                    task.exception()
        if self._worker is not None:
            await self._worker.lines.close()


def _has_begun(task: asyncio.Task[Any]) -> bool:
    coroutine = task.get_coro()
    return not inspect.iscoroutine(coroutine) or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED


async def _of(work: Awaitable[T]) -> T:
    return await work
