"""A worker that went on after its claim had ended begins nothing before the store was asked (S6).

Forced: right after the append that says a node has started, time passes for the store and for the worker's clock, and
another worker takes the run over and completes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import outlast as ol
from outlast.engine.claimer import Claimer
from outlast.engine.heartbeat import Heartbeat
from outlast.engine.worker import Worker
from outlast.errors import StoreError
from outlast.functions import registry
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.settings import Settings
from outlast.store import Append, Outcome
from outlast.stores.memory import Memory, MemoryStore

TTL = 30.0
begun: list[str] = []
owner: str = ""


@ol.node
async def leased_on_loop() -> int:
    begun.append("loop")
    return 1


@ol.node
def leased_in_thread() -> int:
    begun.append("thread")
    return 1


@ol.workflow
async def leased_story(kind: str) -> int:
    return await (leased_on_loop() if kind == "loop" else leased_in_thread())


class Slow(MemoryStore):
    """Calls `then` once, when an append with an event of the kind `after` has landed and its answer is on the way."""

    then: Callable[[], Awaitable[None]] | None = None
    after: type[e.Event] = e.NodeStarted

    async def append(self, batch: Any) -> list[Outcome]:
        outcomes = await super().append(batch)
        if self.then is not None and any(self._is_awaited(each) for each in batch):
            then, self.then = self.then, None
            await then()
        return outcomes

    def _is_awaited(self, append: Append) -> bool:
        return any(isinstance(event, self.after) for event in append.record.events())


class Scene:
    """Two workers on one store, each with a clock of its own that only moves when it is told to."""

    def __init__(self) -> None:
        memory = Memory()
        self.store, self.other_store = Slow(memory), MemoryStore(memory)
        self.worker = Worker(Ledger(self.store), Settings(store="", claim=TTL))
        self.other = Worker(Ledger(self.other_store), Settings(store="", claim=TTL))
        self.now = 0.0
        self.worker.lease.clock = lambda: self.now
        self.other.lease.clock = lambda: 0.0

    def suspend(self, seconds: float) -> None:
        """Time passes for the store, and for the first worker without a renewal."""
        self.now += seconds
        for store in (self.store, self.other_store):
            store.skew += int(seconds * 1e6)

    async def take_over(self, run: RunId) -> None:
        """The other worker, which has renewed, takes the run over and completes it."""
        await self.other.lease.begin()
        (claim,) = await self.other.claim(runs=[run])
        await self.other.takeovers.adopt(claim)
        driver = self.other.drivers.get(run)
        if driver is not None:
            await driver.ended()

    async def play(self, kind: str, then: Callable[[], Awaitable[None]]) -> None:
        await self.worker.lease.begin()
        self.store.then = then
        created = e.RunCreated(workflow=leased_story.name)
        args = leased_story._arguments.pack((kind,), {})
        created = e.RunCreated(workflow=leased_story.name, params=args.inputs)
        driver = await self.worker.start(RunId("leased"), registry.known(created.workflow), created, (kind,), {})  # type: ignore[arg-type]
        await driver.ended()

    async def close(self) -> None:
        for worker in (self.worker, self.other):
            await worker.close()
            await worker.ledger.close()


def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def played() -> None:
        begun.clear()
        made = Scene()
        try:
            async with asyncio.timeout(30):
                await scene(made)
        finally:
            await made.close()

    asyncio.run(played())


@pytest.mark.parametrize("kind", ["loop", "thread"])
def test_a_worker_that_wakes_after_its_claim_ended_begins_no_node_that_another_completed(kind: str) -> None:
    async def scene(made: Scene) -> None:
        async def sleep() -> None:
            made.suspend(2 * TTL)
            await made.take_over(RunId("leased"))

        await made.play(kind, sleep)
        assert begun == [kind]
        assert RunId("leased") not in made.worker.drivers

    play(scene)


def test_a_worker_that_wakes_after_its_time_and_finds_its_runs_still_its_own_goes_on() -> None:
    async def scene(made: Scene) -> None:
        async def sleep() -> None:
            made.suspend(2 * TTL)

        await made.play("loop", sleep)
        assert begun == ["loop"]
        assert not made.worker.lease.is_lapsed

    play(scene)


def test_a_run_that_ended_while_its_worker_slept_is_not_taken_for_one_that_another_worker_claimed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its last append released it, and the answer is still on the way."""

    async def scene(made: Scene) -> None:
        ends = []

        async def sleep() -> None:
            made.suspend(2 * TTL)
            ends.append(made.worker.drivers[RunId("leased")].ended())
            await made.worker.lease.confirm()

        made.store.after = e.RunCompleted
        await made.play("loop", sleep)
        assert isinstance(await ends[0], e.RunCompleted)
        assert "another worker claimed it" not in caplog.text

    play(scene)


