"""Going back in runs that are alive: at work, asking, asleep, with children, being cancelled, paused, losing their owner."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from labourers import toil

import outlast as ol
from outlast.errors import Fenced, NotAllowed, RunGone
from outlast.functions import registry
from outlast.history import events as e

done: Counter[str] = Counter()
is_open: set[str] = set()


@pytest.fixture(autouse=True)
def _anew() -> None:
    done.clear()
    is_open.clear()


async def until(is_it: Any, patience: float = 30.0) -> None:
    deadline = time.monotonic() + patience
    while not is_it():
        assert time.monotonic() < deadline, "it does not come"
        await asyncio.sleep(0.005)


@ol.node
async def work(name: str) -> str:
    done[name] += 1
    return f"{name}{done[name]}"


@ol.node
async def slow(name: str) -> str:
    done[name] += 1
    number = done[name]
    while name not in is_open:
        await asyncio.sleep(0.005)
    return f"{name}{number}"


@ol.node
async def stubborn(name: str) -> str:
    """Brings its result home though it is told to stop."""
    done[name] += 1
    number, told = done[name], 0
    while name not in is_open and told < 1:
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            told += 1
    return f"{name}{number}"


@ol.node
def threaded(name: str) -> str:
    done[name] += 1
    number = done[name]
    while name not in is_open:
        time.sleep(0.005)
    return f"{name}{number}"


@ol.workflow
async def child(name: str) -> str:
    return await slow(name)


# --- at work -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [slow, stubborn, threaded])
async def test_a_run_at_work_goes_back_and_the_late_result_does_not_count(stage: Any, witness: Any, kind: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await kind("b")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["b"] == 1)
    seen = witness(engine, handle.run)
    await seen.look()
    jumping = asyncio.create_task(engine.jump(handle.run, "work"))
    if kind is threaded:
        await asyncio.sleep(0.1)
        is_open.add("b")
    await jumping
    assert await engine.diagnostics.current_branch(handle.run) == 1
    await until(lambda: done["a"] == 2)
    is_open.add("b")
    result = await handle.result()
    assert result == ["a2", f"b{done['b']}"]
    await seen.look()


async def test_a_run_of_a_worker_in_another_engine_goes_back(stage: Any, witness: Any) -> None:
    """The desk that asks has no worker, and another store."""

    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await slow("b")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["b"] == 1)
    other = await stage.engine(worker=False)
    await asyncio.wait_for(other.jump(handle.run, "work"), 20)
    assert await other.diagnostics.current_branch(handle.run) == 1
    is_open.add("b")
    assert await handle.result() == ["a2", "b2"]
    await witness(other, handle.run).look()


async def test_nodes_in_processes_are_ended_and_get_their_feedback(stage: Any, tmp_path: Path, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await toil(str(tmp_path), "t"), await toil(str(tmp_path), "u")]

    engine = await stage.engine(processes=2)
    handle = await engine.start(flow)
    await until(lambda: (tmp_path / "t.begun.1").exists())
    await asyncio.wait_for(engine.jump(handle.run, "work"), 30)
    await until(lambda: (tmp_path / "t.begun.2").exists())
    (tmp_path / "t.go").touch()
    (tmp_path / "u.go").touch()
    assert await handle.result() == ["a2", "t2", "u1"]
    again = await engine.retry(handle.run, "toil#2", feedback="!")
    assert await again.result() == ["a2", "t2", "u2!"]
    tokens = [(tmp_path / f"u.begun.{number}").read_text() for number in (1, 2)]
    assert len(set(tokens)) == 2
    await witness(engine, handle.run).look()


async def test_results_that_come_home_while_a_run_stops_are_kept_and_replay(stage: Any, witness: Any) -> None:
    """Two of them, one after the other: between them stands what the code asked for when it heard of the first."""

    @ol.workflow
    async def flow() -> list[str]:
        async def line(name: str) -> str:
            return await stubborn(f"{name}1") + await work(f"{name}2")

        return await ol.gather(line("x"), line("y"), line("z"))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["x1"] and done["y1"] and done["z1"])
    await engine.jump(handle.run, "1/stubborn")
    is_open.update({"x1", "y1", "z1"})
    await handle.result()
    seen = witness(engine, handle.run)
    await seen.look()
    done.clear()
    assert await (await engine.activate(handle.run, 0)).result() == ["x11x21", "y11y21", "z11z21"]
    assert not done["x1"] + done["y1"] + done["z1"]
    await seen.look()


async def test_results_that_come_home_while_a_run_is_cancelled_can_be_forked_and_gone_back_to(
    stage: Any, witness: Any
) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        async def line(name: str) -> str:
            return await stubborn(f"{name}1") + await work(f"{name}2")

        return await ol.gather(line("x"), line("y"))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["x1"] and done["y1"])
    await engine.cancel(handle.run)
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    assert done["x2"] + done["y2"] == 0
    fork = await engine.fork(handle.run)
    assert await fork.result() == ["x11x21", "y11y21"]
    log = await witness(engine, handle.run).look()
    last = [entry.seq for entry in log if isinstance(entry.event, e.NodeCompleted)][-1]
    assert await (await engine.jump(handle.run, last)).result() == ["x11x22", "y11y22"]
    await witness(engine, handle.run).look()


async def test_a_late_worker_of_a_dead_branch_is_fenced(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        return await slow("b")

    engine = await stage.engine(claim=0.5)
    handle = await engine.start(flow)
    await until(lambda: done["b"] == 1)
    writer = engine._worker.drivers[handle.run].writer
    await stage.crash(engine)
    second = await stage.engine()
    await until(lambda: done["b"] == 2)
    await second.jump(handle.run, "start")
    is_open.add("b")
    assert await (await second.handle(handle.run)).result() == "b3"
    late = await stage.engine(worker=False)
    writer._ledger = late._ledger
    with pytest.raises(Fenced):
        await writer.append([e.NodeCompleted(node="slow", attempt=1)])


# --- waiting -----------------------------------------------------------------------------------------------------------


async def test_a_sleeping_run_goes_back_and_sleeps_again(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        first = await work("a")
        await ol.sleep(1000 if done["a"] < 2 else 0.05)
        return [first, await work("b")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.TimerSet)
    await engine.jump(handle.run, "work")
    assert await handle.result() == ["a2", "b1"]
    await witness(engine, handle.run).look()


async def test_children_at_work_that_are_kept_go_on_and_redone_calls_start_new_ones(stage: Any, witness: Any) -> None:
    registry.register("child", child)

    @ol.workflow
    async def parent() -> list[str]:
        return [await work("a"), *await ol.gather(child("c"), child("d"))]

    engine = await stage.engine()
    handle = await engine.start(parent)
    await until(lambda: done["c"] == 1 and done["d"] == 1)
    old = [x.event.child async for x in engine.events(handle.run) if isinstance(x.event, e.ChildStarted)]
    await engine.jump(handle.run, "work", children="keep")
    opened = [x.event async for x in engine.events(handle.run) if isinstance(x.event, e.BranchOpened)]
    assert set(opened[0].detached) == set(old)
    await until(lambda: done["c"] == 2 and done["d"] == 2)
    for name in old:
        assert (await engine.get(name)).status == "running"
    is_open.update({"c", "d"})
    assert await handle.result() == ["a2", "c2", "d2"]
    for name in old:
        assert await (await engine.handle(name)).result() in ("c1", "d1")
    new = [x.event.child async for x in engine.events(handle.run) if isinstance(x.event, e.ChildStarted)]
    assert not set(new) & set(old)
    seen = witness(engine, handle.run)
    await seen.look()
    # a fork of a run that heard of the end of a child it had let go of
    fork = await engine.fork(handle.run)
    assert await fork.result() == ["a2", "c2", "d2"]
    assert done["c"] == done["d"] == 2
    # and back to where they were waited for: their ends are known
    activated = await engine.activate(handle.run, 0)
    assert await activated.result() == ["a1", "c1", "d1"]
    assert done["c"] == done["d"] == 2
    await seen.look()


async def test_a_finished_child_before_the_cut_is_not_started_again(stage: Any, witness: Any) -> None:
    registry.register("child", child)

    @ol.workflow
    async def parent() -> list[str]:
        return [await child("c"), await work("a")]

    is_open.add("c")
    engine = await stage.engine()
    handle = await engine.start(parent)
    assert await handle.result() == ["c1", "a1"]
    assert await (await engine.jump(handle.run, "work")).result() == ["c1", "a2"]
    assert await (await engine.jump(handle.run, "start")).result() == ["c2", "a3"]
    await witness(engine, handle.run).look()


async def test_a_run_goes_back_out_of_and_into_nested_scopes(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[Any]:
        async with ol.step("outer"):
            async with ol.step("inner"):
                first = await work("s")
            items = await ol.map(work, ["m1", "m2", "m3"])
        raced = await ol.race(slow("never"), work("quick"))

        async def line(name: str) -> str:
            async with ol.step("own"):
                return await work(f"{name}1") + await work(f"{name}2")

        return [first, items, raced.value, *await ol.gather(line("x"), line("y")), await slow("end")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["end"] == 1)
    is_open.add("end")
    await handle.result()
    run, seen = handle.run, witness(engine, handle.run)
    log = await seen.look()
    plain = ["s1", ["m11", "m21", "m31"], "quick1", "x11x21", "y11y21", "end1"]
    assert await handle.result() == plain
    names = dict.fromkeys(x.event.node for x in log if isinstance(x.event, e.NodeScheduled))
    assert len(names) == 11
    for name in names:
        before = done.copy()
        result = await (await engine.jump(run, name)).result()
        assert [type(part) for part in result] == [type(part) for part in plain]
        assert done["s"] - before["s"] == ("inner" in name), name
        assert done["end"] == before["end"] + 1
        await seen.look()
    for name in names:
        if not name.startswith("never") and "slow" not in name:
            await (await engine.retry(run, name)).result()
            await seen.look()
    done.clear()
    for place in range(1, len(log), 3):
        await (await engine.jump(run, place)).result()
    await seen.look()
    assert await (await engine.activate(run, 0)).result() == plain


# --- more than one request ---------------------------------------------------------------------------------------------


async def test_of_two_jumps_at_once_both_or_one_is_made_and_nobody_is_told_otherwise(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await work("b"), await slow("c")]

    engine = await stage.engine()
    for number in range(4):
        handle = await engine.start(flow)
        await until(lambda number=number: done["c"] > number)
        told = await asyncio.gather(
            engine.jump(handle.run, "work", by="ann"),
            engine.jump(handle.run, "work#2", by="bob"),
            return_exceptions=True,
        )
        opened = [
            x.event.by async for x in engine.events(handle.run, everything=True) if isinstance(x.event, e.BranchOpened)
        ]
        for who, outcome in zip(("ann", "bob"), told, strict=True):
            assert isinstance(outcome, RunGone | NotAllowed) or who in opened, (told, opened)
        is_open.add("c")
        await handle.result()
        await witness(engine, handle.run).look()
        is_open.clear()
        done["c"] = number + 1


async def test_a_jump_and_a_cancellation_at_once_end_in_one_of_both(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await slow("b")]

    engine = await stage.engine()
    for is_first in (True, False):
        handle = await engine.start(flow)
        await until(lambda: done["b"])
        jumping = engine.jump(handle.run, "work")
        both = [jumping, engine.cancel(handle.run)]
        told = await asyncio.wait_for(
            asyncio.gather(*(both if is_first else reversed(both)), return_exceptions=True), 20
        )
        jumped = told[0 if is_first else 1]
        if isinstance(jumped, BaseException):
            assert isinstance(jumped, RunGone)
            assert (await engine.get(handle.run)).status == "cancelled"
        else:
            assert await engine.diagnostics.current_branch(handle.run) == 1
        is_open.add("b")
        with contextlib.suppress(ol.RunCancelled):
            await handle.result()
        await witness(engine, handle.run).look()
        is_open.clear()
        done.clear()


async def test_a_jump_and_a_pause_at_once_leave_a_paused_branch(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await slow("b")]

    engine = await stage.engine(grace=0.1)
    handle = await engine.start(flow)
    await until(lambda: done["b"])
    await engine._ledger.deliver(handle.run, [e.JumpRequested(target=1, branch=1)])
    await engine._ledger.deliver(handle.run, [e.PauseRequested()])
    await stage.until(engine, handle.run, e.RunPaused)
    assert await engine.diagnostics.current_branch(handle.run) == 1
    await engine.resume(handle.run)
    is_open.add("b")
    assert await handle.result() == [f"a{done['a']}", f"b{done['b']}"]
    await witness(engine, handle.run).look()


@pytest.mark.parametrize("order", ["jump", "jump, cancel", "jump, pause", "cancel, jump"])
async def test_whoever_takes_over_obeys_a_request_that_its_owner_did_not_live_to_obey(
    stage: Any, witness: Any, order: str
) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await work("b"), await slow("c")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["c"])
    at = [x.seq async for x in engine.events(handle.run) if isinstance(x.event, e.NodeScheduled)][1] - 1
    other = await stage.engine(worker=False)
    stage.faults(engine).is_dead = True
    requests = {
        "jump": e.JumpRequested(target=at, branch=1, by="ann", redo=("work#2",)),
        "cancel": e.CancelRequested(),
        "pause": e.PauseRequested(),
    }
    for name in order.split(", "):
        await other._ledger.deliver(handle.run, [requests[name]])
    await stage.crash(engine)
    seen = witness(other, handle.run)
    await seen.look()
    engine = await stage.engine()
    handle = await engine.handle(handle.run)
    is_open.add("c")
    if "cancel" in order:
        with pytest.raises(ol.RunCancelled):
            await handle.result()
        assert await engine.diagnostics.current_branch(handle.run) == 0
    else:
        if "pause" in order:
            await stage.until(engine, handle.run, e.RunPaused)
            await engine.resume(handle.run)
        assert await handle.result() == ["a1", "b2", "c2"]
        assert await engine.diagnostics.current_branch(handle.run) == 1
    log = await seen.look()
    if order == "jump":  # and at the first try
        assert [x.branch for x in log if isinstance(x.event, e.RunTakenOver)] == [0]


async def test_a_request_that_cannot_be_met_is_answered_by_a_branch_and_the_run_goes_on(
    stage: Any, witness: Any
) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await slow("b")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["b"])
    await engine._ledger.deliver(handle.run, [e.JumpRequested(target=10_000, branch=1)])
    opened = await stage.until(engine, handle.run, e.BranchOpened)
    assert (opened.event.cause, opened.event.branch) == ("recovery", 1)
    is_open.add("b")
    assert await handle.result() == ["a1", f"b{done['b']}"]
    log = await witness(engine, handle.run).look()
    assert [x.event.code for x in log if isinstance(x.event, e.RunRecovered)] == ["D2"]


# --- runs that stand still ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["paused", "failed", "cancelled", "completed", "held", "continued"])
async def test_a_run_that_stands_still_goes_back_and_on(stage: Any, witness: Any, how: str) -> None:
    @ol.node(repeatable=False)
    async def fragile() -> str:
        done["fragile"] += 1
        while how == "held" and done["fragile"] == 1:
            await asyncio.sleep(0.01)
        if how == "failed" and done["fragile"] == 1:
            raise ValueError("once")
        return f"f{done['fragile']}"

    @ol.workflow
    async def flow(number: int = 0) -> list[str]:
        first = await work("a")
        if how in ("paused", "cancelled"):
            await slow("b")
        if how == "continued" and not number:
            await ol.continue_as_new(1)
        return [first, await fragile()]

    engine = await stage.engine(grace=0.1)
    handle = await engine.start(flow)
    seen = witness(engine, handle.run)
    if how in ("paused", "cancelled"):
        await until(lambda: done["b"])
        await (engine.pause if how == "paused" else engine.cancel)(handle.run)
        await stage.until(engine, handle.run, e.RunPaused if how == "paused" else e.RunCancelled)
    elif how == "held":
        await until(lambda: done["fragile"])
        await stage.crash(engine)
        engine = await stage.engine(grace=0.1)
        await stage.until(engine, handle.run, e.RunFailed)
    elif how == "failed":
        with pytest.raises(ValueError, match="once"):
            await handle.result()
    else:
        await handle.result()
    await seen.look(engine)
    is_open.add("b")
    back = await engine.jump(handle.run, "work")
    result = await back.result()
    assert await engine.diagnostics.current_branch(handle.run) == 1
    assert result[0] == f"a{done['a']}"
    await seen.look()
    if how == "continued":
        successors = {
            x.event.successor
            async for x in engine.events(handle.run, everything=True)
            if isinstance(x.event, e.RunContinued)
        }
        assert len(successors) == 2
        for run in successors:
            await witness(engine, run).look()


async def test_a_jump_whose_run_ends_before_its_owner_hears_is_made_after_all(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await slow("b")]

    engine = await stage.engine()
    for _ in range(5):
        is_open.clear()
        before = done["b"]
        handle = await engine.start(flow)
        await until(lambda before=before: done["b"] > before)
        is_open.add("b")
        back = await asyncio.wait_for(engine.jump(handle.run, "work"), 20)
        assert await engine.diagnostics.current_branch(handle.run) == 1
        assert await back.result() == [f"a{done['a']}", f"b{done['b']}"]
        await witness(engine, handle.run).look()


async def test_a_run_that_has_something_for_itself_goes_back_only_if_that_is_free(stage: Any) -> None:
    @ol.workflow(exclusive="{place}")
    async def flow(place: str, name: str) -> list[str]:
        return [await work("a"), await slow(name)]

    engine = await stage.engine()
    is_open.add("one")
    first = await engine.start(flow, "desk", "one")
    await first.result()
    second = await engine.start(flow, "desk", "two")
    await until(lambda: done["two"])
    with pytest.raises(NotAllowed, match=r"exclusive key .desk. is held by live run"):
        await engine.jump(first.run, "start")
    with pytest.raises(NotAllowed, match=r"exclusive key .desk. is held by live run"):
        await engine.fork(first.run)
    assert await engine.diagnostics.current_branch(first.run) == 0
    is_open.add("two")
    await second.result()
    assert await (await engine.jump(first.run, "work")).result() == [f"a{done['a']}", f"one{done['one']}"]


async def test_to_retry_a_node_that_the_code_gave_up_leaves_a_run_that_can_end(stage: Any, witness: Any) -> None:
    @ol.node
    async def failing() -> str:
        done["failing"] += 1
        if done["failing"] < 2:
            raise ValueError("once")
        return "well"

    @ol.workflow
    async def flow() -> list[str]:
        won = await ol.race(slow("loser"), work("winner"))
        return [won.value, await failing()]

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="once"):
        await handle.result()
    log = await witness(engine, handle.run).look()
    loser = next(x.event.node for x in log if isinstance(x.event, e.NodeFailed) and "slow" in x.event.node)
    is_open.add("loser")
    try:
        back = await engine.retry(handle.run, loser)
    except NotAllowed:
        back = await engine.retry(handle.run)
    assert await asyncio.wait_for(back.result(), 20) == ["winner1", "well"]
    await witness(engine, handle.run).look()


async def test_a_result_that_is_not_to_be_repeated_is_taken_over_beside_what_is_redone(
    stage: Any, witness: Any
) -> None:
    @ol.node(repeatable=False)
    async def pay() -> str:
        done["pay"] += 1
        while "pay" not in is_open:
            await asyncio.sleep(0.005)
        return f"paid{done['pay']}"

    @ol.workflow
    async def flow() -> list[str]:
        return await ol.gather(pay(), work("a"))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await until(lambda: done["pay"] and done["a"])
    await stage.until(engine, handle.run, e.NodeCompleted)
    is_open.add("pay")
    assert await handle.result() == ["paid1", "a1"]
    assert await (await engine.retry(handle.run, "work")).result() == ["paid1", "a2"]
    assert done["pay"] == 1
    await witness(engine, handle.run).look()


async def test_a_cut_between_the_end_of_a_race_and_what_follows_leaves_nothing_at_work(
    stage: Any, witness: Any
) -> None:
    @ol.workflow
    async def flow() -> list[Any]:
        first = await ol.race(slow("loser"), ol.sleep(1000), work("winner"), ol.ask("Who?"))
        return [first.value[:6], await work("end")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await handle.result()
    seen = witness(engine, handle.run)
    log = await seen.look()
    for place in range(1, len(log) - 1):
        await engine.jump(handle.run, place)
        result = await handle.result()
        assert result[0] == "winner"
        await until(lambda: not engine._worker.drivers)
        await seen.look()


async def test_a_parent_does_not_hear_of_what_a_child_went_on_as_before_it_went_back(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def chain(number: int = 0) -> str:
        await work(f"c{number}")
        if number == 0 and done["c0"] == 1:
            await ol.continue_as_new(1)
        return await slow("new" if number == 0 else "old")

    @ol.workflow
    async def parent() -> str:
        return await chain()

    engine = await stage.engine()
    handle = await engine.start(parent)
    await until(lambda: done["old"])
    started = [x.event async for x in engine.events(handle.run) if isinstance(x.event, e.ChildStarted)]
    first = started[0].child
    left = await engine.diagnostics.continued_as(first)
    await engine.jump(first, "work")
    is_open.add("old")
    assert await engine.result(left) == "old1"
    is_open.add("new")
    assert await handle.result() == "new1"
    await witness(engine, handle.run).look()
