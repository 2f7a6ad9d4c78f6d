"""A run that was created with `start=False` begins when a user starts it, and never before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.errors import AlreadyExists, InvalidInput, NotAllowed
from outlast.history import events as e
from support.workflow_tools import soon


def doubling() -> Any:
    @ol.workflow
    async def doubled(value: int) -> int:
        return 2 * value

    return doubled


async def kinds(client: ol.Engine, run: str) -> list[type]:
    return [type(entry.event) async for entry in client.events(run)]


async def test_neither_a_worker_nor_a_restart_nor_a_sweep_begins_it(stage: Any) -> None:
    first = await stage.engine()
    run = (await first.start(doubling().options(start=False, id="later"), 4)).run
    assert await kinds(first, run) == [e.RunCreated]
    (created,) = [entry.event async for entry in first.events(run)]
    assert isinstance(created, e.RunCreated)
    assert created.deferred
    await stage.crash(first)
    second = await stage.engine()
    report = await second.sweep(stale_after=0)
    assert (report.waiting, report.recovered, report.stalled) == (1, 0, 0)
    assert not (await second.diagnose(run)).findings
    await second.recover(run)
    await asyncio.sleep(0.2)
    summary = await second.get(run)
    assert (summary.status, summary.awaits_start) == ("created", True)
    assert await kinds(second, run) == [e.RunCreated]
    explained = await second.explain(run)
    assert explained.actions[0].verb == "start"
    assert "begins when a person starts it" in " ".join(explained.state)


async def test_it_begins_once_when_it_is_started(stage: Any) -> None:
    engine = await stage.engine()
    run = (await engine.start(doubling().options(start=False, id="later"), 4)).run
    assert (await engine.start(doubling().options(start=False, id="later"), 4)).run == run
    with pytest.raises(AlreadyExists):
        await engine.start(doubling().options(start=False, id="later"), 5)
    with pytest.raises(NotAllowed, match="start it"):
        await engine.resume(run)
    begun = await asyncio.gather(*(engine.begin(run, by="ann") for _ in range(5)), return_exceptions=True)
    assert sum(not isinstance(each, BaseException) for each in begun) == 1
    assert all(isinstance(each, NotAllowed) for each in begun if isinstance(each, BaseException)), begun
    assert await soon(engine.result(run)) == 8
    started = [entry.event async for entry in engine.events(run) if isinstance(entry.event, e.RunStarted)]
    assert [each.by for each in started] == ["ann"]
    assert await stage.is_sound(engine, run)
    with pytest.raises(NotAllowed, match="created with start=False"):
        await engine.begin(run)


async def test_an_event_from_outside_does_not_begin_it(stage: Any) -> None:
    engine = await stage.engine()
    run = (await engine.start(doubling().options(start=False), 4)).run
    await engine._ledger.deliver(run, [e.SignalReceived(signal="s", name="news")])
    while e.RunTakenOver not in await kinds(engine, run):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert e.RunStarted not in await kinds(engine, run)
    await engine.begin(run)
    assert await soon(engine.result(run)) == 8
    assert await stage.is_sound(engine, run)


async def test_it_can_be_cancelled_and_forked(stage: Any) -> None:
    engine = await stage.engine()
    run = (await engine.start(doubling().options(start=False), 4)).run
    fork = await engine.fork(run)
    assert await soon(fork.result()) == 8
    assert (await engine.get(run)).awaits_start
    await engine.cancel(run)
    assert (await engine.get(run)).status == "cancelled"
    assert not (await engine.get(run)).awaits_start
    assert e.RunStarted not in await kinds(engine, run)


async def test_a_jump_back_to_the_start_of_a_run_that_was_started_begins_it_again(stage: Any) -> None:
    engine = await stage.engine()
    run = (await engine.start(doubling().options(start=False), 4)).run
    await engine.begin(run)
    await soon(engine.result(run))
    await engine.jump(run, "start")
    assert await soon(engine.result(run)) == 8
    assert await engine.diagnostics.current_branch(run) == 1
    assert await stage.is_sound(engine, run)


async def test_the_run_that_continues_it_begins_by_itself(stage: Any) -> None:
    @ol.workflow
    async def continued(left: int) -> str:
        if left:
            await ol.continue_as_new(left - 1)
        return "the last"

    engine = await stage.engine()
    run = (await engine.start(continued.options(start=False), 2)).run
    await engine.begin(run)
    assert await soon(engine.result(run)) == "the last"


async def test_it_takes_its_exclusive_key_when_it_is_started(stage: Any) -> None:
    @ol.workflow(exclusive="the key")
    async def alone() -> str:
        return "alone"

    engine = await stage.engine(worker=False)
    first = (await engine.start(alone.options(start=False))).run
    second = (await engine.start(alone)).run
    with pytest.raises(NotAllowed, match=second):
        await engine.begin(first)
    await engine.cancel(second)
    await engine.begin(first)
    with pytest.raises(NotAllowed, match=first):
        await engine.start(alone)


async def test_a_child_cannot_wait_to_be_started(stage: Any) -> None:
    doubled = doubling().options(start=False)

    @ol.workflow
    async def deferring() -> int:
        return int(await doubled(1))

    engine = await stage.engine()
    with pytest.raises(InvalidInput, match="start=False"):
        await soon((await engine.start(deferring)).result())
