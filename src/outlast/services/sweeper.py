"""Finds runs that nobody advances though they should go on, and hands them to the next worker.

It looks at unfinished runs only, never at all of them. A run in flight is known by its claim: there is no other record of
its task that could be lost. What it finds stalled it takes over, which counts what was interrupted, and gives back as ready;
a claim is one atomic step, so any number of sweepers at once hand each run over once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from typing import Literal, TypeAlias

from msgspec import Struct, field

from outlast.errors import Conflict, Damaged, OutlastError, StoreError
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.lifecycle.status import UNFINISHED, Status
from outlast.lifecycle.summary import Summary
from outlast.store import Holding, Query

log = logging.getLogger("outlast.services")

Reason: TypeAlias = Literal["healthy", "ready", "waiting", "no task", "task ended", "claim expired", "unreadable"]
STALLED: tuple[Reason, ...] = ("no task", "task ended", "claim expired")
PAGE = 1000
INTERVAL, STALE_AFTER = 300.0, 600.0
"""Seconds between two sweeps, and for how long a run may be nobody's before that counts."""
LEASE = 30.0


class Seen(Struct, frozen=True):
    """One run that was looked at: how it stands, and what was done about it. `key` names the attempt to hand it over: many
    who try it under one key try the same thing."""

    run: RunId
    reason: Reason
    detail: str = ""
    is_recovered: bool = False
    key: str = ""


class Report(Struct):
    """What a sweep found; the counts add up to `scanned`. `stalled` are those that were found and not handed over: because
    nothing was to be changed, somebody else was at it, or they do not read."""

    scanned: int = 0
    healthy: int = 0
    waiting: int = 0
    recovered: int = 0
    stalled: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    runs: list[Seen] = field(default_factory=list)

    def add(self, seen: Seen) -> None:
        self.scanned += 1
        self.reasons[seen.reason] += 1
        if seen.is_recovered:
            self.recovered += 1
        elif seen.reason in ("healthy", "ready"):
            self.healthy += 1
        elif seen.reason == "waiting":
            self.waiting += 1
        else:
            self.stalled += 1
        if seen.reason not in ("healthy", "waiting"):
            self.runs.append(seen)


class Sweeper:
    """Sweeps one store. Times are seconds; `stale_after` is how long a claim may have expired, or a run nobody has claimed
    may be untouched, before it counts."""

    def __init__(self, ledger: Ledger, *, interval: float = INTERVAL, stale_after: float = STALE_AFTER) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._interval = interval
        self._stale = round(stale_after * 1e6)
        self._id: WorkerId = ledger.new_worker_id()

    async def run(self) -> None:
        """Sweep forever; meant for a process of its own."""
        while True:
            await self.sweep()
            await asyncio.sleep(self._interval)

    async def sweep(self, *, dry_run: bool = False) -> Report:
        """Look at every unfinished run once, and hand over what is stalled."""
        report, now = Report(), await self._store.now()
        held = await self._holdings()
        async for summary in self._unfinished():
            seen = await self._looked_at(summary, held.get(summary.run), now)
            if seen.reason in STALLED and not dry_run:
                seen = await self._handed_over(seen)
            report.add(seen)
        if report.recovered or report.stalled:
            log.info("swept %d runs: %d recovered, %d stalled", report.scanned, report.recovered, report.stalled)
        return report

    async def _holdings(self) -> dict[RunId, Holding]:
        """Who holds what, in a few reads for all."""
        found: dict[RunId, Holding] = {}
        after = ""
        while True:
            page = await self._store.holdings(after=after, limit=PAGE)
            found |= {each.run: each for each in page}
            if len(page) < PAGE:
                return found
            after = page[-1].run

    async def _unfinished(self) -> AsyncIterator[Summary]:
        after = ""
        while True:
            page = await self._store.search(Query(statuses=tuple(sorted(UNFINISHED)), after=after, limit=PAGE))
            for listed in page.items:
                yield listed.summary
            if not page.next:
                return
            after = page.next

    async def _looked_at(self, summary: Summary, holding: Holding | None, now: int) -> Seen:
        run = summary.run
        if holding is not None and holding.is_live:
            return Seen(run, "healthy", f"worker {holding.worker} advances it")
        if holding is not None:
            if now - holding.expires < self._stale:
                return Seen(run, "healthy", f"worker {holding.worker} was lost a moment ago")
            return Seen(run, "claim expired", f"worker {holding.worker} is gone")
        try:
            head = await self._store.head(run)
        except (Damaged, ValueError, TypeError) as error:
            return Seen(run, "unreadable", str(error))
        if head is None:
            return Seen(run, "unreadable", "lists show it, and it has no log")
        if head.closed:
            is_old = self._is_old(summary, now)
            return Seen(run, "task ended" if is_old else "healthy", "it is over, and the list does not know it yet")
        if head.ready:
            return Seen(run, "ready", "the next worker that knows its workflow takes it")
        if summary.status in (Status.WAITING, Status.PAUSED, Status.CREATED):
            named = (
                ", ".join(f"{wait.kind} {wait.id}" for wait in summary.waits) or summary.reason or str(summary.status)
            )
            return Seen(run, "waiting", f"for {named}" if summary.waits else named)
        if not self._is_old(summary, now):
            return Seen(run, "healthy", "it was given back a moment ago")
        return Seen(run, "no task", "it says that it is running, and nobody has claimed it")

    def _is_old(self, summary: Summary, now: int) -> bool:
        return now - summary.updated >= self._stale

    async def _handed_over(self, seen: Seen) -> Seen:
        """Take the run over and give it back, ready. Somebody else may be quicker, which is as good."""
        try:
            await self._store.enrol(self._id, LEASE)
            claims = await self._store.claim(self._id, runs=[seen.run])
            if not claims:
                return Seen(seen.run, "healthy", "somebody else has claimed it meanwhile")
            pen = await self._ledger.take_over(claims[0])
            while not await pen.let_go(ready=not pen.state.is_closed and not pen.state.outline.held):
                pass
        except Conflict:
            return Seen(seen.run, "healthy", "somebody else has taken it over meanwhile")
        except Damaged as error:
            return Seen(seen.run, "unreadable", str(error))
        except (StoreError, OutlastError) as error:
            return Seen(seen.run, seen.reason, f"it could not be handed over: {error}")
        key = f"{seen.run}:orchestrate:{claims[0].epoch}"
        return Seen(seen.run, seen.reason, seen.detail, is_recovered=True, key=key)


class SharedSweeper(Sweeper):
    """The sweeper inside a worker. Of the workers that hold runs, the one whose id sorts first sweeps: two at once would be
    safe, and are a waste."""

    def __init__(self, ledger: Ledger, worker: WorkerId, *, interval: float = INTERVAL) -> None:
        super().__init__(ledger, interval=interval)
        self._worker = worker

    async def run(self) -> None:
        """Sweep whenever it is this worker's turn."""
        while True:
            await asyncio.sleep(self._interval)
            if await self.is_elected():
                await self.sweep()

    async def is_elected(self) -> bool:
        """Whether no live worker that holds runs comes before this one."""
        live = {each.worker for each in (await self._holdings()).values() if each.is_live}
        return min(live | {self._worker}) == self._worker
