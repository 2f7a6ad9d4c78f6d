"""The row of a claim is lost: what was started and not released was interrupted all the same (G1, C1)."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.client import Engine
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger


def lose_claim(ward: Any) -> None:
    if ward.kind == "sqlite":
        ward.sql("update head set worker = ''")
    else:
        ward.memory.claims.clear()


async def by_the_doctor(ward: Any, desk: Engine, run: RunId) -> None:
    await desk.recover(run)


async def by_a_worker(ward: Any, desk: Engine, run: RunId) -> None:
    """A signal makes the run ready, and a worker claims it."""
    await desk._ledger.deliver(run, [e.SignalReceived(signal="s-1", name="anything")])
    async with ward.engine() as engine:
        async for entry in engine.watch(run):  # until the run is held, or completes
            if isinstance(entry.event, e.RunFailed):
                break


@pytest.mark.parametrize("how", [by_the_doctor, by_a_worker])
@pytest.mark.parametrize(("workflow", "node"), [("doctor_held", "pack"), ("doctor_paying", "pay")])
def test_a_run_whose_claim_was_lost_is_held_if_an_interruption_holds_it(
    ward: Any, workflow: str, node: str, how: Any
) -> None:
    run = ward.do(ward.killed_in(node, getattr(ward.flows, workflow), "lamp"))
    lose_claim(ward)
    before = list(ward.did)

    async def taken_over() -> None:
        async with ward.desk() as desk:
            await how(ward, desk, run)

    ward.do(taken_over())
    (failed,) = [entry.event for entry in ward.events(run) if isinstance(entry.event, e.RunFailed)]
    (taken,) = [entry.event for entry in ward.events(run) if isinstance(entry.event, e.RunTakenOver)]
    assert (failed.held, taken.cause) == (True, "expired")
    assert ward.did == before, "a node was done again"
    assert ward.is_sound(run)


def test_the_plan_for_a_run_whose_claim_was_lost_says_that_it_is_held(ward: Any) -> None:
    run = ward.do(ward.killed_in("pack", ward.flows.doctor_held, "lamp"))
    lose_claim(ward)
    planned = ward.recovery_plan(run)
    assert [type(event) for event in planned] == [e.RunTakenOver, e.RunFailed]
    assert any(
        "takes it over and holds it, because its workflow has" in action for action in ward.diagnose(run)[0].actions
    )


def test_a_run_that_was_released_is_not_interrupted(ward: Any) -> None:
    """Its worker left in good order while the node was at work."""

    async def released() -> RunId:
        ward.flows.SLOW.add("pack")
        async with ward.engine() as engine:
            handle = await engine.start(ward.flows.doctor_held.options(id="ill"), "lamp")
            async for entry in handle.watch():
                if isinstance(entry.event, e.NodeStarted) and entry.event.node == "pack":
                    break
        ward.flows.SLOW.discard("pack")
        return RunId("ill")

    run = ward.do(released())
    assert "packed" in ward.do(ward.complete(run))
    assert not [entry for entry in ward.events(run) if isinstance(entry.event, e.RunFailed)]


def test_a_worker_that_claims_its_own_run_again_has_not_interrupted_it(ward: Any) -> None:
    async def again() -> tuple[str, str]:
        store = ward.open()
        ledger = Ledger(store)
        worker = ledger.new_worker_id()
        await store.enrol(worker, 30.0)
        await ledger.create(RunId("ill"), [e.RunCreated(workflow="doctor_held"), e.RunStarted()], worker)
        (claim,) = await store.claim(worker, runs=[RunId("ill")])
        await ledger.close()
        await store.close()
        return claim.cause, claim.previous

    assert ward.do(again()) == ("claimed", "")
