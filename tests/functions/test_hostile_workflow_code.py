"""Workflow code that does its worst, and cancellation inside of it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import SOON, Gated, asked, crashed_at, echo, is_node, names, run_of, soon

# --- hostile workflow code --------------------------------------------------------------------------------------------


class Unusual(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Unusual("x"), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("when", ["at once", "after a node"])
async def test_a_workflow_that_raises_no_exception_fails_and_harms_nobody(
    stage: Any, error: BaseException, when: str
) -> None:
    @ol.workflow
    async def flow() -> None:
        if when == "after a node":
            await echo(1)
        raise error

    @ol.workflow
    async def other() -> int:
        return await echo(1)

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ol.NodeFailure, match=type(error).__name__):
        await soon(handle.result())
    assert await soon((await engine.start(other)).result()) == 1


async def test_a_plain_workflow_that_raises_system_exit_fails_and_harms_nobody(stage: Any) -> None:
    @ol.workflow
    def flow() -> None:
        raise SystemExit(3)

    engine = await stage.engine()
    with pytest.raises(ol.NodeFailure, match="SystemExit"):
        await soon((await engine.start(flow)).result())


async def test_a_callback_of_a_workflow_that_raises_harms_nobody(stage: Any) -> None:
    def broken() -> None:
        raise ZeroDivisionError("in a callback")

    @ol.workflow
    async def flow() -> int:
        asyncio.get_running_loop().call_soon(broken)
        return await echo(1)

    @ol.workflow
    async def other() -> int:
        return await echo(1)

    engine = await stage.engine()
    with suppress(ZeroDivisionError):
        await soon((await engine.start(flow)).result())
    assert await soon((await engine.start(other)).result()) == 1


async def test_a_task_of_a_workflow_that_raises_unheard_does_not_fail_the_run(stage: Any) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("in a task")

    @ol.workflow
    async def flow() -> int:
        asyncio.create_task(broken()).add_done_callback(lambda _: None)
        return await echo(1)

    assert await run_of(stage, flow) == 1


async def test_an_argument_that_cannot_be_stored_is_refused_where_it_is_given(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        try:
            await echo(object())
        except ol.NotStorable as refused:
            return str(refused)
        return ""

    assert "value" in await run_of(stage, flow)


async def test_a_call_that_does_not_fit_the_function_is_a_type_error_in_the_workflow(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        try:
            await echo(1, 2, 3)  # type: ignore[call-arg]
        except TypeError as refused:
            return str(refused)
        return ""

    assert "too many" in await run_of(stage, flow)


async def test_a_start_that_does_not_fit_the_workflow_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow(number: int) -> None: ...

    engine = await stage.engine()
    with pytest.raises(ol.InvalidInput, match="number"):
        await engine.start(flow)  # type: ignore[call-arg]
    assert not (await engine.list_runs(ol.RunFilter())).items


async def test_a_call_that_is_awaited_twice_is_done_once(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[int]:
        call = echo(1)
        return [await call, await call]

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == [1, 1]
    assert names(await stage.events(engine, handle.run), e.NodeCompleted) == ["echo"]


async def test_a_workflow_that_returns_before_its_tasks_are_done_has_returned(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        task = asyncio.create_task(gated.node())
        task.add_done_callback(lambda _: None)
        await echo(1)
        return f"{task.done()}"

    assert await run_of(stage, flow) == "False"


async def test_the_code_that_runs_at_the_cancellation_of_a_node_call_may_call_nodes(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        async def side() -> None:
            try:
                await gated.node()
            finally:
                await echo("cleaned")

        task = asyncio.create_task(side())
        await echo("main")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return "done"

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == "done"
    assert names(await stage.events(engine, handle.run), e.NodeCompleted) == ["echo", "1/echo"]


# --- cancellation -----------------------------------------------------------------------------------------------------


async def test_cancellation_reaches_an_async_node_whose_finally_runs(stage: Any) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    @ol.node
    async def careful() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    @ol.workflow
    async def flow() -> None:
        await careful()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(begun.wait())
    await handle.cancel(by="me", reason="enough")
    with pytest.raises(ol.RunCancelled, match="enough"):
        await soon(handle.result())
    assert cleaned.is_set()
    assert await stage.is_sound(engine, handle.run)


async def test_cancellation_is_seen_by_a_plain_node_that_looks(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped = threading.Event(), threading.Event()

    @ol.node
    def careful() -> None:
        begun.set()
        while not ol.is_stopping():
            stopped.wait(0.002)
        stopped.set()

    @ol.workflow
    async def flow() -> None:
        await careful()

    engine = await stage.engine()
    handle = await engine.start(flow)
    while not begun.is_set():
        await asyncio.sleep(0.002)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await asyncio.to_thread(stopped.wait, SOON)


async def test_what_a_node_brings_home_while_it_is_cancelled_is_kept(stage: Any) -> None:
    begun = asyncio.Event()

    @ol.node
    async def finishing() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished after all"
        return ""

    @ol.workflow
    async def flow() -> str:
        return await finishing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(begun.wait())
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await stage.is_sound(engine, handle.run)


async def test_a_run_that_nobody_works_on_can_be_cancelled(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        await gated.node()

    run = await crashed_at(stage, flow, at=is_node("gated"))
    desk = await stage.engine(worker=False)
    await desk.cancel(run)
    with pytest.raises(ol.RunCancelled):
        await soon(desk.result(run))
    assert await stage.is_sound(desk, run)


async def test_a_run_that_is_over_cannot_be_cancelled(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None: ...

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    with pytest.raises(ol.RunGone):
        await handle.cancel()


async def test_a_run_that_waits_for_a_person_can_be_cancelled(stage: Any) -> None:
    _, handle = await asked(stage)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())


async def test_a_run_between_two_attempts_can_be_cancelled(stage: Any) -> None:
    @ol.node(retry=ol.Retry(max_attempts=5, delay=3600))
    async def failing() -> None:
        raise ValueError("x")

    @ol.workflow
    async def flow() -> None:
        await failing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.NodeFailed))
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await stage.is_sound(engine, handle.run)
