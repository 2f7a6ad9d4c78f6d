"""What becomes of errors, retries and timeouts in workflow code, live and after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import AGAIN, Gated, Shop, crashed_at, is_node, soon

# --- retries and timeouts ---------------------------------------------------------------------------------------------


async def attempts_of(stage: Any, error: BaseException, **options: Any) -> int:
    made: list[int] = []

    @ol.node(**{"retry": AGAIN, **options})
    async def failing() -> None:
        made.append(ol.context().attempt)
        raise error

    @ol.workflow
    async def flow() -> None:
        await failing()

    engine = await stage.engine()
    with pytest.raises(type(error)):
        await soon((await engine.start(flow)).result())
    assert made == list(range(1, len(made) + 1))
    return len(made)


async def test_a_node_is_tried_as_often_as_its_policy_says(stage: Any) -> None:
    assert await attempts_of(stage, ValueError("x")) == 3


async def test_a_node_without_a_policy_is_tried_once(stage: Any) -> None:
    assert await attempts_of(stage, ValueError("x"), retry=1) == 1


async def test_an_error_that_is_not_to_be_retried_is_not(stage: Any) -> None:
    assert await attempts_of(stage, ValueError("x"), retry=msgspec.structs.replace(AGAIN, give_up_on=ValueError)) == 1


async def test_an_error_of_another_class_than_those_to_be_retried_is_not(stage: Any) -> None:
    assert await attempts_of(stage, ValueError("x"), retry=msgspec.structs.replace(AGAIN, retry_on=KeyError)) == 1


async def test_an_error_of_a_class_below_those_to_be_retried_is(stage: Any) -> None:
    assert await attempts_of(stage, KeyError("x"), retry=msgspec.structs.replace(AGAIN, retry_on=LookupError)) == 3


async def test_an_error_that_says_it_is_not_retryable_is_not(stage: Any) -> None:
    error = ValueError("x")
    error.retryable = False  # type: ignore[attr-defined]
    assert await attempts_of(stage, error) == 1


async def test_a_node_that_succeeds_at_last_has_succeeded(stage: Any) -> None:
    @ol.node(retry=AGAIN)
    async def third_time() -> int:
        if ol.context().attempt < 3:
            raise ValueError("not yet")
        return ol.context().attempt

    @ol.workflow
    async def flow() -> int:
        return await third_time()

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == 3
    assert await stage.is_sound(engine, handle.run)


async def test_delays_between_attempts_grow(stage: Any) -> None:
    @ol.node(retry=ol.Retry(max_attempts=3, delay=0.02, backoff=3, jitter=0))
    async def failing() -> None:
        raise ValueError("x")

    @ol.workflow
    async def flow() -> None:
        await failing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="x"):
        await soon(handle.result())
    failed = [entry async for entry in engine.events(handle.run) if isinstance(entry.event, e.NodeFailed)]
    assert [round((x.event.retry_at - x.time) / 1000) for x in failed if x.event.retry_at] == [20, 60]


async def test_a_retry_that_is_waited_for_survives_a_crash(stage: Any) -> None:
    made: list[int] = []

    @ol.node(retry=ol.Retry(max_attempts=2, delay=0.3))
    async def failing() -> str:
        made.append(ol.context().attempt)
        if len(made) == 1:
            raise ValueError("x")
        return "well"

    @ol.workflow
    async def flow() -> str:
        return await failing()

    run = await crashed_at(stage, flow, at=e.NodeFailed)
    engine = await stage.engine()
    assert await soon(engine.result(run)) == "well"
    assert made == [1, 2]


async def test_a_node_that_takes_too_long_has_timed_out(stage: Any) -> None:
    @ol.node(timeout=0.02)
    async def slow() -> None:
        await asyncio.sleep(60)

    @ol.workflow
    async def flow() -> str:
        try:
            await slow()
        except TimeoutError as error:
            return str(error)
        return "in time"

    engine = await stage.engine()
    assert await soon((await engine.start(flow)).result()) == "it took longer than 0.02 s"


async def test_a_timeout_is_per_attempt(stage: Any) -> None:
    @ol.node(timeout=0.05, retry=AGAIN)
    async def slow() -> int:
        if ol.context().attempt < 3:
            await asyncio.sleep(60)
        return ol.context().attempt

    @ol.workflow
    async def flow() -> int:
        return await slow()

    engine = await stage.engine()
    assert await soon((await engine.start(flow)).result()) == 3


async def test_options_of_a_call_replace_those_of_the_node(stage: Any) -> None:
    made: list[int] = []

    @ol.node
    async def failing() -> None:
        made.append(1)
        raise ValueError("x")

    @ol.workflow
    async def flow() -> None:
        await failing.options(retry=AGAIN)()

    engine = await stage.engine()
    with pytest.raises(ValueError, match="x"):
        await soon((await engine.start(flow)).result())
    assert len(made) == 3


# --- errors -----------------------------------------------------------------------------------------------------------


def failing_flow(seen: list[Any], gated: Gated) -> Any:
    @ol.node
    async def sell(item: str) -> None:
        raise Shop(item, 7)

    @ol.workflow
    async def flow() -> str:
        try:
            await sell("apples")
        except Shop as error:
            seen.append(error)
        await gated.node()
        return "caught"

    return flow


async def test_an_error_comes_back_as_itself(stage: Any) -> None:
    seen: list[Any] = []
    gated = Gated()
    gated.gate.set()
    engine = await stage.engine()
    await soon((await engine.start(failing_flow(seen, gated))).result())
    (error,) = seen
    assert (type(error), str(error), error.item, error.code) == (Shop, "apples is sold out", "apples", 7)


async def test_an_error_has_its_traceback_as_a_note(stage: Any) -> None:
    seen: list[Any] = []
    gated = Gated()
    gated.gate.set()
    engine = await stage.engine()
    await soon((await engine.start(failing_flow(seen, gated))).result())
    assert "raise Shop(item, 7)" in "".join(seen[0].__notes__)


async def test_a_caught_error_is_the_same_after_a_replay(stage: Any) -> None:
    seen: list[Any] = []
    gated = Gated()
    run = await crashed_at(stage, failing_flow(seen, gated), at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == "caught"
    first, second = seen
    assert (type(first), str(first), vars(first)) == (type(second), str(second), vars(second))


async def test_a_failed_run_raises_its_error_wherever_it_is_asked_for(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        raise Shop("pears", 3)

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(Shop):
        await soon(handle.result())
    other = await stage.engine(worker=False)
    with pytest.raises(Shop, match="pears") as caught:
        await soon(other.result(handle.run))
    assert caught.value.code == 3


async def test_an_error_raised_over_another_keeps_what_it_came_from_in_its_trace(stage: Any) -> None:
    @ol.node
    async def failing() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise Shop("nuts", 1) from error

    @ol.workflow
    async def flow() -> None:
        await failing()

    engine = await stage.engine()
    with pytest.raises(Shop) as caught:
        await soon((await engine.start(flow)).result())
    assert "KeyError: 'inner'" in "".join(caught.value.__notes__)
