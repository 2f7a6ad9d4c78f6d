"""What people ask of runs in odd moments: when their owner has just died, when others ask at the same time, when a run is
about to stop. Whatever was asked is obeyed by whoever owns the run next, or is refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.engine import completion
from outlast.history import events as e


@ol.node
async def endless_request() -> None:
    await asyncio.Event().wait()


@ol.node(repeatable=False)
async def paying_request() -> None:
    await asyncio.Event().wait()


async def left_with(stage: Any, workflow: Any, *requests: e.AnyEvent, after: type = e.NodeStarted) -> str:
    """A run whose owner dies before it hears of these requests."""
    engine = await stage.engine()
    handle = await engine.start(workflow)
    await stage.until(engine, handle.run, after)
    other = await stage.engine(worker=False)
    stage.faults(engine).is_dead = True
    for request in requests:
        await other._ledger.deliver(handle.run, [request])
    await stage.crash(engine)
    await stage.close(other)
    run: str = handle.run
    return run


# --- the owner has died


async def test_who_cancelled_a_run_and_why_is_told_though_another_worker_ends_it(stage: Any) -> None:
    @ol.workflow
    async def wait() -> None:
        await endless_request()

    run = await left_with(stage, wait, e.CancelRequested(by="ann", reason="too dear"))
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled, match="too dear"):
        await (await engine.handle(run)).result()
    assert (await stage.events(engine, run))[-1] == e.RunCancelled(by="ann", reason="too dear")
    assert (await engine.get(run)).reason == "too dear"


async def test_who_paused_a_run_and_why_is_told_though_another_worker_stops_it(stage: Any) -> None:
    @ol.workflow
    async def wait() -> None:
        await endless_request()

    run = await left_with(stage, wait, e.PauseRequested(by="ann", reason="lunch"))
    engine = await stage.engine()
    paused = await stage.until(engine, run, e.RunPaused)
    assert paused.event == e.RunPaused(by="ann", reason="lunch")


@pytest.mark.parametrize("node", [endless_request, paying_request])
@pytest.mark.parametrize("on_restart", ["resume", "hold"])
async def test_a_run_that_is_to_end_ends_though_an_interruption_would_hold_it(
    stage: Any, node: Any, on_restart: Any
) -> None:
    @ol.workflow(on_restart=on_restart)
    async def wait() -> None:
        await node()

    run = await left_with(stage, wait, e.CancelRequested(by="ann", reason="too dear"))
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled, match="too dear"):
        await (await engine.handle(run)).result()
    told = await stage.events(engine, run)
    assert [type(event) for event in told[-2:]] == [e.NodeFailed, e.RunCancelled]
    assert sum(isinstance(event, e.NodeStarted) for event in told) == 1  # nothing of it began again
    assert await stage.is_sound(engine, run)


async def test_a_run_that_is_to_end_ends_though_its_code_has_changed(stage: Any) -> None:
    @ol.workflow(name="changing_request")
    async def before() -> None:
        await endless_request()

    run = await left_with(stage, before, e.CancelRequested(reason="too dear"))
    stage.forget("changing_request")

    @ol.workflow(name="changing_request")
    async def after() -> None:
        await ol.sleep(1000)

    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled, match="too dear"):
        await (await engine.handle(run)).result()
    assert await stage.is_sound(engine, run)


async def test_a_cancellation_that_comes_while_a_run_is_being_held_ends_it(stage: Any) -> None:
    @ol.workflow
    async def wait() -> int:
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    handle = await engine.start(wait)
    await stage.until(engine, handle.run, e.InteractionRequested)
    driver = engine._worker.drivers[handle.run]
    append = driver.writer.append

    async def late(events: list[e.AnyEvent], **named: Any) -> int:
        if isinstance(events[-1], e.RunFailed):
            driver.writer.append = append
            await handle.cancel(reason="after all")
        return await append(events, **named)

    driver.writer.append = late
    await driver.hold(e.Failure("Held", "for a person"))
    ended = await stage.until(engine, handle.run, e.RunCancelled)
    assert ended.event.reason == "after all"
    assert await stage.is_sound(engine, handle.run)


async def test_a_request_that_comes_as_a_run_is_given_back_is_obeyed(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many runs in memory, one that only waits is given back with the append that says so."""

    @ol.workflow
    async def wait() -> int:
        await ol.sleep(0.01)
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    handle = await engine.start(wait)
    driver = engine._worker.drivers[handle.run]
    append = driver.writer.append

    async def late(events: list[e.AnyEvent], **named: Any) -> int:
        if isinstance(events[-1], e.InteractionRequested) and driver.writer.append is not append:
            driver.writer.append = append
            await handle.cancel(reason="after all")
        return await append(events, **named)

    driver.writer.append = late
    monkeypatch.setattr(type(engine._worker), "is_crowded", True)
    ended = await stage.until(engine, handle.run, e.RunCancelled)
    assert ended.event.reason == "after all"
    assert await stage.is_sound(engine, handle.run)


