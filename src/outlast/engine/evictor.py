"""Sees runs out that only wait: their place in the store is enough."""

from __future__ import annotations

import asyncio

from outlast.engine.worker import Worker
from outlast.history.ids import RunId

EVERY = 5.0
"""Seconds between two rounds. A run that was idle in two of them is given back."""


class Usher:
    """Goes round for one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._idle: set[RunId] = set()

    async def run(self) -> None:
        """Go round until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.go_round()

    async def go_round(self) -> None:
        idle = {run: driver for run, driver in self._worker.drivers.items() if driver.is_idle}
        for run in self._idle & idle.keys():
            await idle[run].rest()
        self._idle = set(idle) - self._idle
