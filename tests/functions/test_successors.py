"""Runs that continue as another run, live and after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.engine import driver, worker
from outlast.history import events as e
from support.workflow_tools import Gated, crashed_at, echo, names, plain_echo, run_of, soon


def counting() -> Any:
    @ol.workflow
    async def count(number: int = 0) -> int:
        await echo(number)
        if number < 4:
            await ol.continue_as_new(number + 1)
        return number

    return count


async def test_a_chain_of_five_runs_ends_with_the_result_of_the_last(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(counting())
    assert await soon(handle.result()) == 4
    assert len((await engine.list_runs(ol.RunFilter(workflow="count"))).items) == 5


async def test_a_chain_goes_on_after_a_crash_in_its_middle(stage: Any) -> None:
    run = await crashed_at(stage, counting(), at=e.RunContinued)
    engine = await stage.engine()
    assert await soon(engine.result(run)) == 4


async def test_a_child_run_that_continues_brings_the_result_of_the_last(stage: Any) -> None:
    count = counting()

    @ol.workflow
    async def parent() -> int:
        return await count(2)

    assert await run_of(stage, parent) == 4


def chain(node: Any, length: int = 3) -> tuple[Any, Any]:
    """A parent and its child, which continues as another run before it comes to the node, and so on, `length` times."""

    @ol.workflow
    async def link(number: int = 0) -> Any:
        if number < length:
            await echo(number)
            await ol.continue_as_new(number + 1)
        return await node(number)

    @ol.workflow
    async def parent() -> Any:
        return await link()

    return parent, link


async def child_of(stage: Any, engine: Any, run: str) -> str:
    return str((await soon(stage.until(engine, run, e.ChildStarted))).event.child)


async def until(is_so: Any) -> None:
    while not is_so():
        await asyncio.sleep(0.002)


async def test_a_child_run_that_continued_is_cancelled_with_its_parent(stage: Any) -> None:
    gated = Gated()
    parent, _ = chain(gated.node)
    engine = await stage.engine()
    handle = await engine.start(parent)
    await soon(until(lambda: gated.calls))
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(await child_of(stage, engine, handle.run)))


async def test_a_child_run_that_continued_and_loses_a_race_is_cancelled(stage: Any) -> None:
    gated = Gated()
    _, link = chain(gated.node)

    @ol.workflow
    async def flow() -> int:
        return (await ol.race(link(), ol.ask("Enough?"))).index

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(until(lambda: gated.calls))
    await handle.answer("yes")
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(await child_of(stage, engine, handle.run)))


async def test_a_child_run_that_continues_all_the_time_is_cancelled_with_its_parent(stage: Any) -> None:
    """Its successors come and go while they are asked to stop."""
    parent, _ = chain(echo, length=1_000_000)
    engine = await stage.engine()
    handle = await engine.start(parent)
    while len((await engine.list_runs(ol.RunFilter(workflow="link"))).items) < 3:
        await asyncio.sleep(0.002)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(await child_of(stage, engine, handle.run)))


class Procrastination:
    """The end of a run that continues is settled when it is let go, and not before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = asyncio.Event()
        self.successor = ""
        complete_run = worker.complete_run

        async def settled(ledger: Any, run: Any, created: Any, ending: Any, state: Any) -> None:
            if isinstance(ending, e.RunContinued) and not self.successor:
                self.successor = ending.successor
                await self.gate.wait()
            await complete_run(ledger, run, created, ending, state)

        monkeypatch.setattr(worker, "complete_run", settled)


async def test_a_successor_that_nobody_has_created_yet_is_cancelled_with_the_parent(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated, late = Gated(), Procrastination(monkeypatch)
    parent, _ = chain(gated.node)
    engine = await stage.engine()
    handle = await engine.start(parent)
    await soon(until(lambda: late.successor))
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    late.gate.set()
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(late.successor))
    assert await stage.is_sound(engine, late.successor)


async def test_a_successor_that_a_crash_kept_from_being_created_is_cancelled_with_the_parent(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated, late = Gated(), Procrastination(monkeypatch)
    parent, _ = chain(gated.node)
    engine = await stage.engine()
    handle = await engine.start(parent)
    await soon(until(lambda: late.successor))
    await stage.crash(engine)
    desk = await stage.engine(worker=False)
    await desk.cancel(handle.run)
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(late.successor))


async def test_a_cancellation_that_comes_while_a_run_continues_is_passed_on_to_its_successor(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated = Gated()
    _, link = chain(gated.node)
    engine = await stage.engine()
    terminal_event = driver.terminal_event

    async def cancelled_meanwhile(code: Any, *rest: Any) -> Any:
        ending = await terminal_event(code, *rest)
        if code.run == "first":
            await engine.cancel(code.run)
        return ending

    monkeypatch.setattr(driver, "terminal_event", cancelled_meanwhile)
    handle = await engine.start(link.options(id="first"))
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert isinstance((await stage.events(engine, "first"))[-1], e.RunContinued)


async def test_an_engine_that_takes_over_no_others_goes_on_with_what_a_child_of_its_run_continued_as(
    stage: Any,
) -> None:
    gated = Gated()
    parent, _ = chain(gated.node)
    engine = await stage.engine()
    handle = await engine.start(parent)
    await soon(until(lambda: gated.calls))
    await stage.crash(engine)
    gated.gate.set()
    engine = await stage.engine(take_over_others=False)
    await engine.diagnostics.take_over_later(handle.run)
    assert await soon(engine.result(handle.run)) == 3


async def test_a_plain_workflow_continues_as_another_run(stage: Any) -> None:
    @ol.workflow
    def count(number: int = 0) -> int:
        plain_echo(number).wait()
        if number < 4:
            ol.continue_as_new(number + 1).wait()
        return number

    assert await run_of(stage, count) == 4


async def test_a_run_continues_though_its_code_forgot_to_await_that(stage: Any) -> None:
    @ol.workflow
    async def count(number: int = 0) -> int:
        if number < 4:
            ol.continue_as_new(number + 1)
        return number

    assert await run_of(stage, count) == 4


async def test_a_plain_workflow_that_continues_cleans_up_first(stage: Any) -> None:
    @ol.workflow
    def flow(number: int = 0) -> Any:
        try:
            if not number:
                ol.continue_as_new(1).wait()
        finally:
            echo("clean").wait()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    assert names(await stage.events(engine, handle.run), e.NodeCompleted) == ["echo"]


async def test_to_continue_with_parameters_that_do_not_fit_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow(number: int) -> None:
        await ol.continue_as_new(other=1)

    with pytest.raises(ol.InvalidInput, match="other"):
        await run_of(stage, flow, 1)
