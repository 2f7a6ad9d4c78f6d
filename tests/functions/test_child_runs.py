"""Child runs, live and after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import Gated, Shop, crashed_at, run_of, soon


def family(gated: Gated) -> tuple[Any, Any]:
    @ol.workflow
    async def child(number: int) -> int:
        if number < 0:
            raise Shop("children", number)
        if number == 0:
            await gated.node(number)
        return number * 2

    @ol.workflow
    async def parent(number: int) -> int:
        return await child(number) + 1

    return parent, child


async def test_a_child_run_brings_its_result(stage: Any) -> None:
    parent, _ = family(Gated())
    assert await run_of(stage, parent, 4) == 9


async def test_a_child_run_is_a_run_of_its_own_with_a_parent(stage: Any) -> None:
    parent, _ = family(Gated())
    engine = await stage.engine()
    handle = await engine.start(parent, 4)
    await soon(handle.result())
    (listed,) = (await engine.list_runs(ol.RunFilter(parent=handle.run))).items
    assert listed.summary.workflow == "child"


async def test_the_failure_of_a_child_run_is_raised_in_its_parent(stage: Any) -> None:
    parent, _ = family(Gated())
    with pytest.raises(Shop, match="children"):
        await run_of(stage, parent, -1)


async def test_a_child_run_is_cancelled_with_its_parent(stage: Any) -> None:
    gated = Gated()
    parent, _ = family(gated)
    engine = await stage.engine()
    handle = await engine.start(parent, 0)
    started = await soon(stage.until(engine, handle.run, e.ChildStarted))
    while not gated.calls:
        await asyncio.sleep(0.002)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(started.event.child))


async def test_a_cancelled_child_run_is_an_error_in_its_parent(stage: Any) -> None:
    gated = Gated()
    parent, _ = family(gated)
    engine = await stage.engine()
    handle = await engine.start(parent, 0)
    started = await soon(stage.until(engine, handle.run, e.ChildStarted))
    while not gated.calls:
        await asyncio.sleep(0.002)
    await engine.cancel(started.event.child)
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())


async def test_a_child_run_goes_on_after_a_crash_and_is_not_started_again(stage: Any) -> None:
    gated = Gated()
    parent, _ = family(gated)
    run = await crashed_at(stage, parent, 0, at=e.ChildStarted)
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == 1
    assert len((await engine.list_runs(ol.RunFilter(parent=run))).items) == 1
    assert await stage.is_sound(engine, run)


async def test_a_child_run_that_loses_a_race_is_cancelled(stage: Any) -> None:
    gated = Gated()
    _, child = family(gated)

    @ol.workflow
    async def flow() -> int:
        return (await ol.race(child(0), ol.sleep(0.05))).index

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == 1
    (listed,) = (await engine.list_runs(ol.RunFilter(parent=handle.run))).items
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(listed.summary.run))


async def test_a_child_run_that_is_held_keeps_its_parent_waiting(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(on_restart="hold")
    async def child() -> str:
        await gated.node()
        return "child"

    @ol.workflow
    async def parent() -> str:
        return await child()

    engine = await stage.engine()
    handle = await engine.start(parent)
    started = await soon(stage.until(engine, handle.run, e.ChildStarted))
    while not gated.calls:
        await asyncio.sleep(0.002)
    await stage.crash(engine)
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld):
        await soon(engine.result(started.event.child))
    await engine.resume(started.event.child)
    assert await soon(engine.result(handle.run)) == "child"
