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
