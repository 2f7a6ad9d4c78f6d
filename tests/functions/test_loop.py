"""Workflow code runs in one order only, and cannot reach past the loop it runs on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from outlast.errors import NotDurable
from outlast.functions.loop import Alarm, WorkflowLoop
from outlast.functions.stable_hash import StableTask


class Clock:
    """A driver's part: time stands still until a test moves it, and alarms ring in the order of their moments."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.alarms: list[Alarm] = []
        self.withdrawn: list[float] = []
        self.loop = WorkflowLoop(self)

    def now(self) -> float:
        return self.time

    def set_alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        alarm.cancel_timer = lambda: self._withdraw(alarm)

    def _withdraw(self, alarm: Alarm) -> None:
        self.alarms.remove(alarm)
        self.withdrawn.append(alarm.when())

    def start(self, code: Awaitable[Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(code)
        self.loop.run_until_blocked()
        return task

    def run(self, code: Awaitable[Any]) -> Any:
        """Let the code run, ringing one alarm at a time."""
        task = self.start(code)
        while not task.done():
            assert self.alarms, "the code waits for something that nobody will bring"
            alarm = min(self.alarms, key=Alarm.when)
            self.alarms.remove(alarm)
            self.time = alarm.when()
            self.loop.ring(alarm)
            self.loop.run_until_blocked()
        return task.result()


def test_the_code_runs_until_it_waits_and_no_further() -> None:
    clock, heard = Clock(), []

    async def code(gate: asyncio.Future[str]) -> None:
        heard.append("before")
        heard.append(await gate)

    gate = clock.loop.create_future()
    task = clock.start(code(gate))
    assert heard == ["before"]
    gate.set_result("after")
    assert heard == ["before"]
    clock.loop.run_until_blocked()
    assert heard == ["before", "after"]
    assert task.done()


def test_what_becomes_ready_first_runs_first() -> None:
    clock, order = Clock(), []

    async def helper(name: str, gates: list[asyncio.Future[None]]) -> None:
        for gate in gates:
            await gate
            order.append(name)

    gates = {name: [clock.loop.create_future() for _ in range(2)] for name in "abc"}

    async def code() -> None:
        await asyncio.gather(*(helper(name, mine) for name, mine in gates.items()))

    clock.start(code())
    for name in "cab":
        gates[name][0].set_result(None)
    clock.loop.run_until_blocked()
    for name in "bca":
        gates[name][1].set_result(None)
        clock.loop.run_until_blocked()
    assert order == [*"cab", *"bca"]


def test_time_moves_only_when_something_is_delivered() -> None:
    clock = Clock()

    async def code() -> list[float]:
        loop = asyncio.get_running_loop()
        seen = [loop.time()]
        await asyncio.sleep(30)
        return [*seen, loop.time(), loop.time()]

    assert clock.run(code()) == [1000.0, 1030.0, 1030.0]


def test_sleep_gather_and_task_groups_work_on_durable_time() -> None:
    clock, order = Clock(), []

    async def nap(seconds: float) -> float:
        await asyncio.sleep(seconds)
        order.append(seconds)
        return seconds

    async def code() -> list[float]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(nap(seconds)) for seconds in (3, 1, 2)]
        return [task.result() for task in tasks] + list(await asyncio.gather(nap(5), nap(4)))

    assert clock.run(code()) == [3, 1, 2, 5, 4]
    assert order == [1, 2, 3, 4, 5]


def test_a_timeout_that_is_not_needed_withdraws_its_timer() -> None:
    clock = Clock()

    async def code() -> str:
        async with asyncio.timeout(60):
            await asyncio.sleep(1)
        return "in time"

    assert clock.run(code()) == "in time"
    assert clock.withdrawn == [1060.0]


def test_a_timeout_that_is_needed_cuts_the_wait_short() -> None:
    clock = Clock()

    async def code() -> str:
        try:
            async with asyncio.timeout(5):
                await asyncio.sleep(60)
        except TimeoutError:
            return f"too late at {asyncio.get_running_loop().time()}"
        return "never"

    assert clock.run(code()) == "too late at 1005.0"
    assert clock.withdrawn == [1060.0]


def test_an_alarm_that_was_cancelled_does_not_ring() -> None:
    clock, heard = Clock(), []
    alarm = clock.loop.call_later(1, heard.append, "rang")
    assert isinstance(alarm, Alarm)
    alarm.cancel()
    clock.loop.ring(alarm)
    clock.loop.run_until_blocked()
    assert heard == []


# --- sets ----------------------------------------------------------------------------------------------------------------


def times(code: Callable[[], Awaitable[Any]]) -> list[Any]:
    """What the code came to on some loops of one process, nothing of which is at the same address."""
    clocks = [Clock() for _ in range(4)]
    kept = [(clock, clock.start(code())) for clock in clocks]
    return [task.result() for _, task in kept]


def assert_same(found: list[Any]) -> None:
    assert all(each == found[0] for each in found)


def test_a_task_group_that_fails_cancels_its_tasks_in_one_order_only() -> None:
    kept = []

    async def code() -> list[int]:
        order: list[int] = []

        async def each(number: int) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                order.append(number)

        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                kept.extend(group.create_task(each(number)) for number in range(50))
                await asyncio.sleep(0)
                raise ValueError
        return order

    assert_same(times(code))


async def nothing() -> None:
    """A helper."""


@pytest.mark.parametrize(
    "make",
    [lambda: asyncio.create_task(nothing()), lambda: asyncio.get_running_loop().create_future()],
    ids=["tasks", "futures"],
)
def test_what_is_waited_for_comes_in_one_order_only(make: Callable[[], asyncio.Future[Any]]) -> None:
    async def code() -> list[int]:
        made = [make() for _ in range(50)]
        done, pending = await asyncio.wait([*made, asyncio.create_task(nothing())], return_when="FIRST_COMPLETED")
        return [made.index(each) for each in [*done, *pending] if each in made]

    assert_same(times(code))


def test_tasks_of_many_loops_are_not_in_each_others_way() -> None:
    """In asyncio's own list of all tasks: as many of one hash would be looked through for each that is added."""
    seen: list[int] = []

    class Seen(StableTask):
        def __hash__(self) -> int:
            seen.append(super().__hash__())
            return seen[-1]

    kept = [Seen(nothing(), loop=Clock().loop) for _ in range(20)]
    assert len(set(seen)) == len(kept)
    for task in kept:
        task.get_loop().run_until_blocked()


def test_tasks_are_given_one_by_one_as_they_are_completed() -> None:
    clock = Clock()

    async def nap(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def code() -> list[float]:
        tasks = [asyncio.create_task(nap(seconds)) for seconds in (3, 1, 2)]
        return [await each for each in asyncio.as_completed(tasks)]

    assert clock.run(code()) == [1, 2, 3]


def test_coroutines_that_would_begin_in_any_order_are_refused_in_words() -> None:
    clock = Clock()
    helpers = [nothing(), nothing()]

    async def code() -> None:
        for each in asyncio.as_completed(helpers):
            await each

    with pytest.raises(NotDurable, match=r"asyncio\.as_completed with coroutines"):
        clock.run(code())
    for helper in helpers:
        helper.close()


# --- context -------------------------------------------------------------------------------------------------------------

whose: ContextVar[str] = ContextVar("whose")


@pytest.mark.parametrize(
    "call",
    [lambda loop, *given: loop.call_soon(*given), lambda loop, *given: loop.call_later(1, *given)],
    ids=["soon", "later"],
)
def test_a_callback_has_the_context_of_the_code_that_asked_for_it(call: Callable[..., object]) -> None:
    clock = Clock()

    async def code() -> str:
        loop = asyncio.get_running_loop()
        called = loop.create_future()
        whose.set("the code's")
        call(loop, lambda: called.set_result(whose.get("nobody's")))
        whose.set("another")
        return str(await called)

    assert clock.run(code()) == "the code's"


async def left_half_way(heard: list[str]) -> AsyncIterator[int]:
    try:
        yield 1
    finally:
        heard.append(whose.get("nobody's"))


def test_a_generator_that_was_left_ends_in_the_context_of_the_code_that_left_it() -> None:
    clock, heard = Clock(), []

    async def code() -> None:
        whose.set("the code's")
        async for _ in left_half_way(heard):
            break

    clock.start(code())
    assert heard == ["the code's"]


def test_a_generator_that_is_found_later_ends_in_no_context_of_others() -> None:
    clock, heard, kept = Clock(), [], []

    async def code() -> None:
        kept.append(left_half_way(heard))
        await anext(kept[0])

    async def other() -> None:
        whose.set("the other's")
        kept.clear()

    clock.start(code())
    Clock().start(other())
    clock.loop.run_until_blocked()
    assert heard == ["nobody's"]


@pytest.mark.parametrize(
    "reach",
    [
        lambda: asyncio.get_running_loop().run_in_executor(None, print),
        lambda: asyncio.to_thread(print),
        lambda: asyncio.open_connection("127.0.0.1", 9),
        lambda: asyncio.create_subprocess_exec("true"),
        lambda: asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0),
    ],
    ids=["an executor", "a thread", "a connection", "a process", "a server"],
)
def test_what_is_not_durable_is_refused_in_words(reach: Callable[[], Awaitable[Any]]) -> None:
    clock = Clock()

    async def code() -> None:
        await reach()

    with pytest.raises(NotDurable, match="in a node"):
        clock.run(code())


def test_code_that_runs_in_circles_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.functions.loop._QUIET_AFTER", 1000)
    clock = Clock()

    async def code() -> None:
        while True:
            await asyncio.sleep(0)

    task = clock.loop.create_task(code())
    with pytest.raises(NotDurable, match="without awaiting a node"):
        clock.loop.run_until_blocked()
    task.cancel()
    clock.loop.run_until_blocked()
    assert task.cancelled()


def test_the_loop_around_it_is_the_running_one_again_afterwards() -> None:
    async def outer() -> None:
        own = asyncio.get_running_loop()
        clock = Clock()
        inside: list[object] = []

        async def code() -> None:
            inside.append(asyncio.get_running_loop())

        clock.start(code())
        assert inside == [clock.loop]
        assert asyncio.get_running_loop() is own
        await asyncio.sleep(0)

        async def failing() -> None:
            raise ValueError("in a callback")

        with pytest.raises(ValueError, match="in a callback"):
            clock.start(failing()).result()
        assert asyncio.get_running_loop() is own

    asyncio.run(outer())


def test_two_workflows_on_one_thread_do_not_meet() -> None:
    one, other, order = Clock(), Clock(), []

    async def code(name: str, gate: asyncio.Future[None]) -> None:
        await gate
        order.append((name, asyncio.get_running_loop()))

    gates = [clock.loop.create_future() for clock in (one, other)]
    one.start(code("one", gates[0]))
    other.start(code("other", gates[1]))
    gates[1].set_result(None)
    other.loop.run_until_blocked()
    one.loop.run_until_blocked()
    gates[0].set_result(None)
    one.loop.run_until_blocked()
    assert order == [("other", other.loop), ("one", one.loop)]
