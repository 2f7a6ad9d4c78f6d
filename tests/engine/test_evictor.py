"""The usher gives back runs that only wait, and none that has begun to work since it was seen waiting (P6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.client.facade import Engine
from outlast.engine.evictor import LONG_LOG, Evictor
from outlast.engine.worker import Worker
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.store import Append, Outcome, Store
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore

SOON = 8.0
events: dict[str, asyncio.Event] = {}


@ol.node
async def ushered_work() -> str:
    events["working"].set()
    await events["done"].wait()
    return "done"


@ol.workflow
async def ushered_question() -> str:
    await ol.ask("Go on?")
    return await ushered_work()


@ol.workflow
async def ushered_last_question() -> str:
    await ushered_work()
    return await ol.ask("Go on?")


@ol.workflow
async def ushered_child() -> str:
    return "the child's"


@ol.workflow
async def ushered_parent() -> str:
    await ol.ask("Go on?")
    return await ushered_child()


@ol.workflow
async def ushered_children(children: int) -> int:
    return len(await ol.gather(*(ushered_child() for _ in range(children))))


@ol.node
async def ushered_step(number: int) -> int:
    return number


@ol.workflow
async def ushered_long(nodes: int) -> str:
    for number in range(nodes):
        await ushered_step(number)
    return await ol.ask("First?") + await ol.ask("Second?")


class Attended(MemoryStore):
    """Something happens while a run is given back, and right after an append."""

    amid_release: Callable[[], Any] | None = None
    after_append: Callable[[Sequence[Append]], None] | None = None
    turns = 0
    """How often the loop turns before the next append is answered."""

    async def release(self, *args: Any, **kwargs: Any) -> bool:
        if self.amid_release is not None:
            amid, self.amid_release = self.amid_release, None
            await amid()
        return await super().release(*args, **kwargs)

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(batch)
        if self.after_append is not None:
            self.after_append(batch)
        turns, self.turns = self.turns, 0
        for _ in range(turns):
            await asyncio.sleep(0)
        return outcomes


@asynccontextmanager
async def desk(given: Store | None = None) -> AsyncIterator[tuple[Engine, Worker, Any]]:
    """Without staff: a run that is given back stays where it is."""
    events.update(working=asyncio.Event(), done=asyncio.Event())
    store = given or Attended()
    ledger = Ledger(store)
    worker = Worker(ledger)
    ledger.listen(worker.on_runs_changed)
    await store.enrol(worker.id, 30)
    try:
        async with asyncio.timeout(SOON):
            yield Engine(ledger, worker), worker, store
    finally:
        await worker.close()
        await ledger.close()
        await store.close()


async def until_asked(client: Engine, run: RunId, prompt: str) -> None:
    while [wait.text for wait in await client.questions(run)] != [prompt]:
        await asyncio.sleep(0)


async def until_idle(worker: Worker, *runs: RunId) -> None:
    while not all(worker.drivers[run].is_idle for run in runs):
        await asyncio.sleep(0)


def test_a_run_that_begins_to_work_while_another_is_given_back_is_kept() -> None:
    async def begun_meanwhile() -> None:
        async with desk() as (client, worker, store):
            runs = [(await client.start(ushered_question)).run for _ in range(2)]
            await until_idle(worker, *runs)
            usher = Evictor(worker)
            await usher.evict_idle()

            async def answer_the_other() -> None:
                (other,) = (run for run in runs if not worker.drivers[run].is_writing)
                await client.answer(other, "yes")
                await events["working"].wait()

            store.amid_release = answer_the_other
            await usher.evict_idle()
            events["done"].set()
            (kept,) = worker.drivers
            assert await client.result(kept) == "done"

    asyncio.run(begun_meanwhile())


def test_a_run_that_is_answered_while_it_is_given_back_with_its_append_is_looked_for_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outlast.engine.worker.MAX_IDLE_RUNS", 0)

    async def answered() -> None:
        async with desk() as (client, worker, store):
            tasks: list[asyncio.Task[None]] = []

            def answer(_: Sequence[Append]) -> None:
                store.after_append = None
                worker.claim_wakeup.clear()
                tasks.append(asyncio.create_task(client.answer("run-1", "yes")))

            await client.start(ushered_last_question.options(id="run-1"))
            store.after_append, store.turns = answer, 50
            await asyncio.sleep(0.01)  # or it would write alone, and what others write would come later
            events["done"].set()
            while not tasks:
                await asyncio.sleep(0)
            await asyncio.wait(tasks)
            head = await store.head(RunId("run-1"))
            assert head is not None
            assert (list(worker.drivers), head.ready) == ([], True)
            assert worker.claim_wakeup.is_set()

    asyncio.run(answered())


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_run_that_was_claimed_twice_at_once_is_given_back_all_the_same(
    is_answered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: a claim by name and one of the claiming service may get the same run in the same moment."""
    monkeypatch.setattr("outlast.engine.worker.MAX_IDLE_RUNS", 0)
    run = RunId("run-1")

    async def twice() -> None:
        async with desk(SqliteStore(tmp_path / "runs.db", durability="relaxed")) as (client, worker, store):
            await client.start(ushered_last_question.options(id=run))
            events["done"].set()
            while run in worker.drivers:
                await asyncio.sleep(0)
            if is_answered:
                await client.answer(run, "yes")
            claims = [claim for _ in range(2) for claim in await store.claim(worker.id, runs=[run])]
            await asyncio.gather(*map(worker.takeovers.adopt, claims))
            while (driver := worker.drivers.get(run)) is not None:
                await driver.release_if_idle()
                await asyncio.sleep(0)
            while await store.holding(run) is not None:
                await asyncio.sleep(0.001)
            assert (await client.get(run)).status == ("completed" if is_answered else "waiting")

    asyncio.run(twice())


