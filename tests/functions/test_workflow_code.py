"""What workflow code may say and what comes of it, live and after a crash."""

from __future__ import annotations

import asyncio
import enum
import gc
import json
import logging
import threading
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import outlast as ol
from outlast.engine import worker, writing
from outlast.history import events as e

SOON = 8.0
AGAIN = ol.Retry(max_attempts=3, delay=0.001)


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, SOON)


def is_node(name: str, kind: type = e.NodeStarted) -> Any:
    return lambda event: isinstance(event, kind) and event.node == name


def names(events: list[Any], kind: type) -> list[str]:
    return [event.node for event in events if isinstance(event, kind)]


@ol.node
async def echo(value: Any) -> Any:
    return value


@ol.node
def plain_echo(value: Any) -> Any:
    return value


class Gated:
    """Nodes that wait until they are let go, and count how often they began."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.calls: list[Any] = []
        calls, gate = self.calls, self.gate

        @ol.node
        async def gated(value: Any = None) -> Any:
            calls.append(value)
            await gate.wait()
            return value

        self.node = gated


async def crashed_at(stage: Any, workflow: Any, *params: Any, at: Any) -> str:
    """A run whose engine died at that event."""
    engine = await stage.engine()
    handle = await engine.start(workflow, *params)
    await soon(stage.until(engine, handle.run, at))
    await stage.crash(engine)
    return str(handle.run)


class Shop(Exception):
    """With what it carries."""

    def __init__(self, item: str, code: int) -> None:
        super().__init__(f"{item} is sold out")
        self.item = item
        self.code = code


# --- retries and timeouts ----------------------------------------------------------------------------------------------


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


# --- errors ------------------------------------------------------------------------------------------------------------


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


# --- together ----------------------------------------------------------------------------------------------------------


async def run_of(stage: Any, workflow: Any, *params: Any) -> Any:
    engine = await stage.engine()
    handle = await engine.start(workflow, *params)
    result = await soon(handle.result())
    assert await stage.is_sound(engine, handle.run)
    return result


@ol.node
async def fail(text: str) -> None:
    raise ValueError(text)


async def test_gather_gives_results_in_the_order_of_its_calls(stage: Any) -> None:
    first = asyncio.Event()

    @ol.node
    async def last() -> str:
        await first.wait()
        return "last"

    @ol.node
    async def early() -> str:
        first.set()
        return "early"

    @ol.workflow
    async def flow() -> list[str]:
        return list(await ol.gather(last(), early()))

    assert await run_of(stage, flow) == ["last", "early"]


async def test_gather_raises_the_first_failure(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        try:
            await ol.gather(echo(1), fail("broken"))
        except ValueError as error:
            return str(error)
        return ""

    assert await run_of(stage, flow) == "broken"


async def test_gather_puts_failures_among_the_results_if_told_to(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [repr(each) for each in await ol.gather(echo(1), fail("broken"), return_exceptions=True)]

    assert await run_of(stage, flow) == ["1", "ValueError('broken')"]


async def test_gather_of_nothing_is_nothing(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[Any]:
        return list(await ol.gather())

    assert await run_of(stage, flow) == []


async def test_gather_takes_helpers_that_call_nodes(stage: Any) -> None:
    async def helper(number: int) -> int:
        return await echo(await echo(number)) + 1

    @ol.workflow
    async def flow() -> list[int]:
        return list(await ol.gather(*(helper(number) for number in range(5))))

    assert await run_of(stage, flow) == [1, 2, 3, 4, 5]


async def test_the_winner_of_a_race_is_recorded(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> int:
        return (await ol.race(gated.node(), echo("x"))).index

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == 1
    (decision,) = [x for x in await stage.events(engine, handle.run) if isinstance(x, e.DecisionRecorded)]
    assert (decision.key, json.loads(bytes(decision.value))) == ("race", 1)


async def test_the_losers_of_a_race_are_cancelled(stage: Any) -> None:
    cancelled = asyncio.Event()

    @ol.node
    async def loser() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    @ol.node
    async def winner() -> str:
        return "won"

    @ol.workflow
    async def flow() -> str:
        return (await ol.race(loser(), winner())).value or ""

    assert await run_of(stage, flow) == "won"
    await soon(cancelled.wait())


async def test_a_race_lost_before_a_crash_is_lost_after_it(stage: Any) -> None:
    gated = Gated()
    slow = Gated()

    @ol.workflow
    async def flow() -> str:
        won = await ol.race(slow.node.options(id="slow")("slow"), echo("quick"))
        await gated.node("after")
        return str(won.value)

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    slow.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == "quick"
    assert slow.calls == ["slow"]
    assert await stage.is_sound(engine, run)


async def test_a_race_of_a_node_and_a_sleep_is_a_durable_timeout(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> int:
        return (await ol.race(gated.node(), ol.sleep(0.01))).index

    assert await run_of(stage, flow) == 1


async def test_a_race_that_is_won_by_a_failure_raises_it(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        await ol.race(gated.node(), fail("first"))

    with pytest.raises(ValueError, match="first"):
        await run_of(stage, flow)


async def test_a_race_of_nobody_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await ol.race()

    with pytest.raises(ol.InvalidInput):
        await run_of(stage, flow)


async def test_map_gives_results_in_the_order_of_its_items(stage: Any) -> None:
    @ol.node
    async def slower_first(number: int) -> int:
        await asyncio.sleep(0.01 * (5 - number))
        return number * 10

    @ol.workflow
    async def flow() -> list[int]:
        return await ol.map(slower_first, range(5))

    assert await run_of(stage, flow) == [0, 10, 20, 30, 40]


async def test_map_runs_no_more_than_its_limit_at_a_time(stage: Any) -> None:
    now, most = 0, 0

    @ol.node
    async def counted(number: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return number

    @ol.workflow
    async def flow() -> int:
        return len(await ol.map(counted, range(30), concurrency=4))

    assert await run_of(stage, flow) == 30
    assert most == 4


async def test_map_reads_no_further_ahead_than_its_window(stage: Any) -> None:
    gated = Gated()
    read: list[int] = []

    def items() -> Any:
        for number in range(1000):
            read.append(number)
            yield number

    @ol.workflow
    async def flow() -> int:
        return len(await ol.map(gated.node, items(), concurrency=3))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("gated/2")))
    assert len(read) == 3
    gated.gate.set()
    assert await soon(handle.result()) == 1000


@pytest.mark.parametrize("waits_for", ["event", "node", "generator", "stubborn"])
async def test_what_a_run_leaves_behind_ends_with_it_and_not_amid_the_code_of_another(
    stage: Any, waits_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    unheard: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda each: unheard.append(each.exc_value))

    async def numbers() -> Any:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            await echo("in the name of whom?")

    async def helper() -> None:
        try:
            match waits_for:
                case "event":
                    await asyncio.Event().wait()
                case "node":
                    await ol.sleep(days=1)
                case "generator":
                    async with aclosing(numbers()) as found:
                        async for _ in found:
                            pass
                case _:
                    with suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()
                    await asyncio.Event().wait()
        finally:
            ended.append(waits_for)
            await echo("in the name of whom?")

    @ol.workflow
    async def leaves_behind() -> Any:
        asyncio.create_task(helper()).add_done_callback(lambda _: None)
        return await echo("done")

    @ol.workflow
    async def collects() -> Any:
        gc.collect()
        return await echo("other")

    async with stage.working() as engine:
        first = await engine.start(leaves_behind)
        assert await soon(first.result()) == "done"
        second = await engine.start(collects)
        assert await soon(second.result()) == "other"
        assert names(await stage.events(engine, second.run), e.NodeCompleted) == ["echo"]
    assert (ended, unheard) == ([waits_for], [])


async def test_map_of_a_helper_names_the_nodes_of_each_item(stage: Any) -> None:
    async def helper(number: int) -> int:
        return await echo(await plain_echo(number))

    @ol.workflow
    async def flow() -> list[int]:
        return await ol.map(helper, [7, 8])

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == [7, 8]
    done = names(await stage.events(engine, handle.run), e.NodeCompleted)
    assert set(done) == {"helper/0/plain_echo", "helper/0/echo", "helper/1/plain_echo", "helper/1/echo"}


async def test_map_can_be_gone_through_one_by_one(stage: Any) -> None:
    @ol.workflow
    async def flow() -> int:
        total = 0
        async for number in ol.map(echo, range(10), concurrency=2):
            total += number
        return total

    assert await run_of(stage, flow) == 45


async def test_map_stops_at_the_first_failure(stage: Any) -> None:
    @ol.node
    async def picky(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    @ol.workflow
    async def flow() -> list[int]:
        return await ol.map(picky, range(100), concurrency=2)

    with pytest.raises(ValueError, match="three"):
        await run_of(stage, flow)


async def test_map_goes_on_after_a_crash_without_repeating_what_is_done(stage: Any) -> None:
    gate = asyncio.Event()
    calls: list[int] = []

    @ol.node
    async def worked(number: int) -> int:
        calls.append(number)
        if number == 20:
            await gate.wait()
        return number

    @ol.workflow
    async def flow() -> int:
        return sum(await ol.map(worked, range(300), concurrency=3))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("worked/22", e.NodeCompleted)))
    await stage.crash(engine)
    done = set(calls) - {20}
    gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(handle.run)) == sum(range(300))
    assert all(calls.count(number) == 1 for number in range(20) if number in done)
    assert await stage.is_sound(engine, handle.run)


# --- names -------------------------------------------------------------------------------------------------------------


async def completed_names(stage: Any, workflow: Any) -> list[str]:
    engine = await stage.engine()
    handle = await engine.start(workflow)
    await soon(handle.result())
    return names(await stage.events(engine, handle.run), e.NodeCompleted)


async def test_calls_of_one_node_are_numbered(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await echo(1)
        await echo(2)
        await echo(3)

    assert await completed_names(stage, flow) == ["echo", "echo#2", "echo#3"]


async def test_a_key_names_a_call(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        for name in ("a", "b"):
            await echo.options(id=name)(name)

    assert await completed_names(stage, flow) == ["echo[a]", "echo[b]"]


async def test_a_key_given_twice_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await echo.options(id="a")(1)
        await echo.options(id="a")(2)

    with pytest.raises(ol.NotDurable, match="twice"):
        await run_of(stage, flow)


async def test_steps_and_tasks_are_scopes_within_scopes(stage: Any) -> None:
    async def helper() -> None:
        await echo(1)
        async with ol.step("inner"):
            await echo(2)

    @ol.workflow
    async def flow() -> None:
        async with ol.step("outer"):
            await echo(0)
            await ol.gather(helper(), helper())

    assert sorted(await completed_names(stage, flow)) == [
        "outer/1/echo",
        "outer/1/inner/echo",
        "outer/2/echo",
        "outer/2/inner/echo",
        "outer/echo",
    ]


async def test_steps_are_in_the_log_with_their_nodes(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        async with ol.step("publish"):
            await echo(1)

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    events = await stage.events(engine, handle.run)
    assert [x.step for x in events if isinstance(x, e.StepStarted | e.StepCompleted)] == ["publish", "publish"]
    assert [x.step for x in events if isinstance(x, e.NodeScheduled)] == ["publish"]


# --- what is the same in a replay --------------------------------------------------------------------------------------


async def test_now_random_and_uuid_are_the_same_after_a_replay(stage: Any) -> None:
    seen: list[Any] = []
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        facts: list[Any] = [ol.now(), ol.random(), ol.uuid(), ol.random()]
        await echo(1)
        facts += [ol.now(), ol.random(), ol.uuid()]
        await ol.sleep(0.001)
        facts += [ol.now(), asyncio.get_running_loop().time()]
        seen.append(facts)
        await gated.node()

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    await soon(engine.result(run))
    assert seen[0] == seen[1]


async def test_random_and_uuid_differ_from_call_to_call(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [str(ol.random()), str(ol.random()), str(ol.uuid()), str(ol.uuid())]

    assert len(set(await run_of(stage, flow))) == 4


async def test_now_has_a_time_zone_and_is_about_now(stage: Any) -> None:
    @ol.workflow
    async def flow() -> datetime:
        return ol.now()

    assert abs(await run_of(stage, flow) - datetime.now(UTC)) < timedelta(seconds=30)


async def test_a_sleep_until_a_time_without_zone_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await ol.sleep(until=datetime(2030, 1, 1))

    with pytest.raises(ol.InvalidInput, match="time zone"):
        await run_of(stage, flow)


async def test_a_sleep_goes_on_after_a_crash(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        await ol.sleep(0.2)
        return "awake"

    run = await crashed_at(stage, flow, at=e.TimerSet)
    engine = await stage.engine()
    assert await soon(engine.result(run)) == "awake"


async def test_a_sleep_beside_a_node_is_over_when_the_clock_says_so(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine was suspended, or its clock was set: the loop's own clock knows nothing of that."""
    monkeypatch.setattr("outlast.engine.outcomes.LOOK", 0.01, raising=False)

    @ol.node
    async def busy() -> None:
        await asyncio.Event().wait()

    @ol.workflow
    async def flow() -> str:
        await ol.race(busy(), ol.sleep(hours=2))
        return "awake"

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.TimerSet)
    clock = engine._ledger.clock
    ahead = lambda: clock() + 7_200_000_000  # noqa: E731
    monkeypatch.setattr(engine._ledger, "clock", ahead)
    assert await soon(handle.result()) == "awake"


