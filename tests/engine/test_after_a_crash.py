"""A run goes on after a crash where it was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import Gated, Shop, adding, crashed_at, fail, is_node, soon


async def test_a_workflow_that_holds_on_restart_waits_for_a_person(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(on_restart="hold")
    async def flow() -> str:
        return await gated.node("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld):
        await soon(engine.result(run))
    await engine.resume(run)
    assert await soon(engine.result(run)) == "done"
    assert await stage.is_sound(engine, run)


async def test_an_engine_that_holds_on_restart_holds_runs_that_would_resume(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    engine = await stage.engine(on_restart="hold")
    with pytest.raises(ol.RunHeld):
        await soon(engine.result(run))


async def test_a_graceful_close_is_no_interruption(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(on_restart="hold")
    async def flow() -> str:
        return await gated.node("done")

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    await stage.close(engine)
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(handle.run)) == "done"


async def test_a_node_that_is_not_repeatable_holds_its_run_when_it_is_interrupted(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node.options(repeatable=False)("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="must not be repeated before a person decides"):
        await soon(engine.result(run))
    assert gated.calls == ["done"]
    await engine.resume(run)
    assert await soon(engine.result(run)) == "done"


async def test_a_node_that_is_not_repeatable_holds_its_run_after_a_graceful_close_in_its_midst(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node.options(repeatable=False)("done")

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    await stage.close(engine)
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="must not be repeated before a person decides"):
        await soon(engine.result(handle.run))
    assert gated.calls == ["done"]


async def test_a_node_that_was_interrupted_five_times_holds_its_run(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    for attempt in range(2, 6):
        engine = await stage.engine()
        at = lambda event, attempt=attempt: isinstance(event, e.NodeStarted) and event.attempt == attempt  # noqa: E731
        await soon(stage.until(engine, run, at))
        await stage.crash(engine)
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="5 times"):
        await soon(engine.result(run))


async def test_a_failed_run_is_resumed_with_another_attempt_of_what_failed(stage: Any) -> None:
    made: list[str] = []

    @ol.node
    async def failing() -> str:
        made.append("failing")
        if len(made) == 2:
            raise ValueError("first")
        return "well"

    @ol.node
    async def before() -> None:
        made.append("before")

    @ol.workflow
    async def flow() -> str:
        await before()
        return await failing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    await engine.resume(handle.run)
    assert await soon(handle.result()) == "well"
    assert made == ["before", "failing", "failing"]
    assert await stage.is_sound(engine, handle.run)


async def test_a_failed_node_is_retried_by_its_name(stage: Any) -> None:
    is_broken = True

    @ol.node
    async def failing() -> str:
        if is_broken:
            raise ValueError("first")
        return "well"

    @ol.workflow
    async def flow() -> str:
        return await failing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    is_broken = False
    again = await engine.retry(handle.run, "failing")
    assert await soon(again.result()) == "well"


async def test_a_caught_failure_can_be_retried_by_its_name_when_the_run_failed_later(stage: Any) -> None:
    is_broken = True

    @ol.node
    async def shaky() -> str:
        if is_broken:
            raise ValueError("shaky")
        return "well"

    @ol.workflow
    async def flow() -> str:
        try:
            return await shaky()
        except ValueError:
            raise Shop("cause", 1) from None

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(Shop):
        await soon(handle.result())
    is_broken = False
    await engine.retry(handle.run, "shaky")
    assert await soon(handle.result()) == "well"
    assert await stage.is_sound(engine, handle.run)


async def test_to_retry_a_node_that_is_not_there_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await fail("x")

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="x"):
        await soon(handle.result())
    with pytest.raises(ol.NotAllowed):
        await engine.retry(handle.run, "nobody")
    with pytest.raises(ValueError, match="x"):
        await soon(handle.result())


async def test_to_resume_a_run_that_completed_is_refused(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(adding(), 1, 2)
    await soon(handle.result())
    with pytest.raises(ol.NotAllowed):
        await engine.resume(handle.run)
    assert await soon(handle.result()) == 3


async def test_a_resumed_run_gives_the_siblings_that_its_end_cut_short_another_attempt(stage: Any) -> None:
    gated = Gated()
    is_broken = True

    @ol.node
    async def failing() -> str:
        if is_broken:
            raise ValueError("first")
        return "well"

    @ol.workflow
    async def flow() -> list[str]:
        return list(await ol.gather(gated.node("sibling"), failing()))

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    is_broken = False
    gated.gate.set()
    await engine.resume(handle.run)
    assert await soon(handle.result()) == ["sibling", "well"]
    assert await stage.is_sound(engine, handle.run)


async def test_the_result_of_a_resumed_run_is_awaited_anew(stage: Any) -> None:
    gated = Gated()
    made: list[int] = []

    @ol.node
    async def failing() -> None:
        made.append(1)
        if len(made) == 1:
            raise ValueError("first")

    @ol.workflow
    async def flow() -> str:
        await failing()
        return await gated.node("second")

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    again = await engine.resume(handle.run)
    waiting = asyncio.create_task(again.result())
    await soon(stage.until(engine, handle.run, is_node("gated")))
    assert not waiting.done()
    gated.gate.set()
    assert await soon(waiting) == "second"
