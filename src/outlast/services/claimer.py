"""Finds runs that want an owner: new ones, those that heard something, those whose owner is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from outlast.runtime import registry
from outlast.runtime.worker import Worker

POLL = 1.0
"""Seconds between two looks when nothing was announced: a death is announced by nobody."""
BATCH = 200
"""Runs claimed in one step."""
SHORTEST = 0.01
"""Seconds between two looks however much is announced."""


class Claimer:
    """Claims for one worker what its process has code for."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run(self) -> None:
        """Look whenever there may be something."""
        while True:
            self._worker.wanted.clear()
            if not await self.look():
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL):
                        await self._worker.wanted.wait()
                await asyncio.sleep(SHORTEST)

    async def look(self) -> bool:
        """Claim some; True if there may be more."""
        worker, names = self._worker, registry.names()
        wanted = min(worker.room, BATCH)
        if not wanted or not names:
            return False
        claims = await worker.store.claim(worker.id, workflows=names, limit=wanted)
        await asyncio.gather(*(worker.adopt(claim) for claim in claims))
        return len(claims) == wanted
