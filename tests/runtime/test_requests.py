"""What people ask of runs in odd moments: when their owner has just died, when others ask at the same time, when a run is
about to stop. Whatever was asked is obeyed by whoever owns the run next, or is refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e


@ol.node
async def endless_request() -> None:
    await asyncio.Event().wait()


@ol.node(repeatable=False)
async def paying_request() -> None:
    await asyncio.Event().wait()


async def left_with(stage: Any, workflow: Any, *requests: e.AnyEvent, after: type = e.NodeStarted) -> str:
    """A run whose owner dies before it hears of these requests."""
    engine = await stage.engine()
    handle = await engine.start(workflow)
    await stage.until(engine, handle.run, after)
    other = await stage.engine(worker=False)
    stage.faults(engine).is_dead = True
    for request in requests:
        await other._ledger.deliver(handle.run, [request])
    await stage.crash(engine)
    await stage.close(other)
    run: str = handle.run
    return run


# --- the owner has died


async def test_who_cancelled_a_run_and_why_is_told_though_another_worker_ends_it(stage: Any) -> None:
    @ol.workflow
    async def wait() -> None:
        await endless_request()

    run = await left_with(stage, wait, e.CancelRequested(by="ann", reason="too dear"))
    engine = await stage.engine()
    with pytest.raises(ol.Cancelled, match="too dear"):
        await (await engine.handle(run)).result()
    assert (await stage.events(engine, run))[-1] == e.RunCancelled(by="ann", reason="too dear")
    assert (await engine.get(run)).reason == "too dear"


async def test_who_paused_a_run_and_why_is_told_though_another_worker_stops_it(stage: Any) -> None:
    @ol.workflow
    async def wait() -> None:
        await endless_request()

    run = await left_with(stage, wait, e.PauseRequested(by="ann", reason="lunch"))
    engine = await stage.engine()
    paused = await stage.until(engine, run, e.RunPaused)
    assert paused.event == e.RunPaused(by="ann", reason="lunch")


@pytest.mark.parametrize("node", [endless_request, paying_request])
@pytest.mark.parametrize("on_restart", ["resume", "hold"])
async def test_a_run_that_is_to_end_ends_though_an_interruption_would_hold_it(
    stage: Any, node: Any, on_restart: Any
) -> None:
    @ol.workflow(on_restart=on_restart)
    async def wait() -> None:
        await node()

    run = await left_with(stage, wait, e.CancelRequested(by="ann", reason="too dear"))
    engine = await stage.engine()
    with pytest.raises(ol.Cancelled, match="too dear"):
        await (await engine.handle(run)).result()
    told = await stage.events(engine, run)
    assert [type(event) for event in told[-2:]] == [e.NodeFailed, e.RunCancelled]
    assert sum(isinstance(event, e.NodeStarted) for event in told) == 1  # nothing of it began again
    assert await stage.is_sound(engine, run)


async def test_a_run_that_is_to_end_ends_though_its_code_has_changed(stage: Any) -> None:
    @ol.workflow(name="changing_request")
    async def before() -> None:
        await endless_request()

    run = await left_with(stage, before, e.CancelRequested(reason="too dear"))
    stage.forget("changing_request")

    @ol.workflow(name="changing_request")
    async def after() -> None:
        await ol.sleep(1000)

    engine = await stage.engine()
    with pytest.raises(ol.Cancelled, match="too dear"):
        await (await engine.handle(run)).result()
    assert await stage.is_sound(engine, run)


async def test_a_cancellation_that_comes_while_a_run_is_being_held_ends_it(stage: Any) -> None:
    @ol.workflow
    async def wait() -> int:
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    handle = await engine.start(wait)
    await stage.until(engine, handle.run, e.InteractionRequested)
    driver = engine._worker.drivers[handle.run]
    append = driver.pen.append

    async def late(events: list[e.AnyEvent], **named: Any) -> int:
        if isinstance(events[-1], e.RunFailed):
            driver.pen.append = append
            await handle.cancel(reason="after all")
        return await append(events, **named)

    driver.pen.append = late
    await driver.hold(e.Failure("Held", "for a person"))
    ended = await stage.until(engine, handle.run, e.RunCancelled)
    assert ended.event.reason == "after all"
    assert await stage.is_sound(engine, handle.run)


async def test_a_request_that_comes_as_a_run_is_given_back_is_obeyed(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many runs in memory, one that only waits is given back with the append that says so."""

    @ol.workflow
    async def wait() -> int:
        await ol.sleep(0.01)
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    handle = await engine.start(wait)
    driver = engine._worker.drivers[handle.run]
    append = driver.pen.append

    async def late(events: list[e.AnyEvent], **named: Any) -> int:
        if isinstance(events[-1], e.InteractionRequested) and driver.pen.append is not append:
            driver.pen.append = append
            await handle.cancel(reason="after all")
        return await append(events, **named)

    driver.pen.append = late
    monkeypatch.setattr(type(engine._worker), "is_crowded", True)
    ended = await stage.until(engine, handle.run, e.RunCancelled)
    assert ended.event.reason == "after all"
    assert await stage.is_sound(engine, handle.run)
