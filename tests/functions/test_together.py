"""Nodes together: gather, race, map and steps, live and after a crash."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import aclosing, suppress
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import Gated, crashed_at, echo, fail, is_node, names, plain_echo, run_of, soon


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


async def test_the_winner_of_a_race_is_known_by_its_name(stage: Any) -> None:
    @ol.workflow
    async def flow() -> tuple[Any, ...]:
        won = await ol.race(paid=ol.ask("Paid?"), late=ol.sleep(0.01))
        again = await ol.race(echo("x"), ol.sleep(10))
        return won.name, won.index, won.value, again.name, again.index

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == ("late", 1, None, "", 0)
    decided = [event for event in await stage.events(engine, handle.run) if isinstance(event, e.DecisionRecorded)]
    assert [(each.key, bytes(each.value)) for each in decided] == [("race", b'"late"'), ("race#2", b"0")]
    assert await stage.is_sound(engine, handle.run)


async def test_first_leaves_the_other_calls_alive(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node
    async def gated(name: str) -> str:
        await gate.wait()
        return name

    @ol.workflow
    async def flow() -> list[Any]:
        slow, quick = gated("slow"), echo("quick")
        won = await ol.first(slow, quick)
        gate.set()
        failed = fail("lost")
        with pytest.raises(ValueError, match="lost"):
            await ol.first(failed, ol.sleep(10))
        return [won.index, won.value, await slow]

    assert await run_of(stage, flow) == [1, "quick", "slow"]


async def test_first_gives_calls_as_they_end(stage: Any) -> None:
    @ol.workflow
    def flow() -> list[int]:
        pending = [ol.sleep(0.03 * number) for number in (3, 1, 2)]
        places, seen = [3, 1, 2], []
        while pending:
            won = ol.first(*pending).wait()
            del pending[won.index]
            seen.append(places.pop(won.index))
        return seen

    assert await run_of(stage, flow) == [1, 2, 3]


@pytest.mark.parametrize("verb", [ol.race, ol.first])
async def test_a_race_without_calls_or_with_some_names_is_refused(stage: Any, verb: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        said = []
        for given, named in (((), {}), ((ol.sleep(1),), {"late": ol.sleep(1)})):
            with pytest.raises(
                ol.InvalidInput, match="at least one call, either all by name or none by name"
            ) as caught:
                await verb(*given, **named)
            said.append(str(caught.value))
            for call in (*given, *named.values()):
                call.close()
        return said

    assert "test_together.py:" in (await run_of(stage, flow))[0]


async def test_a_map_gives_failures_among_its_results(stage: Any) -> None:
    async def helper(number: int) -> str:
        if number == 3:
            raise KeyError(number)
        if number == 4:
            raise asyncio.CancelledError
        return str(await echo(number) if number % 2 else await fail(str(number)))

    @ol.workflow
    async def flow() -> list[str]:
        return [repr(each) for each in await ol.map(helper, range(5), concurrency=2, return_exceptions=True)]

    @ol.workflow
    async def of_nodes() -> list[str]:
        return [repr(each) async for each in ol.map(fail, ["a", "b"], return_exceptions=True)]

    assert await run_of(stage, flow) == ["ValueError('0')", "'1'", "ValueError('2')", "KeyError(3)", "CancelledError()"]
    assert await run_of(stage, of_nodes) == ["ValueError('a')", "ValueError('b')"]
