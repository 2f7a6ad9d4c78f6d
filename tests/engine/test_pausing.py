"""Pausing: nothing more begins, what is under way comes to a good place, and a resume goes on as if nothing had been.

Promises P1, P2 and P6; `docs/how-to/pause-and-resume.md` tells them to people."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pausable
import pytest

import outlast as ol
from outlast.execution import attempts
from outlast.execution.remote import Stopped
from outlast.history import events as e
from outlast.lifecycle.state import NodeStatus

LONG = 30.0
"""A grace time that nobody waits for to its end."""


def kinds(events: list[e.AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


async def paused(stage: Any, engine: ol.Engine, run: str) -> None:
    """Pause it and wait until it is."""
    await engine.pause(run, by="zoe", reason="lunch")
    await stage.until(engine, run, e.RunPaused)
    while run in engine._worker.drivers:  # the driver is about to leave
        await asyncio.sleep(0)


async def gone_on(stage: Any, engine: ol.Engine, run: str) -> Any:
    """Resume it, and what it returns."""
    result = await (await engine.resume(run)).result()
    assert await stage.is_sound(engine, run)
    return result


class Gate:
    """A node's door, opened by the test."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.open.wait()


# --- nodes that end in time


async def test_what_ends_within_the_grace_time_is_done_and_what_follows_begins_after_the_resume(stage: Any) -> None:
    gate, begun = Gate(), []

    @ol.node
    async def first() -> int:
        await gate.pass_through()
        return 1

    @ol.node
    async def second(number: int) -> int:
        begun.append(number)
        return number + 1

    @ol.workflow
    async def both() -> int:
        return await second(await first())

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(both)
    await gate.reached.wait()
    await handle.pause(by="zoe", reason="lunch")
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    entry = await stage.until(engine, handle.run, e.RunPaused)
    assert (entry.event.by, entry.event.reason) == ("zoe", "lunch")
    assert begun == []
    assert (await handle.get()).status is ol.RunStatus.PAUSED
    events = await stage.events(engine, handle.run)
    assert kinds(events)[-3:] == ["NodeCompleted", "NodeScheduled", "RunPaused"]
    assert await gone_on(stage, engine, handle.run) == 2
    assert begun == [1]
    started = [event for event in await stage.events(engine, handle.run) if isinstance(event, e.NodeStarted)]
    assert [(event.node, event.attempt) for event in started] == [("first", 1), ("second", 1)]


async def test_several_outcomes_within_the_grace_time_stand_in_the_log_as_a_replay_wants_them(stage: Any) -> None:
    gates = {"a": Gate(), "b": Gate()}

    @ol.node
    async def first(name: str) -> str:
        await gates[name].pass_through()
        return name

    @ol.node
    async def second(name: str) -> str:
        return name * 2

    async def line(name: str) -> str:
        return await second(await first(name))

    @ol.workflow
    async def lines() -> list[str]:
        return list(await ol.gather(line("a"), line("b")))

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(lines)
    for gate in gates.values():
        await gate.reached.wait()
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    for gate in gates.values():
        gate.open.set()
        await asyncio.sleep(0.01)
    await stage.until(engine, handle.run, e.RunPaused)
    assert await gone_on(stage, engine, handle.run) == ["aa", "bb"]


async def test_a_run_whose_code_ends_within_the_grace_time_completes(stage: Any) -> None:
    gate = Gate()

    @ol.node
    async def only() -> str:
        await gate.pass_through()
        return "done"

    @ol.workflow
    async def short() -> str:
        return await only()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(short)
    await gate.reached.wait()
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    assert await handle.result() == "done"
    assert await stage.is_sound(engine, handle.run)


async def test_a_failure_within_the_grace_time_is_retried_after_the_resume(stage: Any) -> None:
    gate, tries = Gate(), []

    @ol.node(retry=ol.Retry(max_attempts=3, delay=0.001))
    async def fragile() -> str:
        tries.append(ol.context().attempt)
        if len(tries) == 1:
            await gate.pass_through()
            raise ValueError("once")
        return "whole"

    @ol.workflow
    async def trying() -> str:
        return await fragile()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(trying)
    await gate.reached.wait()
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    await stage.until(engine, handle.run, e.RunPaused)
    assert tries == [1]
    assert await gone_on(stage, engine, handle.run) == "whole"
    assert tries == [1, 2]


