"""Renews a worker's lease, and compares the runs it holds in the store with those it knows."""

from __future__ import annotations

import asyncio

from outlast.engine.worker import Worker
from outlast.history.ids import RunId


class Heartbeat:
    """Renews the lease of one worker, three times within each lease."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._unknown: set[RunId] = set()

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await asyncio.sleep(self._worker.lease.until_renewal())
            await self.renew()

    async def renew(self) -> None:
        worker, lease = self._worker, self._worker.lease
        id, sent = worker.id, lease.clock()
        if await worker.store.renew(id, lease.ttl):
            lease.renewed(id, sent)
        else:
            lease.lapse()
        await lease.confirm()
        await self._claim_unknown()

    async def _claim_unknown(self) -> None:
        """Take over runs that the store assigned to this worker in a claim whose answer was lost. A run counts after
        two consecutive rounds."""
        worker = self._worker
        held = {
            each.run
            async for each in worker.holdings()
            if not worker.has_run(each.run) and each.run not in worker.temporarily_owned
        }
        unknown_twice, self._unknown = held & self._unknown, held
        for run in unknown_twice:
            for claim in await worker.claim(runs=[run]):
                await worker.takeovers.adopt(claim)
