"""Releases runs that only wait, so that they occupy no memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from outlast.history.ids import RunId

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver
    from outlast.engine.worker import Worker

INTERVAL_S = 5.0
"""Seconds between two rounds. A run that was idle in two consecutive rounds, and whose log has not grown between them, is
released."""
LONG_LOG = 50
"""Events of a log that is long: to replay it costs more than to release the run in a transaction of its own."""
MAX_LONG_RUNS = 100
"""Waiting runs with a long log that may stay in memory though it is crowded."""


class Evictor:
    """Releases the idle runs of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._idle: dict[RunId, int] = {}
        """The version of each run that was idle in the last round."""

    async def run(self) -> None:
        """Evict until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.evict_idle()

    async def evict_idle(self) -> None:
        idle = {run: driver for run, driver in self._worker.drivers.items() if driver.is_idle}
        versions = {run: driver.writer.head.version for run, driver in idle.items()}
        for run, version in self._idle.items():
            if versions.get(run) == version:
                await idle[run].release_if_idle()
                del versions[run]
        self._idle = versions


class LongRuns:
    """The waiting runs with a long log that stay in memory though it is crowded: those that were active last.

    A run that is released is replayed when it continues, and the cost of that grows with its log. A parent that was released
    after the end of each of its children would be replayed once for each."""

    def __init__(self) -> None:
        self._drivers: dict[RunId, RunDriver] = {}
        """In the order of their last activity."""

    def keep(self, driver: RunDriver) -> RunDriver | None:
        """Keep a run. Returns the one to release instead, if there are too many."""
        drivers = self._drivers
        drivers.pop(driver.run, None)
        drivers[driver.run] = driver
        return drivers.pop(next(iter(drivers))) if len(drivers) > MAX_LONG_RUNS else None

    def forget(self, driver: RunDriver) -> None:
        """The run is not in memory any more."""
        if self._drivers.get(driver.run) is driver:
            del self._drivers[driver.run]
