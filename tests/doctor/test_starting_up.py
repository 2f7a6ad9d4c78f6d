"""What an engine does about the runs that others have left behind when it starts, and what that costs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw

import outlast as ol
from outlast.engine import takeover
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.testing.faults import faulty
from outlast.testing.processes import engine_over


@asynccontextmanager
async def started(ward: Any, caplog: pytest.LogCaptureFixture, opening: Any = None) -> AsyncIterator[tuple[Any, str]]:
    """An engine, and what it has said about its start."""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="outlast.services"):
        async with opening or ward.engine() as engine:
            while not (said := [record.getMessage() for record in caplog.records if "Recovery" in record.getMessage()]):
                await asyncio.sleep(0.002)
            yield engine, said[0]


async def left_behind(ward: Any, *starts: tuple[Any, str, str]) -> None:
    """Runs of one engine, each in the midst of a node, when it was killed."""
    ward.flows.SLOW.update(node for _, _, node in starts)
    async with ward.doomed() as engine:
        for workflow, run, _ in starts:
            await engine.start(workflow.options(id=run), "lamp")
        while sorted(each for each in ward.did if each in ward.flows.SLOW) != sorted(node for _, _, node in starts):
            await asyncio.sleep(0.002)
    ward.flows.SLOW.clear()


def test_a_start_says_how_many_runs_it_resumed_and_held_and_how_many_questions_are_open(
    ward: Any, caplog: pytest.LogCaptureFixture
) -> None:
    flows = ward.flows

    async def whole() -> None:
        await left_behind(
            ward,
            (flows.doctor_errand, "first", "pack"),
            (flows.doctor_errand, "second", "pack"),
            (flows.doctor_paying, "paying", "pay"),
            (flows.doctor_held, "held", "pack"),
        )
        async with started(ward, caplog) as (engine, said):
            assert said == "Recovery complete: 2 resumed, 2 held, 0 questions restored."
            assert await engine.result(RunId("first")) == "lamp fetched packed shipped"
            assert (await engine.get(RunId("paying"))).held
            assert (await engine.get(RunId("held"))).reason.endswith("Server restarted while workflow was running")
            asking = await engine.start(flows.doctor_asking.options(id="asking"), "lamp")
            while not (await asking.get()).waits:
                await asyncio.sleep(0.002)
        async with started(ward, caplog) as (_, said):
            assert said == "Recovery complete: 0 resumed, 0 held, 1 questions restored."

    ward.do(whole())


def test_a_run_that_waits_for_a_person_is_no_resumed_one_though_its_worker_was_killed(
    ward: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def whole() -> None:
        async with ward.doomed() as engine:
            asking = await engine.start(ward.flows.doctor_asking.options(id="asking"), "lamp")
            while not (await asking.get()).waits:
                await asyncio.sleep(0.002)
        async with started(ward, caplog) as (engine, said):
            assert (await engine.get(RunId("asking"))).status == "waiting"
            assert said == "Recovery complete: 0 resumed, 0 held, 1 questions restored."

    ward.do(whole())


def test_a_process_that_holds_also_holds_runs_that_would_resume_and_the_other_way_round_does_not(
    sqlite_ward: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Settled 13."""
    ward = sqlite_ward

    async def whole() -> None:
        await left_behind(ward, (ward.flows.doctor_errand, "first", "pack"))
        opening = ol.open(ward.file, on_restart="hold")
        async with started(ward, caplog, opening) as (engine, said):
            assert said == "Recovery complete: 0 resumed, 1 held, 0 questions restored."
            assert (await engine.get(RunId("first"))).held
        await left_behind(ward, (ward.flows.doctor_held, "second", "pack"))
        opening = ol.open(ward.file, on_restart="resume")
        async with started(ward, caplog, opening) as (engine, said):
            assert said == "Recovery complete: 0 resumed, 1 held, 0 questions restored."
            assert await (await engine.resume(RunId("second"))).result() == "lamp fetched packed shipped"

    ward.do(whole())


def test_a_run_that_was_never_started_and_that_nobody_here_knows_is_left_as_it_is(
    ward: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def whole() -> None:
        store = ward.open()
        ledger = Ledger(store)
        await ledger.create_ready(RunId("new"), e.RunCreated(workflow="doctor_nobody_knows"))
        await ledger.close()
        await store.close()
        async with started(ward, caplog) as (engine, said):
            assert said == "Recovery complete: 0 resumed, 0 held, 0 questions restored."
            assert (await engine.get(RunId("new"))).status == "created"

    ward.do(whole())
    assert [type(entry.event).__name__ for entry in ward.events(RunId("new"))] == ["RunCreated"]


def test_a_run_under_another_workers_live_claim_is_left_alone(ward: Any, caplog: pytest.LogCaptureFixture) -> None:
    """P3."""

    async def whole() -> None:
        ward.flows.SLOW.add("pack")
        async with ward.engine() as engine:
            await engine.start(ward.flows.doctor_errand.options(id="theirs"), "lamp")
            while "pack" not in ward.did:
                await asyncio.sleep(0.002)
            before = ward.dump()
            async with started(ward, caplog) as (_, said):
                assert said == "Recovery complete: 0 resumed, 0 held, 0 questions restored."
                assert ward.dump() == before
            assert ward.dump() == before

    ward.do(whole())


async def _calls_to_start(ward: Any, caplog: pytest.LogCaptureFixture) -> list[str]:
    store = ward.open()
    counted, faults = faulty(store)
    async with started(ward, caplog, engine_over(counted)):
        names = list(faults.names)
    await store.close()
    return names


def test_the_cost_of_a_start_does_not_grow_with_the_runs_that_are_over(
    memory_ward: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Two thousand of them cost not one call to the store more."""
    ward = memory_ward

    async def whole() -> tuple[list[str], list[str]]:
        before = await _calls_to_start(ward, caplog)
        store = ward.open()
        ledger = Ledger(store)
        worker = ledger.new_worker_id()
        for _ in range(2000):
            writer = await ledger.create(ledger.new_run_id(), [e.RunCreated(workflow="doctor_errand")], worker)
            await writer.append([e.RunStarted(), e.RunCompleted()], release=True)
        await ledger.close()
        await store.close()
        return before, await _calls_to_start(ward, caplog)

    none, many = ward.do(whole())
    assert sorted(many) == sorted(none)
    assert len(many) < 15


def test_an_answer_that_comes_while_a_run_is_being_taken_over_is_heard(
    memory_ward: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: the run is not ready for anybody else, and its owner has not listened yet."""
    ward, turn, given = memory_ward, takeover.open_requested_branch, list[str]()

    async def meanwhile(writer: Any) -> None:
        await turn(writer)
        if not given:
            given.append(writer.run)
            await writer._ledger.deliver(
                writer.run, [e.InteractionAnswered(interaction="approve", answer=Raw(b"true"))]
            )

    async def whole() -> Any:
        async with ward.doomed() as engine:
            asking = await engine.start(ward.flows.doctor_asking.options(id="asking"), "lamp")
            while not (await asking.get()).waits:
                await asyncio.sleep(0.002)
        monkeypatch.setattr(takeover, "open_requested_branch", meanwhile)
        async with ward.engine() as engine, asyncio.timeout(2):
            return await engine.result(RunId("asking"))

    assert ward.do(whole()) == "lamp fetched (True) packed"
