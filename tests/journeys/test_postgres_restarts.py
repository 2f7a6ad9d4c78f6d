"""A PostgreSQL server crashes and comes back, lines are cut, all in mid load: nothing acknowledged is lost, and the workers
go on by themselves (P1, P2, P6, S3, S5)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import outlast as ol
from outlast.client import Engine
from outlast.errors import StoreError
from outlast.history.ids import RunId
from outlast.ledger.verification import verify
from outlast.stores.postgres import PostgresStore
from outlast.testing.processes import engine_over
from support.servers.postgres import PostgresServer
from support.servers.postgres_admin import cut_lines

NODES = 4
SECONDS = 180
"""After which it is taken for stuck."""

made: Counter[tuple[str, int]] = Counter()


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    made.clear()
    with caplog.at_level(logging.CRITICAL):
        yield


@ol.node
async def restart_step(run: str, number: int) -> int:
    made[run, number] += 1
    await asyncio.sleep(0.002)
    return number


@ol.workflow
async def restart_story(run: str) -> int:
    return sum([await restart_step(run, number) for number in range(NODES)])


class Load:
    """Starts runs, one after the other, for as long as it is asked to; knows which of them were acknowledged."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self.acknowledged: list[RunId] = []
        self.refused = 0

    async def start(self) -> None:
        number = 0
        while True:
            number += 1
            run = RunId(f"{self._name}-{number}")
            try:
                await self._engine.start(restart_story.options(id=run), run)
                self.acknowledged.append(run)
            except StoreError:
                self.refused += 1
            await asyncio.sleep(0.005)


@asynccontextmanager
async def worker(url: str) -> AsyncIterator[Engine]:
    store = PostgresStore(url)
    try:
        async with engine_over(store, claim=5.0) as engine:
            yield engine
    finally:
        await store.close()


async def results(engine: Engine, runs: list[RunId]) -> list[int]:
    """Who waits for a result may be told that the store is away, and asks again."""

    async def result(run: RunId) -> int:
        while True:
            try:
                return int(await engine.result(run))
            except StoreError:
                await asyncio.sleep(0.1)

    return await asyncio.gather(*(result(run) for run in runs))


async def trouble(server: PostgresServer, url: str, restarts: int, loads: list[Load]) -> None:
    """Again and again, when some more runs have been started: cut all lines, or crash the server."""
    for number in range(2 * restarts):
        wanted = sum(len(load.acknowledged) for load in loads) + 5
        while sum(len(load.acknowledged) for load in loads) < wanted:
            await asyncio.sleep(0.005)
        if number % 2:
            await asyncio.to_thread(server.restart)
        else:
            await cut_lines(url)


def played(server: PostgresServer, url: str, restarts: int) -> None:
    began = time.perf_counter()

    async def journey() -> None:
        async with asyncio.timeout(SECONDS), AsyncExitStack() as stack:
            engines = [await stack.enter_async_context(worker(url)) for _ in range(2)]
            loads = [Load(engine, f"load-{place}") for place, engine in enumerate(engines)]
            tasks = [asyncio.create_task(load.start()) for load in loads]
            await trouble(server, url, restarts, loads)
            for task in tasks:
                task.cancel()
            runs = [run for load in loads for run in load.acknowledged]
            assert await results(engines[0], runs) == [sum(range(NODES))] * len(runs)
            await judge(url, runs)
            refused = sum(load.refused for load in loads)
            print(
                f"\n{restarts} restarts: {len(runs)} runs, {refused} starts refused, {time.perf_counter() - began:.1f} s"
            )

    asyncio.run(journey())


async def judge(url: str, runs: list[RunId]) -> None:
    """All logs are sound, and hardly a node was begun again: no worker died, but a lease may have run out meanwhile."""
    store = PostgresStore(url)
    for run in runs:
        proof = await verify(store, run)
        assert proof.is_sound, f"{run}: {proof.violations}"
    await store.close()
    again = {name: times for name, times in made.items() if times > 1 and name[0] in runs}
    assert len(again) <= len(runs) // 10, f"too much was begun again: {again}"


@pytest.mark.release
def test_workers_go_on_though_the_server_crashes_ten_times_and_lines_are_cut(
    postgres: PostgresServer, postgres_url: str
) -> None:
    played(postgres, postgres_url, 10)


@pytest.mark.soak
def test_workers_go_on_though_the_server_crashes_a_hundred_times(postgres: PostgresServer, postgres_url: str) -> None:
    played(postgres, postgres_url, 100)