# --- nodes that reach a checkpoint


async def test_an_async_node_ends_at_its_checkpoint_and_goes_on_from_there(stage: Any) -> None:
    gate, seen = Gate(), []

    @ol.node
    async def counting() -> int:
        begin = ol.last_checkpoint(0)
        seen.append(begin)
        for number in range(begin, 3):
            if number == 1 and begin == 0:
                await gate.pass_through()
            with suppress(Exception):
                await ol.checkpoint(number + 1)
        return 3

    @ol.workflow
    async def count() -> int:
        return await counting()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(count)
    await gate.reached.wait()
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    await stage.until(engine, handle.run, e.RunPaused)
    assert kinds(await stage.events(engine, handle.run))[-2:] == ["NodeCheckpointed", "RunPaused"]
    assert await gone_on(stage, engine, handle.run) == 3
    assert seen == [0, 2]


async def test_a_node_ends_as_a_whole_if_one_of_its_tasks_reaches_a_checkpoint(stage: Any) -> None:
    gate, seen = Gate(), []

    @ol.node
    async def grouped() -> str:
        seen.append(ol.last_checkpoint())
        if len(seen) > 1:
            return "again"

        async def part() -> None:
            await gate.pass_through()
            await ol.checkpoint("half")

        async with asyncio.TaskGroup() as group:
            group.create_task(part())
        return "must not be"

    @ol.workflow
    async def group() -> str:
        return await grouped()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(group)
    await gate.reached.wait()
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    await stage.until(engine, handle.run, e.RunPaused)
    assert await gone_on(stage, engine, handle.run) == "again"
    assert seen == [None, "half"]


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_a_plain_node_ends_at_its_checkpoint_though_it_catches_every_exception(
    stage: Any, timeout: float | None
) -> None:
    reached, go, seen, raised = threading.Event(), threading.Event(), [], []

    @ol.node(timeout=timeout)
    def counting() -> int:
        begin = ol.last_checkpoint(0)
        seen.append(begin)
        for number in range(begin, 3):
            if number == 1 and begin == 0:
                reached.set()
                go.wait()
            try:
                ol.checkpoint(number + 1)
            except Exception as error:
                raised.append(error)
            except BaseException as error:
                raised.append(type(error))
                raise
        return 3

    @ol.workflow
    async def count() -> int:
        return await counting()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(count)
    await asyncio.to_thread(reached.wait)
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    go.set()
    await stage.until(engine, handle.run, e.RunPaused)
    assert raised == [Stopped]
    assert await gone_on(stage, engine, handle.run) == 3
    assert seen == [0, 2]


async def test_a_node_in_a_process_ends_at_its_checkpoint_and_goes_on_from_there(stage: Any) -> None:
    @ol.workflow
    async def count() -> list[int]:
        return await pausable.counting_in_a_process()

    engine = await stage.engine(grace=LONG, processes=1)
    handle = await engine.start(count)
    await stage.until(engine, handle.run, e.NodeCheckpointed)
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    Path("go").touch()
    await stage.until(engine, handle.run, e.RunPaused)
    assert Path("ended").read_text() == "Stopped"
    kept = [entry async for entry in engine.events(handle.run) if isinstance(entry.event, e.NodeCheckpointed)]
    begun_at = len(kept)  # the first one may have been acknowledged only after the request was heard
    assert await gone_on(stage, engine, handle.run) == list(range(begun_at, 5))


async def test_a_node_that_is_not_to_be_repeated_is_not_ended_at_its_checkpoint(stage: Any) -> None:
    gate = Gate()

    @ol.node(repeatable=False)
    async def paying() -> str:
        await gate.pass_through()
        await ol.checkpoint("sent")
        return "paid"

    @ol.workflow
    async def pay() -> str:
        return await paying()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(pay)
    await gate.reached.wait()
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    assert await handle.result() == "paid"


