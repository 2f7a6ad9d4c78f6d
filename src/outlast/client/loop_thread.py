"""A loop for code that does not await, in a thread of its own, and what becomes of those who wait when it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from outlast.errors import NotAllowed, NotDurable, OutlastError, StoreError
from outlast.execution.node_context import NodeContext
from outlast.functions import scope
from outlast.values.context import current_attempt_log
from outlast.values.tracebacks import folded

T = TypeVar("T")

CLOSED = "the engine was closed: open another one"
STOP_TIMEOUT_S = 5.0
"""Seconds that what was cancelled has to end before the loop ends without it."""


class LoopThread:
    """An event loop in a thread of its own, for as long as it is not stopped, and in the process that made it."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.new_event_loop()
        self._process = os.getpid()
        self._is_stopped = False
        self._asked: set[Future[Any]] = set()
        self._gate = threading.RLock()  # one that the collector of garbage may come through again, at any line
        self._thread = threading.Thread(target=self._loop.run_forever, name="outlast-engine", daemon=True)
        self._thread.start()

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine on that loop. Who is interrupted while waiting leaves it undone; `StoreError` if the
        loop is stopped, before or meanwhile."""
        try:
            self._check_other_thread()
        except OutlastError:
            coroutine.close()
            raise
        future = self._submit(coroutine)
        try:
            return self._awaited(future)
        except CancelledError:
            if self._is_stopped:
                raise StoreError(CLOSED) from None
            raise
        except Exception as error:
            __tracebackhide__ = True
            raise folded(error)  # noqa: B904 - it is the same error

    def leave(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Have it done without waiting, if that is still possible: whoever tidies up may be on that loop itself."""
        with suppress(OutlastError):
            self._submit(coroutine)

    def stop(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None) -> None:
        """Tell those who wait, do one `last` thing and end. Only the first time, and only in the process it belongs to."""
        self._check_other_thread()
        if self._process != os.getpid() or not self._close_gate():
            return
        try:
            if last is not None:
                self._awaited(asyncio.run_coroutine_threadsafe(last(), self._loop))
        finally:
            self._awaited(asyncio.run_coroutine_threadsafe(_cancel_all(self._loop), self._loop))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            self._check_same_process()
            with self._gate:
                if self._is_stopped:
                    raise StoreError(CLOSED)
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
                self._asked.add(future)
        except OutlastError:
            coroutine.close()  # nobody will ever await it
            raise
        future.add_done_callback(self._asked.discard)
        return future

    def _check_other_thread(self) -> None:
        """Who waits here must not hold up what is waited for."""
        check_may_wait()
        if threading.current_thread() is self._thread:
            raise NotAllowed("this is the engine's own loop, which would wait for itself: ask from another thread")

    def _check_same_process(self) -> None:
        """The thread stays behind when a process is forked, and stands still when the interpreter ends."""
        if self._process != os.getpid():
            raise NotAllowed(
                f"the engine belongs to process {self._process}, which was forked: open one in this process"
            )
        if sys.is_finalizing():
            raise StoreError(CLOSED)

    def _close_gate(self) -> bool:
        """Let nobody in any more and tell those who wait; False if that was done before."""
        with self._gate:
            if self._is_stopped:
                return False
            self._is_stopped = True
        for future in list(self._asked):
            future.cancel()
        return True

    def _awaited(self, future: Future[T]) -> T:
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def check_may_wait() -> None:
    """Refuse to wait in workflow code, which the loop of its engine waits for, and in a node that runs on that loop."""
    if scope.current.get(None) is not None:
        raise NotDurable(
            "a workflow cannot use an engine that blocks, nor run(): its own engine would wait for it. "
            "Call the other workflow as a child run, or do this in a node that is a plain function."
        )
    node = current_attempt_log()
    if isinstance(node, NodeContext) and asyncio._get_running_loop() is node.loop:
        raise NotAllowed(
            f"node {node.node} is async and would hold up the loop of its own engine: to use an engine that blocks, "
            "or run(), make it a plain function, or ask in a thread: await asyncio.to_thread(...)"
        )


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """End what is left on the loop. What is being cancelled already is not disturbed again while it tidies up."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        if not task.cancelling():
            task.cancel()
    if left:
        await asyncio.wait(left, timeout=STOP_TIMEOUT_S)
    await loop.shutdown_asyncgens()
