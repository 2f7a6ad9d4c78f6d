"""Who speaks: whose words those are that are logged or printed in the current context.

A context belongs to an attempt while `capture` is around it, and to a replay while its `ReplaySilencer` is on. Contexts
are copied into asyncio tasks and by `asyncio.to_thread`, so what an attempt starts speaks for it too. What is heard is in
`hearing`, what becomes of it in `lines`.
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
    """Who takes lines."""

    clock: Callable[[], int]

    def add(self, line: Line) -> None:
        """Take a line, from any thread, at once."""
        ...


class ReplaySilencer:
    """Whether the code of a context is being replayed. A driver makes one, sets `is_replaying` to it in the context that
    its workflow runs in, and turns it on and off; while it is on, nothing that is logged there reaches any handler: it has
    been said before."""

    __slots__ = ("on",)

    def __init__(self, on: bool = False) -> None:
        self.on = on


_lock = threading.RLock()
"""Who prints, prints alone. Reentrant: a collection of garbage may print in the midst of it."""
is_replaying: ContextVar[ReplaySilencer | None] = ContextVar("outlast_is_replaying", default=None)
_attempt_log: ContextVar[AttemptLog | None] = ContextVar("outlast_speaking", default=None)


def is_silent() -> bool:
    """Whether the current context is one of a replay."""
    replay = is_replaying.get()
    return replay is not None and replay.on


def current_attempt_log() -> AttemptLog | None:
    """The attempt that the current context belongs to."""
    return _attempt_log.get()


@contextmanager
def capture(sink: LogSink, run: RunId, node: str, attempt: int, *, stdout: bool = False) -> Iterator[None]:
    """Let what is logged in here, and printed if `stdout`, be lines of this attempt, provided the process listens
    (`LogWriter.install`). An attempt is never a replay: it is heard even where its driver's context is silent."""
    speaking = AttemptLog(sink, run, node, attempt, stdout)
    spoken, replayed = _attempt_log.set(speaking), is_replaying.set(None)
    try:
        yield
    finally:
        _attempt_log.reset(spoken)
        is_replaying.reset(replayed)
        speaking.end()


set_attempt_log = _attempt_log.set
"""`capture` without an end, for a context that belongs to the attempt alone; `AttemptLog.end` says what is left."""


class AttemptLog(Struct, eq=False):
    """An attempt that speaks, on any thread. `partial_line` is what was printed since the last end of line."""

    sink: LogSink
    run: RunId
    node: str
    attempt: int
    prints: bool
    partial_line: str = ""

    def write_line(self, level: str, logger: str, text: str) -> None:
        """A line of its own."""
        sink = self.sink
        sink.add(Line(self.run, self.node, self.attempt, sink.clock(), level, logger, text))

    def print(self, text: str) -> None:
        """A piece of what is printed: lines are said when they are complete, or too long to wait for."""
        with _lock:
            # Secrets are masked while their lines are still together.
            *complete, self.partial_line = masked(self.partial_line + text).split("\n")
            for line in complete:
                self.write_line(STDOUT, "", line)
            if len(self.partial_line) > LONGEST_TEXT:
                self.end()

    def end(self) -> None:
        """Say what was printed without an end of line."""
        if not self.partial_line:
            return
        with _lock:
            partial_line, self.partial_line = self.partial_line, ""
            if partial_line:
                self.write_line(STDOUT, "", partial_line)
