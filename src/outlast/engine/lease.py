"""How long this worker is known to hold its runs.

A claim lasts until its worker's time runs out in the store. A process that was suspended, or whose loop was blocked, may go
on after that, when other workers own its runs. So the worker remembers until when the last renewal that the store confirmed
is good, counted from the moment it was sent, by a clock that nobody sets and that includes suspends. Past that time nothing
begins before the store was asked.

What remains: a process that is suspended after the check and before the node's first effect. The log refuses whatever it
appends then; what the node did outside cannot be taken back.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from outlast.errors import StoreError
from outlast.functions import registry
from outlast.history.ids import RunId, WorkerId

if TYPE_CHECKING:
    from outlast.engine.driver import Driver
    from outlast.engine.worker import Worker

log = logging.getLogger("outlast.engine")

RETRY_S = 0.5
"""Seconds between two tries to confirm a lease with a store that does not answer."""

since_boot: Callable[[], float] = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))
)
if not hasattr(time, "CLOCK_MONOTONIC"):
    since_boot = time.monotonic
"""Seconds on a clock that is never set and, where the platform has one, does not stand still while the machine sleeps."""


class Lease:
    """The time a worker holds its runs for. `ttl` is in seconds; `clock` tells them, also from other threads."""

    def __init__(self, worker: Worker, ttl: float, clock: Callable[[], float] = since_boot) -> None:
        self.ttl = ttl
        self.clock = clock
        self.until = math.inf
        """The lease is confirmed up to this time of the clock."""
        self.settled = -math.inf
        """From this time on, what others hold is judged by their leases."""
        self._worker = worker
        self._confirming: asyncio.Task[None] | None = None

    @property
    def is_lapsed(self) -> bool:
        return self.clock() >= self.until

    @property
    def is_settling(self) -> bool:
        """Whether this worker renewed only just now, after its lease had lapsed. Others that were suspended with it have not
        come to renew theirs yet, and are not dead. They do within a third of their time."""
        return self.clock() < self.settled

    def until_renewal(self) -> float:
        """Seconds until it is to be renewed: three times as often as it would have to."""
        return min(self.ttl / 3, max(0.0, self.until - 2 / 3 * self.ttl - self.clock()))

    async def begin(self) -> None:
        """Enrol the worker."""
        sent = self.clock()
        await self._worker.store.enrol(self._worker.id, self.ttl, registry.names())
        self.until = sent + self.ttl

    def renewed(self, worker: WorkerId, sent: float) -> None:
        """The store has confirmed a renewal sent at that time. One that is confirmed after the lease had lapsed does not
        count: others may have claimed runs in between."""
        if worker == self._worker.id and self.clock() < self.until:
            self.until = max(self.until, sent + self.ttl)

    def lapse(self) -> None:
        """The store does not know the worker any more."""
        self.until = -math.inf

    async def confirm(self) -> None:
        """Return at once if the lease has not lapsed; else when the store has said which runs are still this worker's, and
        the others are left."""
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
                    log.error(
                        "worker %s is no longer known to the store: it leaves its runs and enrols anew", worker.id
                    )
                    worker.restart_as_new_worker()
                    await self.begin()
                self.settled = self.clock() + self.ttl / 2
            except StoreError as error:
                log.warning("worker %s cannot confirm its claims, and begins no node: %s", worker.id, error)
                await asyncio.sleep(RETRY_S)

    async def _leave_lost(self, drivers: dict[RunId, Driver]) -> None:
        """Leave those of these runs, which were this worker's before it renewed, that other workers have claimed since."""
        worker = self._worker
        held = {each.run async for each in worker.holdings()}
        for run, driver in drivers.items():
            if run not in held and not driver.is_over and await self._is_lost(run, driver.writer.epoch):
                log.error("run %s is left: another worker claimed it while this one had not renewed its claim", run)
                driver.leave()

    async def _is_lost(self, run: RunId, epoch: int) -> bool:
        """Whether another worker has the run, or had it; else this worker has released it with an append that has landed."""
        store = self._worker.store
        holding, head = await store.holding(run), await store.head(run)
        return holding is not None or head is None or head.epoch > epoch
