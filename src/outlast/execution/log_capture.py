"""Captures log records and printed text, and attributes them to attempts.

The hooks are installed for the first user and removed with the last. They find the attempt by the current context, and
pass everything else through.

Log records are captured where a logger passes a record to its handlers (`logging.Logger.callHandlers`), after the
levels and filters of the program: these decide which records are captured. A handler on the root logger would have side
effects: `logging.basicConfig` does nothing while there is one, warnings of a program without handlers do not reach
stderr, and loggers that do not propagate are missed. And no handler or filter could silence a replay for the handlers
of every logger. A single hook avoids all this: it changes no configuration, and no configuration removes it. It also
masks secrets in records of runs and of the engine before any handler receives them (R4).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Literal, Protocol

from outlast.execution import remote
from outlast.values import secret_patterns
from outlast.values.context import current_attempt_log, is_silent
from outlast.values.secret_patterns import masked

MIN_LEVEL = logging.INFO
"""Records below this level are not captured, even if the program logs them."""

_formatter = logging.Formatter()


class LogHook:
    """Receives every record before the handlers do, and drops records of a replay."""

    def __init__(self) -> None:
        original = self._original = logging.Logger.callHandlers

        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            if self._is_on:
                if is_silent():
                    return
                with suppress(Exception):  # a malformed record must reach the handlers unchanged
                    _capture_record(record)
                if secret_patterns.known:
                    with suppress(Exception):
                        _mask_secrets(record)
            original(logger, record)

        self._is_on = True
        self._installed = call_handlers
        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        self._is_on = False  # if another hook wraps this one, it stays installed and does nothing
        if logging.Logger.callHandlers is self._installed:
            logging.Logger.callHandlers = self._original  # type: ignore[method-assign]


def _capture_record(record: logging.LogRecord) -> None:
    attempt_log = current_attempt_log()
    if attempt_log is None or record.levelno < MIN_LEVEL or record.name.partition(".")[0] == "outlast":
        return
    attempt_log.write_line(record.levelname, record.name, _record_text(record))


def _mask_secrets(record: logging.LogRecord) -> None:
    """Mask secrets in a record of a run or of the engine, for all handlers. Other records of the program stay as they
    are."""
    if not (_is_in_run() or record.name.partition(".")[0] == "outlast"):
        return
    message = record.getMessage()
    if (masked_text := masked(message)) != message:
        record.msg, record.args = masked_text, ()
    if isinstance(record.exc_info, tuple) and record.exc_info[0] is not None:
        trace = _formatter.formatException(record.exc_info)
        if (masked_text := masked(trace)) != trace:
            record.exc_text, record.exc_info = masked_text, None
    for name, value in list(vars(record).items()):  # the stack, and attributes set by the program
        if isinstance(value, str) and name != "msg" and (masked_text := masked(value)) != value:
            setattr(record, name, masked_text)


def _is_in_run() -> bool:
    """Whether the current code belongs to a node or a workflow."""
    return (
        current_attempt_log() is not None
        or secret_patterns.revealed_here.get() is not None
        or remote.current() is not None
    )


def _record_text(record: logging.LogRecord) -> str:
    """The text of a record. A handler's formatter is not used, because it modifies the record."""
    try:
        parts = [record.getMessage()]
    except Exception as broken:  # the arguments do not fit the format, or have no text form
        parts = [f"<{type(broken).__qualname__} in a record of {record.pathname}, line {record.lineno}>"]
    if isinstance(record.exc_info, tuple) and record.exc_info[0] is not None:
        parts.append(_formatter.formatException(record.exc_info))
    elif record.exc_text:
        parts.append(record.exc_text)
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


class CapturedStream:
    """Replaces `sys.stdout` or `sys.stderr`. Drops text that workflow code prints in a replay, and captures stdout of
    attempts that want it. Records of a log handler that writes to stdout are captured twice: as records and as printed
    lines."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._original = getattr(sys, name)
        self._is_on = True
        if self._original is not None:
            setattr(sys, name, self)

    def remove(self) -> None:
        self._is_on = False  # a retained reference then writes straight to the original stream
        if getattr(sys, self._name) is self:
            setattr(sys, self._name, self._original)

    def write(self, text: str) -> int:
        if self._is_on and is_silent():
            return len(text)
        written: int = self._original.write(text)
        attempt_log = current_attempt_log() if self._is_on and self._name == "stdout" else None
        if attempt_log is not None and attempt_log.prints:
            with suppress(Exception):  # a failed capture must not affect `print`
                attempt_log.print(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class _Removable(Protocol):
    def remove(self) -> None: ...


class _SharedHook:
    """A hook that is installed while it has users."""

    def __init__(self, install: Callable[[], _Removable]) -> None:
        self._install = install
        self._hook: _Removable | None = None
        self._users = 0
        self._lock = threading.Lock()

    def acquire(self) -> Callable[[], None]:
        """Install the hook, if it is not; the returned function, called once, releases it."""
        with self._lock:
            self._users += 1
            if self._hook is None:
                self._hook = self._install()
        return self._release

    def _release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._hook is not None:
                self._hook.remove()
                self._hook = None


listen_to_logging = _SharedHook(LogHook).acquire
listen_to_stdout = _SharedHook(partial(CapturedStream, "stdout")).acquire
_listen_to_stderr = _SharedHook(partial(CapturedStream, "stderr")).acquire


@contextmanager
def replays_silenced() -> Iterator[None]:
    """Within this context, log records and printed text of replayed workflow code are dropped: the first execution
    emitted them."""
    with ExitStack() as listening:
        for listen in (listen_to_logging, listen_to_stdout, _listen_to_stderr):
            listening.callback(listen())
        yield