# --- others ask at the same time


def amid(desk: ol.Engine, what: Any, *, after: type | None = None) -> None:
    """Do this when the desk has come to own a run, or has written an event of that type there, and not yet let go."""
    ledger = desk._ledger
    take_over = ledger.take_over

    async def taken(*args: Any, **named: Any) -> Any:
        ledger.take_over = take_over
        writer = await take_over(*args, **named)
        if after is None:
            await what()
            return writer
        append = writer.append

        async def said(events: Any, **more: Any) -> int:
            seq: int = await append(events, **more)
            if any(isinstance(event, after) for event in events):
                await what()
            return seq

        writer.append = said
        return writer

    ledger.take_over = taken


async def asking(stage: Any) -> tuple[ol.Engine, ol.Engine, str]:
    """Two desks without a worker, and a run that asks and that nobody advances."""

    @ol.workflow
    async def ask() -> int:
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    handle = await engine.start(ask)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.close(engine)
    return await stage.engine(worker=False), await stage.engine(worker=False), handle.run


async def test_of_two_who_cancel_a_run_at_once_nobody_is_refused_and_it_is_over(stage: Any) -> None:
    one, other, run = await asking(stage)
    amid(one, lambda: other.cancel(run, by="bob"))
    await one.cancel(run, by="ann")
    assert (await stage.events(one, run))[-1] == e.RunCancelled(by="ann")
    assert await stage.is_sound(one, run)


@pytest.mark.parametrize("verb", ["pause", "jump", "resume"])
async def test_who_asks_for_something_else_while_a_run_is_cancelled_is_told_and_it_is_over(
    stage: Any, verb: str
) -> None:
    one, other, run = await asking(stage)
    if verb == "resume":
        await one.pause(run)
    amid(one, lambda: other.cancel(run, by="bob", reason="too dear"))
    with pytest.raises(ol.RunGone, match="was cancelled by bob before that: too dear"):
        await (one.jump(run, "start") if verb == "jump" else getattr(one, verb)(run))
    assert (await stage.events(one, run))[-1] == e.RunCancelled(by="bob", reason="too dear")
    assert await stage.is_sound(one, run)


async def test_a_run_that_is_cancelled_when_it_has_just_been_paused_is_over(stage: Any) -> None:
    one, other, run = await asking(stage)
    amid(one, lambda: other.cancel(run, by="bob"), after=e.RunPaused)
    await one.pause(run)
    assert (await one.get(run)).status == "cancelled"
    assert await stage.is_sound(one, run)


async def test_of_two_who_pause_a_run_at_once_nobody_is_refused_and_it_is_paused(stage: Any) -> None:
    one, other, run = await asking(stage)
    amid(one, lambda: other.pause(run, by="bob"))
    await one.pause(run, by="ann")
    assert (await one.get(run)).status == "paused"
    assert await stage.is_sound(one, run)


async def test_who_has_a_run_go_back_while_it_is_paused_finds_it_paused_on_the_new_branch(stage: Any) -> None:
    one, other, run = await asking(stage)
    amid(one, lambda: other.pause(run, by="bob", reason="lunch"))
    await one.jump(run, "start")
    assert (await one.get(run)).status == "paused"
    assert (await stage.events(one, run))[-1] == e.RunPaused(by="bob", reason="lunch")
    assert await one.diagnostics.current_branch(run) == 1
    assert await stage.is_sound(one, run)


@pytest.mark.parametrize("verb", ["jump", "resume", "pause"])
async def test_a_run_whose_owner_died_before_it_was_cancelled_is_not_set_going_again(stage: Any, verb: str) -> None:
    @ol.workflow
    async def wait() -> None:
        await endless_request()

    run = await left_with(stage, wait, e.CancelRequested(by="bob"), e.JumpRequested(target=1, branch=1))
    desk = await stage.engine(worker=False)
    with pytest.raises(ol.RunGone, match="was cancelled by bob before that"):
        await (desk.jump(run, "start") if verb == "jump" else getattr(desk, verb)(run))
    assert (await desk.get(run)).status == "cancelled"
    assert await desk.diagnostics.current_branch(run) == 0


async def test_the_doctor_goes_back_in_no_run_that_is_to_end(stage: Any) -> None:
    @ol.workflow
    async def wait() -> None:
        await endless_request()

    run = await left_with(stage, wait, e.JumpRequested(target=1, branch=1), e.CancelRequested(by="bob"))
    desk = await stage.engine(worker=False)
    assert "D2" not in [finding.code for finding in (await desk.diagnose(run)).findings]
    await desk.recover(run)
    engine = await stage.engine()
    with pytest.raises(ol.RunCancelled):
        await (await engine.handle(run)).result()
    assert await engine.diagnostics.current_branch(run) == 0


