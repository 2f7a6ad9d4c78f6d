"""A dry run lists the events that the verb then appends, and the actions of a run come with theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.errors import NotAllowed, OutlastError, RunGone
from outlast.history import events as e
from outlast.views.actions import planned
from outlast.views.detail import read_detail

is_broken = True


@ol.node
async def previewed_node(amount: int) -> int:
    if is_broken:
        raise ConnectionError("no answer")
    return amount


@ol.workflow
async def previewed_failing() -> int:
    return await previewed_node(7)


@ol.workflow
async def previewed_asking() -> str:
    await previewed_step(1)
    return await ol.ask("Which way?")


@ol.node
async def previewed_step(amount: int) -> int:
    return amount


@ol.node
async def previewed_forever() -> None:
    await asyncio.Event().wait()


@ol.workflow
async def previewed_running() -> None:
    await previewed_forever()


@pytest.fixture(autouse=True)
def _known(stage: Any) -> None:
    stage.know({each.name: each for each in (previewed_failing, previewed_asking, previewed_running)})


async def asking(stage: Any) -> tuple[ol.Engine, str]:
    """A waiting run, and an engine without a worker."""
    engine = await stage.engine()
    handle = await engine.start(previewed_asking)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.close(engine)
    return await stage.engine(worker=False), handle.run


async def failed(stage: Any) -> tuple[ol.Engine, str]:
    global is_broken
    is_broken = True
    engine = await stage.engine()
    handle = await engine.start(previewed_failing)
    with pytest.raises(ConnectionError):
        await handle.result()
    await stage.close(engine)
    is_broken = False
    return await stage.engine(worker=False), handle.run


async def paused(stage: Any) -> tuple[ol.Engine, str]:
    engine, run = await asking(stage)
    await engine.pause(run)
    return engine, run


async def turned_back(stage: Any) -> tuple[ol.Engine, str]:
    engine, run = await asking(stage)
    await engine.jump(run, "previewed_step")
    return engine, run


async def interrupted(stage: Any) -> tuple[ol.Engine, str]:
    engine = await stage.engine()
    handle = await engine.start(previewed_running)
    await stage.until(engine, handle.run, e.NodeStarted)
    await stage.crash(engine)
    return await stage.engine(worker=False), handle.run


@pytest.mark.parametrize(
    ("before", "action", "options"),
    [
        (asking, "cancel", {"reason": "enough", "force": True}),
        (asking, "pause", {"reason": "lunch"}),
        (asking, "jump", {"to": "previewed_step", "inputs": {"amount": 3}, "reason": "too small"}),
        (asking, "jump", {"to": "previewed_step", "output": 4}),
        (asking, "rewind", {"nodes": 1}),
        (paused, "resume", {}),
        (failed, "resume", {}),
        (failed, "retry", {"node": "previewed_node", "feedback": "again"}),
        (interrupted, "resume", {}),
        (turned_back, "activate", {"branch": 0}),
    ],
)
async def test_a_dry_run_lists_the_events_that_the_action_appends(
    stage: Any, before: Any, action: str, options: dict[str, Any]
) -> None:
    engine, run = await before(stage)
    log = [entry async for entry in engine.events(run, everything=True)]
    plan = await planned(engine, run, action, by="ines", **options)
    assert [entry async for entry in engine.events(run, everything=True)] == log
    await getattr(engine, action)(run, *_places(options), by="ines", **_others(options))
    appended = [entry.event async for entry in engine.events(run, everything=True, after=log[-1].seq)]
    assert [each.type for each in plan.would_append] == [type(event).__name__ for event in appended]
    for each, event in zip(plan.would_append, appended, strict=True):
        for field in ("by", "reason", "cause", "node", "attempt", "epoch", "cutoff", "branch", "previous", "seen"):
            if field in each.fields and not (isinstance(event, e.RunTakenOver) and field in ("cause", "seen")):
                assert each.fields[field] == getattr(event, field), (each.type, field)
    assert plan.effects == ()


def _places(options: dict[str, Any]) -> list[Any]:
    return [options[name] for name in ("to", "node", "nodes", "branch") if name in options]


def _others(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("to", "node", "nodes", "branch")}


@pytest.mark.parametrize(
    ("action", "options"), [("resume", {}), ("retry", {"node": "nobody"}), ("jump", {"to": "nobody"}), ("cancel", {})]
)
async def test_a_dry_run_refuses_what_the_action_refuses(stage: Any, action: str, options: dict[str, Any]) -> None:
    engine, run = await asking(stage)
    if action == "cancel":
        await engine.cancel(run, force=True)
    with pytest.raises(OutlastError) as refusal:
        await planned(engine, run, action, **options)
    with pytest.raises((NotAllowed, RunGone)) as same:
        await getattr(engine, action)(run, *_places(options))
    assert str(refusal.value).split(":")[0] == str(same.value).split(":")[0]


@pytest.mark.parametrize(("action", "asked"), [("pause", e.PauseRequested), ("cancel", e.CancelRequested)])
async def test_a_run_that_a_live_worker_holds_gets_a_request(stage: Any, action: str, asked: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(previewed_running)
    await stage.until(engine, handle.run, e.NodeStarted)
    plan = await planned(engine, handle.run, action)
    assert [each.type for each in plan.would_append] == [asked.__name__]
    assert len(plan.effects) == 1
    with pytest.raises(NotAllowed, match="there is nothing to resume: a live worker holds it"):
        await planned(engine, handle.run, "resume")
    view = await read_detail(engine, handle.run)
    assert [each.action for each in view.actions if each.useful] == []
    assert {"pause", "cancel"} <= {each.action for each in view.actions}
    assert view.known_by == (engine.diagnostics.worker_id,)


async def test_the_useful_actions_of_a_run_come_with_their_events(stage: Any) -> None:
    engine, run = await failed(stage)
    view = await read_detail(engine, run)
    first = view.actions[0]
    assert (first.action, first.useful) == ("resume", True)
    assert [each.type for each in first.appends or ()] == ["RunTakenOver", "RunStarted", "NodeScheduled"]
    assert view.known_by == ()
    assert "append RunTakenOver" in str(view)


async def test_a_takeover_records_when_the_lost_worker_was_last_heard_of(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(previewed_running)
    started = await stage.until(engine, handle.run, e.NodeStarted)
    (lost,) = [each for each in await engine.workers() if each.is_live]
    await stage.crash(engine)
    engine = await stage.engine()
    taken = await stage.until(
        engine, handle.run, lambda event: isinstance(event, e.RunTakenOver) and event.cause != "claimed"
    )
    assert taken.event.previous == lost.worker
    assert lost.seen <= taken.event.seen <= taken.time
    assert started.time - taken.event.seen < 60_000_000


async def test_a_wait_keeps_its_time_when_another_worker_takes_the_run_over(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(previewed_asking)
    asked = await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.crash(engine)
    engine = await stage.engine()
    view = await read_detail(engine, handle.run)
    assert view.waits[0].since == view.questions[0].since
    assert view.waits[0].since is not None
    (wait,) = (await engine.get(handle.run)).waits
    assert wait.since == asked.time
