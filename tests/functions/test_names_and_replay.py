"""Names of nodes, and what is the same in a replay."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import Gated, crashed_at, echo, is_node, names, run_of, soon

# --- names ------------------------------------------------------------------------------------------------------------


async def completed_names(stage: Any, workflow: Any) -> list[str]:
    engine = await stage.engine()
    handle = await engine.start(workflow)
    await soon(handle.result())
    return names(await stage.events(engine, handle.run), e.NodeCompleted)


async def test_calls_of_one_node_are_numbered(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await echo(1)
        await echo(2)
        await echo(3)

    assert await completed_names(stage, flow) == ["echo", "echo#2", "echo#3"]


async def test_a_key_names_a_call(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        for name in ("a", "b"):
            await echo.options(id=name)(name)

    assert await completed_names(stage, flow) == ["echo[a]", "echo[b]"]


async def test_a_key_given_twice_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await echo.options(id="a")(1)
        await echo.options(id="a")(2)

    with pytest.raises(ol.NotDurable, match="twice"):
        await run_of(stage, flow)


async def test_steps_and_tasks_are_scopes_within_scopes(stage: Any) -> None:
    async def helper() -> None:
        await echo(1)
        async with ol.step("inner"):
            await echo(2)

    @ol.workflow
    async def flow() -> None:
        async with ol.step("outer"):
            await echo(0)
            await ol.gather(helper(), helper())

    assert sorted(await completed_names(stage, flow)) == [
        "outer/1/echo",
        "outer/1/inner/echo",
        "outer/2/echo",
        "outer/2/inner/echo",
        "outer/echo",
    ]


async def test_steps_are_in_the_log_with_their_nodes(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        async with ol.step("publish"):
            await echo(1)

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    events = await stage.events(engine, handle.run)
    assert [x.step for x in events if isinstance(x, e.StepStarted | e.StepCompleted)] == ["publish", "publish"]
    assert [x.step for x in events if isinstance(x, e.NodeScheduled)] == ["publish"]


# --- what is the same in a replay -------------------------------------------------------------------------------------


async def test_now_random_and_uuid_are_the_same_after_a_replay(stage: Any) -> None:
    seen: list[Any] = []
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        facts: list[Any] = [ol.now(), ol.random(), ol.uuid(), ol.random()]
        await echo(1)
        facts += [ol.now(), ol.random(), ol.uuid()]
        await ol.sleep(0.001)
        facts += [ol.now(), asyncio.get_running_loop().time()]
        seen.append(facts)
        await gated.node()

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    await soon(engine.result(run))
    assert seen[0] == seen[1]


async def test_random_and_uuid_differ_from_call_to_call(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [str(ol.random()), str(ol.random()), str(ol.uuid()), str(ol.uuid())]

    assert len(set(await run_of(stage, flow))) == 4


async def test_now_has_a_time_zone_and_is_about_now(stage: Any) -> None:
    @ol.workflow
    async def flow() -> datetime:
        return ol.now()

    assert abs(await run_of(stage, flow) - datetime.now(UTC)) < timedelta(seconds=30)


async def test_a_sleep_until_a_time_without_zone_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await ol.sleep(until=datetime(2030, 1, 1))

    with pytest.raises(ol.InvalidInput, match="time zone"):
        await run_of(stage, flow)


async def test_a_sleep_goes_on_after_a_crash(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        await ol.sleep(0.2)
        return "awake"

    run = await crashed_at(stage, flow, at=e.TimerSet)
    engine = await stage.engine()
    assert await soon(engine.result(run)) == "awake"


async def test_a_sleep_beside_a_node_is_over_when_the_clock_says_so(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine was suspended, or its clock was set: the loop's own clock knows nothing of that."""
    monkeypatch.setattr("outlast.engine.driver.MAX_SLEEP_S", 0.01)

    @ol.node
    async def busy() -> None:
        await asyncio.Event().wait()

    @ol.workflow
    async def flow() -> str:
        await ol.race(busy(), ol.sleep(hours=2))
        return "awake"

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.TimerSet)
    clock = engine._ledger.clock
    ahead = lambda: clock() + 7_200_000_000  # noqa: E731
    monkeypatch.setattr(engine._ledger, "clock", ahead)
    assert await soon(handle.result()) == "awake"