# --- nodes that do neither


async def test_an_async_node_that_does_not_end_is_cancelled_and_done_again_after_the_resume(stage: Any) -> None:
    tries: list[str] = []

    @ol.node
    async def endless() -> str:
        tries.append("begun")
        if len(tries) > 1:
            return "now"
        try:
            await asyncio.Event().wait()
        finally:
            await ol.checkpoint("kept while cleaning up")
        return "never"

    @ol.workflow
    async def waiting() -> str:
        return await endless()

    engine = await stage.engine(grace=0.01)
    handle = await engine.start(waiting)
    await stage.until(engine, handle.run, e.NodeStarted)
    await paused(stage, engine, handle.run)
    events = await stage.events(engine, handle.run)
    assert kinds(events)[-2:] == ["NodeCheckpointed", "RunPaused"]
    assert await gone_on(stage, engine, handle.run) == "now"


async def test_what_a_node_returns_because_it_was_stopped_is_not_its_result(stage: Any) -> None:
    tries: list[int] = []

    @ol.node
    async def swallowing() -> str:
        tries.append(1)
        if len(tries) == 1:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return "half of it"
        return "all of it"

    @ol.workflow
    async def swallow() -> str:
        return await swallowing()

    engine = await stage.engine(grace=0.01)
    handle = await engine.start(swallow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await paused(stage, engine, handle.run)
    assert await gone_on(stage, engine, handle.run) == "all of it"


async def test_a_thread_that_goes_on_after_a_pause_keeps_the_next_attempt_waiting(stage: Any) -> None:
    go, running, most, told = threading.Event(), [], [], []

    @ol.node
    def stubborn() -> str:
        running.append(1)
        most.append(len(running))
        if ol.context().attempt == 1:
            go.wait()
            told.append(ol.is_stopping())
            with pytest.raises(Stopped):
                ol.checkpoint("too late")
            told.append("stopped")
        running.pop()
        return "done"

    @ol.workflow
    async def wait() -> str:
        return await stubborn()

    engine = await stage.engine(grace=0.01)
    handle = await engine.start(wait)
    await stage.until(engine, handle.run, e.NodeStarted)
    while not running:
        await asyncio.sleep(0.001)
    await paused(stage, engine, handle.run)
    again = await engine.resume(handle.run)
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.NodeStarted) and event.attempt == 2)
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert most == [1]
    go.set()
    assert await again.result() == "done"
    assert (most, told) == ([1, 1], [True, "stopped"])


async def test_an_async_node_that_ignores_being_stopped_keeps_the_next_attempt_waiting(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "GRACE", 0.02)
    gate, running, most = Gate(), [], []

    @ol.node
    async def stubborn() -> str:
        running.append(1)
        most.append(len(running))
        while not gate.open.is_set():
            with suppress(asyncio.CancelledError):
                await gate.open.wait()
        running.pop()
        return f"by attempt {ol.context().attempt}"

    @ol.workflow
    async def wait() -> str:
        return await stubborn()

    engine = await stage.engine(grace=0.01)
    handle = await engine.start(wait)
    await stage.until(engine, handle.run, e.NodeStarted)
    await paused(stage, engine, handle.run)
    again = await engine.resume(handle.run)
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.NodeStarted) and event.attempt == 2)
    gate.open.set()
    assert await again.result() == "by attempt 2"
    assert most == [1, 1]


async def test_a_pause_that_stops_a_node_that_is_not_to_be_repeated_holds_the_run(stage: Any) -> None:
    @ol.node(repeatable=False)
    async def paying() -> str:
        if ol.context().attempt == 1:
            await asyncio.Event().wait()
        return "paid"

    @ol.workflow
    async def pay() -> str:
        return await paying()

    engine = await stage.engine(grace=0.01)
    handle = await engine.start(pay)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.pause()
    with pytest.raises(ol.RunHeld, match="node paying was stopped by a pause"):
        await handle.result()
    assert await gone_on(stage, engine, handle.run) == "paid"


