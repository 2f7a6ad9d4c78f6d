"""Removes what deleted runs left, in bounded steps: their rows first, then the blobs that no kept run names.

`Deletion.delete` takes a run out of every list at once; the steps here only free space. So they may stop at any moment, any
process may continue them, and several may run at once. Between two steps they wait longer than a step took: most of the time
of the store is left to appends.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from time import monotonic, perf_counter

from outlast.errors import OutlastError
from outlast.services.leases import acquire, resign
from outlast.store import Store

log = logging.getLogger("outlast.services")

ROWS = 200
"""Rows that one step removes."""
BLOBS = 1000
GRACE_S = 86_400.0
"""Seconds that a blob is kept after it was last put, although no log names it: a log may be about to (S13)."""
INTERVAL_S, COLLECT_S = 300.0, 6 * 3600.0
"""Seconds between two purges, and between two collections: a collection lists all blobs."""
LEASE_S = 30.0
SERVICE = "pruner"
"""The lease of the process that prunes."""


REST, MOST_REST_S = 4, 0.02
"""Between two steps there is a rest of so many times the last one, but at most so many seconds more than it took: a step
that takes longer waits for requests and not for the store."""


class Pace:
    """Waits between steps in proportion to the last one."""

    def __init__(self) -> None:
        self._begun = perf_counter()

    async def wait(self) -> float:
        """Returns how many seconds the step took."""
        seconds = perf_counter() - self._begun
        await asyncio.sleep(min(REST * seconds, seconds + MOST_REST_S))
        self._begun = perf_counter()
        return seconds


async def purge(store: Store) -> AsyncIterator[int]:
    """Remove what deleted runs left, and yield the number of steps so far after each."""
    pace, steps = Pace(), 1
    while await store.purge(ROWS):
        yield steps
        steps += 1
        await pace.wait()


async def collect(store: Store, *, grace_s: float = GRACE_S) -> AsyncIterator[int]:
    """Remove the blobs that no kept run names, and yield their number so far after each step."""
    pace, put_before, removed = Pace(), await store.now() - round(grace_s * 1e6), 0
    while found := len(await store.collect(put_before, BLOBS)):
        removed += found
        yield removed
        await pace.wait()


class Pruner:
    """Frees the space of deleted runs, also of those whose deletion was interrupted. Times are in seconds."""

    def __init__(self, store: Store, *, interval: float = INTERVAL_S) -> None:
        self._store = store
        self._interval = interval
        self._id = os.urandom(16).hex()

    async def run(self) -> None:
        """Purge once per interval and collect every `COLLECT_S` until cancelled, while no other process does."""
        has_lease, collected = False, -COLLECT_S
        try:
            while True:
                await asyncio.sleep(self._interval)
                if not await acquire(self._store, SERVICE, self._id, 2 * self._interval + LEASE_S):
                    continue
                has_lease, now = True, monotonic()
                await self.prune(collects=now - collected >= COLLECT_S)
                collected = now if now - collected >= COLLECT_S else collected
        finally:
            if has_lease:
                with suppress(OutlastError):
                    await resign(self._store, SERVICE, self._id)

    async def prune(self, *, collects: bool = True) -> None:
        """Remove once what deleted runs left, and the blobs that no run names."""
        async for _ in purge(self._store):
            pass
        removed = 0
        if collects:
            async for number in collect(self._store):
                removed = number
        if removed:
            log.info("removed %d blobs that no run names", removed)
