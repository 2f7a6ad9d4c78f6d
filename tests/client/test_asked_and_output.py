"""Waiting for a question, reading the output of a node, and a sweep, with await and without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import outlast as ol


@dataclass
class Parcel:
    number: int


@ol.node
async def pack(number: int) -> Parcel:
    if number < 0:
        raise ValueError("nothing to pack")
    return Parcel(number)


@ol.workflow
async def shipping(number: int) -> str:
    await ol.sleep(0.05)
    parcel = await pack(number)
    paid = await ol.ask("Paid?", bool, key="payment")
    late = [await pack.options(id=f"late {each}")(each) for each in range(2)]
    return f"{parcel.number} {paid} {len(late)} {await ol.ask('Where to?')}"


@ol.workflow
async def outer(number: int) -> str:
    return await shipping(number)


@ol.workflow
async def asks_as_another(left: int) -> str:
    if left:
        await ol.sleep(0.05)
        await ol.continue_as_new(left - 1)
    return await ol.ask("At last?", key="last")


def play(scene: Callable[[ol.Engine], Awaitable[None]]) -> None:
    async def story() -> None:
        async with asyncio.timeout(30), ol.open("memory:") as engine:
            await scene(engine)

    asyncio.run(story())


@pytest.fixture
def engine() -> Iterator[ol.BlockingEngine]:
    with ol.open("memory:") as engine:
        yield engine


# --- questions


def test_a_question_is_waited_for_by_its_key_and_answered() -> None:
    async def scene(engine: ol.Engine) -> None:
        handle = await engine.start(shipping, 7)
        question = await handle.asked("payment", timeout=timedelta(seconds=20))
        assert question == ol.Question(handle.run, "ask[payment]", "Paid?", {"type": "boolean"})
        assert await handle.asked() == await handle.asked("ask[payment]", timeout=0) == question
        await handle.answer(True, interaction="payment")
        with pytest.raises(ol.AlreadyAnswered):
            await handle.asked("payment")
        assert (await handle.asked()).id == "ask"
        await handle.answer("home")
        assert await handle.result() == "7 True 2 home"
        with pytest.raises(ol.RunGone):
            await handle.asked(timeout=5)

    play(scene)


def test_a_question_of_a_child_and_of_a_successor_is_waited_for() -> None:
    async def scene(engine: ol.Engine) -> None:
        handle = await engine.start(outer, 7)
        question = await handle.asked("payment")
        assert question.run != handle.run
        follower = await engine.start(asks_as_another, 2)
        assert (await follower.asked("last")).prompt == "At last?"

    play(scene)


@pytest.mark.parametrize("question", [None, "payment"])
def test_who_waits_for_a_question_is_told_that_the_run_failed(question: str | None) -> None:
    async def scene(engine: ol.Engine) -> None:
        handle = await engine.start(shipping, -1)
        with pytest.raises(ValueError, match="nothing to pack"):
            await handle.asked(question)
        cancelled = await engine.start(shipping.options(id="cancelled"), 1)
        await cancelled.asked("payment")
        await cancelled.cancel(reason="no")
        with pytest.raises(ol.RunCancelled, match="no"):
            await cancelled.asked("another")

    play(scene)


def test_a_question_that_does_not_come_in_time_is_a_timeout(engine: ol.BlockingEngine) -> None:
    handle = engine.start(shipping, 7)
    for limit in (0, 0.01):
        with pytest.raises(ol.StillRunning, match=rf"has not asked 'nothing' within {limit:g} s"):
            handle.asked("nothing", timeout=limit)
    assert handle.asked("payment", timeout=20).prompt == "Paid?"
    with pytest.raises(ol.NotFound):
        engine.asked("no-such-run", timeout=0)


# --- outputs


def test_the_output_of_a_node_is_read_as_the_node_returns_it(engine: ol.BlockingEngine) -> None:
    handle = engine.start(outer, 7)
    question = handle.asked("payment", timeout=20)
    with pytest.raises(ol.NotFound, match=r"node pack of run .* has no output"):
        handle.output(pack)
    child = engine.handle(question.run)
    assert child.output(pack) == child.output("pack") == engine.output(question.run, "pack") == Parcel(7)
    engine.answer(question.run, True, interaction="payment")
    child.asked(timeout=20)
    assert child.output("pack[late 1]") == Parcel(1)
    assert child.output(pack) == Parcel(7), "the call of that very name"
    with pytest.raises(ol.NotFound):
        child.output("unpack")


@ol.workflow
async def packs_twice() -> None:
    await pack.options(id="a")(1)
    await pack.options(id="b")(2)


def test_a_node_that_was_called_more_than_once_is_asked_for_by_the_name_of_the_call(engine: ol.BlockingEngine) -> None:
    handle = engine.start(packs_twice)
    handle.result()
    with pytest.raises(ol.InvalidInput, match=r"more than once; give the name of the call: pack\[a\], pack\[b\]"):
        handle.output(pack)
    assert handle.output("pack[b]") == Parcel(2)


# --- a sweep


def test_a_sweep_says_what_it_would_do_and_does_it(tmp_path: Any) -> None:
    place = tmp_path / "runs.db"

    async def abandoned() -> str:
        async with ol.open(place, worker=False) as engine:
            handle = await engine.start(packs_twice)
            ledger, store = engine._ledger, engine._store
            await store.enrol(lost := ledger.new_worker_id(), 0.05)
            (claim,) = await store.claim(lost, runs=[handle.run])
            await ledger.take_over(claim)
            await asyncio.sleep(0.1)
            return handle.run

    run = asyncio.run(abandoned())
    with ol.open(place, worker=False) as engine:
        said = engine.sweep(dry_run=True, stale_after=0)
        assert (said.scanned, said.recovered, said.stalled) == (1, 0, 1)
        assert [(seen.run, seen.outcome) for seen in said.runs] == [(run, "handed over")]
        assert engine.sweep(stale_after=timedelta(hours=1)).recovered == 0, "it was lost a moment ago"
        assert engine.sweep(stale_after=0).recovered == 1
        assert engine.sweep(stale_after=0).recovered == 0
        with pytest.raises(ol.InvalidInput, match="stale_after"):
            engine.sweep(stale_after="soon")  # type: ignore[arg-type]
    with ol.open(place) as engine:
        engine.result(run, timeout=20)
