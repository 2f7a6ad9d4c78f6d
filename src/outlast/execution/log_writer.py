"""Writes log lines of attempts to the store, in batches, a few times a second.

    writer = LogWriter(store, clock)
    writer.install()
    ...
    with capture(writer, run, node, attempt):
        logging.getLogger("shop").info("packed %d parcels", 3)
    ...
    await writer.close()

Lines are not events. A crash may lose them, and no caller waits for them or fails because of them: `add` puts a line
into memory, and one task writes the collected lines to the store. The level of the program's own logging decides which
records exist at all: Python's default is WARNING, and `logging.basicConfig(level=logging.INFO)` includes INFO.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import TypeAlias

from msgspec.structs import replace

from outlast.errors import OutcomeUnknown, StoreError
from outlast.execution.log_capture import listen_to_logging, listen_to_stdout
from outlast.history.ids import RunId
from outlast.store import Line, Lines
from outlast.values.context import LONGEST_TEXT
from outlast.values.secret_patterns import masked

log = logging.getLogger("outlast.engine")

FLUSH_INTERVAL_S = 0.25
"""Seconds between two transactions with lines."""
MAX_WAITING = 10_000
"""Lines that may wait for the store; beyond that the oldest are dropped."""
MAX_BATCH = 500
"""Lines in one transaction at most: an append may have to wait for the transaction, for some milliseconds."""

Dropped: TypeAlias = Counter[tuple[RunId, str, int]]
"""The number of dropped lines of each attempt."""


class LogWriter:
    """Accepts lines from any thread and writes them to the store. `clock` dates lines, in microseconds."""

    def __init__(self, store: Lines, clock: Callable[[], int]) -> None:
        self.clock = clock
        self._store = store
        self._waiting: deque[Line] = deque()
        self._dropped: Dropped = Counter()
        # Reentrant: a garbage collection while the lock is held may log.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_awake = False
        self._is_closed = False
        self._is_failing = False
        self._closing = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._uninstall: dict[str, Callable[[], None]] = {}

    def install(self, *, stdout: bool = False) -> None:
        """Begin to capture log records, and with `stdout` printed text, and to write lines on the running loop. From
        then on output of replays is dropped."""
        self._loop = asyncio.get_running_loop()
        if "logging" not in self._uninstall:
            self._uninstall["logging"] = listen_to_logging()
        if stdout and sys.stdout is not None and "stdout" not in self._uninstall:
            self._uninstall["stdout"] = listen_to_stdout()
        self._wake()

    def add(self, line: Line) -> None:
        """Accept a line, from any thread, without waiting. Masks secrets and cuts long text. Lines before `install`
        wait for it; lines after `close` are lost."""
        line = replace(
            line, text=_storable_text(line.text), logger=_storable_text(line.logger), level=_storable_text(line.level)
        )
        with self._lock:
            if self._is_closed:
                return
            self._waiting.append(line)
            self._drop_beyond_bound()
        if not self._is_awake:
            self._wake()

    async def close(self) -> None:
        """Stop capturing and write the waiting lines; those that the store does not take now are lost."""
        while self._uninstall:
            self._uninstall.popitem()[1]()
        with self._lock:
            self._is_closed = True
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self.flush()

    async def flush(self) -> None:
        """Write the waiting lines now."""
        async with self._flushing:
            await self._flush()

    def _wake(self) -> None:
        """Start the task if there are lines. It runs in an empty context, not in that of the caller."""
        with self._lock:
            if self._loop is None or self._is_awake or self._is_closed or not self._waiting:
                return
            self._is_awake = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._start, context=Context())

    def _start(self) -> None:
        if not self._is_closed and self._loop is not None:
            self._task = self._loop.create_task(self._flush_loop(), name="outlast-log-writer")

    async def _flush_loop(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_INTERVAL_S):
                    await self._closing.wait()
            await self.flush()
            with self._lock:
                if self._is_closed or not self._waiting:
                    self._is_awake = False
                    return

    async def _flush(self) -> None:
        while self._waiting:
            dropped, lines = self._take()
            try:
                await self._store.keep([*self._notices(dropped), *lines])
            except Exception as error:
                # Retry only lines that are known not to be stored: a duplicate line is worse than a missing one.
                if isinstance(error, StoreError) and not isinstance(error, OutcomeUnknown):
                    self._put_back(dropped, lines)
                self._log_failure(error, len(lines))
                return
            self._is_failing = False

    def _take(self) -> tuple[Dropped, list[Line]]:
        with self._lock:
            lines = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            dropped, self._dropped = self._dropped, Counter()
        return dropped, lines

    def _put_back(self, dropped: Dropped, lines: list[Line]) -> None:
        with self._lock:
            self._dropped.update(dropped)
            self._waiting.extendleft(reversed(lines))
            self._drop_beyond_bound()

    def _drop_beyond_bound(self) -> None:
        while len(self._waiting) > MAX_WAITING:
            line = self._waiting.popleft()
            self._dropped[line.run, line.node, line.attempt] += 1

    def _notices(self, dropped: Dropped) -> list[Line]:
        """One line for each attempt with dropped lines."""
        text = "{} lines were dropped: they were logged faster than the store accepts them"
        return [
            Line(*attempt, self.clock(), "WARNING", "outlast", text.format(count)) for attempt, count in dropped.items()
        ]

    def _log_failure(self, error: Exception, count: int) -> None:
        if not self._is_failing:  # once, until it works again
            log.warning("%d log lines of attempts could not be stored: %s", count, error)
        self._is_failing = True


def _storable_text(text: str) -> str:
    """Text that can be stored: Unicode, without secrets, and bounded. A long text loses its middle: the beginning of an
    error message and the end of its traceback matter most."""
    text = masked(text).encode(errors="backslashreplace").decode()
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[: half - 1]}…{text[-half:]}"