async def test_a_node_that_was_about_to_begin_keeps_its_first_attempt(stage: Any) -> None:
    gate = Gate()

    @ol.node
    async def first() -> int:
        await gate.pass_through()
        return 1

    @ol.node(repeatable=False)
    async def second() -> int:
        return ol.context().attempt

    @ol.workflow
    async def both() -> int:
        await first()
        return await second()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(both)
    await gate.reached.wait()
    driver = engine._worker.drivers[handle.run]
    driver.is_writing = True  # so that the outcome and the request are written together
    await handle.pause()
    gate.open.set()
    while not driver.outcomes:
        await asyncio.sleep(0)
    driver.is_writing = False
    await driver.write()
    await stage.until(engine, handle.run, e.RunPaused)
    assert await gone_on(stage, engine, handle.run) == 1


# --- what else a run waits for


async def test_questions_timers_and_children_of_a_paused_run_go_on(stage: Any) -> None:
    gate = Gate()

    @ol.node
    async def inner() -> str:
        await gate.pass_through()
        return "grown"

    @ol.workflow
    async def child() -> str:
        return await inner()

    async def slept() -> str:
        await ol.sleep(0.05)
        return "rested"

    @ol.workflow
    async def parent() -> list[Any]:
        return list(await ol.gather(child(), ol.ask("How many?", int), slept()))

    engine = await stage.engine(grace=0.01)
    handle = await engine.start(parent)
    await gate.reached.wait()
    await paused(stage, engine, handle.run)
    gate.open.set()
    (young,) = (await engine.list_runs(ol.RunFilter(parent=handle.run))).items
    assert await engine.result(young.summary.run) == "grown"
    await engine.answer(handle.run, 3)
    await asyncio.sleep(0.06)
    assert (await handle.get()).status is ol.RunStatus.PAUSED
    assert await gone_on(stage, engine, handle.run) == ["grown", 3, "rested"]


async def test_a_child_that_was_asked_for_while_pausing_is_created_after_the_resume(stage: Any) -> None:
    gate = Gate()

    @ol.node
    async def first() -> int:
        await gate.pass_through()
        return 1

    @ol.workflow
    async def child(number: int) -> int:
        return number + 1

    @ol.workflow
    async def parent() -> int:
        return await child(await first())

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(parent)
    await gate.reached.wait()
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    await stage.until(engine, handle.run, e.RunPaused)
    assert not (await engine.list_runs(ol.RunFilter(parent=handle.run))).items
    assert await gone_on(stage, engine, handle.run) == 2


async def test_a_run_that_nobody_advances_is_paused_at_once_and_before_it_starts(stage: Any) -> None:
    @ol.node
    async def only() -> str:
        return "done"

    @ol.workflow
    async def short() -> str:
        return await only()

    async with ol.open(stage.file, worker=False) as desk:
        handle = await desk.start(short)
        await handle.pause(by="zoe", reason="not yet")
        assert (await handle.get()).status is ol.RunStatus.PAUSED
        assert kinds(await stage.events(desk, handle.run)) == ["RunCreated", "RunTakenOver", "RunPaused"]
    engine = await stage.engine()
    await asyncio.sleep(0.05)
    assert (await engine.get(handle.run)).status is ol.RunStatus.PAUSED
    assert await gone_on(stage, engine, handle.run) == "done"


async def test_a_run_that_was_left_by_a_dead_worker_is_paused_at_once(stage: Any) -> None:
    seen: list[int] = []

    @ol.node
    async def only() -> str:
        seen.append(ol.context().attempt)
        if ol.context().attempt == 1:
            await asyncio.Event().wait()
        return "done"

    @ol.workflow
    async def short() -> str:
        return await only()

    engine = await stage.engine()
    handle = await engine.start(short)
    while not seen:
        await asyncio.sleep(0.001)
    await stage.crash(engine)
    known = stage.forget()
    async with ol.open(stage.file, worker=False) as desk:
        await desk.pause(handle.run)
        assert (await desk.get(handle.run)).status is ol.RunStatus.PAUSED
    stage.know(known)
    engine = await stage.engine()
    assert await gone_on(stage, engine, handle.run) == "done"
    assert seen == [1, 2]


