"""A run that is as it should be is never touched (B1, B2, D1, F2, G1), nor is one that a live worker advances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.client.evidence import evidence_of
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.lifecycle.diagnosis import diagnose
from outlast.lifecycle.status import RunStatus

DAY = 24 * 3600 * 1_000_000


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


async def asking(ward: Any, **options: Any) -> RunId:
    run: RunId = await ward.left_after(ward.flows.doctor_asking, e.InteractionRequested, **options)
    return run


async def closed_in_good_order(ward: Any) -> RunId:
    ward.flows.SLOW.add("pack")
    async with ward.engine() as engine:
        handle = await engine.start(ward.flows.doctor_errand.options(id="ill"), "lamp")
        while "pack" not in ward.did:
            await asyncio.sleep(0.002)
    ward.flows.SLOW.clear()
    return RunId(handle.run)


async def held(ward: Any) -> RunId:
    run = await ward.killed_in("pay", ward.flows.doctor_paying, "lamp")
    async with ward.engine() as engine:
        while not (await engine.get(run)).held:
            await asyncio.sleep(0.005)
    return RunId(run)


async def jumped(ward: Any) -> RunId:
    async with ward.engine() as engine:
        handle = await engine.start(ward.flows.doctor_errand.options(id="ill"), "lamp")
        await handle.result()
        for _ in range(2):
            await (await engine.jump(handle.run, 5)).result()
    return RunId("ill")


def after(workflow: str, last: Any, *more: e.AnyEvent) -> Any:
    async def make(ward: Any) -> RunId:
        run: RunId = await ward.left_after(getattr(ward.flows, workflow), last, *more)
        return run

    return make


STANDING = {
    "waiting for an answer": (asking, ["B1"]),
    "waiting for an answer, and has for long": (
        lambda ward: asking(ward, clock=lambda: system_clock() - 2 * DAY),
        ["B2"],
    ),
    "paused": (after("doctor_errand", completed("pack"), e.RunPaused()), []),
    "completed": (after("doctor_errand", e.RunCompleted), []),
    "failed": (after("doctor_hopeless", e.RunFailed), []),
    "cancelled": (after("doctor_errand", completed("pack"), e.RunCancelled()), []),
    "held": (held, ["C1"]),
    "given back in good order": (closed_in_good_order, ["G1"]),
    "on the second branch beside the first one": (jumped, ["D1"]),
}


@pytest.mark.parametrize("name", STANDING)
def test_a_run_that_is_as_it_should_be_is_not_touched(ward: Any, name: str) -> None:
    make, codes = STANDING[name]
    run = ward.do(make(ward))
    before = ward.dump()
    found = ward.diagnose(run)
    assert [finding.code for finding in found] == codes
    is_well = name != "held"  # a person has to decide, and that is never nothing
    assert all(finding.standing == "consistent" for finding in found) is is_well
    assert ward.recover(run) == []
    if ward.kind == "sqlite":
        shown = ward.doctor(run, "--fix")
        assert (shown["exit"], shown["runs"][0]["sound"], shown["runs"][0]["repairs"]) == (
            int(not is_well),
            is_well,
            [],
        )
    assert ward.dump() == before


def test_a_question_is_shown_with_the_event_that_asks_it_and_how_to_answer_it(ward: Any) -> None:
    """B1."""
    run = ward.do(asking(ward))
    (found,) = ward.diagnose(run)
    assert ward.names(run, found.events) == ["InteractionRequested"]
    assert found.actions == (f"outlast answer {run} VALUE --interaction approve",)


# --- under a live worker -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def alive(ward: Any) -> AsyncIterator[Any]:
    """A run in a node of an engine that lives, and a desk in another process."""
    ward.flows.SLOW.add("pack")
    async with ward.engine() as engine:
        await engine.start(ward.flows.doctor_errand.options(id="ill"), "lamp")
        while "pack" not in ward.did:
            await asyncio.sleep(0.002)
        async with ward.desk() as desk:
            yield desk
        ward.flows.SLOW.clear()


@pytest.mark.parametrize("said", [None, RunStatus.WAITING, RunStatus.COMPLETED])
def test_a_run_that_a_live_worker_advances_is_not_touched_whatever_its_summary_says(
    ward: Any, said: RunStatus | None
) -> None:
    run = RunId("ill")

    async def look() -> None:
        async with alive(ward) as desk:
            if said is not None:
                await asyncio.to_thread(ward.summary, run, status=said)
            before = ward.dump()
            diagnosis = await desk.diagnose(run)
            assert await desk.recover(run) == []
            assert ward.dump() == before
            assert diagnosis.is_sound is (said is None)

    ward.do(look())


def test_nobody_has_to_watch_a_run_that_is_advanced_and_who_watches_one_that_is_not_is_told(ward: Any) -> None:
    """F2, F1."""
    run = RunId("ill")

    async def look() -> list[tuple[str, str]]:
        async with alive(ward) as desk:
            return [(finding.code, finding.standing) for finding in (await desk.diagnose(run)).findings]

    assert ward.do(look()) == [("F2", "consistent")]


def test_who_watches_a_run_that_nobody_advances_is_told_that_it_is_stalled_and_when_it_goes_on(ward: Any) -> None:
    """F1."""
    heard: list[bool] = []

    async def watch() -> None:
        run = await ward.killed_in("pack", ward.flows.doctor_errand, "lamp")
        async with ward.desk() as desk:

            async def all_of_it() -> None:
                async for _ in desk.watch(run, stalled=heard.append):
                    pass

            watching = asyncio.create_task(all_of_it())
            while not heard:
                await asyncio.sleep(0.005)
            found = {finding.code: finding for finding in (await desk.diagnose(run)).findings}
            assert found["F1"].sentence.startswith("watchers of this run: 1;")
            async with ward.engine() as engine:
                await engine.result(run)
            await watching

    ward.do(watch())
    assert heard[0] is True
    assert heard == [True] or heard == [True, False]


def test_a_run_that_is_advanced_while_the_doctor_looks_is_never_called_ill(ward: Any) -> None:
    """G5, C3 and G1 are not for what a live worker writes meanwhile."""

    async def look() -> set[tuple[str, str]]:
        seen: set[tuple[str, str]] = set()
        async with ward.engine() as engine, ward.desk() as desk:
            for number in range(6):
                handle = await engine.start(ward.flows.doctor_asking.options(id=f"r{number}"), "lamp")
                ended = asyncio.create_task(handle.result())
                while not ended.done():
                    for finding in (await desk.diagnose(handle.run)).findings:
                        seen.add((finding.code, finding.standing))
                    if (await handle.get()).waits:
                        await handle.answer(True)
                await ended
        return seen

    assert {standing for _, standing in ward.do(look())} <= {"consistent"}


@pytest.mark.parametrize("call", range(1, 12))
def test_a_run_that_ends_between_two_looks_of_the_doctor_is_not_called_ill(memory_ward: Any, call: int) -> None:
    """The same at every call to the store: its owner ends it and lets go of it just after that one."""
    ward = memory_ward

    async def look() -> set[str]:
        events = await ward.told(ward.flows.doctor_errand, "lamp")
        owner = ward.open()
        ledger = Ledger(owner)
        worker = ledger.new_worker_id()
        await owner.enrol(worker, 30)
        await owner.blobs.put(ward.flows.doctor_errand._document)
        writer = await ledger.create(RunId("ill"), events[:5], worker)
        store, calls = ward.open(), 0

        class Meanwhile:
            blobs, skew = store.blobs, 0

            def __getattr__(self, name: str) -> Any:
                async def called(*arguments: Any, **named: Any) -> Any:
                    nonlocal calls
                    answer = await getattr(store, name)(*arguments, **named)
                    calls += 1
                    if calls == call:
                        await writer.append(events[5:], release=True)
                    return answer

                return called

        evidence = await evidence_of(Meanwhile(), RunId("ill"), b"", workflow=ward.flows.doctor_errand)  # type: ignore[arg-type]
        return {f"{finding.code} {finding.standing}" for finding in diagnose(evidence)}

    assert {told for told in ward.do(look()) if not told.endswith("consistent")} == set()
