"""Finds runs that nobody holds and whose time has come: a sleep is over, an attempt is due.

It only claims them: that the time has come is said by the owner, so that it is said once and in the order the code hears it.
"""

from __future__ import annotations

import asyncio

from outlast.runtime import registry
from outlast.runtime.worker import Worker
from outlast.store import Due

LONGEST, SHORTEST = 1.0, 0.005
"""Seconds between two looks: others may set timers at any moment, and those of other workers stay due until they act."""
BATCH = 1000


class Timekeeper:
    """Watches the timers of a store for one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run(self) -> None:
        """Look whenever a timer is due."""
        while True:
            await self.look()
            await asyncio.sleep(await self._until_next())

    async def look(self) -> None:
        """Claim the runs whose time has come and that nobody holds."""
        worker = self._worker
        runs = [due.run for due in await worker.store.due(BATCH) if await self._is_ours(due)]
        wanted = list(dict.fromkeys(runs))[: worker.room]
        if wanted:
            claims = await worker.store.claim(worker.id, runs=wanted, limit=len(wanted))
            await asyncio.gather(*(worker.adopt(claim) for claim in claims))

    async def _is_ours(self, due: Due) -> bool:
        own = self._worker.own
        if due.run in self._worker.drivers or due.wait.kind != "timer" or (own is not None and due.run not in own):
            return False
        summary = await self._worker.store.summary(due.run)
        if summary is None or summary.status not in ("running", "waiting"):
            return False
        return registry.known(summary.workflow) is not None

    async def _until_next(self) -> float:
        store = self._worker.store
        due = await store.next_due()
        if due is None:
            return LONGEST
        return min(LONGEST, max(SHORTEST, (due - await store.now()) / 1e6)) if due > await store.now() else LONGEST
