"""An event loop in its own thread, for code that does not await."""

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
"""Seconds that cancelled tasks have to end before the loop stops without them."""


class LoopThread:
    """An event loop in its own thread, until it is stopped. Usable only in the process that created it."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.new_event_loop()
        self._process = os.getpid()
        self._is_stopped = False
        self._asked: set[Future[Any]] = set()
        self._gate = threading.RLock()  # reentrant: a finalizer may submit at any line
        self._thread = threading.Thread(target=self._loop.run_forever, name="outlast-engine", daemon=True)
        self._thread.start()

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs on the loop. An interrupt of the caller cancels the coroutine.
        `StoreError` if the loop is stopped before or meanwhile."""
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
        """Submit a coroutine without waiting for it; does nothing if the loop is stopped. The caller may be on the
        loop itself."""
        with suppress(OutlastError):
            self._submit(coroutine)

    def stop(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None) -> None:
        """Cancel the waiting calls, run the `last` coroutine and stop the loop. Only the first call, and only in the
        owning process, has an effect."""
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
            coroutine.close()  # it will never be awaited
            raise
        future.add_done_callback(self._asked.discard)
        return future

    def _check_other_thread(self) -> None:
        """Refuse a call that would block the loop it waits for."""
        check_may_wait()
        if threading.current_thread() is self._thread:
            raise NotAllowed("this is the engine's own loop, which would wait for itself: call from another thread")

    def _check_same_process(self) -> None:
        """Refuse after a fork, which does not copy the thread, and at interpreter exit, where the thread does not
        run."""
        if self._process != os.getpid():
            raise NotAllowed(
                f"the engine belongs to process {self._process}, not to its fork: open an engine in this process"
            )
        if sys.is_finalizing():
            raise StoreError(CLOSED)

    def _close_gate(self) -> bool:
        """Refuse new calls and cancel the waiting ones; False if that was done before."""
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
    """Refuse to block in workflow code, and in a node that runs on the engine's loop: that loop would wait for
    itself."""
    if scope.current.get(None) is not None:
        raise NotDurable(
            "a workflow cannot use a blocking engine or run(): its own engine would wait for it. "
            "Call the other workflow as a child run, or move this into a node that is a plain function."
        )
    node = current_attempt_log()
    if isinstance(node, NodeContext) and asyncio._get_running_loop() is node.loop:
        raise NotAllowed(
            f"node {node.node} is async and would block the loop of its own engine: to use a blocking engine or run(), "
            "make it a plain function, or call in a thread: await asyncio.to_thread(...)"
        )


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks of the loop. Tasks that are being cancelled already are not interrupted in their clean-up."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        if not task.cancelling():
            task.cancel()
    if left:
        await asyncio.wait(left, timeout=STOP_TIMEOUT_S)
    await loop.shutdown_asyncgens()
