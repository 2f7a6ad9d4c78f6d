"""Claims runs that need an owner: new runs, runs with new entries from guests, runs whose owner died."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from contextlib import suppress

from outlast.engine.worker import Worker
from outlast.functions import registry
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import shortened
from outlast.store import Claim

log = logging.getLogger("outlast.services")

POLL_INTERVAL_S = 1.0
"""Seconds between two polls without an announcement: the death of a worker is not announced."""
BATCH = 200
"""Runs claimed in one step."""
MAX_PROMPT_LENGTH = 120
MAX_LOGGED_QUESTIONS = 100
"""Open questions that are logged one by one at the start; further ones are only counted."""
MIN_SLEEP_S = 0.01
"""Seconds between two polls at least, however many announcements arrive."""


class Claimer:
    """Claims runs of the workflows that this process has code for. `reports_start` logs a summary of the first round."""

    def __init__(self, worker: Worker, *, reports_start: bool = True) -> None:
        self._worker = worker
        self._reports_start = reports_start
        self._is_scarce = False
        self._served = ""

    async def run(self) -> None:
        """Poll on every announcement and at an interval. The first round recovers the runs of dead workers, and logs a
        summary."""
        while await self.look():
            pass
        if self._reports_start:
            log.info(await self._log_recovered())
        while True:
            self._worker.claim_wakeup.clear()
            if not await self.look():
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._worker.claim_wakeup.wait()
                await asyncio.sleep(MIN_SLEEP_S)

    async def look(self) -> bool:
        """Claim a batch of runs and adopt them. True if there may be more."""
        worker, names = self._worker, tuple(sorted(registry.names()))
        limit = min(worker.capacity, BATCH)
        if not limit or not names:
            return False
        await worker.lease.confirm()
        if worker.lease.enrolled != worker.lease.claimable():  # a module with workflows was imported since
            await worker.lease.begin()
        if worker.lease.is_settling:
            return False
        if worker.own is None:
            claims = await self._claim_fairly(names, limit)
        else:
            claims = await self._claim_own(worker.own, limit)
        await asyncio.gather(*(worker.takeovers.adopt(claim) for claim in claims))
        return len(claims) == limit

    async def _claim_own(self, own: set[RunId], limit: int) -> list[Claim]:
        """Claim those of the worker's own runs that have no live owner and work to do."""
        runs = [run for run in tuple(own) if not self._worker.has_run(run) and await self._needs_owner(run)]
        return await self._worker.claim(runs=runs, limit=limit) if runs else []

    async def _claim_fairly(self, names: tuple[str, ...], limit: int) -> list[Claim]:
        """While runs exceed the capacity, claim a share for each workflow in turn: a workflow with thousands of runs
        must not starve the others. Otherwise claim for all workflows in one call."""
        claim = self._worker.claim
        claims: list[Claim] = []
        if self._is_scarce and len(names) > 1:
            after = bisect_right(names, self._served)
            share = max(1, limit // len(names))
            for name in (*names[after:], *names[:after]):
                if len(claims) < limit:
                    batch = await claim(workflows=(name,), limit=min(share, limit - len(claims)))
                    self._served = name if batch else self._served
                    claims += batch
        if len(claims) < limit:
            claims += await claim(workflows=names, limit=limit - len(claims))
        self._is_scarce = len(claims) == limit
        return claims

    async def _log_recovered(self) -> str:
        """A summary of the recovery at the start. Questions need no recovery: they are in the log."""
        recovered, questions, after = self._worker.takeovers.recovered, 0, ""
        while True:
            page, after = await self._worker.store.waits(kind="interaction", after=after, limit=1000)
            for due in page[: max(0, MAX_LOGGED_QUESTIONS - questions)]:
                log.info("run %s asks: %s", due.run, shortened(" ".join(due.wait.text.split()), MAX_PROMPT_LENGTH))
            questions += len(page)
            if not after:
                break
        if questions > MAX_LOGGED_QUESTIONS:
            log.info("and %d more questions: `outlast ps --status waiting`", questions - MAX_LOGGED_QUESTIONS)
        return f"Recovery complete: {recovered.resumed} resumed, {recovered.held} held, {questions} questions restored."

    async def _needs_owner(self, run: RunId) -> bool:
        """Whether a run has work to do and no live owner."""
        store, own = self._worker.store, self._worker.own
        head, holding = await store.head(run), await store.holding(run)
        if holding is not None:
            return not holding.is_live
        if head is not None and head.closed and own is not None:
            own.discard(run)
            head = await store.head(run)
            if head is not None and not head.closed:  # it was reopened meanwhile
                own.add(run)
            return False
        summary = await store.summary(run)
        if head is None or summary is None:
            return False
        return head.ready or not (summary.held or summary.status is RunStatus.PAUSED)
