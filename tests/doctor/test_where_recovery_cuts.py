"""What a recovery leaves behind: never an accepted answer, an open child, or what a person asked for (P7)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from outlast.functions import registry
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle import branch_plan
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.status import RunStatus

RUN = RunId("ill")
RUNNING = {"status": RunStatus.RUNNING, "waiting": 0, "waits": ()}
COMPLETED = {"status": RunStatus.COMPLETED, "waiting": 0, "waits": ()}
WAITING = {"status": RunStatus.WAITING}


async def seen(engine: Any, run: str, is_it: Any) -> Any:
    async with aclosing(engine.watch(RunId(run))) as entries:
        async for entry in entries:
            if is_it(entry.event):
                return entry.event
    raise AssertionError("the run ended without it")


async def open_questions(engine: Any, run: str) -> list[str]:
    return [wait.id for wait in (await engine.get(RunId(run))).waits if wait.kind == "interaction"]


async def until(engine: Any, run: str, *questions: str) -> None:
    while sorted(await open_questions(engine, run)) != sorted(questions):
        await asyncio.sleep(0.005)


def asked_twice(ward: Any) -> list[str]:
    """The questions that were asked after they had been answered."""
    answered: set[str] = set()
    twice = []
    for entry in ward.events(RUN):
        if isinstance(entry.event, e.InteractionAnswered):
            answered.add(entry.event.interaction)
        elif isinstance(entry.event, e.InteractionRequested) and entry.event.interaction in answered:
            twice.append(entry.event.interaction)
    return twice


@pytest.mark.parametrize(("said", "code"), [(RUNNING, "A2"), (COMPLETED, "A3r")])
@pytest.mark.parametrize("first", ["colour", "size"])
def test_of_two_questions_the_answered_one_is_not_asked_again_after_a_recovery(
    ward: Any, said: Any, code: str, first: str
) -> None:
    other = "size" if first == "colour" else "colour"

    async def fall_ill() -> None:
        async with ward.doomed() as engine:
            await engine.start(ward.flows.doctor_two_questions.options(id=RUN), "lamp")
            await until(engine, RUN, "ask[colour]", "ask[size]")
            await engine.answer(RUN, "red", interaction=f"ask[{first}]")
            await seen(engine, RUN, lambda event: isinstance(event, e.GuestEventsRead))

    async def go_on() -> Any:
        async with ward.engine() as engine:
            await until(engine, RUN, f"ask[{other}]")
            await engine.answer(RUN, "big", interaction=f"ask[{other}]")
            return await engine.result(RUN)

    ward.do(fall_ill())
    ward.summary(RUN, **said)
    assert [finding.code for finding in ward.recover(RUN)] == [code]
    assert ward.is_sound(RUN)
    assert ward.do(go_on()) == ["lamp fetched", *(("red", "big") if first == "colour" else ("big", "red"))]
    assert asked_twice(ward) == []
    assert ward.is_sound(RUN)


def test_an_accepted_answer_that_is_the_last_word_is_not_cut_off(ward: Any) -> None:
    ward.do(ward.left_after(ward.flows.doctor_asking, e.GuestEventsRead, run=RUN))
    ward.summary(RUN, **COMPLETED)
    assert [finding.code for finding in ward.recover(RUN)] == ["A3r"]
    assert ward.do(ward.complete(RUN)) == "lamp fetched (True) packed"
    assert asked_twice(ward) == []


def test_resume_recovers_with_the_answers_that_were_accepted(ward: Any) -> None:
    ward.do(ward.left_after(ward.flows.doctor_asking, e.GuestEventsRead, run=RUN))
    ward.summary(RUN, **COMPLETED)

    async def resume() -> None:
        async with ward.desk() as desk:
            await desk.resume(RUN)

    ward.do(resume())
    assert ward.do(ward.complete(RUN)) == "lamp fetched (True) packed"
    assert asked_twice(ward) == []


def test_a_failed_node_that_must_not_be_repeated_is_not_cut_off(ward: Any) -> None:
    """The failure stands: to cut before it would do the node again without a person's word."""
    ward.do(ward.left_after(ward.flows.doctor_unpaid, e.InteractionRequested, run=RUN, answer="cash"))
    ward.did.clear()
    ward.summary(RUN, **RUNNING)
    assert [finding.code for finding in ward.recover(RUN)] == ["A2"]

    async def go_on() -> Any:
        async with ward.engine() as engine:
            await until(engine, RUN, "ask")
            await engine.answer(RUN, "cash")
            return await engine.result(RUN)

    assert ward.do(go_on()) == "cash"
    assert ward.did == []