async def test_an_unrepeatable_node_that_was_given_back_in_its_midst_is_held_and_not_paused(stage: Any) -> None:
    @ol.node(repeatable=False)
    async def paying() -> str:
        await asyncio.Event().wait()
        return "paid"

    @ol.workflow
    async def pay() -> str:
        return await paying()

    engine = await stage.engine()
    handle = await engine.start(pay)
    await stage.until(engine, handle.run, e.NodeStarted)
    await stage.close(engine)
    async with ol.open(stage.file, worker=False) as desk:
        await desk.pause(handle.run)
        summary = await desk.get(handle.run)
        assert (summary.status, summary.held) == (ol.RunStatus.FAILED, True)


async def test_a_paused_run_can_be_cancelled_and_paused_again_after_a_resume(stage: Any) -> None:
    @ol.workflow
    async def asking() -> int:
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    handle = await engine.start(asking)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await paused(stage, engine, handle.run)
    await engine.resume(handle.run)
    entry = await stage.until(engine, handle.run, lambda event: isinstance(event, e.RunStarted) and event.resumed)
    await engine.pause(handle.run)
    await stage.until(engine, handle.run, e.RunPaused, after=entry.seq)
    while handle.run in engine._worker.drivers:
        await asyncio.sleep(0)
    await engine.cancel(handle.run)
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    assert await stage.is_sound(engine, handle.run)


# --- others have a say


async def test_a_cancellation_while_pausing_ends_the_run(stage: Any) -> None:
    @ol.node
    async def endless() -> None:
        await asyncio.Event().wait()

    @ol.workflow
    async def wait() -> None:
        await endless()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(wait)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    await handle.cancel(reason="after all")
    with pytest.raises(ol.RunCancelled, match="after all"):
        await handle.result()
    assert await stage.is_sound(engine, handle.run)


async def test_a_cancellation_that_comes_with_the_last_word_of_a_pause_is_not_lost(stage: Any) -> None:
    gate = Gate()

    @ol.node
    async def only() -> None:
        await gate.pass_through()
        await ol.checkpoint(1)

    @ol.workflow
    async def wait() -> None:
        await only()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(wait)
    await gate.reached.wait()
    driver = engine._worker.drivers[handle.run]
    append = driver.writer.append

    async def late(events: list[e.AnyEvent], **named: Any) -> int:
        if isinstance(events[-1], e.RunPaused):
            driver.writer.append = append
            await handle.cancel()
        return await append(events, **named)

    driver.writer.append = late
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    gate.open.set()
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    assert "RunPaused" in kinds(await stage.events(engine, handle.run))
    assert await stage.is_sound(engine, handle.run)


async def test_a_request_whose_owner_died_is_obeyed_by_the_next(stage: Any) -> None:
    begun: list[int] = []

    @ol.node
    async def endless() -> None:
        begun.append(ol.context().attempt)
        await asyncio.Event().wait()

    @ol.workflow
    async def wait() -> None:
        await endless()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(wait)
    while not begun:
        await asyncio.sleep(0.001)
    await handle.pause()
    await stage.crash(engine)
    engine = await stage.engine()
    await stage.until(engine, handle.run, e.RunPaused)
    assert begun == [1]
    assert await stage.is_sound(engine, handle.run)


async def test_a_resume_outweighs_a_request_whose_owner_died(stage: Any) -> None:
    begun: list[int] = []

    @ol.node
    async def slow() -> str:
        begun.append(ol.context().attempt)
        if ol.context().attempt == 1:
            await asyncio.Event().wait()
        return "done"

    @ol.workflow
    async def wait() -> str:
        return await slow()

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(wait)
    while not begun:
        await asyncio.sleep(0.001)
    await handle.pause()
    await stage.crash(engine)
    engine = await stage.engine(take_over_others=False)
    assert await gone_on(stage, engine, handle.run) == "done"
    assert begun == [1, 2]


