"""Once `continue_as_new` was called, the successor is the outcome, whatever the code does afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import outlast as ol
from outlast.functions.dry_replay import rehearse
from outlast.history import events as e

Flow = Callable[[int], Coroutine[Any, Any, int]]


@ol.node
async def tidy() -> None:
    pass


async def returns_in_finally(number: int) -> int:
    try:
        if number < 2:
            await ol.continue_as_new(number + 1)
    finally:
        return number  # noqa: B012


async def catches_everything(number: int) -> int:
    try:
        if number < 2:
            await ol.continue_as_new(number + 1)
    except BaseException:
        await tidy()
    return number


async def raises_in_finally(number: int) -> int:
    try:
        if number < 2:
            await ol.continue_as_new(number + 1)
        return number
    finally:
        if number < 2:
            raise ValueError("too late")


async def within_a_group(number: int) -> int:
    async def one() -> None:
        if number < 2:
            await ol.continue_as_new(number + 1)

    async with asyncio.TaskGroup() as group:
        group.create_task(one())
        group.create_task(asyncio.sleep(60)) if number < 2 else None
    return number


async def within_a_gather(number: int) -> int:
    async def one() -> None:
        if number < 2:
            await ol.continue_as_new(number + 1)

    await asyncio.gather(one(), tidy(), return_exceptions=True)
    return number


async def calls_it_twice(number: int) -> int:
    if number < 2:
        try:
            await ol.continue_as_new(number + 1)
        except BaseException:
            await ol.continue_as_new(number + 100)
    return number


def plain(number: int) -> int:
    try:
        if number < 2:
            ol.continue_as_new(number + 1).wait()
    finally:
        return number  # noqa: B012


FORMS = [
    returns_in_finally,
    catches_everything,
    raises_in_finally,
    within_a_group,
    within_a_gather,
    calls_it_twice,
    plain,
]


@pytest.mark.parametrize("form", FORMS)
async def test_the_successor_is_the_outcome_whatever_the_code_does_afterwards(stage: Any, form: Any) -> None:
    workflow = ol.workflow(form)
    async with stage.working() as engine:
        handle = await engine.start(workflow.options(id="one"), 0)
        assert await asyncio.wait_for(handle.result(), 10) == 2
        assert isinstance((await stage.events(engine, "one"))[-1], e.RunContinued)
        assert await stage.is_sound(engine, "one")
        assert (await rehearse(engine._store, "one")).agrees
