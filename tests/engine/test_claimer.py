"""What a worker claims: in turn where there is less room than there are runs, with one look where there is enough, what is
due at its time, and nothing while it drains (S6, S8)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import outlast as ol
from outlast.client.facade import Engine
from outlast.compose import working
from outlast.engine import claimer, pausing
from outlast.engine.claimer import Claimer
from outlast.engine.worker import Worker
from outlast.functions import registry
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.ledger import Ledger
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.store import Due
from outlast.stores.memory import MemoryStore
from outlast.testing.contract.samples import begin, land, summary

SLEEPER = RunId("sleeper")
NAMES = tuple(f"turn-{number:02}" for number in range(20))


@ol.node
async def turn_step() -> int:
    return 1


@ol.workflow
async def turn_story() -> int:
    return await turn_step()


@ol.workflow
async def turn_family(children: int) -> int:
    return sum(await ol.gather(*(turn_story() for _ in range(children))))


@asynccontextmanager
async def hands(concurrency: int) -> AsyncIterator[tuple[Worker, Ledger]]:
    store = MemoryStore()
    ledger = Ledger(store)
    worker = Worker(ledger, Settings(store="", concurrency=concurrency))
    await store.enrol(worker.id, 30)
    try:
        yield worker, ledger
    finally:
        await worker.close()
        await ledger.close()


@asynccontextmanager
async def serving(worker: Worker) -> AsyncIterator[None]:
    """The service, for as long as the block."""
    task = asyncio.create_task(Claimer(worker, reports_start=False).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def fill(ledger: Ledger, workflow: str, count: int) -> None:
    for number in range(count):
        await ledger.create_ready(RunId(f"{workflow}-{number}"), e.RunCreated(workflow=workflow))


def counting(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[int]]:
    """The workflows of the runs that are claimed, in order, and one entry for each look. Each is over at once."""
    claimed: list[str] = []
    looks: list[int] = []
    claim = worker.store.claim

    async def adopt(granted: Any, **_: Any) -> None:
        claimed.append(granted.run.rpartition("-")[0])

    async def counted(*arguments: Any, **named: Any) -> Any:
        looks.append(1)
        return await claim(*arguments, **named)

    monkeypatch.setattr(worker.takeovers, "adopt", adopt)
    monkeypatch.setattr(worker.store, "claim", counted)
    return claimed, looks


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def played() -> None:
        async with asyncio.timeout(30):
            await scene()

    asyncio.run(played())


def test_two_workflows_among_many_have_every_second_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have nothing to do take no turn, wherever their names stand."""
    monkeypatch.setattr(registry, "names", lambda: NAMES)

    async def scene() -> None:
        async with hands(1) as (worker, ledger):
            await fill(ledger, NAMES[0], 200)
            await fill(ledger, NAMES[1], 20)
            claimed, _ = counting(worker, monkeypatch)
            service = Claimer(worker)
            for _ in range(40):
                assert await service.look()
            assert 18 <= Counter(claimed)[NAMES[1]] <= 20

    play(scene)


def test_with_room_for_all_one_look_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "names", lambda: NAMES)

    async def scene() -> None:
        async with hands(100) as (worker, ledger):
            await fill(ledger, NAMES[3], 5)
            claimed, looks = counting(worker, monkeypatch)
            service = Claimer(worker)
            for _ in range(10):
                assert not await service.look()
            assert (len(claimed), len(looks)) == (5, 10)

    play(scene)


def test_a_run_is_claimed_when_its_timer_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """No poll and no announcement is needed for it."""
    monkeypatch.setattr(claimer, "POLL_INTERVAL_S", 60.0)

    async def scene() -> None:
        async with hands(10) as (worker, _):
            due = await worker.store.now() + 200_000
            sleeping = summary(SLEEPER, status=RunStatus.WAITING, workflow=turn_story.name)
            await land(worker.store, begin(SLEEPER, opens=[Wait("timer", "sleep", due=due)], summary=sleeping))
            claimed, _ = counting(worker, monkeypatch)
            async with serving(worker):
                while not claimed:
                    await asyncio.sleep(0.005)
            assert due <= await worker.store.now() < due + 5_000_000

    play(scene)


def test_many_announcements_are_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimer, "MIN_SLEEP_S", 0.1)

    async def scene() -> None:
        async with hands(10) as (worker, _):
            _, looks = counting(worker, monkeypatch)
            async with serving(worker), asyncio.timeout(5):
                began = asyncio.get_running_loop().time()
                while len(looks) < 4:
                    worker.claim_wakeup.set()
                    await asyncio.sleep(0.001)
                assert asyncio.get_running_loop().time() - began > 0.15, "the first look has no other before it"

    play(scene)


def test_a_damaged_wait_is_reported_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(claimer, "REPORT_INTERVAL_S", 0.0)

    async def scene() -> None:
        async with hands(10) as (worker, _):
            looked, due = 0, worker.store.due

            async def damaged(limit: int = 100, *, after: Due | None = None) -> list[Due]:
                nonlocal looked
                looked += 1
                return [*await due(limit, after=after), Due(SLEEPER, Wait("timer", "sleep", due=1), "the row is torn")]

            monkeypatch.setattr(worker.store, "due", damaged)
            async with serving(worker):
                while looked < 3:
                    worker.claim_wakeup.set()
                    await asyncio.sleep(0.005)

    with caplog.at_level("ERROR", logger="outlast.services"):
        play(scene)
    assert [f"run {SLEEPER}, table of waits: the row is torn" in line for line in caplog.messages] == [True]


def test_a_draining_worker_gives_back_what_it_is_handed() -> None:
    """A run that it had forgotten, or that it takes up again after trouble, does not begin here any more."""

    async def scene() -> None:
        async with hands(10) as (worker, ledger):
            await fill(ledger, turn_story.name, 1)
            run = RunId(f"{turn_story.name}-0")
            await pausing.drain(worker)
            for claim in await worker.store.claim(worker.id, runs=[run]):
                await worker.takeovers.adopt(claim)
            head = await worker.store.head(run)
            assert head is not None
            assert head.ready
            assert await worker.store.holding(run) is None
            assert not worker.has_run(run)

    play(scene)


def test_many_short_children_are_started_in_the_places_of_those_that_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few are created for others, and taken over by the worker that created them."""
    monkeypatch.setattr("outlast.engine.worker.STARTED_TOGETHER", 2)

    async def scene() -> None:
        ledger = Ledger(MemoryStore())
        async with working(ledger, Settings(store="", concurrency=80), reports_start=False) as worker:
            engine = Engine(ledger, worker)
            assert await (await engine.start(turn_family, children=300)).result() == 300
            children = [run.run async for run in engine.iter_runs(ol.RunFilter(workflow=turn_story.name))]
            assert len(children) == 300
            kinds = [record.kind for run in children for record in await ledger.store.read(run)]
            assert kinds.count(Kind.TAKEOVER) < 100
        await ledger.close()

    play(scene)
