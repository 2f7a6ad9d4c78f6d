"""A pool of helper processes for CPU-bound functions, which can be killed at any moment.

A helper is a new interpreter with the path, arguments, environment and working directory that this process has at that
moment; it runs one call after another. It leads a session of its own: a Ctrl-C at the terminal does not reach it, and a
kill includes the processes it has started. It ends when this process ends, for any reason (a helper in C code that
holds the interpreter lock ends once the lock is released).
"""

from __future__ import annotations

import asyncio
import os

from outlast.errors import InvalidInput
from outlast.execution.process_helper import Confirm, HelperProcess, OnMessage, ProcessDied, no_confirmation
from outlast.execution.process_wire import Call
from outlast.history.events import Failure

__all__ = ["OnMessage", "PoolClosed", "ProcessDied", "ProcessPool"]


class PoolClosed(ProcessDied):
    """The pool was closed before the call had an outcome."""


class ProcessPool:
    """At most `size` helper processes, started on demand. Use it on one event loop, and close it."""

    def __init__(self, size: int | None = None) -> None:
        self._size = os.cpu_count() or 1 if size is None else size
        if self._size < 1:
            raise InvalidInput(f"processes={size} is invalid: a pool needs at least one process")
        self._slots = asyncio.Semaphore(self._size)
        self._starting = asyncio.Lock()
        self._idle: list[HelperProcess] = []
        self._living: set[HelperProcess] = set()
        self._is_closed = False

    async def run(
        self, call: Call, inputs: bytes, *, on_message: OnMessage | None = None, confirm: Confirm = no_confirmation
    ) -> bytes | Failure:
        """The encoded result of the function, or its failure. Waits for a free helper.

        If the caller is cancelled, or `on_message` raises, the helper is killed at once, and has ended when this
        returns."""
        async with self._slots:
            helper = await self._free_helper()
            try:
                await confirm()
                answer = await helper.call(call, inputs, on_message)
            except BaseException as error:
                await helper.terminate()
                if self._is_closed and isinstance(error, ProcessDied):
                    raise PoolClosed(f"the pool was closed while it ran {call.entry}") from None
                raise
            if self._is_closed:
                await helper.terminate()
            else:
                self._idle.append(helper)
            return answer

    async def close(self) -> None:
        """End all helpers. Busy ones are killed; their calls raise `PoolClosed`, as do later calls."""
        self._is_closed = True
        async with self._starting:
            idle, self._idle = self._idle, []
            busy = self._living.difference(idle)
            for helper in busy:
                helper.kill()
            await asyncio.gather(*(each.shut_down() for each in idle), *(asyncio.shield(each.end) for each in busy))

    async def _free_helper(self) -> HelperProcess:
        while self._idle:
            helper = self._idle.pop()
            if helper.is_alive():
                return helper
            await helper.terminate()
        async with self._starting:
            if self._is_closed:
                raise PoolClosed("the pool is closed")
            helper = await HelperProcess.start()
            self._living.add(helper)
            helper.end.add_done_callback(lambda _: self._living.discard(helper))
            return helper
