"""What is checked before a run goes on, and runs that must have something for themselves."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from outlast.errors import NotAllowed, NotFound, OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.store import RunFilter

RUN = RunId("ill")
LAMP = "lamp fetched packed shipped"


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


async def _resume(ward: Any, run: RunId = RUN) -> None:
    async with ward.desk() as desk:
        await desk.resume(run)


def test_a_run_that_is_not_there_is_not_found(ward: Any) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        ward.do(_resume(ward, RunId("nowhere")))


ENDS = {
    "completed": e.RunCompleted(),
    "cancelled": e.RunCancelled(),
    "failed": e.RunFailed(error=e.Failure("Rejected", "no", category="rejected"), recoverable=False),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_run_that_cannot_be_resumed_is_refused_with_its_status_and_stays_as_it_is(ward: Any, name: str) -> None:
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("ship"), ENDS[name]))
    events = ward.events(RUN)
    with pytest.raises(NotAllowed, match=name):
        ward.do(_resume(ward))
    assert ward.status(RUN) == name
    told = [entry.event for entry in ward.events(RUN)[len(events) :]]
    assert all(isinstance(event, e.RunTakenOver) for event in told)
    assert ward.is_sound(RUN)


def test_a_run_that_a_live_worker_advances_is_refused_with_its_status(ward: Any) -> None:
    async def whole() -> None:
        ward.flows.SLOW.add("pack")
        async with ward.engine() as engine:
            await engine.start(ward.flows.doctor_errand.options(id=RUN), "lamp")
            while "pack" not in ward.did:
                await asyncio.sleep(0.002)
            before = ward.dump()
            with pytest.raises(NotAllowed, match="running"):
                await _resume(ward)
            with pytest.raises(NotAllowed, match="running"):
                await engine.resume(RUN)
            assert ward.dump() == before

    ward.do(whole())


async def _together(ward: Any, desks: int, tries: int, run: RunId = RUN) -> list[Any]:
    """So many resumes at once, by so many desks."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ward.desk()) for _ in range(desks)]
        work = [clients[number % desks].resume(run) for number in range(tries)]
        return await asyncio.gather(*work, return_exceptions=True)


def test_of_several_resumes_at_once_one_wins_and_the_others_are_refused_or_find_it_going(ward: Any) -> None:
    """P3: it is resumed once. Who comes when that is done, and before a worker has it, has nothing to add."""
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), e.RunPaused()))
    outcomes = ward.do(_together(ward, 8, 8))
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    resumed = [entry for entry in ward.events(RUN) if isinstance(entry.event, e.RunStarted) and entry.event.resumed]
    assert len(resumed) == 1
    assert {type(each) for each in refused} == {NotAllowed}
    assert ward.do(ward.complete(RUN)) == LAMP
    assert ward.is_sound(RUN)


def test_of_several_resumes_at_once_at_one_desk_one_wins_and_the_others_are_refused(memory_ward: Any) -> None:
    """P3: it is a matter of chance, and so it is tried again and again."""
    for number in range(20):
        run = memory_ward.do(
            memory_ward.left_after(
                memory_ward.flows.doctor_errand, completed("pack"), e.RunPaused(), run=f"ill-{number}"
            )
        )
        outcomes = memory_ward.do(_together(memory_ward, 1, 8, run))
        assert {type(each) for each in outcomes if isinstance(each, BaseException)} <= {NotAllowed}


def test_a_run_is_healed_first_and_then_resumed(ward: Any) -> None:
    """The answer shows the state after the recovery."""
    ward.do(ward.killed_in("pack", ward.flows.doctor_errand, "lamp"))
    ward.summary(RUN, status=RunStatus.COMPLETED)
    ward.did.clear()

    async def resumed() -> Any:
        async with ward.engine() as engine:
            return await engine.result(RUN)

    ward.do(_resume(ward))
    assert ward.status(RUN) == "running"
    assert ward.do(resumed()) == LAMP
    assert ward.did == ["pack", "ship"]
    assert ward.is_sound(RUN)


# --- exclusive runs ----------------------------------------------------------------------------------------------------


async def _live(engine: Any) -> list[str]:
    going = (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING)
    return [listed.summary.run for listed in (await engine.list_runs(RunFilter(statuses=going))).items]


def test_what_a_live_run_has_for_itself_is_refused_to_others_who_are_told_which_run_it_is(ward: Any) -> None:
    async def whole() -> None:
        ward.flows.SLOW.add("pack")
        async with ward.engine() as engine:
            await engine.start(ward.flows.doctor_alone.options(id="first"), "lamp")
            with pytest.raises(NotAllowed, match="exclusive key 'van:lamp' is held by live run first"):
                await engine.start(ward.flows.doctor_alone.options(id="second"), "lamp")
            await engine.start(ward.flows.doctor_alone.options(id="other"), "rug")
            assert sorted(await _live(engine)) == ["first", "other"]
            await engine.cancel(RunId("first"))
            ward.flows.SLOW.clear()
            while "first" in await _live(engine):
                await asyncio.sleep(0.002)
            third = await engine.start(ward.flows.doctor_alone.options(id="third"), "lamp")
            assert await third.result() == "lamp packed shipped"

    ward.do(whole())


def test_a_run_is_not_resumed_into_what_another_one_has_for_itself(ward: Any) -> None:
    async def whole() -> None:
        await ward.left_after(ward.flows.doctor_alone, completed("pack"), e.RunPaused(), run="first")
        ward.flows.SLOW.add("pack")
        async with ward.engine() as engine:
            await engine.start(ward.flows.doctor_alone.options(id="second"), "lamp")
            with pytest.raises(NotAllowed, match=r"exclusive key .* is held by live run second"):
                await engine.resume(RunId("first"))
            assert (await engine.get(RunId("first"))).status == "paused"

    ward.do(whole())


def test_a_second_start_of_the_same_exclusive_run_is_answered_with_the_run_there_is(ward: Any) -> None:
    """An idempotent start stays one."""

    async def whole() -> None:
        async with ward.engine() as engine:
            ward.flows.SLOW.add("pack")
            first = await engine.start(ward.flows.doctor_alone.options(id="first"), "lamp")
            again = await engine.start(ward.flows.doctor_alone.options(id="first"), "lamp")
            assert first.run == again.run

    ward.do(whole())


def test_of_many_exclusive_starts_at_once_no_two_are_live(ward: Any) -> None:
    """At least all but one are refused, and what was refused is not left behind."""

    async def whole() -> None:
        ward.flows.SLOW.add("pack")
        async with AsyncExitStack() as stack:
            desks = [await stack.enter_async_context(ward.desk()) for _ in range(8)]
            work = [
                desk.start(ward.flows.doctor_alone.options(id=f"r{number}"), "lamp")
                for number, desk in enumerate(desks)
            ]
            outcomes = await asyncio.gather(*work, return_exceptions=True)
            won = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
            assert len(won) <= 1
            assert {type(each) for each in outcomes if isinstance(each, OutlastError)} == {NotAllowed}
            assert await _live(desks[0]) == [handle.run for handle in won]
            if not won:
                await desks[0].start(ward.flows.doctor_alone.options(id="again"), "lamp")

    ward.do(whole())
