"""Tasks that run to completion even if their caller is cancelled or the engine closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

log = logging.getLogger("outlast.engine")


class ShieldedTasks:
    """The unfinished tasks."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    async def shield(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task, and wait for it. Cancelling the caller does not cancel the task."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        await asyncio.shield(task)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:  # retrieved here: the caller may have been cancelled
            log.debug("a shielded task failed: %s", task.exception())

    async def done(self, timeout: float) -> None:
        """Wait for all tasks, for at most this many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