async def test_of_two_who_have_a_run_go_back_at_once_one_is_told_and_the_other_has_it(stage: Any) -> None:
    one, other, run = await asking(stage)
    jumps: list[asyncio.Task[Any]] = []

    async def jump() -> None:
        jumps.append(asyncio.create_task(other.jump(run, "start", by="bob")))
        await stage.until(one, run, e.JumpRequested)

    amid(one, jump)
    with pytest.raises(ol.RunGone, match=r"another caller opened a branch of run .* at the same time"):
        await one.jump(run, "start", by="ann")
    await jumps[0]
    told = await stage.events(one, run)
    assert [event.by for event in told if isinstance(event, e.BranchOpened)] == ["bob"]
    assert await stage.is_sound(one, run)


# --- runs that go on as others


async def chained(stage: Any) -> tuple[ol.Engine, str, str]:
    """An engine, the first run of a chain and the last, which asks."""

    @ol.workflow
    async def chain(number: int) -> int:
        if number:
            await ol.continue_as_new(number - 1)
        return await ol.ask("How many?", int)

    engine = await stage.engine()
    handle = await engine.start(chain, 2)
    while not (await engine.get(last := await engine.diagnostics.continued_as(handle.run))).waits:
        await asyncio.sleep(0.001)
    assert last != handle.run
    return engine, handle.run, last


@pytest.mark.parametrize("is_owned", [True, False])
async def test_who_cancels_a_run_that_continued_cancels_what_it_goes_on_as(stage: Any, is_owned: bool) -> None:
    engine, first, last = await chained(stage)
    if not is_owned:
        await stage.close(engine)
    desk = await stage.engine(worker=False)
    assert await desk.cancel(first, by="ann", reason="enough") == last
    with pytest.raises(ol.RunCancelled, match="enough"):
        await desk.result(first)
    assert (await desk.get(first)).status == "completed"
    with pytest.raises(ol.RunGone, match=f"run {first} is over and cannot be cancelled"):
        await desk.cancel(first)


async def test_a_run_that_continued_is_paused_and_resumed_as_what_it_goes_on_as(stage: Any) -> None:
    engine, first, last = await chained(stage)
    assert await engine.pause(first) == last
    await stage.until(engine, last, e.RunPaused)
    assert (await engine.resume(first)).run == last
    assert await engine.answer(first, 7) == last
    assert await engine.result(first) == 7


async def test_who_cancels_a_run_that_has_just_completed_is_told_that_it_is_over(stage: Any) -> None:
    one, _, run = await asking(stage)
    engine = await stage.engine()
    head = one._reader.head

    async def stale(wanted: Any) -> Any:
        one._reader.head = head
        found = await head(wanted)
        await engine.answer(run, 7)
        assert await engine.result(run) == 7
        return found

    one._reader.head = stale
    with pytest.raises(ol.RunGone, match="is over and cannot be cancelled"):
        await one.cancel(run)
    assert await stage.is_sound(one, run)


async def with_child(stage: Any) -> tuple[str, str]:
    """A run that nobody advances, and its child, which asks."""

    @ol.workflow
    async def asking_child() -> int:
        return await ol.ask("How many?", int)

    @ol.workflow
    async def asking_parent() -> int:
        return await asking_child()

    engine = await stage.engine()
    handle = await engine.start(asking_parent)
    started = await stage.until(engine, handle.run, e.ChildStarted)
    while await engine._store.head(started.event.child) is None:
        await asyncio.sleep(0.002)
    await stage.until(engine, started.event.child, e.InteractionRequested)
    await stage.close(engine)
    return handle.run, started.event.child


async def test_an_engine_that_closes_while_it_ends_a_run_asks_its_children_to_end(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, child = await with_child(stage)
    desk = await stage.engine(worker=False)
    await desk._ledger.deliver(run, [e.CancelRequested(by="ann", force=True)])
    cancel, reached, gate = completion.cancel, asyncio.Event(), asyncio.Event()

    async def late(*args: Any, **named: Any) -> Any:
        reached.set()
        await gate.wait()
        return await cancel(*args, **named)

    monkeypatch.setattr(completion, "cancel", late)
    engine = await stage.engine()
    await reached.wait()
    closing = asyncio.create_task(stage.close(engine))
    await asyncio.sleep(0.02)
    gate.set()
    await closing
    assert e.CancelRequested(reason="its parent has ended") in await stage.events(desk, child)


async def test_a_store_that_is_troubled_for_a_moment_keeps_no_child_from_being_cancelled(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, child = await with_child(stage)
    cancel = completion.cancel

    async def troubled(*args: Any, **named: Any) -> Any:
        monkeypatch.setattr(completion, "cancel", cancel)
        raise ol.StoreError("the disk was away")

    monkeypatch.setattr(completion, "cancel", troubled)
    desk = await stage.engine(worker=False)
    await desk.cancel(run)
    assert (await desk.get(child)).status == "cancelled"
