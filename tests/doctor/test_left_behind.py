"""What was asked or left behind and is nobody's work (A3, A4, C1, C2, C3, D2, G1): it goes on, and nothing completed is done
again (P1, P2, V3, V4, V9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.client.evidence import evidence_of
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.lifecycle.diagnosis import Finding, diagnose
from outlast.lifecycle.status import RunStatus

LAMP = "lamp fetched packed shipped"
RECOVERED = ("BranchOpened", "RunRecovered")


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


def of(kind: type[e.Event], node: str) -> Any:
    return lambda event: isinstance(event, kind) and event.node == node  # type: ignore[attr-defined]


def left(workflow: str, last: Any, *more: e.AnyEvent, **created: Any) -> Any:
    return lambda ward: ward.do(ward.left_after(getattr(ward.flows, workflow), last, *more, **created))


def killed(node: str, workflow: str = "doctor_errand") -> Any:
    return lambda ward: ward.do(ward.killed_in(node, getattr(ward.flows, workflow), "lamp"))


def failed(node: str, kind: str, category: Any) -> e.NodeFailed:
    return e.NodeFailed(node=node, error=e.Failure(kind, "no", category=category))


def asked(make: Any, target: int, **more: Any) -> Any:
    """The same, and somebody asks to go back before anybody notices that its worker is dead."""

    def made(ward: Any) -> RunId:
        run = make(ward)

        async def ask() -> None:
            store = ward.open()
            ledger = Ledger(store)
            request = e.JumpRequested(target=target, branch=1, by="ann", **more)
            await ledger.deliver(run, [request])
            await ledger.close()
            await store.close()

        ward.do(ask())
        return run

    return made


STATES = {
    "A3: all steps are complete": (
        left("doctor_steps", e.StepCompleted),
        "A3",
        ["StepCompleted"],
        (),
        "lamp fetched packed",
        (),
    ),
    "A4: a transient failure with attempts left": (
        left("doctor_shaky", of(e.NodeStarted, "shaky"), failed("shaky", "builtins:ConnectionError", "transient")),
        "A4",
        ["NodeFailed"],
        ("NodeScheduled", "RunRecovered"),
        "lamp at last shipped",
        ("shaky", "ship"),
    ),
    "A4: a permanent failure": (left("doctor_hopeless", e.NodeFailed), "A4", ["NodeFailed"], (), ValueError, ()),
    "A4: a permanent failure that the code catches": (
        left("doctor_caught", e.NodeFailed),
        "A4",
        ["NodeFailed"],
        (),
        "no lamp, and so a parcel shipped",
        ("ship",),
    ),
    "C1: killed in a node": (killed("pack"), "C1", ["NodeStarted"], ("NodeScheduled",), LAMP, ("pack", "ship")),
    "C1: a node was scheduled and never started": (
        left("doctor_errand", of(e.NodeScheduled, "pack")),
        "C1",
        ["NodeScheduled"],
        (),
        LAMP,
        ("pack", "ship"),
    ),
    "C2: a step was started": (
        left("doctor_steps", e.StepStarted),
        "C2",
        ["StepStarted"],
        (),
        "lamp fetched packed",
        ("pack",),
    ),
    "C3: a node is complete, and nothing follows": (
        left("doctor_errand", completed("pack")),
        "C3",
        ["NodeCompleted"],
        (),
        LAMP,
        ("ship",),
    ),
    "C3: the last node is complete": (left("doctor_errand", completed("ship")), "C3", ["NodeCompleted"], (), LAMP, ()),
    "G1: it has only begun": (
        left("doctor_errand", e.RunStarted),
        "G1",
        ["RunStarted"],
        (),
        LAMP,
        ("fetch", "pack", "ship"),
    ),
    "D2: a jump that can be made": (
        asked(killed("ship"), 5, redo=("pack",)),
        "D2",
        ["JumpRequested"],
        RECOVERED,
        LAMP,
        ("pack", "ship"),
    ),
    "D2: a jump to an event that is not there": (
        asked(left("doctor_errand", completed("pack")), 1000),
        "D2",
        ["JumpRequested"],
        (*RECOVERED, "RequestRefused"),
        LAMP,
        ("ship",),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_what_was_left_behind_goes_on_and_nothing_completed_is_done_again(ward: Any, case: Any, name: str) -> None:
    """P1, P2, V3, V4, V9."""
    treated = case(*STATES[name])
    ward.treat(treated.make(ward), treated)


def test_a_node_that_was_interrupted_gets_the_next_attempt_and_one_that_never_began_keeps_its_own(ward: Any) -> None:
    """C1, V9."""
    run = killed("pack")(ward)
    ward.recover(run)
    assert ward.do(ward.complete(run)) == LAMP
    started = [entry.event for entry in ward.events(run) if isinstance(entry.event, e.NodeStarted)]
    assert [(event.node, event.attempt) for event in started] == [("fetch", 1), ("pack", 1), ("pack", 2), ("ship", 1)]


def test_a_second_recovery_does_not_count_an_interruption_twice(ward: Any) -> None:
    """C1, V9: recovered, and again before anybody went on."""
    run = killed("pack")(ward)
    ward.recover(run)
    ward.recover(run)
    crashes = [
        entry.event
        for entry in ward.events(run)
        if isinstance(entry.event, e.NodeScheduled) and entry.event.cause == "crash"
    ]
    assert [event.attempt for event in crashes] == [2]
    assert ward.do(ward.complete(run)) == LAMP


def test_a_jump_that_cannot_be_made_says_why_and_may_be_asked_again(ward: Any) -> None:
    """D2, V8."""
    run = asked(left("doctor_errand", completed("pack")), 1000)(ward)
    ward.recover(run)
    (recovered,) = [entry.event for entry in ward.events(run) if isinstance(entry.event, e.RunRecovered)]
    assert "1000" in recovered.reason

    async def again() -> Any:
        async with ward.engine() as engine:
            return await (await engine.jump(run, "pack")).result()

    assert ward.do(again()) == LAMP
    assert ward.is_sound(run)


# --- a person's word ---------------------------------------------------------------------------------------------------

HELD = {
    "inside a node that is not to be repeated": ("doctor_paying", "pay"),
    "of a workflow that holds": ("doctor_held", "pack"),
}


@pytest.mark.parametrize("said", [None, "waiting", "completed"])
@pytest.mark.parametrize("name", HELD)
def test_a_run_that_only_a_person_may_let_go_on_is_held_by_the_doctor_whatever_its_summary_says(
    ward: Any, name: str, said: str | None
) -> None:
    """P4: to repair is not to decide."""
    workflow, node = HELD[name]
    run = killed(node, workflow)(ward)
    if said is not None:
        ward.summary(run, status=RunStatus(said))
    planned = ward.recovery_plan(run)
    assert ward.recover(run)
    assert ward.status(run) == "failed"
    last = ward.events(run)[-1].event
    assert isinstance(last, e.RunFailed)
    assert last.held
    assert last in planned
    version = ward.events(run)[-1].seq
    assert ward.recover(run) == []
    ward.did.clear()

    async def nobody_goes_on() -> None:
        async with ward.engine() as engine:
            await asyncio.sleep(0.05)
            assert (await engine.get(run)).held

    ward.do(nobody_goes_on())
    assert ward.did == []
    ward.do(_resumed(ward, run))
    assert ward.did[0] == node
    assert ward.is_sound(run)
    assert [entry.seq for entry in ward.events(run)][version - 1] == version


async def _resumed(ward: Any, run: RunId) -> None:
    async with ward.engine() as engine:
        await (await engine.resume(run, by="ann")).result()


@pytest.mark.parametrize("version", ["", "0" * 64])
def test_a_run_of_a_workflow_that_holds_is_held_though_something_else_is_to_be_said_of_it_first(
    ward: Any, version: str
) -> None:
    """E1, E2 and A4 with on_restart hold."""
    run = left("doctor_held", of(e.NodeStarted, "pack"), version=version)(ward)
    ward.recover(run)
    assert ward.status(run) == "failed"
    assert ward.is_sound(run)
    ward.do(_resumed(ward, run))


def test_a_failure_that_was_left_in_a_workflow_that_holds_is_held(ward: Any) -> None:
    """A4."""
    run = left(
        "doctor_shaky",
        of(e.NodeStarted, "shaky"),
        failed("shaky", "builtins:ConnectionError", "transient"),
        on_restart="hold",
    )(ward)
    ward.recover(run)
    assert ward.status(run) == "failed"
    assert ward.is_sound(run)
    assert ward.recover(run) == []


def test_a_run_whose_claim_was_lost_gives_what_was_in_flight_another_attempt(ward: Any) -> None:
    """C1, P2, V9: nobody holds it, nobody gave it back."""
    run = killed("pack")(ward)
    if ward.kind == "sqlite":
        ward.sql("update head set worker = ''")
    else:
        ward.memory.claims.clear()
    found = ward.diagnose(run)[0]
    assert (found.code, "no worker has claimed it" in found.sentence) == ("C1", True)
    assert [found.code for found in ward.recover(run)] == ["C1"]
    assert ward.do(ward.complete(run)) == LAMP
    started = [entry.event for entry in ward.events(run) if isinstance(entry.event, e.NodeStarted)]
    assert [event.attempt for event in started if event.node == "pack"] == [1, 2]
    assert ward.is_sound(run)
    assert ward.recover(run) == []


# --- graphs, which no driver advances yet: their log alone decides -----------------------------------------------------


def test_of_a_graph_whose_steps_are_all_complete_the_end_is_reached_by_a_branch_from_the_last_node(ward: Any) -> None:
    """A3: for functions replay decides."""
    run = left("doctor_steps", e.StepCompleted, kind="graph")(ward)
    last = max(entry.seq for entry in ward.events(run) if isinstance(entry.event, e.NodeCompleted))
    planned = ward.recovery_plan(run)
    assert [finding.code for finding in ward.recover(run)] == ["A3"]
    opened, recovered = (entry.event for entry in ward.events(run)[-2:])
    assert [opened, recovered] == planned
    assert (opened.cutoff, opened.cause, recovered.code) == (last, "recovery", "A3")
    assert ward.recover(run) == []
    assert ward.is_sound(run)


def test_a_graph_fails_recoverably_of_a_permanent_failure_that_was_left(ward: Any) -> None:
    """A4."""
    run = left("doctor_hopeless", e.NodeFailed, kind="graph")(ward)
    planned = ward.recovery_plan(run)
    assert [finding.code for finding in ward.recover(run)] == ["A4"]
    assert [entry.event for entry in ward.events(run)[-2:]] == planned
    assert [type(event).__name__ for event in planned] == ["RunFailed", "RunRecovered"]
    assert ward.status(run) == "failed"
    assert ward.recover(run) == []
    assert ward.is_sound(run)


def test_a_worker_that_is_alive_and_does_not_renew_is_reported_and_nothing_is_changed(sqlite_ward: Any) -> None:
    """P6: a process that was stopped holds its lock, so nobody takes the run"""

    async def look() -> tuple[Finding, ...]:
        owner, doctor = sqlite_ward.open(), sqlite_ward.open()
        ledger = Ledger(owner)
        worker = ledger.new_worker_id()
        await owner.enrol(worker, 30)
        begun = [e.RunCreated(workflow="doctor_errand"), e.RunStarted(), e.NodeScheduled(node="n")]
        await ledger.create(RunId("ill"), begun, worker)
        doctor.skew = 105_000_000
        found = tuple(diagnose(await evidence_of(doctor, RunId("ill"), b"")))
        await owner.close()
        await doctor.close()
        return found

    (finding,) = [each for each in asyncio.run(look()) if each.code == "G1"]
    assert (finding.standing, finding.remedy) == ("reported", None)
    assert "is alive, but its claims expired 75 s ago and it has not renewed them" in finding.sentence
