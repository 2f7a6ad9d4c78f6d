"""Who starts a run and does not wait for it may have started it or not; a run that was started goes on at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import outlast as ol
from outlast.client.facade import Engine
from outlast.engine import unconfirmed_starts
from outlast.engine.worker import Worker
from outlast.errors import OutcomeUnknown, StoreError
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.store import Append, Outcome
from outlast.stores.memory import MemoryStore

RUN = RunId("given-up")
AT_ONCE = 5.0
"""Seconds; nobody but the worker itself looks after runs here."""


@ol.node
async def given_up_step(n: int) -> int:
    return n + 1


@ol.workflow
async def given_up_story(n: int) -> int:
    return await given_up_step(n)


class SlowStore(MemoryStore):
    """Appends wait at a gate; whether they then land is up to the test."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.came = asyncio.Event(), asyncio.Event()
        self.trouble: StoreError | None = None

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        self.came.set()
        await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        return await super().append(batch)


class Stand:
    """A worker over such a store, and its desk."""

    def __init__(self, *, takes_over_others: bool = True) -> None:
        self.store = SlowStore()
        self.ledger = Ledger(self.store)
        self.worker = Worker(self.ledger, takes_over_others=takes_over_others)
        self.client = Engine(self.ledger, self.worker)
        self.ledger.listen(self.worker.on_runs_changed)

    def starting(self) -> asyncio.Task[Any]:
        return asyncio.create_task(self.client.start(given_up_story.options(id=RUN), 1))

    async def give_up(self, start: asyncio.Task[Any]) -> None:
        """Cancel a start whose append is on its way."""
        async with asyncio.timeout(AT_ONCE):
            await self.store.came.wait()
        start.cancel()
        with suppress(asyncio.CancelledError):
            await start

    async def result(self) -> Any:
        async with asyncio.timeout(AT_ONCE):
            while await self.store.head(RUN) is None:
                await asyncio.sleep(0)
            return await self.client.result(RUN, workflow=given_up_story)


@asynccontextmanager
async def stand(**options: Any) -> AsyncIterator[Stand]:
    made = Stand(**options)
    await made.store.enrol(made.worker.id, 30)
    try:
        yield made
    finally:
        made.store.trouble = None
        made.store.gate.set()
        await made.worker.close()
        await made.ledger.close()


async def test_a_run_whose_start_was_cancelled_before_it_landed_goes_on_once_it_has() -> None:
    async with stand() as here:
        await here.give_up(here.starting())
        here.store.gate.set()
        assert await here.result() == 2


async def test_a_run_whose_start_was_cancelled_at_the_moment_it_landed_goes_on() -> None:
    async with stand() as here:
        start = here.starting()
        here.ledger.listen(lambda _: start.cancel() and None)
        here.store.gate.set()
        with suppress(asyncio.CancelledError):
            await start
        assert start.cancelled()
        assert await here.result() == 2


async def test_a_start_that_is_tried_again_while_the_first_is_on_its_way_is_the_same_run() -> None:
    async with stand() as here:
        await here.give_up(here.starting())
        again = here.starting()
        here.store.gate.set()
        assert (await again).run == RUN
        assert await here.result() == 2


async def test_a_run_whose_start_was_answered_by_nobody_goes_on_if_it_is_there() -> None:
    """S5: the store does not know whether it landed, and it has."""
    async with stand() as here:
        answered = MemoryStore.append

        async def unanswered(batch: Sequence[Append]) -> list[Outcome]:
            await answered(here.store, batch)
            here.store.append = lost  # type: ignore[method-assign]
            raise OutcomeUnknown("no answer")

        async def lost(batch: Sequence[Append]) -> list[Outcome]:
            raise OutcomeUnknown("no answer")

        here.store.append = unanswered  # type: ignore[method-assign]
        with pytest.raises(OutcomeUnknown):
            await here.starting()
        del here.store.append
        here.store.gate.set()
        assert await here.result() == 2


async def test_a_start_that_was_cancelled_and_never_lands_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unconfirmed_starts, "OUTCOME_TIMEOUT_S", 0.0)
    async with stand(takes_over_others=False) as here:
        here.store.trouble = StoreError("the disk is full")
        await here.give_up(here.starting())
        here.store.gate.set()
        while here.worker.unconfirmed_starts.expected:
            await asyncio.sleep(0)
        assert await here.store.head(RUN) is None
        assert here.worker.own == set()


async def test_a_start_that_failed_leaves_nothing_behind() -> None:
    async with stand(takes_over_others=False) as here:
        here.store.trouble = StoreError("the disk is full")
        here.store.gate.set()
        with pytest.raises(StoreError):
            await here.starting()
        assert here.worker.own == set()
