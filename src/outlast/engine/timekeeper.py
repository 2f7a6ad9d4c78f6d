"""Finds runs that nobody holds and whose time has come: a sleep is over, an attempt is due.

It only claims them: that the time has come is said by the owner, so that it is said once and in the order the code hears it.

Waits that nobody here can act on stay due, perhaps by the thousand: of runs that are paused, or whose code others have. They
must neither hide those behind them nor be asked about again and again. So what was found to be others' is remembered, and a
look begins behind the oldest of it; after a while, or when more is ours than was, everything is looked at anew.
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
"""Seconds between two looks: others may set timers at any moment, and those of other workers stay due until they act."""
BATCH = 1000
RESCAN_S = 60.0
"""Seconds for which it is believed that a wait is others'."""
SETTLED_US = 30_000_000
"""Microseconds after which no more timers are expected to be set for a time: clocks differ, and a run takes its time to be
given back."""


class Timekeeper:
    """Watches the timers of a store for one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._others: set[tuple[RunId, str, int | None]] = set()
        """Waits that are known to be others'. By wait and not by run: a new one of the same run may be ours."""
        self._begin: Due | None = None
        """Looks begin behind this one: it and all before it are others'."""
        self._workflows = 0
        self._since = 0.0

    async def run(self) -> None:
        """Look whenever a timer is due."""
        while True:
            await self.look()
            await asyncio.sleep(await self._until_next())

    async def look(self) -> None:
        """Claim the runs whose time has come and that nobody holds."""
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
            await asyncio.sleep(0)  # there may be many pages, and a store may answer without letting the loop turn

    async def _claim(self, runs: Sequence[RunId]) -> None:
        worker = self._worker
        if runs and worker.capacity:
            claims = await worker.claim(runs=list(dict.fromkeys(runs)), limit=worker.capacity)
            await asyncio.gather(*(worker.takeovers.adopt(claim) for claim in claims))

    # --- whose they are

    async def _is_ours(self, due: Due) -> bool:
        if due.run in self._worker.drivers or _key(due) in self._others:
            return False
        is_ours = await self._may_claim(due)
        if is_ours is False:
            self._others.add(_key(due))
        return is_ours is True

    async def _may_claim(self, due: Due) -> bool | None:
        """Whether to claim a run for this; None if that cannot be told yet."""
        if due.fault:
            log.error(
                "run %s, table of waits: %s; `outlast doctor %s --fix` writes it again", due.run, due.fault, due.run
            )
            return False
        if due.wait.kind != "timer":
            return False
        try:
            summary = await self._worker.store.summary(due.run)
        except Damaged as damage:
            log.error("%s; `outlast doctor %s --fix` writes it again", damage, due.run)
            return False
        if summary is None:
            return None
        return summary.status in ("running", "waiting", "compensating") and registry.known(summary.workflow) is not None

    def _advance_past(self, page: Sequence[Due], settled: int) -> bool:
        """Begin behind those that are others', as far as nothing else may yet come between them; False if not all are."""
        for due in page:
            if _key(due) not in self._others or (due.wait.due or 0) > settled:
                return False
            self._begin = due
        return True

    def _restart_scan_if_due(self) -> None:
        """Begin at the beginning after a while, and when other code is known here."""
        workflows, now = len(registry.names()), asyncio.get_running_loop().time()
        if workflows != self._workflows or now - self._since >= RESCAN_S:
            self._others.clear()
            self._begin, self._workflows, self._since = None, workflows, now

    async def _until_next(self) -> float:
        store = self._worker.store
        due = await store.next_due()
        if due is None:
            return MAX_SLEEP_S
        return (
            min(MAX_SLEEP_S, max(MIN_SLEEP_S, (due - await store.now()) / 1e6))
            if due > await store.now()
            else MAX_SLEEP_S
        )


def _key(due: Due) -> tuple[RunId, str, int | None]:
    return due.run, due.wait.name, due.wait.due
