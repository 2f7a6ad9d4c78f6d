"""The leaf module for context variables: the attempt whose log lines are captured, and whether workflow code is replayed.

A context belongs to an attempt inside `capture`, and to a replay while its `ReplaySilencer` is on. asyncio tasks and
`asyncio.to_thread` copy contexts, so lines of code that an attempt starts belong to the attempt too. `log_capture` reads
these variables, `log_writer` stores the lines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from msgspec import Struct

from outlast.history.ids import RunId
from outlast.store import Line
from outlast.values.secret_patterns import masked

LONGEST_TEXT = 8_000
"""How many characters of a line are kept."""
STDOUT = "STDOUT"
"""The level of a line that was printed."""


class LogSink(Protocol):
    """Receives lines."""

    clock: Callable[[], int]

    def add(self, line: Line) -> None:
        """Accept a line, from any thread, without waiting."""
        ...


class ReplaySilencer:
    """Whether the code of a context is being replayed. A driver sets `is_replaying` to it in the context of its workflow,
    and turns it on and off. While it is on, no handler receives what the code logs: the live run has logged it already."""

    __slots__ = ("on",)

    def __init__(self, on: bool = False) -> None:
        self.on = on


_lock = threading.RLock()
"""Serializes printing. It is reentrant because a garbage collection may print in between."""
is_replaying: ContextVar[ReplaySilencer | None] = ContextVar("outlast_is_replaying", default=None)
_attempt_log: ContextVar[AttemptLog | None] = ContextVar("outlast_attempt_log", default=None)


def is_in_workflow() -> bool:
    """Whether the current context belongs to workflow code."""
    return is_replaying.get() is not None


def is_silent() -> bool:
    """Whether the current context is replaying."""
    replay = is_replaying.get()
    return replay is not None and replay.on


def current_attempt_log() -> AttemptLog | None:
    """The attempt that the current context belongs to."""
    return _attempt_log.get()


@contextmanager
def capture(sink: LogSink, run: RunId, node: str, attempt: int, *, stdout: bool = False) -> Iterator[None]:
    """Make what is logged in this block, and printed if `stdout` is set, lines of this attempt, provided the process
    captures logs (`LogWriter.install`). An attempt is never a replay, so its lines are kept even if the context of its
    driver is silent."""
    attempt_log = AttemptLog(sink, run, node, attempt, stdout)
    log_token, replay_token = _attempt_log.set(attempt_log), is_replaying.set(None)
    try:
        yield
    finally:
        _attempt_log.reset(log_token)
        is_replaying.reset(replay_token)
        attempt_log.end()


set_attempt_log = _attempt_log.set
"""`capture` without an end, for a context that belongs to the attempt alone; `AttemptLog.end` writes the rest."""


class AttemptLog(Struct, eq=False):
    """The lines of an attempt, from any thread. `partial_line` is the text printed since the last line break."""

    sink: LogSink
    run: RunId
    node: str
    attempt: int
    prints: bool
    partial_line: str = ""

    def write_line(self, level: str, logger: str, text: str) -> None:
        """Add a complete line."""
        sink = self.sink
        sink.add(Line(self.run, self.node, self.attempt, sink.clock(), level, logger, text))

    def print(self, text: str) -> None:
        """Add printed text. Lines are written when they are complete or too long."""
        with _lock:
            # Mask secrets before the lines of their values are separated.
            *complete, self.partial_line = masked(self.partial_line + text).split("\n")
            for line in complete:
                self.write_line(STDOUT, "", line)
            if len(self.partial_line) > LONGEST_TEXT:
                self.end()

    def end(self) -> None:
        """Write the text that was printed without a line break."""
        if not self.partial_line:
            return
        with _lock:
            partial_line, self.partial_line = self.partial_line, ""
            if partial_line:
                self.write_line(STDOUT, "", partial_line)
