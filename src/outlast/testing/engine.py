"""A whole engine over a store of your choice, in a process that can die at any call to that store.

`engine_over` opens an engine. `Processes` lets one after the other live over the same data, each until it has done
what it is asked or its store says that it is dead: then nothing of it goes on, as after `kill -9`. A `World` sees
from outside which attempts of nodes were really made, and compares that with the logs afterwards.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from outlast.client import Client
from outlast.compose import _working
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.ledger.proof import verify
from outlast.ledger.reading import head_of, lineage_of, told
from outlast.runtime.functions import Node
from outlast.runtime.inside import attempt, token
from outlast.runtime.worker import Worker
from outlast.settings import Settings
from outlast.store import Query, Store
from outlast.testing.faults import Died, Faults
from outlast.testing.leaping import LeapingLoop

T = TypeVar("T")


@asynccontextmanager
async def engine_over(
    store: Store,
    *,
    concurrency: int = 2000,
    claim: float = 30.0,
    clock: Callable[[], int] = system_clock,
    key: bytes = b"",
) -> AsyncIterator[Client]:
    """An engine over an open store, which stays open."""
    async with _engine(store, concurrency, claim, clock, key) as (client, _):
        yield client


@asynccontextmanager
async def _engine(
    store: Store, concurrency: int, claim: float, clock: Callable[[], int], key: bytes
) -> AsyncIterator[tuple[Client, Worker]]:
    ledger = Ledger(store, key=key, clock=clock)
    try:
        async with _working(ledger, Settings(store="", claim=claim, concurrency=concurrency)) as worker:
            client = Client(ledger, worker)
            try:
                yield client, worker
            finally:
                await client.leave()
    finally:
        await ledger.close()


# --- processes that can die --------------------------------------------------------------------------------------------


class Processes:
    """The processes of one world, one after the other, on one loop whose time leaps. Use it as a context manager."""

    def __init__(self, *, claim: float = 30.0, seed: int = 0) -> None:
        self.loop = LeapingLoop()
        self._claim = claim
        self._seed = seed
        self._worker: Worker | None = None
        self.loop.threads = lambda: 0 if self._worker is None else self._worker.attempts._threads._busy

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()

    def do(self, work: Awaitable[T]) -> T:
        """Something that is not the work of an engine, on the same loop."""
        return self.loop.run_until_complete(_of(work))

    def live(self, store: Store, act: Callable[[Client], Awaitable[T]], faults: Faults | None = None) -> T:
        """One process: an engine over the store, until `act` returns. Raises `Died` if its store said so before."""
        random.seed(self._seed)  # the jitter of retries
        return self.loop.run_until_complete(self._life(store, act, faults))

    async def _life(self, store: Store, act: Callable[[Client], Awaitable[T]], faults: Faults | None) -> T:
        death = self.loop.create_future()

        def look() -> None:
            if faults is not None and faults.is_dead and not death.done():
                death.set_result(None)

        self.loop.on_turn = look
        self.loop.clock.rule(store)
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
            self.loop.clock.leave(store)
            self._worker = None

    async def _engine(self, store: Store, act: Callable[[Client], Awaitable[T]]) -> T:
        async with _engine(store, 2000, self._claim, self.loop.clock, b"") as (client, worker):
            self._worker = worker
            try:
                return await act(client)
            finally:
                self._worker = worker

    async def _bury(self) -> None:
        """Let nothing of the process go on."""
        self.loop.set_exception_handler(lambda *_: None)  # a dead process complains to nobody
        own = asyncio.current_task()
        while left := [task for task in asyncio.all_tasks() if task is not own and not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left)
            for task in left:
                task.cancelled() or task.exception()
        if self._worker is not None:
            await self._worker.lines.close()


async def _of(work: Awaitable[T]) -> T:
    return await work


# --- what is seen from outside -----------------------------------------------------------------------------------------


class Attempted(NamedTuple):
    """One attempt of a node, as the world saw it begin."""

    run: str
    node: str
    attempt: int


class World:
    """What outlives every process: which attempts of nodes were made, and how often."""

    def __init__(self) -> None:
        self.attempts: Counter[Attempted] = Counter()
        self.faults: Faults | None = None

    @contextmanager
    def watching(self, nodes: Iterable[Node[..., Any]]) -> Iterator[World]:
        """See every attempt of these nodes, which must not run in processes of their own."""
        specs = [(node, node.spec) for node in nodes]
        for node, spec in specs:
            node.spec = replace(spec, fn=self._seen(spec.fn))
        try:
            yield self
        finally:
            for node, spec in specs:
                node.spec = spec

    def _seen(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def begun(*args: Any, **kwargs: Any) -> Any:
                self._note()
                return await fn(*args, **kwargs)
        else:

            @functools.wraps(fn)
            def begun(*args: Any, **kwargs: Any) -> Any:
                self._note()
                return fn(*args, **kwargs)

        return begun

    def _note(self) -> None:
        if self.faults is not None and self.faults.is_dead:
            raise Died("a node does not begin in a dead process")
        run, _, rest = token().partition("/")
        self.attempts[Attempted(run, rest.rpartition("/")[0], attempt())] += 1

    @property
    def executed(self) -> Counter[tuple[str, str]]:
        """How often each node was begun."""
        counted: Counter[tuple[str, str]] = Counter()
        for made, times in self.attempts.items():
            counted[made.run, made.node] += times
        return counted


class Told(NamedTuple):
    """What the log of one run tells."""

    status: str
    ending: e.AnyEvent | None
    completed: dict[str, int]
    started: set[tuple[str, int]]


async def read_all(store: Store) -> dict[RunId, Told]:
    """What all runs of a store tell; each log has been proved sound."""
    found: dict[RunId, Told] = {}
    page = await store.search(Query(limit=10_000))
    for listed in page.items:
        run = listed.summary.run
        proof = await verify(store, run)
        assert proof.is_sound, f"{run}: {proof.violations}"
        found[run] = await _read(store, run, str(listed.summary.status))
    return found


async def _read(store: Store, run: RunId, status: str) -> Told:
    told_here = Told(status, None, {}, set())
    async for entry in told(store, run, await lineage_of(store, await head_of(store, run))):
        match entry.event:
            case e.NodeStarted(node=node, attempt=number):
                told_here.started.add((node, number))
            case e.NodeCompleted(node=node, attempt=number):
                told_here.completed[node] = number
            case e.RunCompleted() | e.RunFailed() | e.RunCancelled() | e.RunContinued():
                told_here = told_here._replace(ending=entry.event)
            case _:
                pass
    return told_here


def compare(world: World, runs: dict[RunId, Told]) -> None:
    """No attempt was made twice or without its start being in the log, and none after its node had completed."""
    for made, times in world.attempts.items():
        log = runs.get(RunId(made.run))
        assert log is not None, f"{made} was made for a run that is not there"
        assert times == 1, f"{made} was made {times} times"
        assert (made.node, made.attempt) in log.started, f"{made} is not in the log"
        assert made.attempt <= log.completed.get(made.node, made.attempt), f"{made} was made though the node was done"
    for run, log in runs.items():
        for node, number in log.completed.items():
            assert Attempted(run, node, number) in world.attempts, f"{node} of {run} completed without having been done"
