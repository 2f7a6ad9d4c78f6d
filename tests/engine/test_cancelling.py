"""What cancel does: the code of a run is cancelled, cleans up within a limited time, and the run ends as cancelled."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e

SOON = 30.0


@ol.node
async def cleanup_endless(name: str = "endless") -> str:
    await asyncio.Event().wait()
    return name


@ol.node
async def undo(name: str = "") -> str:
    return name


async def cancelled_in(stage: Any, workflow: Any, *args: Any, at: Any = e.NodeStarted) -> tuple[Any, list[e.AnyEvent]]:
    """The engine and the log of a run that is cancelled where it is at work, and that has ended."""
    engine = await stage.engine()
    handle = await engine.start(workflow.options(id="run"), *args)
    await stage.until(engine, handle.run, at)
    await handle.cancel(by="ann", reason="enough")
    with pytest.raises(ol.RunCancelled, match="enough"):
        await handle.result()
    assert await stage.is_sound(engine, handle.run)
    return engine, await stage.events(engine, handle.run)


def completed(log: list[e.AnyEvent]) -> list[str]:
    return [event.node for event in log if isinstance(event, e.NodeCompleted)]


# --- clean-up runs


async def test_nodes_in_finally_are_executed_when_a_run_is_cancelled(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await undo("a")
            await undo("b")

    _, log = await cancelled_in(stage, flow)
    assert completed(log) == ["undo", "undo#2"]
    assert log[-1] == e.RunCancelled(by="ann", reason="enough", cleanup="completed")


async def test_nodes_in_except_cancelled_error_are_executed(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        except asyncio.CancelledError:
            await undo()
            raise

    _, log = await cancelled_in(stage, flow)
    assert completed(log) == ["undo"]


async def test_nodes_of_an_async_exit_stack_are_executed(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        async with AsyncExitStack() as stack:
            for name in "ab":
                stack.push_async_callback(undo, name)
            await cleanup_endless()

    _, log = await cancelled_in(stage, flow)
    assert completed(log) == ["undo", "undo#2"]


async def test_nodes_in_finally_of_a_plain_workflow_are_executed(stage: Any) -> None:
    @ol.workflow
    def flow() -> None:
        try:
            cleanup_endless().wait()
        finally:
            undo().wait()

    _, log = await cancelled_in(stage, flow)
    assert completed(log) == ["undo"]


async def test_helpers_of_a_gather_and_of_a_task_group_clean_up(stage: Any) -> None:
    async def helper(name: str) -> None:
        try:
            await cleanup_endless(name)
        finally:
            await undo(name)

    @ol.workflow
    async def flow() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(helper("a"))
            await ol.gather(helper("b"), helper("c"))

    _, log = await cancelled_in(stage, flow, at=lambda event: getattr(event, "node", "") == "3/cleanup_endless")
    assert sorted(completed(log)) == ["1/undo", "2/undo", "3/undo"]


async def test_a_task_that_nobody_awaits_is_cancelled_when_the_function_has_ended(stage: Any) -> None:
    async def helper() -> None:
        try:
            await cleanup_endless("helper")
        finally:
            await undo("helper")

    @ol.workflow
    async def flow() -> None:
        tasks = [asyncio.create_task(helper())]
        await cleanup_endless()
        await tasks[0]

    _, log = await cancelled_in(stage, flow, at=lambda event: getattr(event, "node", "") == "1/cleanup_endless")
    assert completed(log) == ["1/undo"]


async def test_a_run_that_cleans_up_is_compensating(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node
    async def slow_undo() -> None:
        await gate.wait()

    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await slow_undo()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.cancel(by="ann")
    await stage.until(engine, handle.run, lambda event: getattr(event, "node", "") == "slow_undo")
    assert (await engine.get(handle.run)).status == "compensating"
    for verb in ("pause", "resume"):
        with pytest.raises(ol.NotAllowed, match="being cancelled"):
            await getattr(engine, verb)(handle.run)
    gate.set()
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    assert (await engine.get(handle.run)).status == "cancelled"


async def test_a_run_without_clean_up_ends_with_one_append(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await ol.gather(ol.ask("Who?"), ol.sleep(1000), cleanup_endless())

    _, log = await cancelled_in(stage, flow)
    place = next(place for place, event in enumerate(log) if isinstance(event, e.CancelRequested))
    rest = log[place + 1 :]
    assert [type(event) for event in rest] == [e.InteractionWithdrawn, e.TimerCancelled, e.NodeFailed, e.RunCancelled]
    assert rest[-1] == e.RunCancelled(by="ann", reason="enough")


async def test_what_a_node_completes_while_it_is_cancelled_is_in_the_log(stage: Any) -> None:
    @ol.node
    async def finishing() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished after all"
        return ""

    @ol.workflow
    async def flow() -> None:
        try:
            await finishing()
        finally:
            await undo()

    _, log = await cancelled_in(stage, flow)
    assert completed(log) == ["finishing", "undo"]


async def test_what_a_node_completes_while_it_is_cancelled_is_undone_further_on(stage: Any) -> None:
    begun = asyncio.Event()

    @ol.node
    async def booking() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "B1"
        return ""

    @ol.workflow
    async def flow() -> None:
        booked = await booking()
        try:
            await cleanup_endless()
        finally:
            await undo(booked)

    engine = await stage.engine()
    handle = await engine.start(flow)
    await begun.wait()
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    log = await stage.events(engine, handle.run)
    assert completed(log) == ["booking", "undo"]
    assert not any(isinstance(event, e.NodeStarted) and event.node == "cleanup_endless" for event in log)
    assert await stage.is_sound(engine, handle.run)


@pytest.mark.parametrize("crashes", [False, True])
async def test_what_a_node_completes_while_it_is_cancelled_is_found_by_a_replay(stage: Any, crashes: bool) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    @ol.node
    async def finishing() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if crashes:
                raise ValueError("broken") from None
            return "finished after all"
        return ""

    @ol.node
    async def slow_undo() -> None:
        await gate.wait()

    @ol.workflow
    async def flow() -> None:
        try:
            await finishing()
        finally:
            await slow_undo()
            await undo()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await begun.wait()
    await handle.cancel()
    await stage.until(engine, handle.run, lambda event: getattr(event, "node", "") == "slow_undo")
    await stage.crash(engine)
    gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled):
        await engine.result(handle.run)
    log = await stage.events(engine, handle.run)
    assert completed(log)[-2:] == ["slow_undo", "undo"]
    assert await stage.is_sound(engine, handle.run)


async def test_a_shielded_node_goes_on_in_the_clean_up(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node(repeatable=False)
    async def paying() -> str:
        await gate.wait()
        return "paid"

    @ol.workflow
    async def flow() -> None:
        task = asyncio.create_task(paying())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            gate.set()
            await undo(await task)
            raise

    _, log = await cancelled_in(stage, flow)
    assert completed(log) == ["paying", "undo"]
    assert sum(isinstance(event, e.NodeStarted) for event in log) == 2


# --- how it ends


async def test_a_value_that_the_clean_up_returns_is_dropped(stage: Any) -> None:
    @ol.workflow
    async def flow() -> str:
        with suppress(asyncio.CancelledError):
            await cleanup_endless()
        return await undo("a result")

    _, log = await cancelled_in(stage, flow)
    assert log[-1] == e.RunCancelled(by="ann", reason="enough", cleanup="completed")


async def test_an_error_of_the_clean_up_is_in_the_log_and_the_run_is_cancelled(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await undo()
            raise ValueError("no way back")

    _, log = await cancelled_in(stage, flow)
    ending = log[-1]
    assert isinstance(ending, e.RunCancelled)
    assert (ending.cleanup, ending.error.message) == ("failed", "no way back")


async def test_a_call_of_the_clean_up_that_is_never_awaited_is_in_the_log(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            undo()

    _, log = await cancelled_in(stage, flow)
    ending = log[-1]
    assert isinstance(ending, e.RunCancelled)
    assert ending.cleanup == "failed"
    assert "test_cancelling.py" in ending.error.message


async def test_continue_as_in_the_clean_up_starts_no_successor(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await ol.continue_as_new()

    engine, log = await cancelled_in(stage, flow)
    assert isinstance(log[-1], e.RunCancelled)
    assert len((await engine.list_runs(ol.RunFilter())).items) == 1


async def test_code_that_swallows_the_cancellation_ends_when_its_time_is_over(stage: Any) -> None:
    @ol.workflow(cleanup=0.3)
    async def flow() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await ol.sleep(1000)

    _, log = await cancelled_in(stage, flow, at=e.TimerSet)
    assert log[-1] == e.RunCancelled(by="ann", reason="enough", cleanup="expired")


async def test_a_node_that_is_at_work_when_the_time_is_over_is_stopped(stage: Any) -> None:
    @ol.workflow(cleanup=0.3)
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await cleanup_endless()

    _, log = await cancelled_in(stage, flow)
    assert [type(event) for event in log[-2:]] == [e.NodeFailed, e.RunCancelled]
    assert log[-1].cleanup == "expired"


async def test_a_second_cancellation_ends_the_run_at_once(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await cleanup_endless()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.cancel(by="ann", reason="enough")
    await stage.until(engine, handle.run, e.CleanupStarted)
    await handle.cancel(by="bob")
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    assert (await stage.events(engine, handle.run))[-1] == e.RunCancelled(by="bob", reason="enough", cleanup="stopped")
    assert await stage.is_sound(engine, handle.run)


async def test_a_forced_cancellation_ends_a_run_without_its_clean_up(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await undo()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.cancel(force=True)
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    log = await stage.events(engine, handle.run)
    assert completed(log) == []
    assert log[-1] == e.RunCancelled()


async def test_with_no_time_for_clean_up_a_run_ends_at_once(stage: Any) -> None:
    @ol.workflow(cleanup=0)
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await undo()

    _, log = await cancelled_in(stage, flow)
    assert completed(log) == []


@pytest.mark.parametrize("cleanup", [-1, "30", True, float("nan")])
def test_a_wrong_time_for_clean_up_is_refused(cleanup: Any) -> None:
    async def flow() -> None: ...

    with pytest.raises(ol.InvalidInput, match="cleanup must be a number of seconds"):
        ol.workflow(cleanup=cleanup)(flow)


# --- nobody has the code in memory


async def left_in(stage: Any, workflow: Any, at: Any, *args: Any) -> str:
    """A run whose process dies at this event."""
    engine = await stage.engine()
    handle = await engine.start(workflow.options(id="run"), *args)
    await stage.until(engine, handle.run, at)
    await stage.crash(engine)
    return "run"


def undoing() -> Any:
    @ol.workflow
    async def undoing_flow() -> None:
        try:
            await ol.ask("Go on?")
        finally:
            await undo()

    return undoing_flow


def asked(event: e.AnyEvent) -> bool:
    return isinstance(event, e.InteractionRequested)


async def test_a_run_that_nobody_advances_is_replayed_to_clean_up(stage: Any) -> None:
    run = await left_in(stage, undoing(), asked)
    desk = await stage.engine(worker=False)
    await desk.cancel(run, by="ann", reason="enough")
    assert (await desk.get(run)).status == "waiting"
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled, match="enough"):
        await engine.result(run)
    log = await stage.events(engine, run)
    assert completed(log) == ["undo"]
    assert log[-1] == e.RunCancelled(by="ann", reason="enough", cleanup="completed")
    assert await stage.is_sound(engine, run)


async def test_a_second_cancellation_ends_a_run_that_no_worker_cleans_up(stage: Any) -> None:
    run = await left_in(stage, undoing(), asked)
    desk = await stage.engine(worker=False)
    await desk.cancel(run)
    await desk.cancel(run)
    assert (await desk.get(run)).status == "cancelled"
    assert completed(await stage.events(desk, run)) == []


async def test_a_run_whose_code_is_not_at_hand_is_left_to_a_worker_that_has_it(stage: Any) -> None:
    run = await left_in(stage, undoing(), asked)
    known = stage.forget()
    desk = await stage.engine(worker=False)
    await desk.cancel(run)
    stranger = await stage.engine()
    assert (await desk.get(run)).status == "waiting"
    await stage.close(stranger)
    stage.know(known)
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled):
        await engine.result(run)
    assert completed(await stage.events(engine, run)) == ["undo"]


async def test_a_run_that_no_code_is_known_of_is_ended_by_force(stage: Any) -> None:
    run = await left_in(stage, undoing(), asked)
    stage.forget()
    desk = await stage.engine(worker=False)
    await desk.cancel(run, force=True)
    assert (await desk.get(run)).status == "cancelled"


async def test_a_run_that_never_started_ends_at_once(stage: Any) -> None:
    flow = undoing()
    desk = await stage.engine(worker=False)
    handle = await desk.start(flow)
    stage.forget()
    await handle.cancel()
    assert (await desk.get(handle.run)).status == "cancelled"


@pytest.mark.parametrize("with_worker", [True, False])
async def test_a_paused_run_cleans_up(stage: Any, with_worker: bool) -> None:
    engine = await stage.engine()
    handle = await engine.start(undoing())
    await stage.until(engine, handle.run, asked)
    await handle.pause()
    await stage.until(engine, handle.run, e.RunPaused)
    if not with_worker:
        await stage.close(engine)
        desk = await stage.engine(worker=False)
        await desk.cancel(handle.run)
        engine = await stage.engine()
    else:
        await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await engine.result(handle.run)
    assert completed(await stage.events(engine, handle.run)) == ["undo"]
    assert await stage.is_sound(engine, handle.run)


async def test_a_run_that_is_held_inside_a_node_cleans_up(stage: Any) -> None:
    @ol.node(repeatable=False)
    async def paying() -> None:
        await asyncio.Event().wait()

    @ol.workflow
    async def flow() -> None:
        try:
            await paying()
        finally:
            await undo()

    run = await left_in(stage, flow, e.NodeStarted)
    engine = await stage.engine()
    await stage.until(engine, run, e.RunFailed)
    await engine.cancel(run)
    with pytest.raises(ol.RunCancelled):
        await engine.result(run)
    assert completed(await stage.events(engine, run)) == ["undo"]
    assert await stage.is_sound(engine, run)


async def test_a_crash_in_the_clean_up_is_followed_by_the_rest_of_it(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node
    async def slow_undo() -> None:
        await gate.wait()

    @ol.workflow(on_restart="hold")
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await undo()
            await slow_undo()
            await undo()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.cancel(by="ann", reason="enough")
    await stage.until(engine, handle.run, lambda event: getattr(event, "node", "") == "slow_undo")
    await stage.crash(engine)
    gate.set()
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled, match="enough"):
        await engine.result(handle.run)
    log = await stage.events(engine, handle.run)
    assert completed(log) == ["undo", "slow_undo", "undo#2"]
    assert sum(isinstance(event, e.CleanupStarted) for event in log) == 1
    assert await stage.is_sound(engine, handle.run)


async def test_crashes_do_not_extend_the_time_of_the_clean_up(stage: Any) -> None:
    @ol.workflow(cleanup=0.5)
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await ol.sleep(1000)

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.cancel()
    started = await stage.until(engine, handle.run, e.CleanupStarted)
    await stage.crash(engine)
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled):
        await engine.result(handle.run)
    *_, last = [entry async for entry in engine.events(handle.run)]
    assert last.event.cleanup == "expired"
    assert started.event.due == started.time + 500_000
    assert await stage.is_sound(engine, handle.run)


async def test_a_clean_up_that_only_waits_and_was_released_ends_in_time(stage: Any) -> None:
    @ol.workflow(cleanup=0.5)
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await ol.ask("Undo it?")

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.cancel()
    await stage.until(engine, handle.run, e.InteractionRequested)
    await engine._worker.drivers[handle.run].release_if_idle()
    with pytest.raises(ol.RunCancelled):
        await engine.result(handle.run)
    assert (await stage.events(engine, handle.run))[-1].cleanup == "expired"


# --- children


def parents(child_seconds: float = 0.05) -> Any:
    @ol.node
    async def slow_undo() -> None:
        await asyncio.sleep(child_seconds)

    @ol.workflow
    async def cleaning_child() -> None:
        try:
            await cleanup_endless("child")
        finally:
            await slow_undo()

    return cleaning_child


async def at_work(stage: Any, engine: Any, parent: str) -> str:
    started = await stage.until(engine, parent, e.ChildStarted)
    while await engine._store.head(started.event.child) is None:
        await asyncio.sleep(0.002)
    await stage.until(engine, started.event.child, e.NodeStarted)
    return started.event.child


async def test_a_cancelled_parent_cleans_up_after_its_child_has(stage: Any) -> None:
    child = parents()

    @ol.workflow
    async def flow() -> None:
        try:
            await child()
        finally:
            await undo()

    engine = await stage.engine()
    handle = await engine.start(flow)
    name = await at_work(stage, engine, handle.run)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    theirs = await stage.events(engine, name)
    assert completed(theirs) == ["slow_undo"]
    log = await stage.events(engine, handle.run)
    place = {type(event): at for at, event in enumerate(log)}
    assert place[e.CleanupStarted] < place[e.ChildEnded] < place[e.NodeStarted] < place[e.RunCancelled]
    for run in (handle.run, name):
        assert await stage.is_sound(engine, run)


async def test_a_child_that_loses_a_race_cleans_up(stage: Any) -> None:
    child = parents()

    @ol.workflow
    async def flow() -> int:
        won = await ol.race(child(), ol.ask("Stop?"))
        return won.index

    engine = await stage.engine()
    handle = await engine.start(flow)
    name = await at_work(stage, engine, handle.run)
    await engine.answer(handle.run, "yes")
    assert await handle.result() == 1
    with pytest.raises(ol.RunCancelled):
        await engine.result(name)
    assert completed(await stage.events(engine, name)) == ["slow_undo"]


async def test_to_wait_for_a_child_after_cancelling_it_waits_for_its_end(stage: Any) -> None:
    child = parents()

    @ol.workflow
    async def flow() -> str:
        task = asyncio.create_task(child())
        await ol.ask("Stop?")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return await undo("after")

    engine = await stage.engine()
    handle = await engine.start(flow)
    name = await at_work(stage, engine, handle.run)
    await engine.answer(handle.run, "yes")
    assert await handle.result() == "after"
    assert completed(await stage.events(engine, name)) == ["slow_undo"]
    log = await stage.events(engine, handle.run)
    place = {type(event): at for at, event in enumerate(log)}
    assert place[e.ChildEnded] < place[e.NodeStarted]
    assert await stage.is_sound(engine, handle.run)


async def test_the_wait_for_a_cancelled_child_goes_on_after_a_crash(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node
    async def slow_undo() -> None:
        await gate.wait()

    @ol.workflow
    async def child() -> None:
        try:
            await cleanup_endless("child")
        finally:
            await slow_undo()

    @ol.workflow
    async def flow() -> str:
        task = asyncio.create_task(child())
        await ol.ask("Stop?")
        task.cancel()
        await asyncio.wait([task])
        return await undo("after" if task.cancelled() else "before")

    engine = await stage.engine()
    handle = await engine.start(flow)
    name = await at_work(stage, engine, handle.run)
    await engine.answer(handle.run, "yes")
    await stage.until(engine, name, lambda event: getattr(event, "node", "") == "slow_undo")
    await stage.crash(engine)
    gate.set()
    engine = await stage.engine()
    assert await engine.result(handle.run) == "after"
    assert completed(await stage.events(engine, name)) == ["slow_undo"]


async def test_a_parent_without_clean_up_and_its_children_end_without_a_worker(stage: Any) -> None:
    @ol.workflow
    async def child() -> None:
        await ol.ask("child?")

    @ol.workflow
    async def flow() -> None:
        await child()

    engine = await stage.engine()
    handle = await engine.start(flow)
    started = await stage.until(engine, handle.run, e.ChildStarted)
    while await engine._store.head(started.event.child) is None:
        await asyncio.sleep(0.002)
    await stage.until(engine, started.event.child, asked)
    await stage.close(engine)
    desk = await stage.engine(worker=False)
    await desk.cancel(handle.run)
    assert [(await desk.get(run)).status for run in (handle.run, started.event.child)] == ["cancelled", "cancelled"]
    assert await stage.is_sound(desk, handle.run)


async def test_the_end_of_a_parent_does_not_stop_the_clean_up_of_its_child(stage: Any) -> None:
    child = parents(0.5)

    @ol.workflow(cleanup=0.1)
    async def flow() -> None:
        await child()

    engine = await stage.engine()
    handle = await engine.start(flow)
    name = await at_work(stage, engine, handle.run)
    await handle.cancel()
    with pytest.raises(ol.RunCancelled):
        await handle.result()
    with pytest.raises(ol.RunCancelled):
        await engine.result(name)
    endings = [event for event in await stage.events(engine, handle.run) if isinstance(event, e.RunCancelled)]
    assert [ending.cleanup for ending in endings] == ["expired"]
    assert completed(await stage.events(engine, name)) == ["slow_undo"]


async def test_a_clean_up_that_was_held_has_its_time_again_when_a_person_has_it_go_on(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node(repeatable=False)
    async def refunding() -> None:
        await gate.wait()

    @ol.workflow(cleanup=2)
    async def flow() -> None:
        try:
            await cleanup_endless()
        finally:
            await refunding()
            await undo()

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.NodeStarted)
    await handle.cancel()
    started = await stage.until(engine, handle.run, e.CleanupStarted)
    await stage.until(engine, handle.run, lambda event: getattr(event, "node", "") == "refunding")
    await stage.crash(engine)
    engine = await stage.engine()
    await stage.until(engine, handle.run, e.RunFailed)
    assert (await engine.get(handle.run)).held
    while engine._ledger.clock() < started.event.due:
        await asyncio.sleep(0.05)
    gate.set()
    await engine.resume(handle.run)
    with pytest.raises(ol.RunCancelled):
        await engine.result(handle.run)
    log = await stage.events(engine, handle.run)
    assert completed(log) == ["refunding", "undo"]
    assert log[-1].cleanup == "completed"
    assert [event.extended for event in log if isinstance(event, e.CleanupStarted)] == [False, True]
    assert await stage.is_sound(engine, handle.run)