# --- child runs --------------------------------------------------------------------------------------------------------


def family(gated: Gated) -> tuple[Any, Any]:
    @ol.workflow
    async def child(number: int) -> int:
        if number < 0:
            raise Shop("children", number)
        if number == 0:
            await gated.node(number)
        return number * 2

    @ol.workflow
    async def parent(number: int) -> int:
        return await child(number) + 1

    return parent, child


async def test_a_child_run_brings_its_result(stage: Any) -> None:
    parent, _ = family(Gated())
    assert await run_of(stage, parent, 4) == 9


async def test_a_child_run_is_a_run_of_its_own_with_a_parent(stage: Any) -> None:
    parent, _ = family(Gated())
    engine = await stage.engine()
    handle = await engine.start(parent, 4)
    await soon(handle.result())
    (listed,) = (await engine.list(ol.RunFilter(parent=handle.run))).items
    assert listed.summary.workflow == "child"


async def test_the_failure_of_a_child_run_is_raised_in_its_parent(stage: Any) -> None:
    parent, _ = family(Gated())
    with pytest.raises(Shop, match="children"):
        await run_of(stage, parent, -1)


async def test_a_child_run_is_cancelled_with_its_parent(stage: Any) -> None:
    gated = Gated()
    parent, _ = family(gated)
    engine = await stage.engine()
    handle = await engine.start(parent, 0)
    started = await soon(stage.until(engine, handle.run, e.ChildStarted))
    while not gated.calls:
        await asyncio.sleep(0.002)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(started.event.child))


