"""Exclusive runs: of the runs with one key, one is live at a time (S11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import outlast as ol
from outlast.client.facade import Engine
from outlast.compose import working
from outlast.engine import worker as workers
from outlast.engine.completion import complete_run
from outlast.errors import NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.reading import created_of
from outlast.lifecycle.state import State
from outlast.settings import Settings
from outlast.stores.memory import Memory, MemoryStore

SLOT = "exclusive/a chair"
fails = {"now": False}
cleaned: list[str] = []


@ol.node
async def sits(name: str) -> str:
    if fails["now"]:
        raise ConnectionError("the chair is broken")
    return name


@ol.workflow(exclusive="a chair")
async def sits_alone(name: str) -> str:
    return await sits(name)


@ol.workflow(exclusive="a chair")
async def asks_alone() -> bool:
    try:
        return await ol.ask("Go on?", bool)
    finally:
        cleaned.append(await sits("cleaned"))


@ol.workflow(exclusive="a chair")
async def alone_in_turn(left: int) -> int:
    if left:
        await ol.continue_as_new(left - 1)
    await ol.ask("Go on?", bool)
    return left


@asynccontextmanager
async def engine_of(memory: Memory, *, worker: bool = True) -> AsyncIterator[Engine]:
    ledger = Ledger(MemoryStore(memory))
    try:
        if worker:
            async with working(ledger, Settings(store=""), reports_start=False) as here:
                yield Engine(ledger, here)
        else:
            yield Engine(ledger)
    finally:
        await ledger.close()


def play(scene: Callable[[Memory], Awaitable[None]]) -> None:
    fails["now"] = False
    cleaned.clear()

    async def played() -> None:
        async with asyncio.timeout(20):
            await scene(Memory())

    asyncio.run(played())


def holders(memory: Memory) -> list[str]:
    return [run for name, run in memory.slots if name == SLOT]


async def until_status(engine: Engine, run: str, status: str) -> None:
    while (await engine.get(RunId(run))).status != status:
        await asyncio.sleep(0.002)


def refused(holder: str) -> Any:
    return pytest.raises(NotAllowed, match=f"exclusive key 'a chair' is held by live run {holder}: wait for its end")


@pytest.mark.parametrize("worker", [True, False])
def test_of_many_starts_at_once_one_succeeds(worker: bool) -> None:
    async def scene(memory: Memory) -> None:
        async with engine_of(memory, worker=worker) as one, engine_of(memory, worker=worker) as other:
            starts = [engine.start(asks_alone) for engine in (one, other) * 10]
            found = await asyncio.gather(*starts, return_exceptions=True)
            assert sum(isinstance(each, NotAllowed) for each in found) == 19
            assert len(memory.heads) == len(holders(memory)) == 1, "a refused start leaves no run"

    play(scene)


def test_a_run_that_waits_has_its_key_when_no_worker_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_IDLE_RUNS", 0)

    async def scene(memory: Memory) -> None:
        async with engine_of(memory) as engine:
            first = await engine.start(asks_alone.options(id="first"))
            while memory.claims:
                await asyncio.sleep(0.002)
            with refused("first"):
                await engine.start(sits_alone, "second")
            assert (await engine.start(asks_alone.options(id="first"))).run == "first", "the same start is answered"
        async with engine_of(memory) as engine:
            with refused("first"):
                await engine.start(sits_alone, "third")
            await engine.answer(first.run, True)
            assert await engine.result(first.run) is True
            assert await (await engine.start(sits_alone, "fourth")).result() == "fourth"
        assert holders(memory) == []

    play(scene)


@pytest.mark.parametrize("way", ["paused", "held", "failed", "cancelled", "deferred"])
def test_a_run_that_has_stopped_leaves_its_key_and_takes_it_again(way: str) -> None:
    async def scene(memory: Memory) -> None:
        async with engine_of(memory) as engine:
            fails["now"] = way == "failed"
            if way == "deferred":
                await engine.start(sits_alone.options(id="first", start=False), "first")
            elif way == "failed":
                await engine.start(sits_alone.options(id="first"), "first")
                await until_status(engine, "first", "failed")
            else:
                await engine.start(asks_alone.options(id="first"))
                await until_status(engine, "first", "waiting")
                if way == "held":
                    driver = engine._worker.drivers[RunId("first")]  # type: ignore[union-attr]
                    await driver.hold(e.Failure("outlast.test", "look at it"))
                    await until_status(engine, "first", "failed")
                else:
                    await (engine.pause if way == "paused" else engine.cancel)(RunId("first"))
                    await until_status(engine, "first", "paused" if way == "paused" else "cancelled")
            fails["now"] = False
            assert holders(memory) == []
            await engine.start(asks_alone.options(id="second"))
            before = memory.summaries[RunId("first")].status
            with refused("second"):
                if way == "deferred":
                    await engine.begin(RunId("first"))
                elif way == "cancelled":
                    await engine.jump(RunId("first"), "start")
                else:
                    await engine.resume(RunId("first"))
            assert memory.summaries[RunId("first")].status == before
            with refused("second"):
                await engine.fork(RunId("second"))
            await engine.cancel(RunId("second"))
            await until_status(engine, "second", "cancelled")
            if way == "deferred":
                await engine.begin(RunId("first"))
            elif way == "cancelled":
                await engine.jump(RunId("first"), "start")
            else:
                await engine.resume(RunId("first"))
            await until_status(engine, "first", "completed" if way in ("failed", "deferred") else "waiting")
            assert holders(memory) == ([] if way in ("failed", "deferred") else ["first"])

    play(scene)


def test_a_paused_run_is_cancelled_and_cleans_up_while_another_has_its_key() -> None:
    async def scene(memory: Memory) -> None:
        async with engine_of(memory) as engine:
            await engine.start(asks_alone.options(id="first"))
            await until_status(engine, "first", "waiting")
            await engine.pause(RunId("first"))
            await until_status(engine, "first", "paused")
            await engine.start(asks_alone.options(id="second"))
            await engine.cancel(RunId("first"))
            await until_status(engine, "first", "cancelled")
            assert cleaned == ["cleaned"]
            assert holders(memory) == ["second"]

    play(scene)


def test_a_jump_that_was_requested_of_a_stopped_run_is_refused_while_another_has_its_key() -> None:
    async def scene(memory: Memory) -> None:
        async with engine_of(memory) as engine:
            await engine.start(asks_alone.options(id="first"))
            await until_status(engine, "first", "waiting")
            await engine.pause(RunId("first"))
            await until_status(engine, "first", "paused")
            await engine.start(asks_alone.options(id="second"))
            await engine._ledger.deliver(RunId("first"), [e.JumpRequested(target=1, branch=1)])
            refusals: list[str] = []
            while not refusals:
                await asyncio.sleep(0.002)
                events = [event for record in memory.logs[RunId("first")] for event in record.events()]
                refusals = [event.reason for event in events if isinstance(event, e.RequestRefused)]
            assert "is held by live run second" in refusals[0]
            assert (await engine.get(RunId("first"))).status == "paused"
            assert holders(memory) == ["second"]

    play(scene)


def test_a_successor_has_the_key_and_no_other_run_gets_it_in_between() -> None:
    async def scene(memory: Memory) -> None:
        async with engine_of(memory) as engine:
            last = (await engine.start(alone_in_turn, 20)).run
            while (await engine.get(last)).status != "waiting":
                with refused(".*"):
                    await engine.start(sits_alone, "between")
                last = await engine._control.continued_as(last)
            assert len(memory.heads) == 21
            assert holders(memory) == [last]

    play(scene)


def test_the_end_of_a_run_that_continues_is_applied_twice_without_harm() -> None:
    """As after a crash between the creation of the successor and the gift of the key."""

    async def scene(memory: Memory) -> None:
        async with engine_of(memory, worker=False) as engine:
            ledger = engine._ledger
            run, successor = RunId("first"), RunId("second")
            writer = await ledger.create(
                run,
                [e.RunCreated(workflow="w", exclusive="a chair"), e.RunStarted(), e.RunContinued(successor=successor)],
                ledger.new_worker_id(),
            )
            assert holders(memory) == [run]
            with refused("first"):
                await engine.start(sits_alone, "between")
            ending = e.RunContinued(successor=successor)
            for _ in range(2):
                await complete_run(ledger, run, await created_of(ledger.store, run), ending, State())
                assert holders(memory) == [successor]
            await writer.release()

    play(scene)
