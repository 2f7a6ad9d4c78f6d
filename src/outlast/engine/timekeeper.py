"""Claims runs that have no owner and whose timer is due: a sleep is over, or the next attempt may begin.

It only claims them. The owner appends TimerFired, so that the event appears once and in the order in which the code
receives it.

Waits that this worker cannot act on stay due, possibly thousands: waits of paused runs, or of runs whose code only
others have. They must not hide later ones, and must not be checked in every round. So the timekeeper remembers the
waits that it leaves to others, and begins each scan after the oldest of them. It starts over after a while, and when
this process knows more workflows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from outlast.engine.worker import Worker
from outlast.errors import Damaged
from outlast.functions import registry
from outlast.history.ids import RunId
from outlast.store import Due

log = logging.getLogger("outlast.services")

MAX_SLEEP_S, MIN_SLEEP_S = 1.0, 0.005
"""Seconds between two scans: others may set timers at any moment, and timers of other workers stay due until those act.
"""
BATCH = 1000
RESCAN_S = 60.0
"""Seconds for which a wait counts as another worker's."""
SETTLED_US = 30_000_000
"""Microseconds after which no further timers appear for a time: clocks differ, and the release of a run takes time."""


class Timekeeper:
    """Watches the timers of a store for one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._others: set[tuple[RunId, str, int | None]] = set()
        """Waits left to other workers. Stored by wait and not by run: a new wait of the same run may be ours."""
        self._begin: Due | None = None
        """Scans begin after this wait: it and all earlier ones are left to others."""
        self._workflows = 0
        self._since = 0.0

    async def run(self) -> None:
        """Scan whenever a timer is due."""
        while True:
            await self.look()
            await asyncio.sleep(await self._until_next())

    async def look(self) -> None:
        """Claim the runs that have a due timer and no owner."""
        self._restart_scan_if_due()
        after, is_unbroken = self._begin, True
        settled = await self._worker.store.now() - SETTLED_US
        while self._worker.capacity:
            page = await self._worker.store.due(BATCH, after=after)
            await self._claim([due.run for due in page if await self._is_ours(due)])
            is_unbroken = is_unbroken and self._advance_past(page, settled)
            if len(page) < BATCH:
                break
            after = page[-1]
            await asyncio.sleep(0)  # there may be many batches, and a store may answer without yielding to the loop

    async def _claim(self, runs: Sequence[RunId]) -> None:
        worker = self._worker
        if runs and worker.capacity:
            claims = await worker.claim(runs=list(dict.fromkeys(runs)), limit=worker.capacity)
            await asyncio.gather(*(worker.takeovers.adopt(claim) for claim in claims))

    async def _is_ours(self, due: Due) -> bool:
        if due.run in self._worker.drivers or _key(due) in self._others:
            return False
        is_ours = await self._may_claim(due)
        if is_ours is False:
            self._others.add(_key(due))
        return is_ours is True

    async def _may_claim(self, due: Due) -> bool | None:
        """Whether to claim a run for this wait; None if that is unknown yet."""
        if due.fault:
            log.error("run %s, table of waits: %s; `outlast doctor %s --fix` rebuilds it", due.run, due.fault, due.run)
            return False
        if due.wait.kind != "timer":
            return False
        try:
            summary = await self._worker.store.summary(due.run)
        except Damaged as damage:
            log.error("%s; `outlast doctor %s --fix` rebuilds it", damage, due.run)
            return False
        if summary is None:
            return None
        return summary.status in ("running", "waiting", "compensating") and registry.known(summary.workflow) is not None

    def _advance_past(self, page: Sequence[Due], settled: int) -> bool:
        """Begin later scans after the waits that are left to others, as long as no new wait can appear between them.
        False if some waits are not left to others."""
        for due in page:
            if _key(due) not in self._others or (due.wait.due or 0) > settled:
                return False
            self._begin = due
        return True

    def _restart_scan_if_due(self) -> None:
        """Scan from the start after a while, and when the known workflows have changed."""
        workflows, now = len(registry.names()), asyncio.get_running_loop().time()
        if workflows != self._workflows or now - self._since >= RESCAN_S:
            self._others.clear()
            self._begin, self._workflows, self._since = None, workflows, now

    async def _until_next(self) -> float:
        store = self._worker.store
        due = await store.next_due()
        seconds = 0.0 if due is None else (due - await store.now()) / 1e6
        return min(MAX_SLEEP_S, max(MIN_SLEEP_S, seconds)) if seconds > 0 else MAX_SLEEP_S


def _key(due: Due) -> tuple[RunId, str, int | None]:
    return due.run, due.wait.name, due.wait.due
