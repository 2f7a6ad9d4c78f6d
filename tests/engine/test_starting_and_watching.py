"""Runs are started, watched, and used from blocking code."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import Gated, adding, echo, fail, is_node, plain_echo, soon

# --- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
async def test_a_start_under_an_id_or_a_key_is_one_run(stage: Any, name: str) -> None:
    add = adding().options(**{name: "order-7"})
    engine = await stage.engine()
    first, second = await engine.start(add, 1, 2), await engine.start(add, 1, two=2)
    assert first.run == second.run
    assert await soon(second.result()) == 3
    third = await engine.start(add, 1, 2)
    assert await soon(third.result()) == 3
    assert len((await engine.list_runs(ol.RunFilter())).items) == 1


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
async def test_a_start_under_an_id_or_a_key_with_other_parameters_is_refused(stage: Any, name: str) -> None:
    add = adding().options(**{name: "order-7"})
    engine = await stage.engine()
    await soon((await engine.start(add, 1, 2)).result())
    with pytest.raises(ol.AlreadyExists, match="order-7"):
        await engine.start(add, 1, 3)


async def test_a_key_names_one_run_whatever_its_workflow(stage: Any) -> None:
    @ol.workflow
    async def other(one: int, two: int) -> int:
        return one * two

    engine = await stage.engine()
    first = await engine.start(adding().options(idempotency_key="k"), 1, 2)
    with pytest.raises(ol.AlreadyExists, match="idempotency key 'k' is already used by a run of workflow add"):
        await engine.start(other.options(idempotency_key="k"), 1, 2)
    assert await soon(first.result()) == 3


async def test_starts_under_one_id_at_the_same_time_are_one_run(stage: Any) -> None:
    add = adding().options(id="order-7")
    engine, other = await stage.engine(), await stage.engine()
    handles = await asyncio.gather(*(each.start(add, 1, 2) for each in (engine, other) for _ in range(5)))
    assert {handle.run for handle in handles} == {"order-7"}
    assert {await soon(handle.result()) for handle in handles} == {3}


async def test_a_start_by_a_desk_without_worker_waits_for_one(stage: Any) -> None:
    add = adding()
    desk = await stage.engine(worker=False)
    handle = await desk.start(add, 1, 2)
    assert (await handle.get()).status == ol.RunStatus.CREATED
    await stage.engine()
    assert await soon(handle.result()) == 3


def test_two_workflows_of_one_name_are_an_error(stage: Any) -> None:
    def first() -> Any:
        @ol.workflow(name="twin")
        async def one() -> None: ...

    def second() -> Any:
        @ol.workflow(name="twin")
        async def other() -> None: ...

    first()
    with pytest.raises(ol.InvalidInput, match=r"two workflows are named twin: .*; rename one of them"):
        second()


# --- watching ---------------------------------------------------------------------------------------------------------


async def test_watch_yields_every_event_once_across_engines(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        for number in range(20):
            await echo(number)

    engine, other = await stage.engine(), await stage.engine(worker=False)
    handle = await engine.start(flow)

    async def watched() -> list[int]:
        return [entry.seq async for entry in other.watch(handle.run)]

    seen = await soon(watched())
    await soon(handle.result())
    assert seen == list(range(1, len(await stage.events(engine, handle.run)) + 1))


async def test_watch_goes_on_from_a_cursor(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        await echo(1)
        await gated.node()
        await echo(2)

    engine = await stage.engine()
    handle = await engine.start(flow)
    first: list[int] = []
    async with aclosing(engine.watch(handle.run)) as entries:
        async for entry in entries:
            first.append(entry.seq)
            if is_node("gated")(entry.event):
                break
    await stage.crash(engine)
    gated.gate.set()
    engine = await stage.engine()

    async def rest() -> list[int]:
        return [entry.seq async for entry in engine.watch(handle.run, after=first[-1])]

    seen = first + await soon(rest())
    assert seen == list(range(1, len(await stage.events(engine, handle.run)) + 1))


# --- the blocking desk ------------------------------------------------------------------------------------------------


def test_the_blocking_desk_starts_answers_watches_and_reads(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        return f"{await ol.ask('Who?')} {await plain_echo(2)}"

    with ol.open(stage.file) as engine:
        handle = engine.start(flow)
        for entry in handle.watch():
            if isinstance(entry.event, e.InteractionRequested):
                break
        handle.answer("you")
        assert handle.result() == "you 2"
        assert engine.get(handle.run).status == ol.RunStatus.COMPLETED
        assert [each.run for each in engine.iter_runs()] == [handle.run]
        assert not engine.verify(handle.run).violations


def test_the_blocking_desk_raises_what_the_run_raised(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await fail("blocking")

    with ol.open(stage.file) as engine, pytest.raises(ValueError, match="blocking"):
        engine.start(flow).result()


async def test_the_blocking_desk_works_where_a_loop_runs_already(stage: Any) -> None:
    with ol.open(stage.file) as engine:
        assert engine.start(adding(), 1, 2).result() == 3


def test_a_handle_shows_itself_in_a_notebook_without_letting_markup_through(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        raise ValueError("<script>alert(1)</script>")

    with ol.open(stage.file) as engine:
        handle = engine.start(flow)
        with pytest.raises(ValueError, match="script"):
            handle.result()
        page = handle._repr_html_()
    assert "failed" in page
    assert "<script>" not in page


def test_run_runs_a_workflow_on_the_store_of_the_project(stage: Any) -> None:
    assert ol.run(adding(), 1, two=2) == 3
    assert Path(".outlast/runs.db").exists()
