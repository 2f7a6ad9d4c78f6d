"""Plain workflows, which are functions without `async`."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import SOON, Gated, crashed_at, echo, fail, is_node, names, plain_echo, run_of, soon


async def test_a_plain_workflow_waits_for_its_calls(stage: Any) -> None:
    @ol.workflow
    def flow(number: int) -> int:
        with ol.step("all"):
            number = echo(number + 1).wait()
        ol.sleep(0.001).wait()
        first, second = ol.gather(echo(number), plain_echo(number)).wait()
        return first + second + sum(ol.map(echo, range(4)).wait()) + ol.race(echo(100)).wait().value

    assert await run_of(stage, flow, 1) == 2 + 2 + 6 + 100


async def test_a_plain_workflow_goes_on_after_a_crash(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    def flow() -> list[Any]:
        first = echo("first").wait()
        return [first, gated.node("second").wait()]

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == ["first", "second"]


async def test_a_plain_workflow_can_be_cancelled_while_it_waits(stage: Any) -> None:
    gated = Gated()
    ended = threading.Event()

    @ol.workflow
    def flow() -> None:
        try:
            gated.node().wait()
        finally:
            ended.set()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert ended.wait(SOON)


async def test_a_plain_workflow_catches_the_errors_of_its_nodes(stage: Any) -> None:
    @ol.workflow
    def flow() -> str:
        try:
            fail("caught").wait()
        except ValueError as error:
            return str(error)
        return ""

    assert await run_of(stage, flow) == "caught"


async def test_to_wait_in_an_async_workflow_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        echo(1).wait()

    with pytest.raises(ol.NotDurable, match="await"):
        await run_of(stage, flow)


async def test_a_plain_workflow_catches_the_cancellation_of_what_it_waits_for(stage: Any) -> None:
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @ol.workflow
    def flow() -> Any:
        try:
            ol.gather(gives_up(), echo(1)).wait()
        except asyncio.CancelledError:
            return echo("caught").wait()

    assert await run_of(stage, flow) == "caught"


async def test_helpers_that_a_plain_workflow_waits_for_within_a_step_belong_to_it(stage: Any) -> None:
    async def helper() -> Any:
        return await echo(1)

    @ol.workflow
    def flow() -> Any:
        with ol.step("publish"):
            ol.gather(helper(), echo(2)).wait()
        ol.gather(helper(), echo(3)).wait()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    scheduled = [event for event in await stage.events(engine, handle.run) if isinstance(event, e.NodeScheduled)]
    assert {event.node: event.step for event in scheduled} == {
        "publish/echo": "publish",
        "publish/1/echo": "publish",
        "echo": "",
        "1/echo": "",
    }


async def test_helpers_within_a_step_of_a_plain_workflow_are_found_again_after_a_crash(stage: Any) -> None:
    gated = Gated()

    async def helper() -> Any:
        return [await echo(1), await gated.node(2)]

    @ol.workflow
    def flow() -> Any:
        with ol.step("publish"):
            return ol.gather(helper(), echo(3)).wait()

    run = await crashed_at(stage, flow, at=is_node("publish/1/gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == [[1, 2], 3]
    assert names(await stage.events(engine, run), e.NodeStarted).count("publish/1/echo") == 1


async def test_a_plain_workflow_that_catches_everything_does_not_block_the_engine(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(cleanup=0.3)
    def stubborn() -> None:
        while True:
            with suppress(BaseException):
                gated.node().wait()

    @ol.workflow
    async def other() -> int:
        return await echo(1)

    engine = await stage.engine()
    handle = await engine.start(stubborn)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    begun = asyncio.get_running_loop().time()
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await soon((await engine.start(other)).result()) == 1
    assert asyncio.get_running_loop().time() - begun < 2
