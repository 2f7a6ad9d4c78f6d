"""A run is held inside a node that must not be repeated by itself: a person who has checked says what came of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol
from outlast.errors import NotAllowed
from outlast.history import events as e


@ol.node(repeatable=False)
async def decided_payment(amount: int) -> str:
    if ol.context().attempt == 1:
        await asyncio.Event().wait()
    return f"paid {amount}"


@ol.workflow
async def decided() -> str:
    return await decided_payment(7)


async def held_inside(stage: Any) -> tuple[ol.Engine, str]:
    """A run whose owner died while it paid, and the engine that holds it."""
    engine = await stage.engine()
    handle = await engine.start(decided)
    await stage.until(engine, handle.run, e.NodeStarted)
    await stage.crash(engine)
    engine = await stage.engine()
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.RunFailed) and event.held)
    return engine, handle.run


@pytest.fixture(autouse=True)
def _known(stage: Any) -> None:
    stage.know({"decided": decided})


async def test_a_node_that_was_done_is_given_its_result_and_is_not_done_again(stage: Any) -> None:
    engine, run = await held_inside(stage)
    handle = await engine.jump(run, "decided_payment", output="paid by hand", by="ann")
    assert await handle.result() == "paid by hand"
    told = await stage.events(engine, run)
    assert sum(isinstance(event, e.NodeStarted) for event in told) == 1
    assert [event.by for event in told if isinstance(event, e.NodeCompleted)] == ["ann"]
    assert await stage.is_sound(engine, run)


@pytest.mark.parametrize("named", [True, False])
async def test_a_node_that_was_not_done_is_told_to_do_it_again(stage: Any, named: bool) -> None:
    engine, run = await held_inside(stage)
    handle = await engine.retry(run, "decided_payment" if named else None)
    assert await handle.result() == "paid 7"
    assert await stage.is_sound(engine, run)


async def test_explain_and_the_doctor_say_how_to_decide(stage: Any) -> None:
    engine, run = await held_inside(stage)
    told = await engine.explain(run)
    assert [(each.verb, each.arguments) for each in told.actions][:3] == [
        ("jump", ("--to", "decided_payment", "--edit", "output=VALUE")),
        ("resume", ()),
        ("cancel", ()),
    ]
    text = " ".join([*told.state, *(each.text for each in told.timeline.entries)])
    assert "No result of decided_payment was recorded: only a person can find out whether it was done." in text
    assert "Running" not in text
    assert "Interrupted, to be repeated" not in text
    diagnosis = await engine.diagnose(run)
    assert not diagnosis.is_sound
    actions = "\n".join(diagnosis.findings[0].actions)
    assert f"outlast jump {run} --to decided_payment --edit output=VALUE" in actions
    assert f"outlast retry {run} decided_payment" in actions


async def test_a_node_that_is_under_way_is_given_no_result(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(decided)
    await stage.until(engine, handle.run, e.NodeStarted)
    with pytest.raises(NotAllowed, match="is under way"):
        await engine.jump(handle.run, "decided_payment", output="paid by hand")


async def test_the_doctor_names_the_difference_of_a_run_whose_code_diverged_and_does_not_recommend_to_resume_it(
    stage: Any,
) -> None:
    @ol.workflow(name="diverged_by_hand")
    async def before() -> str:
        await ol.ask("Go on?")
        return "before"

    engine = await stage.engine()
    handle = await engine.start(before)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.crash(engine)
    stage.forget("diverged_by_hand")

    @ol.workflow(name="diverged_by_hand")
    async def after() -> str:
        await ol.sleep(1000)
        return "after"

    engine = await stage.engine()
    await engine.answer(handle.run, "yes")
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.RunFailed) and event.held)
    diagnosis = await engine.diagnose(handle.run)
    found = next(each for each in diagnosis.findings if each.standing == "reported")
    assert "the log has the question 'Go on?'" in found.sentence
    assert "the code asked for timer" in found.sentence
    assert [action.split()[1] for action in found.actions if action.startswith("outlast")] == [
        "versions",
        "migrate",
        "cancel",
    ]
    assert "test_deciding_by_hand.py:" in found.sentence
    assert any("restore the old code" in action for action in found.actions)
    told = await engine.explain(handle.run)
    assert [each.verb for each in told.actions][:2] == ["diff", "migrate"]
    now = " ".join(told.state)
    assert "the log has the question 'Go on?'" in now
    assert "test_deciding_by_hand.py:" in now
