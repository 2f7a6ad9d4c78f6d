"""Nodes that do their worst: each has its outcome (`docs/explanations/what-nodes-may-do.md`), and nobody else suffers."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import mischief
import pytest

import outlast as ol
from outlast.execution import attempts
from outlast.execution.remote import Stopped
from outlast.history import events as e
from support import commands

TINY = ol.Retry(max_attempts=3, delay=0.001)

NOT_EXCEPTIONS = {
    "base": "mischief:Odd",
    "exit": "builtins:SystemExit",
    "interrupt": "builtins:KeyboardInterrupt",
    "generator": "builtins:GeneratorExit",
    "base group": "builtins:BaseExceptionGroup",
}
EXCEPTIONS = {
    "stop async": StopAsyncIteration,
    "recursion": RecursionError,
    "mute": mischief.Mute,
    "shouting": mischief.Shouting,
    "group": ExceptionGroup,
    "deep group": ExceptionGroup,
    "chain": ValueError,
    "huge": ValueError,
    "surrogate": ValueError,
    "memory": MemoryError,
}
PLACES = ("loop", "loop with a timeout", "thread", "thread with a timeout")


@asynccontextmanager
async def unharmed(stage: Any, **options: Any) -> AsyncIterator[ol.Engine]:
    """An engine, in which another run completes after whatever was done to it."""

    @ol.node
    async def well(number: int) -> int:
        return number + 1

    @ol.node
    def well_too(number: int) -> int:
        return number + 1

    @ol.workflow
    async def bystander(number: int) -> int:
        return await well_too(await well(number))

    engine = await stage.engine(**options)
    before = await engine.start(bystander, 0)
    yield engine
    async with asyncio.timeout(10):
        after = await engine.start(bystander, 40)
        assert await after.result() == 42
        assert await before.result() == 2


def node_in(place: str, do: Any, **options: Any) -> Any:
    """The function as a node of a certain place."""
    if "timeout" in place:
        options["timeout"] = 30.0
    if place.startswith("loop"):

        @ol.node(**options)
        async def hostile() -> Any:
            return do()
    else:

        @ol.node(**options)
        def hostile() -> Any:
            return do()

    return hostile


def flow_of(node: Any) -> Any:
    @ol.workflow
    async def flow() -> Any:
        return await node()

    return flow


async def raised_by(engine: ol.Engine, stage: Any, workflow: Any, *params: Any) -> BaseException:
    """What the run of a workflow raises; its log is sound."""
    handle = await engine.start(workflow, *params)
    waiting = asyncio.ensure_future(handle.result())  # not pytest.raises: an error may be such that it cannot be shown
    await asyncio.wait({waiting}, timeout=5)
    assert waiting.done(), "the run never ended"
    assert await stage.is_sound(engine, handle.run)
    error = waiting.exception()
    assert error is not None, "it raised nothing"
    return error


# --- what is raised ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NOT_EXCEPTIONS)
async def test_an_error_that_is_no_exception_fails_its_node_by_its_name(stage: Any, place: str, name: str) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in(place, lambda: mischief.raised(name))))
    assert isinstance(error, ol.NodeFailure)
    assert error.kind == NOT_EXCEPTIONS[name]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", EXCEPTIONS)
async def test_an_odd_exception_fails_its_node_as_itself(stage: Any, place: str, name: str) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in(place, lambda: mischief.raised(name))))
    assert type(error) is EXCEPTIONS[name] or (isinstance(error, ol.NodeFailure) and "deep" in name)


@pytest.mark.parametrize("name", [*NOT_EXCEPTIONS, *EXCEPTIONS, "stop"])
async def test_whatever_a_helper_process_raises_fails_its_node(stage: Any, name: str) -> None:
    @ol.workflow
    async def flow(name: str) -> None:
        await mischief.raise_far(name)

    async with unharmed(stage, processes=1) as engine:
        error = await raised_by(engine, stage, flow, name)
    if name in NOT_EXCEPTIONS:
        assert isinstance(error, ol.NodeFailure)
        assert error.kind == NOT_EXCEPTIONS[name]
    elif "deep" not in name and name in EXCEPTIONS:
        assert type(error).__name__ == EXCEPTIONS[name].__name__


@pytest.mark.parametrize("place", ["thread", "thread with a timeout"])
async def test_stop_iteration_of_a_plain_node_fails_it(stage: Any, place: str) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in(place, lambda: mischief.raised("stop"))))
    assert "StopIteration" in f"{type(error).__name__} {error}"


async def test_stop_iteration_of_an_async_node_is_a_runtime_error_as_python_has_it(stage: Any) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in("loop", lambda: mischief.raised("stop"))))
    assert isinstance(error, RuntimeError)


async def test_errors_of_a_group_come_back_as_themselves(stage: Any) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in("loop", lambda: mischief.raised("group"))))
    assert isinstance(error, ExceptionGroup)
    assert [type(each) for each in error.exceptions] == [ValueError, KeyError]


async def test_of_a_huge_message_a_part_is_kept(stage: Any) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in("loop", lambda: mischief.raised("huge"))))
    assert len(str(error)) < 10_000


@pytest.mark.parametrize("place", PLACES)
async def test_a_node_that_raises_cancelled_error_by_itself_has_failed(stage: Any, place: str) -> None:
    def cancelled() -> None:
        raise asyncio.CancelledError("just so")

    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in(place, cancelled)))
    assert isinstance(error, ol.NodeFailure)
    assert "CancelledError" in error.kind


@pytest.mark.parametrize("timeout", [None, 30.0])
async def test_a_node_that_cancels_its_own_task_has_failed(stage: Any, timeout: float | None) -> None:
    @ol.node(timeout=timeout)
    async def hostile() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(hostile))
    assert isinstance(error, ol.NodeFailure)


async def test_a_cancelled_task_of_its_own_that_a_node_awaits_fails_it(stage: Any) -> None:
    @ol.node
    async def hostile() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(hostile))
    assert isinstance(error, ol.NodeFailure)


@pytest.mark.parametrize("name", NOT_EXCEPTIONS)
async def test_an_error_that_is_no_exception_is_not_worth_another_attempt(stage: Any, name: str) -> None:
    attempts: list[int] = []

    @ol.node(retry=TINY)
    def hostile() -> None:
        attempts.append(ol.context().attempt)
        mischief.raised(name)

    async with unharmed(stage) as engine:
        await raised_by(engine, stage, flow_of(hostile))
    assert attempts == [1]


async def test_an_error_that_no_attribute_can_be_read_of_fails_its_node(stage: Any) -> None:
    class Closed(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("keep out")

    def hostile() -> None:
        raise Closed("x")

    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in("loop", hostile)))
    assert isinstance(error, Exception)


async def test_an_error_that_says_it_is_retryable_by_raising_fails_its_node(stage: Any) -> None:
    class Sly(Exception):
        @property
        def retryable(self) -> bool:
            raise SystemExit(5)

    def hostile() -> None:
        raise Sly("x")

    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in("loop", hostile)))
    assert "Sly" in repr(error)


# --- what is returned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["loop", "thread"])
@pytest.mark.parametrize("name", mischief.UNSTORABLE)
async def test_a_result_that_cannot_be_stored_fails_its_node_with_advice(stage: Any, place: str, name: str) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in(place, mischief.UNSTORABLE[name])))
    assert isinstance(error, ol.NotStorable)
    assert str(error).startswith("result")


@pytest.mark.parametrize("name", mischief.UNSTORABLE)
async def test_a_result_of_a_helper_process_that_cannot_be_stored_fails_its_node(stage: Any, name: str) -> None:
    @ol.workflow
    async def flow(name: str) -> Any:
        return await mischief.return_far(name)

    async with unharmed(stage, processes=1) as engine:
        assert isinstance(await raised_by(engine, stage, flow, name), ol.NotStorable)


@pytest.mark.parametrize("place", ["loop", "thread"])
@pytest.mark.parametrize("name", mischief.STORABLE)
async def test_a_result_comes_back_as_it_was(stage: Any, place: str, name: str) -> None:
    seen = []
    hostile = node_in(place, mischief.STORABLE[name])

    @ol.workflow
    async def flow() -> None:
        seen.append(await hostile())

    async with unharmed(stage) as engine:
        await (await engine.start(flow)).result()
    assert seen == [mischief.STORABLE[name]()]


@pytest.mark.parametrize("name", mischief.STORABLE)
async def test_a_result_comes_back_from_a_helper_process_as_it_was(stage: Any, name: str) -> None:
    seen = []

    @ol.workflow
    async def flow(name: str) -> None:
        seen.append(await mischief.return_far(name))

    async with unharmed(stage, processes=1) as engine:
        await (await engine.start(flow, name)).result()
    assert seen == [mischief.STORABLE[name]()]


@pytest.mark.parametrize("name", mischief.STORABLE)
async def test_a_workflow_returns_whatever_can_be_stored(stage: Any, name: str) -> None:
    @ol.workflow
    async def flow() -> Any:
        return mischief.STORABLE[name]()

    async with unharmed(stage) as engine:
        assert await (await engine.start(flow)).result() == mischief.STORABLE[name]()


@pytest.mark.parametrize("name", mischief.UNSTORABLE)
async def test_a_workflow_that_returns_what_cannot_be_stored_fails(stage: Any, name: str) -> None:
    @ol.workflow
    async def flow() -> Any:
        return mischief.UNSTORABLE[name]()

    async with unharmed(stage) as engine:
        assert isinstance(await raised_by(engine, stage, flow), ol.NotStorable)


async def test_not_a_number_comes_back_as_such(stage: Any) -> None:
    @ol.node
    async def hostile() -> float:
        return math.nan

    @ol.workflow
    async def flow() -> bool:
        return math.isnan(await hostile())

    async with unharmed(stage) as engine:
        assert await (await engine.start(flow)).result() is True


async def test_a_coroutine_as_a_result_is_refused_with_advice(stage: Any) -> None:
    made = []

    async def later() -> None: ...

    @ol.node
    def hostile() -> Any:
        made.append(later())
        return made[0]

    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(hostile))
    made[0].close()
    assert "await it" in str(error)


async def test_a_result_that_is_not_what_the_annotation_says_fails_its_node(stage: Any) -> None:
    @ol.node
    async def hostile() -> int:
        return "seven"  # type: ignore[return-value]

    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(hostile))
    assert isinstance(error, ol.NotStorable)


async def test_a_result_that_ends_the_program_when_it_is_read_only_fails_its_node(stage: Any) -> None:
    async with unharmed(stage) as engine:
        error = await raised_by(engine, stage, flow_of(node_in("loop", lambda: mischief.Trap([1]))))
    assert isinstance(error, ol.NodeFailure | ol.NotStorable)


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_result_that_cannot_be_stored_is_not_worth_another_attempt(stage: Any, place: str) -> None:
    attempts = []

    def do() -> Any:
        attempts.append(ol.context().attempt)
        return mischief.Plain()

    async with unharmed(stage) as engine:
        await raised_by(engine, stage, flow_of(node_in(place, do, retry=TINY)))
    assert attempts == [1]


async def test_a_number_of_a_million_digits_as_a_result_harms_nobody(stage: Any) -> None:
    seen = []
    hostile = node_in("loop", lambda: 10**5000)

    @ol.workflow
    async def flow() -> None:
        seen.append(await hostile())

    async with unharmed(stage) as engine:
        try:
            await asyncio.wait_for((await engine.start(flow)).result(), 10)
        except ol.NotStorable:
            seen.append(10**5000)
    assert seen == [10**5000]


# --- what does not let go ----------------------------------------------------------------------------------------------


async def test_a_node_that_blocks_the_loop_delays_others_and_harms_none(stage: Any) -> None:
    async with unharmed(stage) as engine:
        handle = await engine.start(flow_of(node_in("loop", lambda: time.sleep(0.3))))
        assert await handle.result() is None


async def test_what_blocks_the_loop_beyond_its_timeout_and_returns_has_returned(stage: Any) -> None:
    @ol.node(timeout=0.05)
    async def hostile() -> str:
        time.sleep(0.2)  # noqa: ASYNC251
        return "late"

    async with unharmed(stage) as engine:
        assert await (await engine.start(flow_of(hostile))).result() == "late"


async def test_a_worker_that_is_blocked_beyond_its_claim_goes_on_by_itself(stage: Any) -> None:
    async with unharmed(stage, claim=0.2) as engine:
        handle = await engine.start(flow_of(node_in("loop", lambda: time.sleep(0.6))))
        assert await handle.result() is None


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "GRACE", 0.05)


class Stubborn:
    """Nodes that do not end when they are told to, until they are let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.count = 0
        self.ended = 0

    async def on_loop(self) -> str:
        self.count += 1
        self.begun.set()
        while not self.gate.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                continue
        self.ended += 1
        return "late"

    def in_thread(self) -> str:
        self.count += 1
        self.begun.set()
        self.gate.wait()
        self.ended += 1
        return "late"

    def node(self, place: str, **options: Any) -> Any:
        if place == "loop":

            @ol.node(**options)
            async def stubborn() -> str:
                return await self.on_loop()
        else:

            @ol.node(**options)
            def stubborn() -> str:
                return self.in_thread()

        return stubborn

    async def has_begun(self) -> None:
        while not self.begun.is_set():
            await asyncio.sleep(0.002)