async def test_a_cancelled_child_run_is_an_error_in_its_parent(stage: Any) -> None:
    gated = Gated()
    parent, _ = family(gated)
    engine = await stage.engine()
    handle = await engine.start(parent, 0)
    started = await soon(stage.until(engine, handle.run, e.ChildStarted))
    while not gated.calls:
        await asyncio.sleep(0.002)
    await engine.cancel(started.event.child)
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())


async def test_a_child_run_goes_on_after_a_crash_and_is_not_started_again(stage: Any) -> None:
    gated = Gated()
    parent, _ = family(gated)
    run = await crashed_at(stage, parent, 0, at=e.ChildStarted)
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == 1
    assert len((await engine.list(ol.RunFilter(parent=run))).items) == 1
    assert await stage.is_sound(engine, run)


async def test_a_child_run_that_loses_a_race_is_cancelled(stage: Any) -> None:
    gated = Gated()
    _, child = family(gated)

    @ol.workflow
    async def flow() -> int:
        return (await ol.race(child(0), ol.sleep(0.05))).index

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == 1
    (listed,) = (await engine.list(ol.RunFilter(parent=handle.run))).items
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(listed.summary.run))


async def test_a_child_run_that_is_held_keeps_its_parent_waiting(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(on_restart="hold")
    async def child() -> str:
        await gated.node()
        return "child"

    @ol.workflow
    async def parent() -> str:
        return await child()

    engine = await stage.engine()
    handle = await engine.start(parent)
    started = await soon(stage.until(engine, handle.run, e.ChildStarted))
    while not gated.calls:
        await asyncio.sleep(0.002)
    await stage.crash(engine)
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld):
        await soon(engine.result(started.event.child))
    await engine.resume(started.event.child)
    assert await soon(engine.result(handle.run)) == "child"


# --- people ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Visit:
    when: datetime


class Stay(msgspec.Struct, tag=True):
    nights: int


class Tour(msgspec.Struct, tag=True):
    nights: int


class Choice(enum.IntEnum):
    TEA = 1
    COFFEE = 2


class Guest(pydantic.BaseModel):
    name: str
    visits: list[Visit] = []


async def asked(stage: Any, kind: Any = int) -> tuple[ol.Engine, Any]:
    @ol.workflow
    async def flow() -> str:
        return repr(await ol.ask("How many?", kind))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    return engine, handle


async def test_an_answer_comes_to_the_code_as_its_type(stage: Any) -> None:
    _, handle = await asked(stage)
    await handle.answer(7)
    assert await soon(handle.result()) == "7"


@pytest.mark.parametrize("answer", ["seven", 7.5, None, True, [7], {"n": 7}])
async def test_an_answer_of_the_wrong_type_is_refused_and_nothing_is_stored(stage: Any, answer: Any) -> None:
    engine, handle = await asked(stage)
    before = len(await stage.events(engine, handle.run))
    with pytest.raises(ol.InvalidInput):
        await handle.answer(answer)
    assert len(await stage.events(engine, handle.run)) == before
    await handle.answer(7)
    assert await soon(handle.result()) == "7"


async def test_a_wrong_answer_to_a_structured_question_is_refused(stage: Any) -> None:
    _, handle = await asked(stage, dict[str, list[int]])
    with pytest.raises(ol.InvalidInput):
        await handle.answer({"a": ["x"]})
    await handle.answer({"a": [1]})
    assert await soon(handle.result()) == "{'a': [1]}"


async def test_a_date_as_an_answer_that_is_none_is_refused(stage: Any) -> None:
    _, handle = await asked(stage, datetime)
    with pytest.raises(ol.InvalidInput):
        await handle.answer("tomorrow")
    await handle.answer(datetime(2030, 1, 1, tzinfo=UTC))
    assert "2030" in await soon(handle.result())


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        (Visit, {"when": "soon"}, {"when": "2030-01-01T00:00:00Z"}),
        (list[datetime] | None, ["soon"], ["2030-01-01T00:00:00"]),
        (Decimal, "much", "1.50"),
        (bytes, "?", "YQ=="),
        (dict[int, str], {"one": "a"}, {"1": "a"}),
        (dict[str, tuple[int, datetime]], {"a": [1, "soon"]}, {"a": [1, "2030-01-01T00:00:00"]}),
        (Guest, {"name": "Ann", "visits": [{"when": "soon"}]}, {"name": "Ann", "visits": []}),
        (list[Guest], [{"visits": []}], [{"name": "Ann"}]),
    ],
)
async def test_what_the_type_cannot_read_is_no_answer(stage: Any, kind: Any, wrong: Any, right: Any) -> None:
    """P7: it is refused before anything is stored; stored, it would hold the run."""
    engine, handle = await asked(stage, kind)
    before = len(await stage.events(engine, handle.run))
    with pytest.raises(ol.InvalidInput):
        await handle.answer(wrong)
    assert len(await stage.events(engine, handle.run)) == before
    await handle.answer(right)
    assert await soon(handle.result())


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (Visit, Visit(datetime(2030, 1, 1, tzinfo=UTC))),
        (Choice, Choice.TEA),
        (list[Choice], [Choice.TEA]),
        (tuple[int, str], (1, "a")),
        (Path, Path("a/b")),
        (dict[int, str], {1: "a"}),
        (Guest, Guest(name="Ann")),
        (Stay | Tour, Tour(3)),
        (Any, {"a": {1}, 2: (3,)}),
    ],
)
async def test_an_answer_may_be_a_value_of_the_type_itself(stage: Any, kind: Any, answer: Any) -> None:
    _, handle = await asked(stage, kind)
    await handle.answer(answer)
    assert await soon(handle.result()) == repr(answer)