def test_no_node_begins_while_a_lease_that_lapsed_cannot_be_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(made: Scene) -> None:
        renew, tries = made.store.renew, 0

        async def troubled(*arguments: Any) -> bool:
            nonlocal tries
            tries += 1
            assert not begun
            if tries < 3:
                raise StoreError("the store does not answer")
            return await renew(*arguments)

        async def sleep() -> None:
            made.suspend(2 * TTL)
            monkeypatch.setattr(made.store, "renew", troubled)

        monkeypatch.setattr("outlast.engine.lease.RETRY_S", 0.0)
        await made.play("loop", sleep)
        assert (tries, begun) == (3, ["loop"])

    play(scene)


async def holder(made: Scene, run: RunId) -> str:
    holding = await made.store.holding(run)
    return "" if holding is None else holding.worker


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_worker_that_wakes_leaves_others_that_wake_with_it_the_time_to_renew(is_alive: bool) -> None:
    """Both were suspended with their machine: the claims of both look expired to the one that wakes first."""

    async def scene(made: Scene) -> None:
        held = RunId("held")
        args = leased_story._arguments.pack(("loop",), {})
        await made.other.lease.begin()
        await made.other.ledger.create_ready(held, e.RunCreated(workflow=leased_story.name, params=args.inputs))
        assert await made.other.claim(runs=[held])
        await made.worker.lease.begin()
        made.suspend(2 * TTL)
        claimer = Claimer(made.worker)
        await claimer.look()
        assert not made.worker.lease.is_lapsed, "it renews itself first"
        made.suspend(TTL / 3)
        await claimer.look()
        assert await holder(made, held) == made.other.id
        if is_alive:
            await made.other.store.renew(made.other.id, TTL)
        made.suspend(TTL / 3)
        await claimer.look()
        assert begun == ([] if is_alive else ["loop"])
        assert not is_alive or await holder(made, held) == made.other.id

    play(scene)


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    async def scene(made: Scene) -> None:
        await made.worker.lease.begin()
        made.now = 10.0
        renew = made.store.renew

        async def slow(*arguments: Any) -> bool:
            found = await renew(*arguments)
            made.now = 19.0
            return found

        made.store.renew = slow  # type: ignore[method-assign]
        await Heartbeat(made.worker).renew()
        assert made.worker.lease.until == 10.0 + TTL

    play(scene)


def test_a_renewal_that_is_confirmed_after_the_lease_had_lapsed_confirms_nothing() -> None:
    async def scene(made: Scene) -> None:
        await made.worker.lease.begin()
        made.now = TTL + 1
        made.worker.lease.renewed(made.worker.id, 10.0)
        assert made.worker.lease.is_lapsed

    play(scene)


def test_a_worker_whose_lease_lapsed_confirms_it_before_it_claims() -> None:
    async def scene(made: Scene) -> None:
        await made.worker.lease.begin()
        made.suspend(2 * TTL)
        assert await made.worker.claim() == []
        assert not made.worker.lease.is_lapsed
        assert made.store.memory.workers[made.worker.id] > await made.store.now()

    play(scene)


def test_a_worker_that_the_store_does_not_know_enrols_anew() -> None:
    async def scene(made: Scene) -> None:
        await made.worker.lease.begin()
        before = made.worker.id
        await made.store.retire(before)
        await Heartbeat(made.worker).renew()
        assert made.worker.id != before
        assert made.worker.id in made.store.memory.workers
        assert not made.worker.lease.is_lapsed

    play(scene)


async def known_to_the_store(worker: Worker) -> tuple[str, ...]:
    (enrolled,) = [each for each in await worker.store.workers() if each.worker == worker.id]
    return enrolled.info.workflows


def test_a_worker_that_imports_a_workflow_later_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["one"]
    monkeypatch.setattr(registry, "names", lambda: tuple(names))

    async def look() -> None:
        worker = Worker(Ledger(MemoryStore()), Settings(store=""))
        claimer = Claimer(worker)
        await worker.lease.begin()
        assert await known_to_the_store(worker) == ("one",)
        names.append("two")
        await claimer.look()
        assert await known_to_the_store(worker) == ("one", "two")
        await worker.close()

    asyncio.run(look())


def test_a_worker_that_advances_only_its_own_runs_claims_runs_of_no_workflow() -> None:
    async def look() -> None:
        worker = Worker(Ledger(MemoryStore()), Settings(store=""), takes_over_others=False)
        await worker.lease.begin()
        assert await known_to_the_store(worker) == ()
        await worker.close()

    asyncio.run(look())
