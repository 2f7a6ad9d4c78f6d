"""A worker that takes over no others advances what was started or taken on here, until that is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import outlast as ol
from outlast.client.facade import Engine
from outlast.engine import claimer
from outlast.engine.claimer import Claimer
from outlast.engine.worker import Worker
from outlast.errors import AlreadyExists
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.settings import Settings
from outlast.store import Head
from outlast.stores.memory import Memory, MemoryStore

fails = {"now": False}


@ol.node
async def own_step(n: int) -> int:
    if fails["now"]:
        raise ValueError("not today")
    return n + 1


@ol.workflow
async def own_story(n: int) -> int:
    return await own_step(n)


@ol.workflow
async def own_parent(n: int) -> int:
    return await own_story(n)


@ol.workflow
async def own_successors(n: int) -> int:
    if n:
        await ol.continue_as_new(n - 1)
    return n


@ol.workflow
async def own_question() -> bool:
    return await ol.ask("go on?", bool)


class Bench:
    """A worker that takes over no others, its claimer and its desk."""

    def __init__(self, memory: Memory, concurrency: int) -> None:
        self.store = MemoryStore(memory)
        self.ledger = Ledger(self.store)
        self.worker = Worker(self.ledger, Settings(store="", concurrency=concurrency), takes_over_others=False)
        self.client = Engine(self.ledger, self.worker)
        self.claimer = Claimer(self.worker)
        self.ledger.listen(self.worker.on_runs_changed)

    async def is_idle(self, run: RunId) -> None:
        """Return when a run only waits."""
        await until(lambda: self.worker.drivers[run].is_idle)


@asynccontextmanager
async def bench(memory: Memory | None = None, concurrency: int = 2000) -> AsyncIterator[Bench]:
    made = Bench(memory or Memory(), concurrency)
    await made.store.enrol(made.worker.id, 30)
    serving = asyncio.create_task(made.claimer.run())
    try:
        yield made
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await made.worker.close()
        await made.ledger.close()


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def played() -> None:
        async with asyncio.timeout(30):
            await scene()

    asyncio.run(played())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("workflow", "arguments"),
    [(own_story, (1,)), (own_parent, (1,)), (own_successors, (3,))],
    ids=["alone", "with a child", "with successors"],
)
def test_runs_that_have_ended_are_left_out(workflow: Any, arguments: tuple[Any, ...]) -> None:
    async def scene() -> None:
        async with bench() as here:
            handle = await here.client.start(workflow, *arguments)
            await handle.result()
            await until(lambda: here.worker.own == set())

    play(scene)


def test_a_run_that_ended_elsewhere_is_left_out() -> None:
    async def scene() -> None:
        memory = Memory()
        async with bench(memory) as here:
            handle = await here.client.start(own_question)
            await here.is_idle(handle.run)
            other = Engine(Ledger(MemoryStore(memory)))
            await other.cancel(handle.run)
            await until(lambda: here.worker.own == set())

    play(scene)


def test_a_run_that_waits_is_looked_after_until_it_is_answered() -> None:
    async def scene() -> None:
        async with bench() as here:
            handle = await here.client.start(own_question)
            await here.is_idle(handle.run)
            assert not await here.claimer.look()
            assert here.worker.drivers.keys() == {handle.run}, "it stays in memory"
            await handle.answer(True)
            assert await handle.result() is True

    play(scene)


def test_a_run_that_is_paused_is_not_left_out() -> None:
    async def scene() -> None:
        async with bench() as here:
            handle = await here.client.start(own_question)
            await here.is_idle(handle.run)
            await handle.pause()
            await until(lambda: not here.worker.drivers)
            assert not await here.claimer.look()
            assert here.worker.own == {handle.run}
            await Engine(Ledger(here.store)).resume(handle.run)
            await until(lambda: handle.run in here.worker.drivers)

    play(scene)


@pytest.mark.parametrize("verb", ["resume", "retry", "jump", "rewind"])
def test_a_run_that_was_left_out_is_taken_on_again_by(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with bench() as here:
            monkeypatch.setitem(fails, "now", verb in ("resume", "retry"))
            handle = await here.client.start(own_story, 1)
            with suppress(ValueError):
                await handle.result()
            await until(lambda: here.worker.own == set())
            monkeypatch.setitem(fails, "now", False)
            await getattr(here.client, verb)(handle.run, **({"to": "start"} if verb == "jump" else {}))
            assert await handle.result() == 2

    play(scene)


def test_a_run_that_goes_on_while_it_is_being_left_out_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with bench() as here:
            handle = await here.client.start(own_story, 1)
            await handle.result()
            await until(lambda: here.worker.own == set())
            head, looks = here.store.head, 0

            async def turned(run: RunId) -> Head | None:
                nonlocal looks
                looks += 1
                found = await head(run)
                if looks == 1:
                    monkeypatch.setattr(here.store, "head", head)
                    await here.client.rewind(handle.run)
                return found

            monkeypatch.setattr(here.store, "head", turned)
            here.worker.advance_run(handle.run)
            await until(lambda: looks > 0)
            assert await handle.result() == 2

    play(scene)


def test_a_start_that_is_refused_leaves_the_run_there_is_in_care() -> None:
    async def scene() -> None:
        async with bench() as here:
            handle = await here.client.start(own_question.options(id="refused"))
            await here.is_idle(handle.run)
            with pytest.raises(AlreadyExists):
                await here.client.start(own_story.options(id="refused"), 1)
            assert here.worker.drivers.keys() == {handle.run}

    play(scene)


def test_runs_that_wait_leave_room_for_others() -> None:
    async def scene() -> None:
        async with bench(concurrency=2) as here:
            waiting = [await here.client.start(own_question) for _ in range(4)]
            for handle in waiting:
                await until(lambda run=handle.run: run in here.worker.drivers)  # type: ignore[misc]
            assert await (await here.client.start(own_story, 1)).result() == 2
            for handle in waiting:
                await handle.answer(True)
                assert await handle.result() is True

    play(scene)


def test_runs_whose_owner_left_without_a_word_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimer, "POLL_INTERVAL_S", 0.001)

    async def scene() -> None:
        memory = Memory()
        async with bench(memory) as there, bench(memory) as here:
            runs = [(await there.client.start(own_question)).run for _ in range(3)]
            for run in runs:
                assert await here.client.diagnostics.take_over_later(run) == there.worker.id
            left = there.worker.id
            there.worker.restart_as_new_worker()
            there.worker.own = set()
            await there.store.retire(left)
            await until(lambda: here.worker.drivers.keys() == set(runs))

    play(scene)
