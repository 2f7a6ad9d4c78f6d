"""What nodes may ask for and say while they run."""

from __future__ import annotations

import asyncio
import json
import logging
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import AGAIN, SOON, Gated, crashed_at, echo, is_node, run_of, soon

# --- inside nodes -----------------------------------------------------------------------------------------------------


async def test_a_checkpoint_is_found_by_the_attempt_after_a_crash(stage: Any) -> None:
    gate = asyncio.Event()
    seen: list[Any] = []

    @ol.node
    async def long() -> Any:
        seen.append(ol.last_checkpoint(0))
        if seen[-1] == 0:
            await ol.checkpoint({"at": 5})
            await gate.wait()
        return seen[-1]

    @ol.workflow
    async def flow() -> Any:
        return await long()

    run = await crashed_at(stage, flow, at=e.NodeCheckpointed)
    engine = await stage.engine()
    assert await soon(engine.result(run)) == {"at": 5}
    assert seen == [0, {"at": 5}]


async def test_a_checkpoint_of_a_plain_node_is_kept_when_it_returns(stage: Any) -> None:
    @ol.node(retry=AGAIN)
    def long() -> Any:
        before = ol.last_checkpoint()
        ol.checkpoint(ol.context().attempt)
        if ol.context().attempt < 3:
            raise ValueError("again")
        return before

    @ol.workflow
    async def flow() -> Any:
        return await long()

    assert await run_of(stage, flow) == 2


async def test_a_large_checkpoint_comes_back(stage: Any) -> None:
    @ol.node(retry=AGAIN)
    async def long() -> int:
        if ol.context().attempt == 1:
            await ol.checkpoint("x" * 3_000_000)
            raise ValueError("again")
        return len(ol.last_checkpoint())

    @ol.workflow
    async def flow() -> int:
        return await long()

    assert await run_of(stage, flow) == 3_000_000


