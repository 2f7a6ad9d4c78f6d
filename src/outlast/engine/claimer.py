"""Claims runs that need an owner: new runs, runs with new entries from guests, runs whose timer is due, runs whose owner
died.

It only claims them. The owner appends TimerFired, so that the event appears once and in the order in which the code
receives it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from outlast.engine.worker import Worker
from outlast.functions import registry
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary, shortened
from outlast.store import Claim, Due

log = logging.getLogger("outlast.services")

POLL_INTERVAL_S = 1.0
"""Seconds between two rounds at most: the death of a worker is not announced."""
BATCH = 200
"""Runs claimed in one step."""
MAX_PROMPT_LENGTH = 120
MAX_LOGGED_QUESTIONS = 100
"""Open questions that are logged one by one at the start; further ones are only counted."""
MIN_SLEEP_S = 0.01
"""Seconds from the beginning of one round to that of the next at least, however many announcements arrive."""
REPORT_INTERVAL_S = 60.0
"""Seconds between two searches for damaged waits."""
REPORT_BATCH = 1000


class Claimer:
    """Claims runs of the workflows that this process has code for. `reports_start` logs a summary of the first round."""

    def __init__(self, worker: Worker, *, reports_start: bool = True) -> None:
        self._worker = worker
        self._reports_start = reports_start
        self._reported: set[tuple[RunId, str]] = set()
        self._next_report = 0.0

    async def run(self) -> None:
        """Claim on every announcement, when a timer is due, and at an interval. The first round recovers the runs of dead
        workers, and logs a summary."""
        await self._report_damaged_waits()
        while await self.look():
            pass
        if self._reports_start:
            log.info(await self._log_recovered())
        clock = asyncio.get_running_loop().time
        while True:
            began, wakeup = clock(), self._worker.claim_wakeup
            wakeup.clear()
            await self._report_damaged_waits()
            if not await self.look() and not wakeup.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(await self._until_due(began)):
                        await wakeup.wait()
            await asyncio.sleep(max(0.0, began + MIN_SLEEP_S - clock()))

    async def look(self) -> bool:
        """Claim a batch of runs and adopt them. True if there may be more."""
        worker, names = self._worker, registry.names()
        limit = min(worker.capacity, BATCH)
        if not limit or not names:
            return False
        await worker.lease.confirm()
        if worker.lease.enrolled != worker.lease.claimable():  # a module with workflows was imported since
            await worker.lease.begin()
        if worker.lease.is_settling:
            return False
        own = worker.own
        claims = await (worker.claim(workflows=names, limit=limit) if own is None else self._claim_own(own, limit))
        await asyncio.gather(*(worker.takeovers.adopt(claim, has_slots=own is None) for claim in claims))
        return len(claims) == limit

    async def _claim_own(self, own: set[RunId], limit: int) -> list[Claim]:
        """Claim those of the worker's own runs that have no live owner and work to do."""
        runs = [run for run in tuple(own) if not self._worker.has_run(run) and await self._needs_owner(run)]
        return await self._worker.claim(runs=runs, limit=limit) if runs else []

    async def _until_due(self, began: float) -> float:
        """Seconds until the next timer is due that was not due when this round began, or until the next poll."""
        store, passed = self._worker.store, asyncio.get_running_loop().time() - began
        now = await store.now()
        due = await store.next_due(now - round(passed * 1e6))
        return POLL_INTERVAL_S if due is None else min(max(0.0, (due - now) / 1e6), POLL_INTERVAL_S)

    async def _report_damaged_waits(self) -> None:
        """Log each due wait whose row cannot be decoded, once: no claim returns its run."""
        now = asyncio.get_running_loop().time()
        if now < self._next_report:
            return
        self._next_report = now + REPORT_INTERVAL_S
        after: Due | None = None
        while True:
            page = await self._worker.store.due(REPORT_BATCH, after=after)
            for due in page:
                if due.fault and (due.run, due.wait.name) not in self._reported:
                    self._reported.add((due.run, due.wait.name))
                    remedy = f"`outlast doctor {due.run} --fix` rebuilds it"
                    log.error("run %s, table of waits: %s; %s", due.run, due.fault, remedy)
            if len(page) < REPORT_BATCH:
                return
            after = page[-1]

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
        if head.ready:
            return True
        if summary.queue in self._worker.slots and summary.status is RunStatus.WAITING:
            return _may_be_due(summary, await store.now())  # it was released to wait
        return not (summary.held or summary.status is RunStatus.PAUSED)


def _may_be_due(summary: RunSummary, now: int) -> bool:
    """Whether a timer of a run may be due. A summary shows only some of its waits."""
    dues = [wait.due for wait in summary.waits if wait.kind == "timer" and wait.due is not None]
    return summary.waiting > len(summary.waits) or any(due <= now for due in dues)
