"""A verb that is refused writes nothing: neither to the log nor a claim. Which are refused is one function of the state,
asked here for every verb in every status of the transition table."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.client import Engine
from outlast.errors import NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.reading import head_of, lineage_of, read_events, state_of
from outlast.lifecycle import decide
from outlast.lifecycle.actions import VERBS, Verb, allowed, refusal
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.transitions import TABLE
from outlast.stores.memory import MemoryStore

RUN = RunId("run-1")
NO = e.Failure("Error", "no")
DONE = [e.NodeScheduled(node="done"), e.NodeStarted(node="done"), e.NodeCompleted(node="done")]
BUSY = [e.NodeScheduled(node="busy"), e.NodeStarted(node="busy")]
BEGUN: list[e.AnyEvent] = [e.RunStarted(), *DONE]
PLACES: dict[str, list[e.AnyEvent]] = {
    "created": [],
    "created, deferred": [],
    "running": [*BEGUN, *BUSY],
    "waiting": [*BEGUN, e.InteractionRequested(interaction="q", prompt="Go on?")],
    "paused": [*BEGUN, *BUSY, e.RunPaused()],
    "compensating": [*BEGUN, e.CompensationStarted(node="done")],
    "completed": [*BEGUN, e.RunCompleted()],
    "failed": [*BEGUN, e.RunFailed(error=NO)],
    "failed, recoverable": [*BEGUN, e.RunFailed(error=NO, recoverable=True)],
    "failed, held": [*BEGUN, *BUSY, e.RunFailed(error=NO, node="busy", held=True)],
    "cancelled": [*BEGUN, e.RunCancelled()],
}
"""What makes a run of each status, and of each rule within one."""


async def carried_out(client: Engine, verb: Verb) -> object:
    match verb:
        case "answer":
            return await client.answer(RUN, "yes")
        case "start":
            return await client.begin(RUN)
        case "resume":
            return await client.resume(RUN)
        case "retry":
            return await client.retry(RUN)
        case "pause":
            return await client.pause(RUN)
        case "cancel":
            return await client.cancel(RUN)
        case "rewind":
            return await client.rewind(RUN)
        case "jump":
            return await client.jump(RUN, "start")
        case "activate":
            return await client.activate(RUN, 0)
        case "migrate":
            return await client.versions.check_migration(RUN)
        case "delete":
            return await client.delete(RUN)


async def left_at(place: str) -> Ledger:
    """A run that was released there."""
    ledger = Ledger(MemoryStore())
    created = e.RunCreated(workflow="flow", deferred=place == "created, deferred")
    writer = await ledger.create(RUN, [created, *PLACES[place]], ledger.new_worker_id())
    while not await writer.release():
        pass
    return ledger


async def state_in(ledger: Ledger) -> State:
    head = await head_of(ledger.store, RUN)
    return await state_of(ledger.store, RUN, await lineage_of(ledger.store, head))


async def seen_in(ledger: Ledger) -> Any:
    head = await head_of(ledger.store, RUN)
    log = [entry async for entry in read_events(ledger.store, RUN, [(1, head.version)])]
    return head, log, await ledger.store.summary(RUN), await ledger.store.holding(RUN)


def test_there_is_a_place_for_every_status() -> None:
    assert {place.split(",")[0] for place in PLACES} == {str(status) for status in TABLE if status is not None}
    assert {place.split(",")[0] for place in PLACES} == {str(status) for status in RunStatus}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES)
def test_a_refused_verb_writes_nothing_and_one_that_is_allowed_is_not_refused(place: str, verb: Verb) -> None:
    async def scene() -> None:
        ledger = await left_at(place)
        before, refused = await seen_in(ledger), refusal(await state_in(ledger), verb)
        error = None
        try:
            await carried_out(Engine(ledger, None), verb)
        except NotAllowed as raised:
            error = raised
        assert (refused is None) is (error is None), error
        if error is not None:
            assert await seen_in(ledger) == before

    asyncio.run(scene())


@pytest.mark.parametrize("verb", ["resume", "retry", "pause", "cancel"])
def test_a_verb_whose_run_ends_between_the_look_and_the_takeover_writes_nothing(verb: Verb) -> None:
    class Late(MemoryStore):
        """The run ends as it is claimed."""

        async def claim(self, *arguments: Any, **named: Any) -> Any:
            if not self.is_late:
                return await super().claim(*arguments, **named)
            self.is_late = False
            ledger = Ledger(self)
            claims = await super().claim(ledger.new_worker_id(), runs=[RUN])
            writer = await ledger.take_over(claims[0])
            await writer.append(decide.end(writer.state, e.RunCompleted()), release=True)
            return await super().claim(*arguments, **named)

        is_late = False

    async def scene() -> None:
        store = Late()
        ledger = Ledger(store)
        writer = await ledger.create(RUN, [e.RunCreated(workflow="flow"), *PLACES["running"]], ledger.new_worker_id())
        await writer.release()
        store.is_late = True
        with pytest.raises(NotAllowed):
            await carried_out(Engine(ledger, None), verb)
        head, log, _, holding = await seen_in(ledger)
        assert isinstance(log[-1].event, e.RunCompleted)
        assert (head.ready, holding) == (False, None)

    asyncio.run(scene())


def test_what_is_allowed_begins_with_what_is_most_useful() -> None:
    async def allowed_at(place: str) -> list[Verb]:
        return allowed(await state_in(await left_at(place)))

    assert asyncio.run(allowed_at("waiting"))[0] == "answer"
    assert asyncio.run(allowed_at("created, deferred"))[0] == "start"
    assert asyncio.run(allowed_at("failed, held"))[0] == "resume"
    assert asyncio.run(allowed_at("completed")) == ["rewind", "jump", "delete"]


@pytest.mark.parametrize(("age", "expected"), [(1, "consistent"), (120, "reported")])
def test_a_run_that_no_live_worker_starts_is_not_well_for_long(age: int, expected: str) -> None:
    async def scene() -> None:
        store = MemoryStore()
        born = await store.now() - age * 1_000_000
        await Ledger(store, clock=lambda: born).create_ready(RUN, e.RunCreated(workflow="flow"))
        findings = (await Engine(Ledger(store), None).diagnose(RUN)).findings
        assert [each.standing for each in findings if each.code == "G1"] == [expected]

    asyncio.run(scene())
