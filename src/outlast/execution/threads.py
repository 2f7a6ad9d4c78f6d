"""Threads for nodes that are plain functions.

They are daemon threads and are never joined at exit: a node that hangs must not keep the process alive. There are as
many threads as concurrent calls, up to a limit; further calls wait in order.
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
    """A pool of daemon threads. An abandoned call that does not end does not count against the limit."""

    def __init__(self, limit: int = 32) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._wanted = 0
        self._lost = 0
        self._ends: dict[asyncio.Future[Outcome], asyncio.Future[None]] = {}

    def run(self, call: Callable[[], Any]) -> asyncio.Future[Outcome]:
        """The value or error of a call in a thread. An error is returned, not raised, because it may be of any type."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        future.add_done_callback(self._on_abandoned)
        self._wanted += 1
        self._jobs.put((call, future, loop))
        self._start_threads()
        return future

    @property
    def busy(self) -> int:
        """The number of calls with a caller that waits."""
        return self._wanted - self._lost

    def end_of(self, call: asyncio.Future[Outcome]) -> asyncio.Future[None]:
        """A future that is done when an abandoned call has ended."""
        return self._ends.setdefault(call, call.get_loop().create_future())

    def close(self) -> None:
        """End idle threads now, and busy ones after their call."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def _start_threads(self) -> None:
        if self._threads - self._lost < min(self._wanted - self._lost, self._limit):
            self._threads += 1
            threading.Thread(target=self._work, name=f"outlast-node-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future, loop = job
            outcome: Outcome = (None, None)
            try:
                if not future.cancelled():  # it may have been cancelled in the queue
                    outcome = (call(), None)
            except BaseException as error:
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._done, future, outcome)
            del job, call, future, outcome

    def _done(self, future: asyncio.Future[Outcome], outcome: Outcome) -> None:
        self._wanted -= 1
        if future.done():
            self._lost -= 1
            end = self._ends.pop(future, None)
            if end is not None and not end.done():
                end.set_result(None)
        else:
            future.set_result(outcome)

    def _on_abandoned(self, future: asyncio.Future[Outcome]) -> None:
        """Count a cancelled call, which still runs or is still queued."""
        if future.cancelled():
            self._lost += 1
            self._start_threads()