@pytest.fixture
def stubborn(short_grace: None) -> Any:
    made = Stubborn()
    yield made
    made.gate.set()


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_node_that_ignores_its_timeout_has_timed_out(stage: Any, stubborn: Stubborn, place: str) -> None:
    async with unharmed(stage) as engine:
        handle = await engine.start(flow_of(stubborn.node(place, timeout=0.05)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle.result(), 20)
        assert stubborn.ended == 0
        stubborn.gate.set()


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_no_second_attempt_begins_while_the_first_ignores_its_timeout(
    stage: Any, stubborn: Stubborn, place: str
) -> None:
    node = stubborn.node(place, timeout=0.05, retry=ol.Retry(max_attempts=2, delay=0))
    async with unharmed(stage) as engine:
        handle = await engine.start(flow_of(node))
        await stubborn.has_begun()
        await asyncio.sleep(0.3)  # nothing announces that nothing happens
        assert stubborn.count == 1
        stubborn.gate.set()
        assert await handle.result() == "late"
    assert stubborn.count == 2


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_run_is_cancelled_though_its_node_ignores_that(stage: Any, stubborn: Stubborn, place: str) -> None:
    async with unharmed(stage) as engine:
        handle = await engine.start(flow_of(stubborn.node(place)))
        await stubborn.has_begun()
        await handle.cancel()
        with pytest.raises(ol.RunCancelled):
            await asyncio.wait_for(handle.result(), 20)
        stubborn.gate.set()
        assert await stage.is_sound(engine, handle.run)


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_race_does_not_wait_for_a_loser_that_ignores_its_loss(
    stage: Any, stubborn: Stubborn, place: str
) -> None:
    node = stubborn.node(place)

    @ol.node
    async def quick() -> str:
        await stubborn.has_begun()
        return "quick"

    @ol.workflow
    async def flow() -> str:
        return (await ol.race(node(), quick())).value

    async with unharmed(stage) as engine:
        handle = await engine.start(flow)
        assert await asyncio.wait_for(handle.result(), 20) == "quick"
        assert stubborn.ended == 0
        stubborn.gate.set()
        assert await stage.is_sound(engine, handle.run)


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_what_a_loser_still_brings_home_is_not_in_the_log(stage: Any, stubborn: Stubborn, place: str) -> None:
    node = stubborn.node(place)
    over = asyncio.Event()

    @ol.node
    async def quick() -> str:
        await stubborn.has_begun()
        return "quick"

    @ol.node
    async def more() -> None:
        stubborn.gate.set()
        await over.wait()

    @ol.workflow
    async def flow() -> str:
        won = await ol.race(node(), quick())
        await more()
        return won.value

    async with unharmed(stage) as engine:
        handle = await engine.start(flow)
        while not stubborn.ended:
            await asyncio.sleep(0.002)
        over.set()
        await handle.result()
        done = [x.node for x in await stage.events(engine, handle.run) if isinstance(x, e.NodeCompleted)]
    assert done == ["quick", "more"]


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_an_engine_closes_though_a_node_does_not_end(stage: Any, stubborn: Stubborn, place: str) -> None:
    async with unharmed(stage):
        pass
    engine = await stage.engine()
    await engine.start(flow_of(stubborn.node(place)))
    await stubborn.has_begun()
    async with asyncio.timeout(10):
        await stage.close(engine)
    assert stubborn.ended == 0
    stubborn.gate.set()


async def test_threads_that_hang_on_after_their_time_do_not_keep_others_from_theirs(
    stage: Any, stubborn: Stubborn
) -> None:
    async with unharmed(stage, threads=1) as engine:
        handle = await engine.start(flow_of(stubborn.node("thread", timeout=0.05)))
        with pytest.raises(TimeoutError):
            await handle.result()


async def test_a_node_that_logs_without_end_is_kept_within_bounds(stage: Any) -> None:
    import logging

    def hostile() -> None:
        for number in range(20_000):
            logging.getLogger("mischief").warning("line %d %s", number, "x" * 100)

    async with unharmed(stage) as engine:
        handle = await engine.start(flow_of(node_in("thread", hostile)))
        assert await handle.result() is None
        assert await stage.is_sound(engine, handle.run)


async def test_a_node_that_starts_tasks_and_leaves_them_harms_nobody(stage: Any) -> None:
    left = []

    @ol.node
    async def hostile() -> str:
        left.append(asyncio.create_task(asyncio.sleep(60)))
        return "done"

    async with unharmed(stage) as engine:
        assert await (await engine.start(flow_of(hostile))).result() == "done"
    left[0].cancel()


async def test_a_node_that_changes_its_arguments_changes_nothing_for_its_workflow(stage: Any) -> None:
    @ol.node
    async def hostile(items: list[int]) -> int:
        items.clear()
        return 0

    @ol.workflow
    async def flow() -> list[int]:
        items = [1, 2, 3]
        await hostile(items)
        return items

    async with unharmed(stage) as engine:
        assert await (await engine.start(flow)).result() == [1, 2, 3]


async def test_a_further_attempt_has_the_arguments_of_the_first(stage: Any) -> None:
    seen = []

    @ol.node(retry=TINY)
    async def hostile(items: list[int]) -> None:
        seen.append(list(items))
        items.append(4)
        if len(seen) < 3:
            raise ValueError("again")

    @ol.workflow
    async def flow() -> None:
        await hostile([1, 2, 3])

    async with unharmed(stage) as engine:
        await (await engine.start(flow)).result()
    assert seen == [[1, 2, 3]] * 3


# --- what ends the process ---------------------------------------------------------------------------------------------


async def test_a_helper_process_that_ends_itself_is_followed_by_another_attempt(stage: Any, tmp_path: Path) -> None:
    @ol.workflow
    async def flow(log: str) -> int:
        return await mischief.leave(log, 2)

    async with unharmed(stage, processes=1) as engine:
        handle = await engine.start(flow, str(tmp_path / "log"))
        assert await handle.result() == 3
        assert await stage.is_sound(engine, handle.run)


async def test_after_five_ends_of_helper_processes_the_run_is_held(stage: Any, tmp_path: Path) -> None:
    @ol.workflow
    async def flow(log: str) -> int:
        return await mischief.leave(log, 100)

    async with unharmed(stage, processes=1) as engine:
        error = await raised_by(engine, stage, flow, str(tmp_path / "log"))
    assert isinstance(error, ol.RunHeld)
    assert len((tmp_path / "log").read_text()) == 5


async def test_a_run_held_after_five_ends_goes_on_when_a_person_says_so(stage: Any, tmp_path: Path) -> None:
    @ol.workflow
    async def flow(log: str) -> int:
        return await mischief.leave(log, 5)

    async with unharmed(stage, processes=1) as engine:
        handle = await engine.start(flow, str(tmp_path / "log"))
        with pytest.raises(ol.RunHeld):
            await handle.result()
        await engine.resume(handle.run)
        assert await asyncio.wait_for(handle.result(), 20) == 6
        assert await stage.is_sound(engine, handle.run)


async def test_a_helper_process_that_is_busy_is_killed_when_its_time_is_up(stage: Any, tmp_path: Path) -> None:
    @ol.workflow
    async def flow(log: str) -> int:
        return await mischief.spin.options(timeout=3.0)(log)

    async with unharmed(stage, processes=1) as engine:
        assert isinstance(await raised_by(engine, stage, flow, str(tmp_path / "log")), TimeoutError)
        _must_be_gone(int((tmp_path / "log").read_text()))


async def test_a_helper_process_that_is_busy_is_killed_when_its_run_is_cancelled(stage: Any, tmp_path: Path) -> None:
    @ol.workflow
    async def flow(log: str) -> int:
        return await mischief.spin_on(log)

    log = tmp_path / "log"
    async with unharmed(stage, processes=1) as engine:
        handle = await engine.start(flow, str(log))
        while not log.exists() or not log.read_text():
            await asyncio.sleep(0.01)
        await handle.cancel()
        with pytest.raises(ol.RunCancelled):
            await handle.result()
        _must_be_gone(int(log.read_text()))


def _must_be_gone(pid: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


SCRIPT = """
    import os, sys
    from pathlib import Path
    import outlast as ol

    @ol.node
    def leave(times: int) -> int:
        with Path("log").open("a") as file:
            file.write("x")
        if len(Path("log").read_text()) <= times:
            os._exit(9)
        return ol.context().attempt

    @ol.workflow
    async def flow(times: int) -> int:
        return await leave(times)

    with ol.open("script.db") as engine:
        try:
            print(engine.start(flow.options(id="one"), int(sys.argv[1])).result())
        except ol.RunHeld as held:
            print("held:", held)
"""


def _script(folder: Path, times: int) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    return commands.run(
        [sys.executable, "script.py", str(times)], cwd=folder, capture_output=True, text=True, timeout=60
    )


def test_a_thread_that_ends_the_process_is_tried_again_by_the_next_one(tmp_path: Path) -> None:
    assert _script(tmp_path, 1).returncode == 9
    assert _script(tmp_path, 1).stdout.strip() == "2"


def test_a_thread_that_ended_five_processes_holds_its_run(tmp_path: Path) -> None:
    codes = [_script(tmp_path, 100).returncode for _ in range(5)]
    assert codes == [9] * 5
    assert _script(tmp_path, 100).stdout.startswith("held: node leave was interrupted 5 times")


# --- late words


async def test_a_plain_node_whose_time_is_up_learns_that_nobody_waits_for_it(stage: Any) -> None:
    noticed = threading.Event()

    @ol.node(timeout=0.02)
    def endless() -> None:
        while not ol.is_stopping():
            noticed.wait(0.002)
        noticed.set()

    @ol.workflow
    async def wait() -> None:
        await endless()

    engine = await stage.engine()
    with pytest.raises(TimeoutError):
        await (await engine.start(wait)).result()
    assert await asyncio.to_thread(noticed.wait, 30)


async def test_a_checkpoint_after_the_time_was_up_ends_the_thread_and_harms_nobody(stage: Any) -> None:
    go, raised = threading.Event(), threading.Event()

    @ol.node(timeout=0.02)
    def late() -> None:
        go.wait()
        try:
            ol.checkpoint("too late")
        except Stopped:
            raised.set()

    @ol.workflow
    async def wait() -> int:
        with suppress(TimeoutError):
            await late()
        return await ol.ask("How many?", int)

    async with unharmed(stage) as engine:
        handle = await engine.start(wait)
        await stage.until(engine, handle.run, e.InteractionRequested)
        go.set()
        assert await asyncio.to_thread(raised.wait, 30)
        await engine.answer(handle.run, 3)
        assert await handle.result() == 3
        assert not [event for event in await stage.events(engine, handle.run) if isinstance(event, e.RunTakenOver)]


async def test_a_checkpoint_of_one_that_lost_a_race_harms_nobody(stage: Any) -> None:
    cleaned = asyncio.Event()

    @ol.node
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await ol.checkpoint("too late")
            cleaned.set()

    @ol.node
    async def quick() -> int:
        return 1

    @ol.workflow
    async def racing() -> int:
        await ol.race(slow(), quick())
        return await ol.ask("How many?", int)

    async with unharmed(stage) as engine:
        handle = await engine.start(racing)
        await stage.until(engine, handle.run, e.InteractionRequested)
        await cleaned.wait()
        await engine.answer(handle.run, 3)
        assert await handle.result() == 3
        assert not [event for event in await stage.events(engine, handle.run) if isinstance(event, e.RunTakenOver)]
