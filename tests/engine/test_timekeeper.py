"""What a worker takes up because its time has come, however many waits are due that it cannot act on (S7, S8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

import outlast as ol
from outlast.engine import timekeeper
from outlast.engine.timekeeper import Timekeeper
from outlast.engine.worker import Worker
from outlast.functions import registry
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import Due
from outlast.stores.memory import MemoryStore
from outlast.testing.contract.samples import begin, follow, land, summary

MANY = timekeeper.BATCH + 1
OURS = RunId("ours")
THEIRS = [RunId(f"theirs-{number}") for number in range(MANY)]
SLEEP = Wait("timer", "sleep", due=1)


@ol.workflow
async def timed_story() -> None:
    await ol.sleep(1)


class Watch:
    """A timekeeper, what it has claimed, and what its looks have cost."""

    def __init__(self, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worker, self.store, self.log_writer = worker, worker.store, Timekeeper(worker)
        self.claimed: list[RunId] = []
        self.summaries = self.listed = 0
        asked, due = self.store.summary, self.store.due

        async def adopt(granted: Any) -> None:
            self.claimed.append(granted.run)

        async def counted_summary(run: RunId) -> Any:
            self.summaries += 1
            return await asked(run)

        async def counted_due(limit: int, *, after: Due | None = None) -> list[Due]:
            found = await due(limit, after=after)
            self.listed += len(found)
            return found

        monkeypatch.setattr(worker.takeovers, "adopt", adopt)
        monkeypatch.setattr(self.store, "summary", counted_summary)
        monkeypatch.setattr(self.store, "due", counted_due)

    async def sleeps(
        self,
        *runs: RunId,
        wait: Wait = SLEEP,
        status: RunStatus = RunStatus.WAITING,
        workflow: str = timed_story.name,
    ) -> None:
        """Runs that wait, and that nobody holds."""
        for run in runs:
            said = summary(run, status=status, workflow=workflow)
            await land(self.store, begin(run, opens=[wait], summary=said))

    async def look(self) -> list[RunId]:
        """What one look claims."""
        self.claimed.clear()
        self.summaries = self.listed = 0
        await self.log_writer.look()
        return self.claimed


def play(scene: Callable[[Watch], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def watching() -> AsyncIterator[Watch]:
        store = MemoryStore()
        ledger = Ledger(store)
        worker = Worker(ledger)
        await store.enrol(worker.id, 30)
        try:
            yield Watch(worker, monkeypatch)
        finally:
            await worker.close()
            await ledger.close()

    async def played() -> None:
        async with asyncio.timeout(30), watching() as watch:
            await scene(watch)

    asyncio.run(played())


LATER = Wait("timer", "sleep", due=2)


@pytest.mark.parametrize(
    "theirs",
    [
        {"status": RunStatus.PAUSED},
        {"status": RunStatus.FAILED},
        {"workflow": "of-another-process"},
        {"wait": Wait("interaction", "q", due=1)},
    ],
    ids=["paused", "held", "other code", "no timer"],
)
def test_waits_that_nobody_here_can_act_on_hide_no_timer_behind_them(
    theirs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(watch: Watch) -> None:
        await watch.sleeps(*THEIRS, **theirs)
        await watch.sleeps(OURS, wait=LATER)
        assert await watch.look() == [OURS]

    play(scene, monkeypatch)


def test_runs_that_others_hold_hide_no_timer_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if there is room for one run only."""

    async def scene(watch: Watch) -> None:
        other = watch.worker.ledger.new_worker_id()
        await watch.store.enrol(other, 30)
        await watch.sleeps(*THEIRS[:3])
        assert len(await watch.store.claim(other, runs=THEIRS[:3], limit=3)) == 3
        await watch.sleeps(OURS, wait=LATER)
        watch.worker.settings = replace(watch.worker.settings, concurrency=1)
        assert await watch.look() == [OURS]

    play(scene, monkeypatch)


def test_what_is_others_is_not_asked_about_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watch: Watch) -> None:
        await watch.sleeps(*THEIRS, status=RunStatus.PAUSED)
        await watch.look()
        assert watch.summaries == MANY
        await watch.look()
        assert watch.summaries == 0

    play(scene, monkeypatch)


def test_what_has_been_others_for_long_is_not_even_listed_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watch: Watch) -> None:
        await watch.sleeps(*THEIRS, status=RunStatus.PAUSED)
        await watch.look()
        assert watch.listed == MANY
        await watch.look()
        assert watch.listed == 0

    play(scene, monkeypatch)


def test_a_timer_that_is_set_for_a_time_that_has_just_passed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks differ, and what is set for now may be written a little later."""

    async def scene(watch: Watch) -> None:
        now = await watch.store.now()
        await watch.sleeps(*THEIRS[:10], wait=Wait("timer", "sleep", due=now), status=RunStatus.PAUSED)
        assert await watch.look() == []
        await watch.sleeps(OURS, wait=Wait("timer", "sleep", due=now - 5_000_000))
        assert await watch.look() == [OURS]

    play(scene, monkeypatch)


def test_a_new_timer_of_a_run_that_was_others_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was resumed elsewhere, and sleeps again."""

    async def scene(watch: Watch) -> None:
        await watch.sleeps(OURS, status=RunStatus.PAUSED)
        assert await watch.look() == []
        head = await watch.store.head(OURS)
        assert head is not None
        again = summary(OURS, at=2, status=RunStatus.WAITING, workflow=timed_story.name)
        await land(watch.store, follow(head, closes=[SLEEP.name], opens=[LATER], summary=again))
        assert await watch.look() == [OURS]

    play(scene, monkeypatch)


def test_a_run_whose_code_becomes_known_is_found_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watch: Watch) -> None:
        await watch.sleeps(OURS, workflow="known-later")
        assert await watch.look() == []
        monkeypatch.setitem(registry._workflows, "known-later", timed_story)
        assert await watch.look() == [OURS]

    play(scene, monkeypatch)


def test_after_a_while_everything_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watch: Watch) -> None:
        await watch.sleeps(OURS, status=RunStatus.PAUSED)
        assert await watch.look() == []
        again = summary(OURS, at=1, status=RunStatus.WAITING, workflow=timed_story.name)
        assert await watch.store.correct(again, 1)
        assert await watch.look() == []
        monkeypatch.setattr(timekeeper, "RESCAN_S", 0.0)
        assert await watch.look() == [OURS]

    play(scene, monkeypatch)


def test_what_there_is_no_room_for_is_found_once_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(watch: Watch) -> None:
        await watch.sleeps(OURS)
        settings = watch.worker.settings
        watch.worker.settings = replace(settings, concurrency=0)
        assert await watch.look() == []
        watch.worker.settings = settings
        assert await watch.look() == [OURS]

    play(scene, monkeypatch)