@pytest.mark.parametrize("ends", ["while the parent is ill", "after the parent went on"])
def test_a_recovery_keeps_the_open_child(ward: Any, ends: str) -> None:
    child = ward.do(left_with_a_child(ward))
    if ends == "while the parent is ill":
        ward.do(child_alone(ward, child))
    ward.summary(RUN, **COMPLETED)
    assert [finding.code for finding in ward.recover(RUN)] == ["A3r"]
    assert ward.is_sound(RUN)
    if ends == "after the parent went on":
        assert [wait.id for wait in ward.do(waits_of(ward)) if wait.kind == "child"] == [child]
        ward.do(answered(ward, child))
    assert ward.do(ward.complete(RUN)) == "lamp fetched, blue shipped"
    assert [entry.event.child for entry in ward.events(RUN) if isinstance(entry.event, e.ChildStarted)] == [child]
    assert ward.is_sound(RUN)


async def left_with_a_child(ward: Any) -> RunId:
    async with ward.doomed() as engine:
        await engine.start(ward.flows.doctor_parent.options(id=RUN), "lamp")
        child = (await seen(engine, RUN, lambda event: isinstance(event, e.ChildStarted))).child
        while (await engine._store.head(child)) is None:
            await asyncio.sleep(0.002)
        await until(engine, child, "ask[which]")
    return RunId(child)


async def answered(ward: Any, child: RunId) -> None:
    async with ward.engine() as engine:
        await engine.answer(child, "blue")
        await engine.result(child)


async def waits_of(ward: Any) -> Any:
    async with ward.desk() as desk:
        return (await desk.get(RUN)).waits


@pytest.mark.parametrize("ends", ["before the parent asks for it again", "after"])
def test_a_recovery_that_is_cut_before_an_open_child_adopts_it(ward: Any, ends: str) -> None:
    """As a jump does that cannot be met, when the child was started after it was asked for (D2)."""
    child = ward.do(left_with_a_child(ward))

    async def cut() -> None:
        async with ward.desk() as desk, desk._claims.owning(RUN, "jump", ready=True) as writer:
            log = [entry async for entry in desk.events(RUN)]
            (done,) = [entry.seq for entry in log if isinstance(entry.event, e.NodeCompleted)]
            await writer.open_branch(BranchPlan(cutoff=done, cause="recovery", code="D2", evidence=(done,)))

    ward.do(cut())
    assert ward.is_sound(RUN)
    if ends == "after":

        async def adopted() -> None:
            async with ward.engine() as engine:
                started = lambda event: isinstance(event, e.ChildStarted)  # noqa: E731
                count = 0
                async with aclosing(engine.watch(RUN)) as entries:
                    async for entry in entries:
                        count += started(entry.event)
                        if count == 2:
                            break
                assert [wait.id for wait in (await engine.get(RUN)).waits if wait.kind == "child"] == [child]
                await engine.answer(child, "blue")
                await engine.result(RUN)

        ward.do(adopted())
    else:
        ward.do(child_alone(ward, child))
    assert ward.do(ward.complete(RUN)) == "lamp fetched, blue shipped"
    assert {entry.event.child for entry in ward.events(RUN) if isinstance(entry.event, e.ChildStarted)} == {child}
    assert ward.is_sound(RUN)


async def child_alone(ward: Any, child: RunId) -> None:
    """The child is answered and ends in a process that does not know the code of its parent."""
    parent = registry._workflows.pop("doctor_parent")
    try:
        async with ward.engine() as engine:
            await engine.answer(child, "blue")
            while (await engine.get(child)).status != RunStatus.COMPLETED:
                await asyncio.sleep(0.005)
    finally:
        registry._workflows["doctor_parent"] = parent


def test_an_acknowledged_edit_that_has_not_begun_survives_a_repair(ward: Any) -> None:
    ward.do(ward.left_after(ward.flows.doctor_numbered, e.NodeCompleted, run=RUN, args=()))

    async def edit() -> None:
        async with ward.desk() as desk, desk._claims.owning(RUN, "jump", ready=True) as writer:
            log = [entry async for entry in desk.events(RUN)]
            await writer.open_branch(
                branch_plan.again(log, "numbered", inputs=e.Value(b'{"i":7}'), cause="jump", by="ann")
            )

    ward.do(edit())
    ward.did.clear()
    ward.summary(RUN, **WAITING)
    assert [finding.code for finding in ward.recover(RUN)] == ["A1"]
    assert ward.do(ward.complete(RUN)) == 8
    assert ward.did == ["numbered 7"]


def test_a_branch_that_a_person_opened_is_not_left_by_a_repair(ward: Any) -> None:
    ward.do(ward.left_after(ward.flows.doctor_errand, lambda event: getattr(event, "node", "") == "pack", run=RUN))

    async def go_back() -> None:
        async with ward.desk() as desk:
            await desk.jump(RUN, "pack", by="ann")

    ward.do(go_back())
    ward.summary(RUN, **WAITING)
    ward.did.clear()
    assert [finding.code for finding in ward.recover(RUN)] == ["A1"]
    assert ward.do(ward.complete(RUN)) == "lamp fetched packed shipped"
    assert ward.did == ["pack", "ship"]
