"""Attempts that run far from their engine, in a helper process or on a cluster, as the code there sees them.

Whoever runs one says which it is: a helper process for all of its threads (`process_attempt`), a thread of a
cluster's worker for
itself (`attempt_entered`). The engine hears what is said through the channel that the attempt came with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from outlast.execution.process_wire import AttemptInfo, Kind
from outlast.execution.stopping import Stopped
from outlast.values.codec import encode
from outlast.values.failures import LONGEST_TEXT
from outlast.values.secret_patterns import masked


class Channel(Protocol):
    """The way to the engine."""

    @property
    def is_stopping(self) -> bool:
        """Whether the engine no longer waits for the attempt."""
        ...

    def send_note(self, kind: Kind, body: bytes) -> None:
        """Send a note, and wait until it is on its way."""
        ...

    def save(self, data: bytes) -> bool:
        """Send a checkpoint, and wait until it is kept. True if the attempt is to end there."""
        ...


class RemoteAttempt:
    """One attempt, where it runs."""

    def __init__(self, attempt: AttemptInfo, channel: Channel) -> None:
        self.attempt = attempt
        self._channel = channel

    @property
    def is_stopping(self) -> bool:
        return self._channel.is_stopping

    def checkpoint(self, data: bytes) -> None:
        """Have the data kept; returns when it is, or raises `Stopped`."""
        if self._channel.save(memoryview(data).tobytes()):
            raise Stopped("it ends at its checkpoint")

    def progress(self, progress: dict[str, Any]) -> None:
        """Tell how far the work is; `NotStorable` as for any other value."""
        self._channel.send_note("progress", bytes(encode(progress, where="progress")))

    def output(self, told: dict[str, str]) -> None:
        """Tell of a file that is being written."""
        self._channel.send_note("output", msgspec.json.encode(told))


process_attempt: RemoteAttempt | None = None
"""The attempt that this whole process runs: it is a helper process."""
_entered: ContextVar[RemoteAttempt | None] = ContextVar("outlast_far", default=None)


def current() -> RemoteAttempt | None:
    """The attempt that runs here; None where there is none, or its engine is in this very process."""
    return _entered.get() or process_attempt


@contextmanager
def attempt_entered(remote_attempt: RemoteAttempt) -> Iterator[None]:
    """This context, and those copied from it, run the attempt."""
    before = _entered.set(remote_attempt)
    try:
        yield
    finally:
        _entered.reset(before)


class LogForwarder(logging.Handler):
    """Sends what is logged to the engine, while it is entered; of several attempts in one process, each its own."""

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
