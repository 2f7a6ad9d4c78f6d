"""What a run that goes on finds as it left it, and what it does not: S8, V5, V7, V11."""

from __future__ import annotations

import asyncio

import pytest

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus
from outlast.lifecycle.status import RunStatus
from outlast.stores.memory import MemoryStore
from support.histories import History

ERROR = e.Failure("Error", "no luck", category="transient")
FAILED = e.RunFailed(error=ERROR, recoverable=True)


def going(*events: e.AnyEvent) -> History:
    history = History()
    history.write([e.RunCreated(workflow="w"), e.RunStarted(), *events], epoch=1)
    return history


def resumed(history: History) -> History:
    history.write(decide.resume(history.state))
    return history


def test_a_node_that_was_to_be_tried_again_is_tried_when_the_run_resumes() -> None:
    """Its timer ended with the run: without this nothing would wake it (S8)."""
    retrying = e.NodeFailed(node="a", error=ERROR, retry_at=5)
    history = resumed(going(e.NodeScheduled(node="a"), e.NodeStarted(node="a"), retrying, FAILED))
    node = history.state.nodes.get("a")
    assert node is not None
    assert (node.status, node.attempt, node.retries) == (NodeStatus.SCHEDULED, 2, 1)


def test_a_child_is_waited_for_again_when_the_run_resumes() -> None:
    history = going(e.ChildStarted(child="c"), e.ChildStarted(child="free", detached=True), FAILED)
    assert [wait.id for wait in history.state.loose.values()] == ["free", "c"]
    resumed(history)
    assert history.state.status is RunStatus.WAITING
    assert [wait.id for wait in history.state.waits.values()] == ["c"]
    assert [wait.id for wait in history.state.loose.values()] == ["free"]


def test_a_question_that_ended_with_the_run_cannot_be_answered_afterwards() -> None:
    history = resumed(going(e.InteractionRequested(interaction="q"), FAILED))
    assert history.state.status is RunStatus.RUNNING
    with pytest.raises(Illegal, match="V7"):
        history.write([e.InteractionAnswered(interaction="q")])


def test_a_run_that_was_undoing_goes_on_undoing_after_a_pause() -> None:
    done = [e.NodeScheduled(node="a"), e.NodeStarted(node="a"), e.NodeCompleted(node="a")]
    history = resumed(going(*done, e.CompensationStarted(node="a"), e.RunPaused()))
    assert history.state.status is RunStatus.COMPENSATING


def test_crashes_are_counted_anew_once_a_person_has_resumed_the_run() -> None:
    history = going(e.NodeScheduled(node="a"), e.NodeStarted(node="a"))
    for epoch in range(2, 2 + decide.CRASHES_BEFORE_HOLD):
        history.write(decide.take_over(history.state, epoch, "w", cause="expired"), epoch=epoch)
        node = history.state.nodes.get("a")
        if history.state.outline.held or node is None:
            break
        history.write([e.NodeStarted(node="a", attempt=node.attempt)])
    assert history.state.outline.held
    node = resumed(history).state.nodes.get("a")
    assert node is not None
    assert (node.status, node.crashes) == (NodeStatus.SCHEDULED, 0)


def test_an_owner_cannot_say_that_it_took_over() -> None:
    """V11, W3: an epoch begins with a takeover and with nothing else."""

    async def story() -> None:
        store = MemoryStore()
        ledger = Ledger(store)
        await store.enrol(WorkerId("w"), 30)
        writer = await ledger.create(RunId("run"), [e.RunCreated(workflow="w"), e.RunStarted()], WorkerId("w"))
        for events in ([e.RunTakenOver(epoch=2)], [e.VersionChanged(version="2"), e.RunTakenOver(epoch=2)]):
            with pytest.raises(Illegal, match="V11"):
                await writer.append(events)
        assert writer.head.version == 2

    asyncio.run(story())