async def test_a_question_is_answered_once(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> int:
        answer = await ol.ask("How many?", int)
        await gated.node()
        return answer

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    await handle.answer(1)
    with pytest.raises(ol.RunGone):
        await handle.answer(2)
    gated.gate.set()
    assert await soon(handle.result()) == 1


async def test_of_several_questions_the_one_that_is_answered_is_named(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[Any]:
        return list(await ol.gather(ol.ask("Who?", str, key="who"), ol.approve("Really?", key="sure")))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    with pytest.raises(ol.InvalidInput, match="Really"):
        await handle.answer("me")
    await handle.answer("me", interaction="ask[who]")
    await handle.answer(True, interaction="approve[sure]")
    assert await soon(handle.result()) == ["me", True]


async def test_approve_takes_a_yes_or_a_no_only(stage: Any) -> None:
    @ol.workflow
    async def flow() -> bool:
        return await ol.approve("Really?")

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    with pytest.raises(ol.InvalidInput):
        await handle.answer("yes")
    await handle.answer(False)
    assert await soon(handle.result()) is False


async def test_an_answer_given_by_a_desk_without_worker_reaches_the_run(stage: Any) -> None:
    _, handle = await asked(stage)
    desk = await stage.engine(worker=False)
    await desk.answer(handle.run, 5)
    assert await soon(handle.result()) == "5"


async def test_an_answer_given_while_nobody_works_is_heard_by_the_next_engine(stage: Any) -> None:
    engine, handle = await asked(stage)
    await stage.crash(engine)
    desk = await stage.engine(worker=False)
    await desk.answer(handle.run, 5)
    engine = await stage.engine()
    assert await soon(engine.result(handle.run)) == "5"
    assert await stage.is_sound(engine, handle.run)


async def test_a_question_without_words_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await ol.ask(" ")

    with pytest.raises(ol.InvalidInput):
        await run_of(stage, flow)


# --- going on as another run -------------------------------------------------------------------------------------------


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
    assert len((await engine.list(ol.RunFilter(workflow="count"))).items) == 5


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
    while len((await engine.list(ol.RunFilter(workflow="link"))).items) < 3:
        await asyncio.sleep(0.002)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(engine.result(await child_of(stage, engine, handle.run)))


class Procrastination:
    """The end of a run that continues is settled when it is let go, and not before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = asyncio.Event()
        self.successor = ""
        settle = worker.settle

        async def settled(ledger: Any, run: Any, created: Any, ending: Any, state: Any) -> None:
            if isinstance(ending, e.RunContinued) and not self.successor:
                self.successor = ending.successor
                await self.gate.wait()
            await settle(ledger, run, created, ending, state)

        monkeypatch.setattr(worker, "settle", settled)


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
    concluded = writing.concluded

    async def cancelled_meanwhile(code: Any, *rest: Any) -> Any:
        ending = await concluded(code, *rest)
        if code.run == "first":
            await engine.cancel(code.run)
        return ending

    monkeypatch.setattr(writing, "concluded", cancelled_meanwhile)
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
    await engine.stand_by(handle.run)
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


# --- inside nodes ------------------------------------------------------------------------------------------------------


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
        while not (scratch := (await engine.list(ol.RunFilter())).items[0].scratch):
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
        while not (scratch := (await engine.list(ol.RunFilter())).items[0].scratch):
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

    handle = await (await stage.engine()).start(flow)
    workflow, first, second = await soon(handle.result())
    run = handle.run
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


# --- plain workflows ---------------------------------------------------------------------------------------------------


async def test_a_plain_workflow_waits_for_its_calls(stage: Any) -> None:
    @ol.workflow
    def flow(number: int) -> int:
        with ol.step("all"):
            number = echo(number + 1).wait()
        ol.sleep(0.001).wait()
        first, second = ol.gather(echo(number), plain_echo(number)).wait()
        return first + second + sum(ol.map(echo, range(4)).wait()) + ol.race(echo(100)).wait().value

    assert await run_of(stage, flow, 1) == 2 + 2 + 6 + 100


async def test_a_plain_workflow_goes_on_after_a_crash(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    def flow() -> list[Any]:
        first = echo("first").wait()
        return [first, gated.node("second").wait()]

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == ["first", "second"]


async def test_a_plain_workflow_can_be_cancelled_while_it_waits(stage: Any) -> None:
    gated = Gated()
    ended = threading.Event()

    @ol.workflow
    def flow() -> None:
        try:
            gated.node().wait()
        finally:
            ended.set()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert ended.wait(SOON)


async def test_a_plain_workflow_catches_the_errors_of_its_nodes(stage: Any) -> None:
    @ol.workflow
    def flow() -> str:
        try:
            fail("caught").wait()
        except ValueError as error:
            return str(error)
        return ""

    assert await run_of(stage, flow) == "caught"


async def test_to_wait_in_an_async_workflow_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        echo(1).wait()

    with pytest.raises(ol.NotDurable, match="await"):
        await run_of(stage, flow)


async def test_a_plain_workflow_catches_the_cancellation_of_what_it_waits_for(stage: Any) -> None:
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @ol.workflow
    def flow() -> Any:
        try:
            ol.gather(gives_up(), echo(1)).wait()
        except asyncio.CancelledError:
            return echo("caught").wait()

    assert await run_of(stage, flow) == "caught"


async def test_helpers_that_a_plain_workflow_waits_for_within_a_step_belong_to_it(stage: Any) -> None:
    async def helper() -> Any:
        return await echo(1)

    @ol.workflow
    def flow() -> Any:
        with ol.step("publish"):
            ol.gather(helper(), echo(2)).wait()
        ol.gather(helper(), echo(3)).wait()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    scheduled = [event for event in await stage.events(engine, handle.run) if isinstance(event, e.NodeScheduled)]
    assert {event.node: event.step for event in scheduled} == {
        "publish/echo": "publish",
        "publish/1/echo": "publish",
        "echo": "",
        "1/echo": "",
    }


async def test_helpers_within_a_step_of_a_plain_workflow_are_found_again_after_a_crash(stage: Any) -> None:
    gated = Gated()

    async def helper() -> Any:
        return [await echo(1), await gated.node(2)]

    @ol.workflow
    def flow() -> Any:
        with ol.step("publish"):
            return ol.gather(helper(), echo(3)).wait()

    run = await crashed_at(stage, flow, at=is_node("publish/1/gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == [[1, 2], 3]
    assert names(await stage.events(engine, run), e.NodeStarted).count("publish/1/echo") == 1


async def test_a_plain_workflow_that_catches_everything_does_not_block_the_engine(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(cleanup=0.3)
    def stubborn() -> None:
        while True:
            with suppress(BaseException):
                gated.node().wait()

    @ol.workflow
    async def other() -> int:
        return await echo(1)

    engine = await stage.engine()
    handle = await engine.start(stubborn)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    begun = asyncio.get_running_loop().time()
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await soon((await engine.start(other)).result()) == 1
    assert asyncio.get_running_loop().time() - begun < 2


# --- asyncio in workflows ----------------------------------------------------------------------------------------------


async def with_gather() -> Any:
    return await asyncio.gather(echo(1), echo(2))


async def with_task_group() -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(echo(number)) for number in (1, 2)]
    return [task.result() for task in tasks]


async def with_timeout() -> Any:
    try:
        async with asyncio.timeout(0.01):
            await ol.sleep(3600)
    except TimeoutError:
        return [1, 2]


async def with_wait_for() -> Any:
    with suppress(TimeoutError):
        await asyncio.wait_for(ol.sleep(3600), 0.01)
    return [1, await asyncio.wait_for(echo(2), 60)]


async def with_sleep() -> Any:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return [1, 2]


async def with_event() -> Any:
    event = asyncio.Event()

    async def set_it() -> int:
        await echo(0)
        event.set()
        return 1

    task = asyncio.create_task(set_it())
    await event.wait()
    return [await task, 2]


async def with_queue() -> Any:
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def produce() -> None:
        for number in (1, 2):
            await queue.put(await echo(number))

    task = asyncio.create_task(produce())
    found = [await queue.get(), await queue.get()]
    await task
    return found


async def with_lock() -> Any:
    lock, found = asyncio.Lock(), []

    async def work(number: int) -> None:
        async with lock:
            found.append(await echo(number))

    await asyncio.gather(work(1), work(2))
    return found


async def with_semaphore_and_condition() -> Any:
    condition, found = asyncio.Condition(), []

    async def waiter() -> None:
        async with condition:
            await condition.wait()
            found.append(2)

    task = asyncio.create_task(waiter())
    async with asyncio.Semaphore(1):
        found.append(await echo(1))
    async with condition:
        condition.notify_all()
    await task
    return found


async def with_wait() -> Any:
    done, _ = await asyncio.wait([asyncio.create_task(echo(1)), asyncio.create_task(echo(2))])
    return sorted(task.result() for task in done)


async def with_as_completed() -> Any:
    return sorted([await each for each in asyncio.as_completed([echo(1), echo(2)])])


async def with_shield() -> Any:
    return [await asyncio.shield(echo(1)), 2]


async def with_callback(call: Any) -> Any:
    loop = asyncio.get_running_loop()
    found = loop.create_future()

    async def helper() -> None:
        found.set_result(await echo(2))

    call(loop, lambda: asyncio.create_task(helper()).add_done_callback(lambda task: task.result()))
    return [1, await found]


async def with_call_soon() -> Any:
    return await with_callback(lambda loop, helper: loop.call_soon(helper))


async def with_call_later() -> Any:
    return await with_callback(lambda loop, helper: loop.call_later(0.001, helper))


async def with_generator_left_half_way() -> Any:
    ended = asyncio.get_running_loop().create_future()

    async def numbers() -> Any:
        try:
            yield await echo(1)
        finally:
            ended.set_result(await echo(2))

    async for _ in numbers():
        break
    return [1, await ended]


async def with_async_generator() -> Any:
    async def numbers() -> Any:
        yield await echo(1)
        yield await echo(2)

    return [number async for number in numbers()]


DURABLE = [
    with_gather,
    with_task_group,
    with_timeout,
    with_wait_for,
    with_sleep,
    with_event,
    with_queue,
    with_lock,
    with_semaphore_and_condition,
    with_wait,
    with_as_completed,
    with_shield,
    with_call_soon,
    with_call_later,
    with_generator_left_half_way,
    with_async_generator,
]


@pytest.mark.parametrize("body", DURABLE, ids=lambda body: body.__name__)
async def test_asyncio_that_is_durable_works_in_workflows(stage: Any, body: Any) -> None:
    @ol.workflow
    async def flow() -> Any:
        return list(await body())

    assert await run_of(stage, flow) == [1, 2]


@pytest.mark.parametrize("body", DURABLE, ids=lambda body: body.__name__)
async def test_asyncio_in_workflows_is_the_same_after_a_crash(stage: Any, body: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> Any:
        found = list(await body())
        await gated.node()
        return found

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == [1, 2]
    assert await stage.is_sound(engine, run)


async def order_of_a_task_group() -> list[int]:
    order: list[int] = []

    async def each(number: int) -> None:
        try:
            await ol.sleep(3600)
        finally:
            order.append(number)

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(each(number))
            await echo(None)
            raise ValueError
    return order


async def order_of_as_completed() -> list[int]:
    tasks = [asyncio.create_task(echo(number)) for number in range(20)]
    await asyncio.wait(tasks)
    return [await each for each in asyncio.as_completed(tasks)]


async def order_of_a_set() -> list[int]:
    return [await each for each in {echo(number) for number in range(20)}]


async def order_of_a_set_of_gathers() -> list[int]:
    return [(await each)[0] for each in {ol.gather(echo(number)) for number in range(20)}]


@pytest.mark.parametrize(
    "body",
    [order_of_a_task_group, order_of_as_completed, order_of_a_set, order_of_a_set_of_gathers],
    ids=lambda body: body.__name__,
)
async def test_what_was_in_a_set_comes_in_the_same_order_after_a_crash(stage: Any, body: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> Any:
        return await gated.node(await body())

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == gated.calls[0]
    assert await stage.is_sound(engine, run)


async def test_calls_may_be_in_a_set_in_a_plain_workflow(stage: Any) -> None:
    @ol.workflow
    def flow() -> list[int]:
        return sorted(each.wait() for each in {echo(number) for number in range(3)})

    assert await run_of(stage, flow) == [0, 1, 2]


async def cancelled_as_a_task(call: Any) -> None:
    task = asyncio.create_task(call)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def cancelled_by_its_group(call: Any) -> None:
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(call)
            raise ValueError


async def without_any_time(call: Any) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(call, 0)


@pytest.mark.parametrize("make", [lambda: echo(1), lambda: ol.gather(echo(1), echo(2))], ids=["a node", "a gather"])
@pytest.mark.parametrize(
    "cancel", [cancelled_as_a_task, cancelled_by_its_group, without_any_time], ids=lambda cancel: cancel.__name__
)
async def test_a_call_that_is_cancelled_before_it_began_does_not_begin(stage: Any, make: Any, cancel: Any) -> None:
    @ol.workflow
    async def flow() -> Any:
        await cancel(make())
        return await plain_echo("after")

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == "after"
    assert names(await stage.events(engine, handle.run), e.NodeScheduled) == ["plain_echo"]


async def test_a_gather_that_others_wait_for_goes_on_if_a_task_of_it_is_cancelled_before_it_began(stage: Any) -> None:
    @ol.workflow
    async def flow() -> Any:
        both = ol.gather(echo(1), echo(2))
        others = asyncio.create_task(only(ol.gather(both)))
        await asyncio.sleep(0)
        await cancelled_as_a_task(both)
        return await others

    async def only(one: Any) -> Any:
        return (await one)[0]

    assert await run_of(stage, flow) == [1, 2]


async def in_a_thread() -> None:
    await asyncio.to_thread(print)


async def in_an_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


async def connecting() -> None:
    await asyncio.open_connection("localhost", 1)


async def serving() -> None:
    await asyncio.start_server(lambda *_: None, "localhost", 0)


async def in_a_subprocess() -> None:
    await asyncio.create_subprocess_exec("true")


async def with_a_signal() -> None:
    asyncio.get_running_loop().add_signal_handler(2, print)


async def from_another_thread() -> None:
    asyncio.get_running_loop().call_soon_threadsafe(print)


async def resolving() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 1)


@pytest.mark.parametrize(
    "body",
    [in_a_thread, in_an_executor, connecting, serving, in_a_subprocess, with_a_signal, from_another_thread, resolving],
    ids=lambda body: body.__name__,
)
async def test_asyncio_that_is_not_durable_is_refused(stage: Any, body: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await body()

    with pytest.raises(ol.NotDurable, match="Do this in a node"):
        await run_of(stage, flow)


async def test_a_future_of_the_real_loop_is_refused(stage: Any) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @ol.workflow
    async def flow() -> None:
        await future

    with pytest.raises(ol.NotDurable, match="Do this in a node"):
        await run_of(stage, flow)
    future.cancel()


async def test_a_workflow_that_waits_for_what_never_comes_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await asyncio.Event().wait()

    with pytest.raises(ol.NotDurable, match="Do this in a node"):
        await run_of(stage, flow)


async def test_a_workflow_that_runs_in_circles_is_refused(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.functions import loop

    monkeypatch.setattr(loop, "_QUIET_AFTER", 1000)

    @ol.workflow
    async def flow() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(ol.NotDurable, match="without awaiting a node"):
        await run_of(stage, flow)


# --- hostile workflow code ---------------------------------------------------------------------------------------------


class Unusual(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Unusual("x"), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("when", ["at once", "after a node"])
async def test_a_workflow_that_raises_no_exception_fails_and_harms_nobody(
    stage: Any, error: BaseException, when: str
) -> None:
    @ol.workflow
    async def flow() -> None:
        if when == "after a node":
            await echo(1)
        raise error

    @ol.workflow
    async def other() -> int:
        return await echo(1)

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ol.NodeFailure, match=type(error).__name__):
        await soon(handle.result())
    assert await soon((await engine.start(other)).result()) == 1


async def test_a_plain_workflow_that_raises_system_exit_fails_and_harms_nobody(stage: Any) -> None:
    @ol.workflow
    def flow() -> None:
        raise SystemExit(3)

    engine = await stage.engine()
    with pytest.raises(ol.NodeFailure, match="SystemExit"):
        await soon((await engine.start(flow)).result())


async def test_a_callback_of_a_workflow_that_raises_harms_nobody(stage: Any) -> None:
    def broken() -> None:
        raise ZeroDivisionError("in a callback")

    @ol.workflow
    async def flow() -> int:
        asyncio.get_running_loop().call_soon(broken)
        return await echo(1)

    @ol.workflow
    async def other() -> int:
        return await echo(1)

    engine = await stage.engine()
    with suppress(ZeroDivisionError):
        await soon((await engine.start(flow)).result())
    assert await soon((await engine.start(other)).result()) == 1


async def test_a_task_of_a_workflow_that_raises_unheard_does_not_fail_the_run(stage: Any) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("in a task")

    @ol.workflow
    async def flow() -> int:
        asyncio.create_task(broken()).add_done_callback(lambda _: None)
        return await echo(1)

    assert await run_of(stage, flow) == 1


async def test_an_argument_that_cannot_be_stored_is_refused_where_it_is_given(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        try:
            await echo(object())
        except ol.NotStorable as refused:
            return str(refused)
        return ""

    assert "value" in await run_of(stage, flow)


async def test_a_call_that_does_not_fit_the_function_is_a_type_error_in_the_workflow(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        try:
            await echo(1, 2, 3)  # type: ignore[call-arg]
        except TypeError as refused:
            return str(refused)
        return ""

    assert "too many" in await run_of(stage, flow)


async def test_a_start_that_does_not_fit_the_workflow_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow(number: int) -> None: ...

    engine = await stage.engine()
    with pytest.raises(ol.InvalidInput, match="number"):
        await engine.start(flow)  # type: ignore[call-arg]
    assert not (await engine.list(ol.RunFilter())).items


async def test_a_call_that_is_awaited_twice_is_done_once(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[int]:
        call = echo(1)
        return [await call, await call]

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == [1, 1]
    assert names(await stage.events(engine, handle.run), e.NodeCompleted) == ["echo"]


async def test_a_workflow_that_returns_before_its_tasks_are_done_has_returned(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        task = asyncio.create_task(gated.node())
        task.add_done_callback(lambda _: None)
        await echo(1)
        return f"{task.done()}"

    assert await run_of(stage, flow) == "False"


async def test_the_code_that_runs_at_the_cancellation_of_a_node_call_may_call_nodes(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        async def side() -> None:
            try:
                await gated.node()
            finally:
                await echo("cleaned")

        task = asyncio.create_task(side())
        await echo("main")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return "done"

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == "done"
    assert names(await stage.events(engine, handle.run), e.NodeCompleted) == ["echo", "1/echo"]


# --- cancellation ------------------------------------------------------------------------------------------------------


async def test_cancellation_reaches_an_async_node_whose_finally_runs(stage: Any) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    @ol.node
    async def careful() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    @ol.workflow
    async def flow() -> None:
        await careful()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(begun.wait())
    await handle.cancel(by="me", reason="enough")
    with pytest.raises(ol.RunCancelled, match="enough"):
        await soon(handle.result())
    assert cleaned.is_set()
    assert await stage.is_sound(engine, handle.run)


async def test_cancellation_is_seen_by_a_plain_node_that_looks(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped = threading.Event(), threading.Event()

    @ol.node
    def careful() -> None:
        begun.set()
        while not ol.is_stopping():
            stopped.wait(0.002)
        stopped.set()

    @ol.workflow
    async def flow() -> None:
        await careful()

    engine = await stage.engine()
    handle = await engine.start(flow)
    while not begun.is_set():
        await asyncio.sleep(0.002)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await asyncio.to_thread(stopped.wait, SOON)


async def test_what_a_node_brings_home_while_it_is_cancelled_is_kept(stage: Any) -> None:
    begun = asyncio.Event()

    @ol.node
    async def finishing() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished after all"
        return ""

    @ol.workflow
    async def flow() -> str:
        return await finishing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(begun.wait())
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await stage.is_sound(engine, handle.run)


async def test_a_run_that_nobody_works_on_can_be_cancelled(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        await gated.node()

    run = await crashed_at(stage, flow, at=is_node("gated"))
    desk = await stage.engine(worker=False)
    await desk.cancel(run)
    with pytest.raises(ol.RunCancelled):
        await soon(desk.result(run))
    assert await stage.is_sound(desk, run)


async def test_a_run_that_is_over_cannot_be_cancelled(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None: ...

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    with pytest.raises(ol.RunGone):
        await handle.cancel()


async def test_a_run_that_waits_for_a_person_can_be_cancelled(stage: Any) -> None:
    _, handle = await asked(stage)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())


async def test_a_run_between_two_attempts_can_be_cancelled(stage: Any) -> None:
    @ol.node(retry=ol.Retry(max_attempts=5, delay=3600))
    async def failing() -> None:
        raise ValueError("x")

    @ol.workflow
    async def flow() -> None:
        await failing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.NodeFailed))
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await soon(handle.result())
    assert await stage.is_sound(engine, handle.run)


# --- starting ----------------------------------------------------------------------------------------------------------


def adding() -> Any:
    @ol.workflow
    async def add(one: int, two: int) -> int:
        return await echo(one + two)

    return add


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
async def test_a_start_under_an_id_or_a_key_is_one_run(stage: Any, name: str) -> None:
    add = adding().options(**{name: "order-7"})
    engine = await stage.engine()
    first, second = await engine.start(add, 1, 2), await engine.start(add, 1, two=2)
    assert first.run == second.run
    assert await soon(second.result()) == 3
    third = await engine.start(add, 1, 2)
    assert await soon(third.result()) == 3
    assert len((await engine.list(ol.RunFilter())).items) == 1


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
async def test_a_start_under_an_id_or_a_key_with_other_parameters_is_refused(stage: Any, name: str) -> None:
    add = adding().options(**{name: "order-7"})
    engine = await stage.engine()
    await soon((await engine.start(add, 1, 2)).result())
    with pytest.raises(ol.AlreadyExists, match="order-7"):
        await engine.start(add, 1, 3)


async def test_the_same_key_of_two_workflows_is_two_runs(stage: Any) -> None:
    @ol.workflow
    async def other(one: int, two: int) -> int:
        return one * two

    engine = await stage.engine()
    first = await engine.start(adding().options(idempotency_key="k"), 1, 2)
    second = await engine.start(other.options(idempotency_key="k"), 1, 2)
    assert [await soon(first.result()), await soon(second.result())] == [3, 2]


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
    with pytest.raises(ol.InvalidInput, match="two workflows called twin"):
        second()


# --- after a crash -----------------------------------------------------------------------------------------------------


async def test_a_workflow_that_holds_on_restart_waits_for_a_person(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(on_restart="hold")
    async def flow() -> str:
        return await gated.node("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld):
        await soon(engine.result(run))
    await engine.resume(run)
    assert await soon(engine.result(run)) == "done"
    assert await stage.is_sound(engine, run)


async def test_an_engine_that_holds_on_restart_holds_runs_that_would_resume(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    engine = await stage.engine(on_restart="hold")
    with pytest.raises(ol.RunHeld):
        await soon(engine.result(run))


async def test_a_graceful_close_is_no_interruption(stage: Any) -> None:
    gated = Gated()

    @ol.workflow(on_restart="hold")
    async def flow() -> str:
        return await gated.node("done")

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    await stage.close(engine)
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(handle.run)) == "done"


async def test_a_node_that_is_not_repeatable_holds_its_run_when_it_is_interrupted(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node.options(repeatable=False)("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="not to be repeated"):
        await soon(engine.result(run))
    assert gated.calls == ["done"]
    await engine.resume(run)
    assert await soon(engine.result(run)) == "done"


async def test_a_node_that_is_not_repeatable_holds_its_run_after_a_graceful_close_in_its_midst(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node.options(repeatable=False)("done")

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, is_node("gated")))
    await stage.close(engine)
    gated.gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="not to be repeated"):
        await soon(engine.result(handle.run))
    assert gated.calls == ["done"]


async def test_a_node_that_was_interrupted_five_times_holds_its_run(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> str:
        return await gated.node("done")

    run = await crashed_at(stage, flow, at=is_node("gated"))
    for attempt in range(2, 6):
        engine = await stage.engine()
        at = lambda event, attempt=attempt: isinstance(event, e.NodeStarted) and event.attempt == attempt  # noqa: E731
        await soon(stage.until(engine, run, at))
        await stage.crash(engine)
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="5 times"):
        await soon(engine.result(run))


async def test_a_failed_run_is_resumed_with_another_attempt_of_what_failed(stage: Any) -> None:
    made: list[str] = []

    @ol.node
    async def failing() -> str:
        made.append("failing")
        if len(made) == 2:
            raise ValueError("first")
        return "well"

    @ol.node
    async def before() -> None:
        made.append("before")

    @ol.workflow
    async def flow() -> str:
        await before()
        return await failing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    await engine.resume(handle.run)
    assert await soon(handle.result()) == "well"
    assert made == ["before", "failing", "failing"]
    assert await stage.is_sound(engine, handle.run)


async def test_a_failed_node_is_retried_by_its_name(stage: Any) -> None:
    is_broken = True

    @ol.node
    async def failing() -> str:
        if is_broken:
            raise ValueError("first")
        return "well"

    @ol.workflow
    async def flow() -> str:
        return await failing()

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    is_broken = False
    again = await engine.retry(handle.run, "failing")
    assert await soon(again.result()) == "well"


async def test_a_caught_failure_can_be_retried_by_its_name_when_the_run_failed_later(stage: Any) -> None:
    is_broken = True

    @ol.node
    async def shaky() -> str:
        if is_broken:
            raise ValueError("shaky")
        return "well"

    @ol.workflow
    async def flow() -> str:
        try:
            return await shaky()
        except ValueError:
            raise Shop("cause", 1) from None

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(Shop):
        await soon(handle.result())
    is_broken = False
    await engine.retry(handle.run, "shaky")
    assert await soon(handle.result()) == "well"
    assert await stage.is_sound(engine, handle.run)


async def test_to_retry_a_node_that_is_not_there_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await fail("x")

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="x"):
        await soon(handle.result())
    with pytest.raises(ol.NotAllowed):
        await engine.retry(handle.run, "nobody")
    with pytest.raises(ValueError, match="x"):
        await soon(handle.result())


async def test_to_resume_a_run_that_completed_is_refused(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(adding(), 1, 2)
    await soon(handle.result())
    with pytest.raises(ol.NotAllowed):
        await engine.resume(handle.run)
    assert await soon(handle.result()) == 3


async def test_a_resumed_run_gives_the_siblings_that_its_end_cut_short_another_attempt(stage: Any) -> None:
    gated = Gated()
    is_broken = True

    @ol.node
    async def failing() -> str:
        if is_broken:
            raise ValueError("first")
        return "well"

    @ol.workflow
    async def flow() -> list[str]:
        return list(await ol.gather(gated.node("sibling"), failing()))

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    is_broken = False
    gated.gate.set()
    await engine.resume(handle.run)
    assert await soon(handle.result()) == ["sibling", "well"]
    assert await stage.is_sound(engine, handle.run)


async def test_the_result_of_a_resumed_run_is_awaited_anew(stage: Any) -> None:
    gated = Gated()
    made: list[int] = []

    @ol.node
    async def failing() -> None:
        made.append(1)
        if len(made) == 1:
            raise ValueError("first")

    @ol.workflow
    async def flow() -> str:
        await failing()
        return await gated.node("second")

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="first"):
        await soon(handle.result())
    again = await engine.resume(handle.run)
    waiting = asyncio.create_task(again.result())
    await soon(stage.until(engine, handle.run, is_node("gated")))
    assert not waiting.done()
    gated.gate.set()
    assert await soon(waiting) == "second"


# --- secrets -----------------------------------------------------------------------------------------------------------

VALUE = "kj3h4-very-secret"


async def all_bytes(stage: Any) -> bytes:
    return b"".join(path.read_bytes() for path in Path(stage.file).parent.rglob("*") if path.is_file())


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> ol.Secret:
    monkeypatch.setenv("SHOP_KEY", VALUE)
    return ol.Secret("SHOP_KEY")


async def test_of_a_secret_only_the_reference_is_stored(stage: Any, secret: ol.Secret) -> None:
    seen: list[str] = []

    @ol.node
    async def login(key: ol.Secret) -> int:
        seen.append(str(key.reveal()))
        return len(key.reveal())

    @ol.workflow
    async def flow(key: ol.Secret) -> int:
        return await login(key)

    engine = await stage.engine()
    assert await soon((await engine.start(flow, secret)).result()) == len(VALUE)
    await stage.close(engine)
    assert seen == [VALUE]
    assert VALUE.encode() not in await all_bytes(stage)


async def test_a_revealed_secret_is_refused_as_a_result(stage: Any, secret: ol.Secret) -> None:
    @ol.node
    async def leaking(key: ol.Secret) -> Any:
        return {"key": key.reveal()}

    @ol.workflow
    async def flow(key: ol.Secret) -> Any:
        return await leaking(key)

    engine = await stage.engine()
    with pytest.raises(ol.NotStorable, match="secret"):
        await soon((await engine.start(flow, secret)).result())


async def test_a_secret_is_masked_in_errors_and_log_lines(stage: Any, secret: ol.Secret) -> None:
    @ol.node
    async def leaking(key: ol.Secret) -> None:
        logging.getLogger("shop").warning("the key is %s", key.reveal())
        raise ValueError(f"not with {key.reveal()}")

    @ol.workflow
    async def flow(key: ol.Secret) -> None:
        await leaking(key)

    engine = await stage.engine()
    handle = await engine.start(flow, secret)
    with pytest.raises(ValueError, match=r"not with \*\*\*"):
        await soon(handle.result())
    await stage.close(engine)
    desk = await stage.engine(worker=False)
    assert [line.text async for line in desk.lines(handle.run)] == ["the key is ***"]
    await stage.close(desk)
    assert VALUE.encode() not in await all_bytes(stage)


# --- log lines ---------------------------------------------------------------------------------------------------------


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


# --- large values ------------------------------------------------------------------------------------------------------


async def test_large_values_lie_in_blobs_and_come_back_after_a_crash(stage: Any) -> None:
    gated = Gated()
    large = "x" * 2_500_000

    @ol.workflow
    async def flow(text: str) -> str:
        found = await echo(text + "y")
        await gated.node()
        return str(found) + "z"

    run = await crashed_at(stage, flow, large, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == large + "yz"
    blobs = [path for path in Path(f"{stage.file}.blobs").rglob("*") if path.is_file()]
    assert len(blobs) >= 3
    assert await stage.is_sound(engine, run)


@pytest.mark.parametrize(
    "odd", [None, (1, 2), {1: 2}, float("inf"), 2**64, {"$": 1}], ids=["plain", "tuple", "keys", "inf", "int", "mark"]
)
async def test_a_large_result_is_one_blob_and_is_told_as_it_is_read(stage: Any, odd: Any) -> None:
    """R1. What is begun early and turns out to be stored otherwise leaves nothing behind."""
    told: list[Any] = []
    large = {"rows": [{"id": number, "text": "x" * 80} for number in range(20_000)], "odd": odd}

    @ol.node
    async def returning() -> Any:
        return large

    @ol.workflow
    async def flow() -> int:
        told.append(await returning())
        return 1

    engine = await stage.engine()
    run = await engine.start(flow)
    assert await soon(run.result()) == 1
    assert told == [large]
    assert told[0]["rows"] is not large["rows"]
    assert len(await large_files(stage)) == 1


async def test_a_large_result_that_is_refused_leaves_nothing_behind(stage: Any) -> None:
    deep: Any = "x" * 2_000_000
    for _ in range(200):
        deep = [deep]

    @ol.node
    async def returning() -> Any:
        return deep

    @ol.workflow
    async def flow() -> None:
        await returning()

    engine = await stage.engine()
    run = await engine.start(flow)
    with pytest.raises(ol.NotStorable, match="128 levels deep"):
        await soon(run.result())
    assert await large_files(stage) == []


async def large_files(stage: Any) -> list[Path]:
    """Those beside the store, once nobody writes any more."""
    for thread in threading.enumerate():
        if thread.name.startswith("outlast-blob"):
            await asyncio.to_thread(thread.join)
    return [
        path for path in Path(f"{stage.file}.blobs").rglob("*") if path.is_file() and path.stat().st_size > 1_000_000
    ]


async def test_a_missing_blob_holds_the_run_that_needs_it(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> int:
        found = await echo("x" * 2_500_000)
        await gated.node()
        return len(found)

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    for path in Path(f"{stage.file}.blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="blob"):
        await soon(engine.result(run))


# --- watching ----------------------------------------------------------------------------------------------------------


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


# --- the blocking desk -------------------------------------------------------------------------------------------------


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
        assert [each.summary.run for each in engine.all()] == [handle.run]
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