def test_a_run_is_not_idle_from_when_its_child_is_asked_for_until_the_child_is_there() -> None:
    async def asked_for() -> None:
        seen: list[bool] = []
        async with desk() as (client, worker, store):
            handle = await client.start(ushered_parent)
            await until_idle(worker, handle.run)
            driver = worker.drivers[handle.run]

            def look(batch: Sequence[Append]) -> None:
                if any(isinstance(event, e.ChildStarted) for each in batch for event in each.record.events()):
                    asyncio.get_running_loop().call_soon(lambda: seen.append(driver.is_idle))

            store.after_append = look
            await client.answer(handle.run, "yes")
            assert await handle.result() == "the child's"
        assert seen == [False]

    asyncio.run(asked_for())


def test_a_parent_of_many_children_is_not_released_while_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody claims a released run here, so the parent would never end."""
    monkeypatch.setattr("outlast.engine.worker.MAX_IDLE_RUNS", 0)

    async def ended() -> None:
        async with desk() as (client, _, __):
            handle = await client.start(ushered_children, children=LONG_LOG)
            assert await handle.result() == LONG_LOG
            takeovers = [each async for each in client.events(handle.run) if isinstance(each.event, e.RunTakenOver)]
            assert not takeovers

    asyncio.run(ended())


def test_of_the_waiting_runs_with_a_long_log_those_stay_that_were_active_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.engine.worker.MAX_IDLE_RUNS", 0)
    monkeypatch.setattr("outlast.engine.evictor.MAX_LONG_RUNS", 2)

    async def kept() -> None:
        async with desk() as (client, worker, _):
            runs = [RunId(f"run-{number}") for number in range(3)]
            for run in runs[:2]:
                await client.start(ushered_long.options(id=run), nodes=LONG_LOG)
                await client.asked(run)
            await client.answer(runs[0], "a")
            await until_asked(client, runs[0], "Second?")
            await client.start(ushered_long.options(id=runs[2]), nodes=LONG_LOG)
            while runs[1] in worker.drivers:
                await asyncio.sleep(0)
            await client.asked(runs[2])
            assert set(worker.drivers) == {runs[0], runs[2]}

    asyncio.run(kept())


def test_a_run_that_was_active_between_two_rounds_stays() -> None:
    async def active() -> None:
        async with desk() as (client, worker, _):
            run = (await client.start(ushered_long, nodes=1)).run
            await client.asked(run)
            await until_idle(worker, run)
            evictor = Evictor(worker)
            await evictor.evict_idle()
            await client.answer(run, "a")
            await until_asked(client, run, "Second?")
            await until_idle(worker, run)
            await evictor.evict_idle()
            assert run in worker.drivers
            await evictor.evict_idle()
            assert run not in worker.drivers

    asyncio.run(active())