async def test_what_cannot_be_paused_is_said(stage: Any) -> None:
    @ol.workflow
    async def nothing() -> None:
        pass

    @ol.workflow
    async def asking() -> int:
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    over = await engine.start(nothing)
    await over.result()
    with pytest.raises(ol.RunGone, match="is over and cannot be paused"):
        await over.pause()
    waiting = await engine.start(asking)
    await stage.until(engine, waiting.run, e.InteractionRequested)
    await paused(stage, engine, waiting.run)
    with pytest.raises(ol.NotAllowed, match="is already paused"):
        await waiting.pause()
    with pytest.raises(ol.NotFound):
        await engine.pause("nobody")


async def test_a_held_run_is_not_paused(stage: Any) -> None:
    @ol.node(repeatable=False)
    async def paying() -> None:
        await asyncio.Event().wait()

    @ol.workflow
    async def pay() -> None:
        await paying()

    engine = await stage.engine()
    handle = await engine.start(pay)
    await stage.until(engine, handle.run, e.NodeStarted)
    await stage.crash(engine)
    engine = await stage.engine()
    await stage.until(engine, handle.run, e.RunFailed)
    with pytest.raises(ol.NotAllowed, match="is held and cannot be paused"):
        await engine.pause(handle.run)


def test_a_run_is_paused_without_await(tmp_path: Path) -> None:
    begun = threading.Event()

    @ol.node
    async def slow() -> str:
        begun.set()
        if ol.context().attempt == 1:
            await asyncio.Event().wait()
        return "done"

    @ol.workflow
    async def blocking_pause() -> str:
        return await slow()

    with ol.open(tmp_path / "runs.db", grace=0.01) as engine:
        handle = engine.start(blocking_pause)
        assert begun.wait(30)
        handle.pause(by="zoe")
        give_up = time.monotonic() + 30
        while handle.get().status is not ol.RunStatus.PAUSED:
            assert time.monotonic() < give_up
            time.sleep(0.005)
        while engine._thread.do(_is_driven(engine, handle.run)):
            pass
        assert engine.resume(handle.run).result() == "done"


async def _is_driven(engine: Any, run: str) -> bool:
    return run in engine._awaited._worker.drivers


# --- draining, and closing


async def test_a_drained_engine_leaves_its_runs_where_they_can_go_on(stage: Any) -> None:
    gate, begun = Gate(), []

    @ol.node
    async def first() -> int:
        await gate.pass_through()
        return 1

    @ol.node
    async def second(number: int) -> int:
        begun.append(number)
        return number + 1

    @ol.workflow
    async def both() -> int:
        return await second(await first())

    engine = await stage.engine(grace=LONG)
    handle = await engine.start(both)
    await gate.reached.wait()
    draining = asyncio.create_task(engine.drain())
    await asyncio.sleep(0)
    gate.open.set()
    await draining
    assert begun == []
    state = engine._worker.drivers[handle.run].writer.state
    assert {name: node.status for name, node in state.nodes.items()} == {
        "first": NodeStatus.COMPLETED,
        "second": NodeStatus.SCHEDULED,
    }
    await stage.close(engine)
    engine = await stage.engine()
    assert await engine.result(handle.run) == 2
    assert await stage.is_sound(engine, handle.run)


async def test_outcomes_that_come_while_an_engine_closes_do_not_confuse_the_next_one(stage: Any) -> None:
    gates = {name: Gate() for name in "abc"}

    @ol.node
    async def first(name: str) -> str:
        await gates[name].pass_through()
        return name

    @ol.node
    async def second(name: str) -> str:
        return name * 2

    async def line(name: str) -> str:
        return await second(await first(name))

    @ol.workflow
    async def lines() -> list[str]:
        return list(await ol.gather(*map(line, "abc")))

    engine = await stage.engine()
    handle = await engine.start(lines)
    for gate in gates.values():
        await gate.reached.wait()
    driver = engine._worker.drivers[handle.run]
    await driver.stop()  # as closing does, for one run after the other
    for name in "abc":
        gates[name].open.set()
        await asyncio.sleep(0.01)
    await stage.close(engine)
    engine = await stage.engine()
    assert await engine.result(handle.run) == ["aa", "bb", "cc"]
    assert await stage.is_sound(engine, handle.run)
