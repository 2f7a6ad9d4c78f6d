"""Threads for nodes that are plain functions.

They are daemons and are never waited for at exit: a node that hangs for ever must not keep the process from ending. There
are as many as are busy at once, up to a limit; beyond it calls wait in the order they came.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

Outcome: TypeAlias = tuple[Any, BaseException | None]
_Job: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Outcome], asyncio.AbstractEventLoop]


class Threads:
    """A pool of daemon threads."""

    def __init__(self, limit: int = 32) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0

    def run(self, call: Callable[[], Any]) -> asyncio.Future[Outcome]:
        """Value or error of the call, made in a thread. An error is handed over, not raised: any kind may come."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._busy += 1
        if self._threads < min(self._busy, self._limit):
            self._threads += 1
            threading.Thread(target=self._work, name=f"outlast-node-{self._threads}", daemon=True).start()
        self._jobs.put((call, future, loop))
        return future

    def close(self) -> None:
        """Let idle threads end; busy ones end after their call."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future, loop = job
            try:
                outcome: Outcome = (call(), None)
            except BaseException as error:
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop is closed: nobody is interested any more
                loop.call_soon_threadsafe(self._done, future, outcome)
            del job, call, future, outcome

    def _done(self, future: asyncio.Future[Outcome], outcome: Outcome) -> None:
        self._busy -= 1
        if not future.done():
            future.set_result(outcome)
