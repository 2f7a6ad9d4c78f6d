"""How long this worker is known to hold its runs.

A claim lasts until the lease of its worker expires in the store. A process that was suspended, or whose loop was
blocked, may continue after that, when other workers own its runs. So the worker remembers how long the last confirmed
renewal is valid, counted from the moment the renewal was sent, by a clock that is never set and that includes suspends.
After that time no node begins until the store has confirmed the lease.

One gap remains: a process that is suspended between this check and the first effect of a node. The log rejects its
later appends, but effects of the node outside the store cannot be undone.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.clock import since_boot
from outlast.errors import StoreError
from outlast.functions import registry
from outlast.history.ids import RunId, WorkerId
from outlast.store import WorkerInfo

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver
    from outlast.engine.worker import Worker

log = logging.getLogger("outlast.engine")

RETRY_S = 0.5
"""Seconds between two attempts to confirm a lease with a store that does not answer."""


class Lease:
    """The lease of a worker. `ttl` is in seconds, as is `clock`, which any thread may call."""

    def __init__(self, worker: Worker, ttl: float, clock: Callable[[], float] = since_boot) -> None:
        self.ttl = ttl
        self.clock = clock
        self.until = math.inf
        """The lease is confirmed up to this time of the clock."""
        self.settled = -math.inf
        """From this time on, the leases of other workers are reliable again."""
        self.enrolled: tuple[str, ...] = ()
        """The workflows that the store knows of this worker."""
        self._worker = worker
        self._started = 0
        self._confirming: asyncio.Task[None] | None = None

    @property
    def is_lapsed(self) -> bool:
        return self.clock() >= self.until

    @property
    def is_settling(self) -> bool:
        """Whether this worker has just renewed a lapsed lease. Other workers that were suspended with it, such as on
        the same machine, may be alive and renew within a third of their lease: they must not count as dead yet."""
        return self.clock() < self.settled

    def until_renewal(self) -> float:
        """Seconds until the next renewal: three renewals fit into one lease."""
        return min(self.ttl / 3, max(0.0, self.until - 2 / 3 * self.ttl - self.clock()))

    async def begin(self) -> None:
        """Enrol the worker with the workflows that it claims runs of."""
        store, own_clock = self._worker.store, self._worker.ledger.clock
        now = own_clock()
        skew = now - await store.now()
        sent, names, queues = self.clock(), self.claimable(), self._worker.settings.queues or None
        info = WorkerInfo(names, queues, socket.gethostname(), os.getpid(), self._started or now, skew)
        self._started = info.started
        await store.enrol(self._worker.id, self.ttl, info)
        self.until, self.enrolled = sent + self.ttl, names

    def claimable(self) -> tuple[str, ...]:
        """The workflows whose runs the worker claims; none if it only advances its own runs."""
        return registry.names() if self._worker.own is None else ()

    def renewed(self, worker: WorkerId, sent: float) -> None:
        """The store confirmed a renewal that was sent at that time. A confirmation after the lease had lapsed does not
        count: other workers may have claimed runs in between."""
        if worker == self._worker.id and self.clock() < self.until:
            self.until = max(self.until, sent + self.ttl)

    def lapse(self) -> None:
        """The store does not know the worker any more."""
        self.until = -math.inf

    async def confirm(self) -> None:
        """Return at once if the lease has not lapsed; otherwise after the store has named the runs that this worker
        still holds, and the drivers of the others have been closed."""
        if not self.is_lapsed:
            return
        if self._confirming is None or self._confirming.done():
            self._confirming = self._worker.spawn(self._confirm_with_store())
        if self._confirming is None:
            raise asyncio.CancelledError
        await asyncio.shield(self._confirming)

    async def _confirm_with_store(self) -> None:
        worker = self._worker
        while self.is_lapsed:
            drivers = {run: driver for run, driver in worker.drivers.items() if driver.writer.head.version}
            sent = self.clock()
            try:
                if await worker.store.renew(worker.id, self.ttl):
                    await self._leave_lost(drivers)
                    self.until = sent + self.ttl
                else:
                    log.error("the store has dropped worker %s: it stops its runs and enrols under a new id", worker.id)
                    worker.restart_as_new_worker()
                    await self.begin()
                self.settled = self.clock() + self.ttl / 2
            except StoreError as error:
                log.warning("worker %s cannot confirm its claims and begins no node until it can: %s", worker.id, error)
                await asyncio.sleep(RETRY_S)

    async def _leave_lost(self, drivers: dict[RunId, RunDriver]) -> None:
        """Close the drivers of runs that other workers claimed before this worker renewed its lease."""
        worker = self._worker
        held = {each.run async for each in worker.holdings()}
        for run, driver in drivers.items():
            if run not in held and not driver.is_over and await self._is_lost(run, driver.writer.epoch):
                log.error("run %s is stopped here: another worker claimed it after the lease had expired", run)
                driver.leave()

    async def _is_lost(self, run: RunId, epoch: int) -> bool:
        """Whether another worker holds or held the run. If not, this worker has released it with an append."""
        store = self._worker.store
        holding, head = await store.holding(run), await store.head(run)
        return holding is not None or head is None or head.epoch > epoch