async def test_progress_is_seen_in_the_list_while_the_run_goes_on(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node
    async def long() -> None:
        ol.progress(3, 10, "thirds")
        await gate.wait()

    @ol.workflow
    async def flow() -> None:
        await long()

    engine = await stage.engine()
    handle = await engine.start(flow)
    async with asyncio.timeout(SOON):
        while not (scratch := (await engine.list_runs(ol.RunFilter())).items[0].scratch):
            await asyncio.sleep(0.01)
    gate.set()
    await soon(handle.result())
    (told,) = json.loads(scratch)
    assert (told["node"], told["done"], told["total"], told["text"]) == ("long", 3, 10, "thirds")


@pytest.mark.parametrize(
    ("done", "total", "text", "kept"),
    [
        (Decimal(1), Fraction(5, 2), "x", (1.0, 2.5, "x")),
        (10**30, None, "x", (1e30, None, "x")),
        (1, 2, "\ud800", (1, 2, "\\ud800")),
        (1, 2, 5, (1, 2, "5")),
        (1, 2, "x" * 5_000, (1, 2, "x" * 1_000)),
    ],
)
async def test_progress_is_told_whatever_its_numbers_and_texts_are(
    stage: Any, done: Any, total: Any, text: Any, kept: tuple[Any, ...]
) -> None:
    gate = asyncio.Event()

    @ol.node
    async def telling() -> None:
        ol.progress(done, total, text)
        await gate.wait()

    @ol.workflow
    async def flow() -> None:
        await telling()

    engine = await stage.engine()
    handle = await engine.start(flow)
    async with asyncio.timeout(SOON):
        while not (scratch := (await engine.list_runs(ol.RunFilter())).items[0].scratch):
            await asyncio.sleep(0.01)
    gate.set()
    await soon(handle.result())
    (told,) = json.loads(scratch)
    assert (told["done"], told["total"], told["text"]) == kept
    await stage.close(engine)


@pytest.mark.parametrize("done", [object(), "half", float("nan"), None])
async def test_progress_that_is_no_number_fails_its_node_and_nothing_else(stage: Any, done: Any) -> None:
    @ol.node
    async def telling() -> None:
        ol.progress(done)

    @ol.workflow
    async def flow() -> None:
        await telling()

    engine = await stage.engine()
    with pytest.raises(ol.InvalidInput, match="progress: done is a number, not"):
        await soon((await engine.start(flow)).result())
    await stage.close(engine)


async def test_workflow_code_sees_nothing_of_what_its_starter_has_set(stage: Any) -> None:
    """Whoever replays it has not set that, and its code would do something else."""
    setting = ContextVar("setting", default="as it was")

    @ol.node
    async def using(text: str) -> str:
        return text

    @ol.workflow
    async def flow() -> str:
        used = await using(setting.get())
        await ol.approve("go on?")
        return f"{used}, {setting.get()}"

    engine = await stage.engine()
    token = setting.set("by the starter")
    handle = await engine.start(flow)
    setting.reset(token)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    await stage.close(engine)
    engine = await stage.engine()
    await engine.answer(handle.run, True)
    assert await soon(engine.result(handle.run)) == "as it was, as it was"


async def test_what_a_workflow_logs_is_no_line_of_the_node_that_started_it(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @ol.workflow
    async def speaking() -> None:
        logging.getLogger("shop").warning("a workflow speaks")

    @ol.node
    async def starting() -> None:
        await (await engine.start(speaking)).result()

    @ol.workflow
    async def flow() -> None:
        await starting()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    await stage.close(engine)
    desk = await stage.engine(worker=False)
    assert "a workflow speaks" in caplog.text
    assert [line.text async for line in desk.lines(handle.run)] == []


async def test_a_token_is_the_same_for_every_attempt_and_differs_between_nodes(stage: Any) -> None:
    tokens: dict[str, set[str]] = {"one": set(), "two": set()}

    @ol.node(retry=AGAIN)
    async def paying(name: str) -> None:
        tokens[name].add(ol.idempotency_key())
        if ol.context().attempt < 3:
            raise ValueError("again")

    @ol.workflow
    async def flow() -> None:
        await paying("one")
        await paying("two")

    await run_of(stage, flow)
    assert [len(each) for each in tokens.values()] == [1, 1]
    assert tokens["one"] != tokens["two"]


@pytest.mark.parametrize(
    "verb", [ol.context, ol.idempotency_key, ol.is_stopping, ol.last_checkpoint, lambda: ol.progress(1)]
)
def test_what_belongs_in_a_node_is_refused_elsewhere(verb: Any) -> None:
    with pytest.raises(ol.NotDurable, match="outside a node"):
        verb()


async def test_workflow_code_shows_how_far_it_is_also_after_a_replay(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        ol.progress(1, 3)
        await echo("x")
        ol.progress(2, 3, "halfway")
        return await ol.ask("Go on?")

    async def shown(engine: Any) -> Any:
        while not (scratch := (await engine.list_runs()).items[0].scratch) or b"half" not in scratch:
            await asyncio.sleep(0.01)
        return json.loads(scratch)

    said = [{"node": "", "done": 2, "total": 3, "text": "halfway"}]
    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    assert await soon(shown(engine)) == said
    await stage.crash(engine)
    engine = await stage.engine()
    await engine._store.note({handle.run: b""})
    assert await soon(shown(engine)) == said, "a new owner shows it again, once"
    await engine.answer(handle.run, "yes")
    assert await soon(engine.result(handle.run)) == "yes"


async def test_code_can_tell_where_it_runs(stage: Any) -> None:
    @ol.node(retry=ol.Retry(max_attempts=2, delay=0))
    async def far() -> ol.Context:
        here = ol.context()
        if here.attempt == 1:
            raise ValueError("once more")
        assert here.idempotency_key == ol.idempotency_key()
        return here

    @ol.node
    def near() -> ol.Context:
        return ol.context()

    @ol.workflow
    async def flow() -> tuple[ol.Context, ol.Context, ol.Context]:
        return ol.context(), await far(), await near()

    workflow, first, second = await run_of(stage, flow)
    run = workflow.run
    assert workflow == ol.Context(run, "", 0, run)
    assert first == ol.Context(run, "far", 2, f"{run}/far/0")
    assert second == ol.Context(run, "near", 1, f"{run}/near/0")


@pytest.mark.parametrize("verb", [ol.now, ol.random, ol.uuid, lambda: ol.ask("x"), lambda: ol.sleep(1), ol.gather])
def test_what_belongs_in_a_workflow_is_refused_elsewhere(verb: Any) -> None:
    with pytest.raises(ol.NotDurable, match="outside a workflow"):
        verb()


def test_a_node_called_outside_a_workflow_is_refused_with_the_way_out() -> None:
    with pytest.raises(ol.NotDurable, match=r"echo\.fn"):
        echo(1)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_node_called_inside_a_node_is_refused_with_the_way_out(stage: Any, is_async: bool) -> None:
    if is_async:

        @ol.node
        async def outer() -> Any:
            return await echo(1)
    else:

        @ol.node
        def outer() -> Any:
            return echo(1).wait()

    @ol.workflow
    async def flow() -> Any:
        return await outer()

    with pytest.raises(ol.NotDurable, match=r"echo\.fn"):
        await run_of(stage, flow)


async def test_the_bare_function_of_a_node_can_be_called_anywhere() -> None:
    assert await echo.fn(1) == 1


# --- log lines --------------------------------------------------------------------------------------------------------


async def test_log_lines_are_kept_by_attempt(stage: Any) -> None:
    @ol.node(retry=AGAIN)
    async def talking() -> None:
        logging.getLogger("shop").warning("attempt %d", ol.context().attempt)
        if ol.context().attempt < 2:
            raise ValueError("again")

    @ol.workflow
    async def flow() -> None:
        await talking()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    await stage.close(engine)
    desk = await stage.engine(worker=False)
    lines = [(line.node, line.attempt, line.text) async for line in desk.lines(handle.run)]
    assert lines == [("talking", 1, "attempt 1"), ("talking", 2, "attempt 2")]


async def test_a_workflow_logs_once_though_it_is_replayed(stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        logging.getLogger("shop").warning("begun")
        await gated.node()
        logging.getLogger("shop").warning("ended")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    await soon(engine.result(run))
    assert [record.getMessage() for record in caplog.records if record.name == "shop"] == ["begun", "ended"]
