"""Runs that stand still are never said to be well: failed ones that can be resumed, and those that no worker can start."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.ledger.slots import queue_slot
from outlast.store import WorkerInfo
from outlast.stores.memory import MemoryStore

UNKNOWN = "ab" * 32
MINUTE = 60_000_000


def failed(ward: Any, version: str, *, is_recoverable: bool = True) -> RunId:
    """A run that failed of a node, of which a version is recorded."""
    error = e.Failure("builtins:ConnectionError", "no", category="transient")
    ended = e.RunFailed(error=error, node="pack", recoverable=is_recoverable)
    last = lambda event: isinstance(event, e.NodeStarted) and event.node == "pack"  # noqa: E731
    more = (e.NodeFailed(node="pack", error=error), ended)
    run: RunId = ward.do(ward.left_after(ward.flows.doctor_errand, last, *more, version=version))
    return run


@pytest.mark.parametrize(("version", "code"), [("", "E1"), (UNKNOWN, "E2")])
def test_the_definition_of_a_failed_run_that_can_be_resumed_is_looked_for(ward: Any, version: str, code: str) -> None:
    """E1, E2."""
    found = {each.code: each for each in ward.diagnose(failed(ward, version))}
    assert found[code].standing != "consistent"


def test_changed_code_of_a_failed_run_that_can_be_resumed_is_named(ward: Any) -> None:
    """E3."""

    async def stored() -> str:
        store = ward.open()
        reference = await store.blobs.put(b"another definition")
        await store.close()
        return str(reference.hash)

    found = {each.code: each for each in ward.diagnose(failed(ward, ward.do(stored())))}
    assert any("outlast versions diff" in action for action in found["E3"].actions)


@pytest.mark.parametrize("version", ["", UNKNOWN])
def test_the_definition_of_a_run_that_failed_for_good_is_nobodys_concern(ward: Any, version: str) -> None:
    found = [each.code for each in ward.diagnose(failed(ward, version, is_recoverable=False))]
    assert not {"E1", "E2", "E3"} & set(found)


def test_a_failed_run_without_a_version_is_given_one_and_resumed(ward: Any) -> None:
    """E1: resume repairs first."""
    run = failed(ward, "")

    async def resumed() -> Any:
        async with ward.engine() as engine:
            return await (await engine.resume(run)).result()

    assert ward.do(resumed()) == "lamp fetched packed shipped"
    said = [entry.event for entry in ward.events(run) if isinstance(entry.event, e.VersionChanged)]
    assert [event.version for event in said] == [ward.flows.doctor_errand.version]


async def waiting(*more: e.AnyEvent, age: int, received: bool) -> list[tuple[str, str]]:
    """The findings of code G1 of a run that waits and was released so long ago."""
    from outlast.client import Engine

    store, run = MemoryStore(), RunId("waiting")
    now = await store.now()
    ledger = Ledger(store, clock=lambda: now - age)
    writer = await ledger.create(run, [e.RunCreated(workflow="flow"), e.RunStarted(), *more], ledger.new_worker_id())
    while not await writer.release():
        pass
    if received:
        await ledger.deliver(run, [e.SignalReceived(signal="s", name="other")])
    diagnosis = await Engine(Ledger(store), None).diagnose(run)
    return [(each.standing, each.sentence) for each in diagnosis.findings if each.code == "G1"]


QUESTION = e.InteractionRequested(interaction="ask", prompt="Go on?")


@pytest.mark.parametrize(("age", "late"), [(MINUTE // 60, False), (2 * MINUTE, True)])
def test_a_waiting_run_that_received_something_and_that_no_worker_claims_is_reported(
    memory_ward: Any, age: int, late: bool
) -> None:
    found = memory_ward.do(waiting(QUESTION, age=age, received=True))
    assert [standing for standing, _ in found] == ["reported"] * late


@pytest.mark.parametrize(("due", "late"), [(2 * MINUTE, False), (-2 * MINUTE, True)])
def test_a_timer_that_no_worker_fires_is_reported(memory_ward: Any, due: int, late: bool) -> None:
    async def look() -> Any:
        now = await MemoryStore().now()
        return await waiting(e.TimerSet(timer="nap", due=now + due), age=3 * MINUTE, received=False)

    found = memory_ward.do(look())
    assert [standing for standing, _ in found] == ["reported"] * late
    assert all("nap" in sentence for _, sentence in found)


def test_a_waiting_run_that_received_nothing_is_well(memory_ward: Any) -> None:
    assert memory_ward.do(waiting(QUESTION, age=5 * MINUTE, received=False)) == []


@pytest.mark.parametrize("workflows", [(), ("other",), ("flow", "other")])
def test_the_live_workers_that_know_the_workflow_of_a_ready_run_are_named(
    memory_ward: Any, workflows: tuple[str, ...]
) -> None:
    async def look() -> Any:
        from outlast.client import Engine

        store, run = MemoryStore(), RunId("ready")
        ledger = Ledger(store)
        await ledger.create_ready(run, e.RunCreated(workflow="flow"))
        worker, gone = ledger.new_worker_id(), ledger.new_worker_id()
        await store.enrol(gone, -1, WorkerInfo(("flow",)))
        await store.enrol(worker, 30, WorkerInfo(workflows))
        diagnosis = await Engine(Ledger(store), None).diagnose(run)
        (found,) = (each for each in diagnosis.findings if each.code == "G1")
        return worker, found

    worker, found = memory_ward.do(look())
    known = (
        f"live workers that know workflow flow: {worker}"
        if "flow" in workflows
        else "no live worker knows workflow flow"
    )
    assert found.sentence == f"the run is ready and no worker advances it; {known}"
    assert any("outlast worker --app" in action for action in found.actions) is ("flow" not in workflows)


async def g1(engine: Any, run: RunId) -> list[Any]:
    return [finding for finding in (await engine.diagnose(run)).findings if finding.code == "G1"]


@pytest.mark.parametrize("status", ["created", "waiting"])
def test_a_run_that_waits_long_for_a_slot_of_its_queue_is_well(memory_ward: Any, status: str) -> None:
    """P6: the wait has a name"""

    async def look() -> Any:
        from outlast.client import Engine

        store, run = MemoryStore(), RunId("second")
        ledger, worker = Ledger(store, clock=lambda: 1), WorkerId("worker")
        await store.enrol(worker, 30, WorkerInfo(("flow",)))
        await ledger.create_ready(RunId("first"), e.RunCreated(workflow="flow", queue="gpu"))
        created = e.RunCreated(workflow="flow", queue="gpu")
        if status == "created":
            await ledger.create_ready(run, created)
        else:
            asked = [e.InteractionRequested(interaction=name, prompt="?") for name in ("one", "other")]
            await ledger.begin(run, worker).append([created, e.RunStarted(), *asked], release=True)
            await ledger.deliver(run, [e.InteractionAnswered(interaction="one")])
        before = await g1(Engine(Ledger(store), None), run)
        assert await store.claim(worker, runs=[RunId("first")])
        assert await store.take(RunId("first"), 1, [queue_slot("gpu")]) == ()
        return before, await g1(Engine(Ledger(store), None), run)

    (before,), after = memory_ward.do(look())
    assert before.standing == "reported", "a worker serves the queue, no slot is held, and the run does not advance"
    assert {found.standing for found in after} <= {"consistent"}
    if status == "created":
        (found,) = after
        assert found.sentence == "the run waits in queue gpu, whose slots are held by first; that is normal"


def test_a_ready_run_of_a_queue_that_no_worker_serves_is_reported(memory_ward: Any) -> None:
    """P6"""

    async def look() -> Any:
        from outlast.client import Engine

        store, run = MemoryStore(), RunId("ready")
        ledger = Ledger(store, clock=lambda: 1)
        await ledger.create_ready(run, e.RunCreated(workflow="flow", queue="gpu"))
        await store.enrol(WorkerId("worker"), 30, WorkerInfo(("flow",), ("mail",)))
        (found,) = await g1(Engine(Ledger(store), None), run)
        return found

    found = memory_ward.do(look())
    assert found.standing == "reported"
    assert found.sentence == "the run is ready and no worker advances it; no live worker serves queue gpu"
    assert found.actions[0] == "outlast worker --app MODULE --queue gpu starts a worker that serves the queue"


@pytest.mark.parametrize("stop", [e.RunPaused(), e.RunFailed(error=e.Failure("Error", "decide"), held=True)])
def test_a_stopped_run_whose_child_was_not_created_yet_is_well(memory_ward: Any, stop: e.AnyEvent) -> None:
    """It creates the child when it is resumed; a takeover would change nothing."""

    async def look() -> Any:
        from outlast.client import Engine

        store, run = MemoryStore(), RunId("parent")
        ledger = Ledger(store)
        started = [e.RunStarted(), e.ChildStarted(child="kid", workflow="flow", node="flow"), stop]
        await ledger.begin(run, WorkerId("worker")).append([e.RunCreated(workflow="flow"), *started], release=True)
        engine = Engine(Ledger(store), None)
        found = await g1(engine, run)
        return found, await engine.recover(run), await store.head(run)

    (found,), repaired, head = memory_ward.do(look())
    assert (found.standing, repaired, head.version) == ("consistent", [], 4)
    assert found.actions == ("outlast resume parent continues the run, which creates the child",)
