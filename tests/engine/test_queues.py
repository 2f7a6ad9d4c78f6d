"""Queues: which worker executes a run, in which order, and how many of a queue at once (S6, S11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

import outlast as ol
from outlast.client.facade import Engine
from outlast.compose import working
from outlast.engine.worker import Worker
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.settings import Settings
from outlast.stores.memory import Memory, MemoryStore

begun: list[str] = []
busy: dict[str, int] = {}
gates: dict[str, asyncio.Event] = {}
GPU = "queue/gpu"


@ol.node
async def queued_step(name: str) -> str:
    begun.append(name)
    busy["now"] = busy.get("now", 0) + 1
    busy["most"] = max(busy.get("most", 0), busy["now"])
    try:
        await asyncio.sleep(0.01)
        if name in gates:
            await gates[name].wait()
    finally:
        busy["now"] -= 1
    return name


@ol.workflow(queue="gpu")
async def queued_work(name: str) -> str:
    return await queued_step(name)


@ol.workflow(queue="gpu", priority=10)
async def urgent_work(name: str) -> str:
    return await queued_step(name)


@ol.workflow(queue="gpu")
async def queued_question(name: str) -> str:
    await queued_step(name)
    await ol.ask("Go on?", bool)
    return await queued_step(f"{name} again")


@ol.workflow(queue="gpu")
async def queued_sleeper(name: str) -> str:
    await ol.sleep(timedelta(seconds=2.5))
    return await queued_step(name)


@ol.workflow(queue="gpu")
async def queued_parent(name: str) -> str:
    return await queued_work(name)


@ol.workflow
async def unqueued_parent(name: str) -> str:
    return await queued_work.options(priority=3, fairness_key="of the parent")(name)


@ol.workflow(queue="gpu")
async def queued_chain(left: int) -> int:
    if left:
        await ol.continue_as_new(left - 1)
    return left


@asynccontextmanager
async def worker_of(memory: Memory, *, own: bool = False, **settings: Any) -> AsyncIterator[tuple[Engine, Worker]]:
    ledger = Ledger(MemoryStore(memory))
    try:
        async with working(
            ledger, Settings(store="", **settings), take_over_others=not own, reports_start=False
        ) as worker:
            yield Engine(ledger, worker), worker
    finally:
        await ledger.close()


def desk_of(memory: Memory) -> Engine:
    return Engine(Ledger(MemoryStore(memory)))


def play(scene: Callable[[Memory], Awaitable[None]]) -> None:
    begun.clear()
    busy.clear()
    gates.clear()

    async def played() -> None:
        async with asyncio.timeout(30):
            await scene(Memory())

    asyncio.run(played())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.002)


def held(memory: Memory) -> list[str]:
    return [run for name, run in memory.slots if name == GPU]


def test_a_worker_executes_the_runs_of_its_queues_only() -> None:
    async def scene(memory: Memory) -> None:
        desk = desk_of(memory)
        for queue in ("gpu", "mail", ""):
            await desk.start(queued_work.options(id=f"of-{queue}", queue=queue), queue)
        async with worker_of(memory, queues=("mail",)) as (engine, worker):
            assert await engine.result(RunId("of-mail")) == "mail"
            await asyncio.sleep(0.05)
            assert begun == ["mail"]
            assert "Waits in queue gpu: no live worker serves it." in (await engine.explain(RunId("of-gpu"))).state
            assert not worker.drivers
        async with worker_of(memory, queues=("",)) as (engine, _):
            assert await engine.result(RunId("of-")) == ""
        async with worker_of(memory) as (engine, _):
            assert await engine.result(RunId("of-gpu")) == "gpu"

    play(scene)


def test_the_greatest_priority_begins_first_and_fairness_keys_take_turns() -> None:
    async def scene(memory: Memory) -> None:
        desk = desk_of(memory)
        for number in range(4):
            await desk.start(queued_work.options(fairness_key="many"), f"many {number}")
        await desk.start(queued_work.options(fairness_key="few"), "few 0")
        await desk.start(queued_work.options(priority=-1), "late")
        last = await desk.start(queued_work.options(priority=-100), "last")
        await desk.start(urgent_work, "urgent")
        async with worker_of(memory, concurrency=1) as (engine, _):
            await engine.result(last.run)
        assert begun[0] == "urgent"
        assert begun[-2:] == ["late", "last"]
        assert begun.index("few 0") in (1, 2)

    play(scene)


@pytest.mark.parametrize("own", [False, True])
def test_all_workers_together_execute_no_more_than_the_limit(own: bool) -> None:
    async def scene(memory: Memory) -> None:
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(worker_of(memory, own=own, queue_limits={"gpu": 3})) for _ in range(3)
            ]
            handles = [await workers[n % 3][0].start(queued_work, str(n)) for n in range(20)]
            assert [await handle.result() for handle in handles] == [str(n) for n in range(20)]
        assert busy["most"] == 3
        assert held(memory) == []

    play(scene)


@pytest.mark.parametrize("own", [False, True])
def test_a_run_that_only_waits_gives_its_slot_to_others_and_waits_for_it_again(own: bool) -> None:
    async def scene(memory: Memory) -> None:
        gates["other"] = asyncio.Event()
        async with worker_of(memory, own=own, queue_limits={"gpu": 1}) as (engine, worker):
            asking = await engine.start(queued_question, "asking")
            await until(lambda: "asking" in begun and not worker.drivers)
            assert held(memory) == []
            other = await engine.start(queued_work, "other")
            await until(lambda: "other" in begun)
            await asking.answer(True)
            await asyncio.sleep(0.1)
            assert f"Waits in queue gpu. Its slots are held by: {other.run}." in (await asking.explain()).state
            assert held(memory) == [other.run]
            assert begun == ["asking", "other"], "the answered run waits for the slot"
            gates["other"].set()
            assert await asking.result() == "asking again"
            assert await other.result() == "other"
        events = [event for record in memory.logs[asking.run] for event in record.events()]
        assert sum(isinstance(event, e.RunTakenOver) for event in events) == 2, "a full queue costs no events"

    play(scene)


@pytest.mark.parametrize("own", [False, True])
def test_a_run_that_sleeps_gives_its_slot_to_others(own: bool) -> None:
    async def scene(memory: Memory) -> None:
        async with worker_of(memory, own=own, queue_limits={"gpu": 1}) as (engine, _):
            sleeper = await engine.start(queued_sleeper, "slept")
            other = await engine.start(queued_work, "other")
            assert await sleeper.result() == "slept"
            assert await other.result() == "other"
        assert begun == ["other", "slept"]

    play(scene)


def test_a_parent_and_its_child_share_a_queue_of_one() -> None:
    """The parent only waits for the child, so it does not need its slot."""

    async def scene(memory: Memory) -> None:
        async with worker_of(memory, queue_limits={"gpu": 1}) as (engine, _):
            assert await (await engine.start(queued_parent, "child")).result() == "child"

    play(scene)


def test_children_and_successors_wait_in_their_queue() -> None:
    async def scene(memory: Memory) -> None:
        async with worker_of(memory, queue_limits={"gpu": 1}) as (engine, _):
            assert await (await engine.start(unqueued_parent, "child")).result() == "child"
            assert await (await engine.start(queued_chain, 2)).result() == 0
            runs = [run async for run in engine.iter_runs()]
        child = next(run for run in runs if run.parent)
        assert (child.queue, child.priority, child.fairness_key) == ("gpu", 3, "of the parent")
        assert [run.queue for run in runs if run.workflow == queued_chain.name] == ["gpu"] * 3

    play(scene)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"priority": 101}, "priority must be a whole number from -100 to 100"),
        ({"priority": True}, "priority must be a whole number"),
        ({"priority": 1.5}, "priority must be a whole number"),
        ({"queue": "a/b"}, "'a/b' is not a valid queue name"),
        ({"queue": 5}, "queue must be the name of a queue"),
        ({"fairness_key": "x" * 201}, "fairness_key must be a text of 1 to 200"),
    ],
)
def test_a_place_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ol.InvalidInput, match=said):
        queued_work.options(**options)
    if "fairness_key" not in options:
        with pytest.raises(ol.InvalidInput, match=said):
            ol.workflow(**options)(queued_work.fn)
