"""Attempts in another process than their engine, in a helper process or on a cluster, as their code sees them.

A helper process sets `process_attempt` for all of its threads; a thread of a cluster's worker uses `attempt_entered`
for itself. Messages reach the engine through the channel of the attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from outlast.execution.process_wire import AttemptInfo, Kind
from outlast.values.codec import encode
from outlast.values.failures import LONGEST_TEXT
from outlast.values.secret_patterns import masked


class Channel(Protocol):
    """The connection to the engine."""

    @property
    def is_stopping(self) -> bool:
        """Whether the engine has abandoned the attempt."""
        ...

    def send_note(self, kind: Kind, body: bytes) -> None:
        """Send a note, and wait until it is sent."""
        ...

    def save(self, data: bytes) -> bool:
        """Send a checkpoint, and wait until it is durable. True if the attempt must end there."""
        ...


class RemoteAttempt:
    """One attempt, in the process that runs it."""

    def __init__(self, attempt: AttemptInfo, channel: Channel) -> None:
        self.attempt = attempt
        self._channel = channel

    @property
    def is_stopping(self) -> bool:
        return self._channel.is_stopping

    def checkpoint(self, data: bytes) -> None:
        """Store a checkpoint; returns when it is durable, or raises `Stopped`."""
        if self._channel.save(memoryview(data).tobytes()):
            raise Stopped("it ends at its checkpoint")

    def progress(self, progress: dict[str, Any]) -> None:
        """Send the progress of the node; raises `NotStorable` like any other value."""
        self._channel.send_note("progress", bytes(encode(progress, where="progress")))

    def output(self, state: dict[str, str]) -> None:
        """Send the state of a file that the node writes."""
        self._channel.send_note("output", msgspec.json.encode(state))


process_attempt: RemoteAttempt | None = None
"""The attempt that this whole process runs, if it is a helper process."""
_entered: ContextVar[RemoteAttempt | None] = ContextVar("outlast_far", default=None)


def current() -> RemoteAttempt | None:
    """The remote attempt that the calling code belongs to; None if there is none, or if its engine is in this process."""
    return _entered.get() or process_attempt


@contextmanager
def attempt_entered(remote_attempt: RemoteAttempt) -> Iterator[None]:
    """Run the attempt in this context, and in its copies."""
    token = _entered.set(remote_attempt)
    try:
        yield
    finally:
        _entered.reset(token)


class LogForwarder(logging.Handler):
    """Sends log records to the engine while it is entered. With several attempts in one process, each forwards its own
    records."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(logging.INFO)
        self._channel = channel
        self._remote_attempt: RemoteAttempt | None = None
        self.setFormatter(logging.Formatter("%(message)s"))

    def __enter__(self) -> None:
        self._remote_attempt = _entered.get()
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self._remote_attempt is not _entered.get():
            return
        try:
            text = masked(self.format(record)).encode(errors="backslashreplace").decode()
            if len(text) > LONGEST_TEXT:
                text = f"{text[: LONGEST_TEXT - 1]}…"
            line = {"time": record.created, "level": record.levelname, "logger": record.name, "text": text}
            self._channel.send_note("line", msgspec.json.encode(line))
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)


class Stopped(BaseException):
    """Raised by `checkpoint` in a plain node that must end there: its run is being paused, or the attempt was
    abandoned.

    The checkpoint is durable, and the next attempt reads it. It derives from `BaseException`, so that `except
    Exception` does not catch it; `finally` and `with` blocks run as usual."""
