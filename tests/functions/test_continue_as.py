"""Once `continue_as_new` was called, the successor is the outcome, whatever the code does afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import outlast as ol
from outlast.functions.dry_replay import dry_run
from outlast.history import events as e

Flow = Callable[[int], Coroutine[Any, Any, int]]


@ol.node
async def tidy() -> None:
    pass


@ol.node
async def endless() -> None:
    await asyncio.sleep(3600)


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


async def waits_for_ever(number: int) -> int:
    while True:
        try:
            if number == 2:
                return number
            await ol.continue_as_new(number + 1)
        except BaseException:
            await tidy()
        while number < 2:
            await ol.sleep(3600)


async def asks_for_ever(number: int) -> int:
    try:
        if number < 2:
            await ol.continue_as_new(number + 1)
    finally:
        while number < 2:
            await asyncio.gather(tidy(), ol.sleep(0.01))
    return number


async def works_for_ever(number: int) -> int:
    try:
        if number < 2:
            await ol.continue_as_new(number + 1)
    finally:
        if number < 2:
            await endless()
    return number


def waits_for_ever_in_a_thread(number: int) -> int:
    try:
        if number < 2:
            ol.continue_as_new(number + 1).wait()
    finally:
        while number < 2:
            ol.approve("Go on?").wait()
    return number


ENDLESS = [waits_for_ever, asks_for_ever, works_for_ever, waits_for_ever_in_a_thread]
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
        assert (await dry_run(engine._store, "one")).agrees


@pytest.mark.parametrize("cleanup", [0.0, 0.2])
@pytest.mark.parametrize("form", ENDLESS)
async def test_code_that_goes_on_for_ever_is_stopped_after_the_time_for_its_clean_up(
    stage: Any, form: Any, cleanup: float
) -> None:
    workflow = ol.workflow(cleanup=cleanup)(form)
    async with stage.working() as engine:
        handle = await engine.start(workflow.options(id="one"), 0)
        assert await asyncio.wait_for(handle.result(), 10) == 2
        events = await stage.events(engine, "one")
        assert isinstance(events[-1], e.RunContinued)
        assert not any(isinstance(event, e.RunFailed) for event in events)
        assert await stage.is_sound(engine, "one")
        assert (await dry_run(engine._store, "one")).agrees


async def test_a_crash_does_not_extend_the_time(stage: Any) -> None:
    """It counts from the call, by the log; the next worker finds the run, though it waits for something far off."""
    workflow = ol.workflow(cleanup=1.5)(waits_for_ever)
    engine = await stage.engine()
    await engine.start(workflow.options(id="one"), 0)
    called = (await stage.until(engine, "one", e.TimerSet)).time
    await asyncio.sleep(0.7)
    await stage.crash(engine)
    async with stage.working() as engine:
        assert await asyncio.wait_for(engine.result("one"), 10) == 2
        ended = (await stage.until(engine, "one", e.RunContinued)).time
    assert 1.3 < (ended - called) / 1e6 < 2.1


async def test_a_cancelled_run_has_its_own_time_to_clean_up(stage: Any) -> None:
    @ol.workflow(cleanup=0.6)
    async def swallows() -> None:
        try:
            await ol.continue_as_new()
        except BaseException:
            try:
                await ol.sleep(3600)
            finally:
                await ol.sleep(0.4)

    async with stage.working() as engine:
        handle = await engine.start(swallows)
        await asyncio.sleep(0.3)
        await engine.cancel(handle.run)
        ended = (await stage.until(engine, handle.run, e.RunCancelled)).event
        assert ended.cleanup == "completed"
