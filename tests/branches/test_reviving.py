"""Going on with runs that failed of a child, or whose end others had to share: nothing that is done is done again (P2)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e

done: Counter[str] = Counter()
is_open: set[str] = set()


@pytest.fixture(autouse=True)
def _anew() -> None:
    done.clear()
    is_open.clear()


@ol.node
async def deed(name: str) -> str:
    done[name] += 1
    return f"{name}{done[name]}"


@ol.node
async def slow_deed(name: str) -> str:
    done[name] += 1
    while name not in is_open:
        await asyncio.sleep(0.002)
    return name


@ol.node
async def fails_once(name: str, after: str = "") -> str:
    """Fails the first time, when another node is at work."""
    done[name] += 1
    while after and not done[after]:
        await asyncio.sleep(0.002)
    if done[name] == 1:
        raise ValueError("once")
    return f"{name}{done[name]}"


def family() -> tuple[Any, Any]:
    @ol.workflow
    async def grandchild_once() -> list[str]:
        return [await deed("g"), await fails_once("f")]

    @ol.workflow
    async def child_once(depth: int) -> list[Any]:
        first = await deed(f"c{depth}")
        return [first, await (child_once(depth - 1) if depth else grandchild_once())]

    @ol.workflow
    async def parent_once() -> list[Any]:
        return [await deed("a"), await child_once(1), await deed("z")]

    return parent_once, child_once


WHOLE = ["a1", ["c11", ["c01", ["g1", "f2"]]], "z1"]


@pytest.mark.parametrize("verb", ["resume", "retry", "by name"])
async def test_a_run_that_failed_of_a_child_goes_on_with_it(stage: Any, witness: Any, verb: str) -> None:
    engine = await stage.engine()
    handle = await engine.start(family()[0])
    with pytest.raises(ValueError, match="once"):
        await handle.result()
    seen = witness(engine, handle.run)
    await seen.look()
    again = {
        "resume": lambda: engine.resume(handle.run),
        "retry": lambda: engine.retry(handle.run),
        "by name": lambda: engine.retry(handle.run, "child_once"),
    }[verb]
    assert await (await again()).result() == WHOLE
    assert set(done.values()) == {1, 2}
    assert done["f"] == 2
    await seen.look()
    assert len((await engine.list_runs(ol.RunFilter(limit=100))).items) == 4
    for listed in (await engine.list_runs(ol.RunFilter(limit=100))).items:
        await witness(engine, listed.summary.run).look()


async def test_a_run_that_failed_of_a_child_takes_what_somebody_made_of_the_child_since(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(family()[0])
    with pytest.raises(ValueError, match="once"):
        await handle.result()
    failed = next(event for event in await stage.events(engine, handle.run) if isinstance(event, e.ChildStarted))
    await (await engine.resume(failed.child)).result()
    before = done.copy()
    assert await (await engine.resume(handle.run)).result() == WHOLE
    assert done == before + Counter("z")


async def test_a_run_whose_reviver_died_after_the_children_went_on_goes_on(stage: Any, witness: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(family()[0])
    with pytest.raises(ValueError, match="once"):
        await handle.result()
    failed = next(event for event in await stage.events(engine, handle.run) if isinstance(event, e.ChildStarted))
    await engine._control._restart_child(failed.child, "ann")  # and no further
    await engine.result(failed.child)
    await stage.crash(engine)
    engine = await stage.engine()
    assert await (await engine.resume(handle.run)).result() == WHOLE
    assert done["f"] == 2
    await witness(engine, handle.run).look()


async def test_a_child_that_the_end_of_its_parent_cancelled_goes_on_with_it(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def nephew() -> list[str]:
        return [await deed("n"), await slow_deed("m")]

    @ol.workflow
    async def sibling() -> list[Any]:
        return await ol.gather(deed("s"), nephew())

    @ol.workflow
    async def parent() -> list[Any]:
        return await ol.gather(sibling(), fails_once("f", after="m"), slow_deed("x"))

    engine = await stage.engine()
    handle = await engine.start(parent)
    with pytest.raises(ValueError, match="once"):
        await handle.result()
    await (await engine.resume(handle.run)).get()
    is_open.update("mx")
    assert await handle.result() == [["s1", ["n1", "m"]], "f2", "x"]
    assert (done["s"], done["n"], done["f"]) == (1, 1, 2)
    await witness(engine, handle.run).look()


async def test_a_child_that_somebody_cancelled_goes_on_when_its_parent_is_resumed(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def cancelled_child() -> list[str]:
        return [await deed("n"), await slow_deed("m")]

    @ol.workflow
    async def parent() -> list[Any]:
        return await ol.map(cancelled_child_of, ["one", "two"])

    @ol.workflow
    async def cancelled_child_of(name: str) -> Any:
        return await cancelled_child() if name == "one" else await deed("two")

    engine = await stage.engine()
    handle = await engine.start(parent)
    while not done["m"] or not done["two"]:
        await asyncio.sleep(0.002)
    children = (await engine.list_runs(ol.RunFilter(workflow="cancelled_child"))).items
    await engine.cancel(children[0].summary.run)
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    is_open.add("m")
    assert await (await engine.resume(handle.run)).result() == [["n1", "m"], "two1"]
    assert done["n"] == 1
    await witness(engine, handle.run).look()


async def test_a_failure_that_the_code_did_something_about_is_retried_on_a_new_branch(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def careful() -> str:
        try:
            return await fails_once("f")
        except ValueError:
            await deed("cleanup")
            raise

    engine = await stage.engine()
    handle = await engine.start(careful)
    with pytest.raises(ValueError, match="once"):
        await handle.result()
    assert await (await engine.retry(handle.run, feedback="better", force=True)).result() == "f2"
    assert await engine.diagnostics.current_branch(handle.run) == 1
    assert done["cleanup"] == 1
    await witness(engine, handle.run).look()


async def test_a_run_goes_back_to_before_a_child_by_its_name(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def named_child() -> str:
        return await deed("n")

    @ol.workflow
    async def parent() -> list[str]:
        return [await deed("a"), await named_child()]

    engine = await stage.engine()
    handle = await engine.start(parent)
    await handle.result()
    assert await (await engine.jump(handle.run, "named_child")).result() == ["a1", "n2"]
    await witness(engine, handle.run).look()


@pytest.mark.parametrize("verb", ["resume", "retry"])
async def test_an_answer_to_a_question_asked_before_the_failure_is_not_asked_for_again(
    stage: Any, witness: Any, verb: str
) -> None:
    """P7: the run goes back to before the failure, and the answer came after it."""

    @ol.workflow
    async def both() -> list[Any]:
        got = await ol.gather(fails_once("f"), ol.ask("Which?", key="which"), return_exceptions=True)
        for each in got:
            if isinstance(each, BaseException):
                await ol.sleep(0.01)  # the code goes on: another attempt where it stands would not do
                raise each
        return got

    engine = await stage.engine()
    handle = await engine.start(both)
    await stage.until(engine, handle.run, e.NodeFailed)
    await handle.answer("blue", by="ann")
    with pytest.raises(ValueError, match="once"):
        await handle.result()
    again = engine.resume if verb == "resume" else engine.retry
    async with asyncio.timeout(20):
        assert await (await again(handle.run)).result() == ["f2", "blue"]
    log = await witness(engine, handle.run).look()
    assert sum(isinstance(entry.event, e.InteractionRequested) for entry in log) == 1
    assert [entry.event.by for entry in log if isinstance(entry.event, e.InteractionAnswered)] == ["ann", "ann"]
