"""Nodes that follow one another share a task, and find nothing in it that another left behind."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import outlast as ol
from outlast.ledger.group_commit import TURN_S

colour: ContextVar[str] = ContextVar("colour", default="none")


@ol.node
async def colour_found() -> str:
    return colour.get()


@ol.node
async def painted(new: str) -> str:
    colour.set(new)
    await asyncio.sleep(0)
    return colour.get()


@ol.node
async def cancelled_and_went_on() -> int:
    own = asyncio.current_task()
    assert own is not None
    own.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(1)
    return own.cancelling()


@ol.node
async def cancellations() -> int:
    own = asyncio.current_task()
    assert own is not None
    return own.cancelling()


@ol.node
async def number_of_task() -> int:
    own = asyncio.current_task()
    assert own is not None
    return id(own)


class NotComparable:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    __hash__ = None  # type: ignore[assignment]


odd: ContextVar[Any] = ContextVar("odd", default=None)


@ol.node
async def put_an_odd_value() -> bool:
    odd.set(NotComparable())
    return True


@ol.node
async def is_odd() -> bool:
    return odd.get() is not None


async def test_a_node_does_not_see_what_the_one_before_set_in_its_context() -> None:
    @ol.workflow
    async def paint() -> list[str]:
        return [await painted("red"), await colour_found(), await painted("blue"), await colour_found()]

    async with ol.open("memory:") as engine:
        assert await (await engine.start(paint)).result() == ["red", "none", "blue", "none"]


async def test_a_value_that_cannot_be_compared_stays_with_its_node() -> None:
    @ol.workflow
    async def oddly() -> bool:
        await put_an_odd_value()
        return await is_odd()

    async with ol.open("memory:") as engine:
        assert await (await engine.start(oddly)).result() is False


async def test_a_cancellation_that_a_node_overcame_is_not_the_next_ones() -> None:
    @ol.workflow
    async def stubborn() -> list[int]:
        return [await cancelled_and_went_on(), await cancellations()]

    async with ol.open("memory:") as engine:
        assert await (await engine.start(stubborn)).result() == [1, 0]


async def test_nodes_that_leave_their_task_as_they_found_it_share_one() -> None:
    @ol.workflow
    async def in_a_row() -> int:
        return len({await number_of_task() for _ in range(10)})

    async with ol.open("memory:") as engine:
        assert await (await engine.start(in_a_row)).result() <= 2


@ol.node
async def block_the_loop() -> None:
    time.sleep(2 * TURN_S)  # noqa: ASYNC251 - it is what this is about


async def test_a_lone_run_leaves_the_loop_to_others_between_its_nodes() -> None:
    turns = 0

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    @ol.workflow
    async def busy(nodes: int) -> int:
        for _ in range(nodes):
            await block_the_loop()
        return nodes

    async with ol.open("memory:") as engine:
        other = asyncio.ensure_future(somebody_else())
        await (await engine.start(busy, 50)).result()
        other.cancel()
    assert turns >= 50
