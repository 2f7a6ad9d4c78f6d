"""Keeps a worker alive in the eyes of the store, and compares what it holds with what it knows to hold."""

from __future__ import annotations

import asyncio
import logging

from outlast.history.ids import RunId
from outlast.runtime.worker import Worker

log = logging.getLogger("outlast.services")


class Renewer:
    """Renews one worker three times as often as it would have to. `ttl` is in seconds."""

    def __init__(self, worker: Worker, ttl: float) -> None:
        self._worker = worker
        self._ttl = ttl
        self._unknown: set[RunId] = set()

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await asyncio.sleep(self._ttl / 3)
            await self.renew()

    async def renew(self) -> None:
        worker = self._worker
        if not await worker.store.renew(worker.id, self._ttl):
            log.error("worker %s was taken for dead: it gives up its runs and goes on as a new one", worker.id)
            worker.begin_anew()
            await worker.store.enrol(worker.id, self._ttl)
            return
        await self._look_for_forgotten()

    async def _look_for_forgotten(self) -> None:
        """A claim whose answer was lost is ours all the same. What is unknown twice in a row is taken up."""
        worker, held, after = self._worker, set[RunId](), ""
        while True:
            page = await worker.store.holdings(worker.id, after=after)
            held |= {each.run for each in page if not worker.knows(each.run) and each.run not in worker.lent}
            if len(page) < 1000:
                break
            after = page[-1].run
        forgotten, self._unknown = held & self._unknown, held
        for run in forgotten:
            for claim in await worker.store.claim(worker.id, runs=[run]):
                await worker.arrivals.adopt(claim)
