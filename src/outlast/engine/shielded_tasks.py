"""Work that is done to its end, though whoever waits for it may be cancelled, and the engine be about to close."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

log = logging.getLogger("outlast.engine")


class ShieldedTasks:
    """What is under way of it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    async def shield(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for it, if nobody minds."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        await asyncio.shield(task)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:  # looked at: perhaps nobody waits for it any more
            log.debug("what was to be seen through has failed: %s", task.exception())

    async def done(self, timeout: float) -> None:
        """Wait for all of it, for so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
