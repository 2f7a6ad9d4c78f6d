"""Releases runs that only wait, so that they occupy no memory."""

from __future__ import annotations

import asyncio

from outlast.engine.worker import Worker
from outlast.history.ids import RunId

INTERVAL_S = 5.0
"""Seconds between two rounds. A run that was idle in two consecutive rounds is released."""


class Evictor:
    """Releases the idle runs of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._idle: set[RunId] = set()

    async def run(self) -> None:
        """Evict until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.evict_idle()

    async def evict_idle(self) -> None:
        idle = {run: driver for run, driver in self._worker.drivers.items() if driver.is_idle}
        for run in self._idle & idle.keys():
            await idle[run].release_if_idle()
        self._idle = set(idle) - self._idle
