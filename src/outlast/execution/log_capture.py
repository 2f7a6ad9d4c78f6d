"""What is heard: the places where a process listens to what is logged and printed in it.

They are put in place by the first who listens and taken away with the last. They ask `capture` whose words they hear, and
let everything through that belongs to nobody.

Logging is heard where a logger hands a record to its handlers (`logging.Logger.callHandlers`), after the levels and filters
of the program have had their say: they decide what is logged, and so what is kept. A handler on the root logger would be
the obvious place, but it is not as innocent as it looks: with one there, `logging.basicConfig` does nothing, warnings of a
program without any handler no longer reach stderr, and loggers that do not propagate are not heard. And no handler or filter
could silence a replay, which has to hold for the handlers of every logger. So there is one hook, which changes no
configuration and that no configuration takes away. It is also where secrets are blotted out of what runs and the engine
log, before any handler sees it (R4).
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
"""Records below this level are not kept, even if the program logs them."""

_formatter = logging.Formatter()


class LogHook:
    """Hears every record on its way to the handlers, or stops it there if it is one of a replay."""

    def __init__(self) -> None:
        original = self._original = logging.Logger.callHandlers

        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            if self._is_on:
                if is_silent():
                    return
                with suppress(Exception):  # whatever is wrong with the record is between the program and its handlers
                    _capture_record(record)
                if secret_patterns.known:
                    with suppress(Exception):
                        _mask_secrets(record)
            original(logger, record)

        self._is_on = True
        self._installed = call_handlers
        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        self._is_on = False  # somebody may have put a hook over this one: then it stays, and does nothing
        if logging.Logger.callHandlers is self._installed:
            logging.Logger.callHandlers = self._original  # type: ignore[method-assign]


def _capture_record(record: logging.LogRecord) -> None:
    attempt_log = current_attempt_log()
    if attempt_log is None or record.levelno < MIN_LEVEL or record.name.partition(".")[0] == "outlast":
        return
    attempt_log.write_line(record.levelname, record.name, _record_text(record))


def _mask_secrets(record: logging.LogRecord) -> None:
    """Blot secrets out of a record, for whoever gets it, if the code of a run or the engine logs it. What else a program
    logs is its own."""
    if not (_is_in_run() or record.name.partition(".")[0] == "outlast"):
        return
    said = record.getMessage()
    if (masked_text := masked(said)) != said:
        record.msg, record.args = masked_text, ()
    if isinstance(record.exc_info, tuple) and record.exc_info[0] is not None:
        trace = _formatter.formatException(record.exc_info)
        if (masked_text := masked(trace)) != trace:
            record.exc_text, record.exc_info = masked_text, None
    for name, value in list(vars(record).items()):  # the stack, and what the program put there
        if isinstance(value, str) and name != "msg" and (masked_text := masked(value)) != value:
            setattr(record, name, masked_text)


def _is_in_run() -> bool:
    """Whether the code that runs here is that of a node or of a workflow."""
    return (
        current_attempt_log() is not None
        or secret_patterns.revealed_here.get() is not None
        or remote.current() is not None
    )


def _record_text(record: logging.LogRecord) -> str:
    """All that a record says. It is formatted here, because a handler's formatter leaves its marks on the record."""
    try:
        parts = [record.getMessage()]
    except Exception as broken:  # arguments that do not fit, or that cannot be shown
        parts = [f"<{type(broken).__qualname__} in a record of {record.pathname}, line {record.lineno}>"]
    if isinstance(record.exc_info, tuple) and record.exc_info[0] is not None:
        parts.append(_formatter.formatException(record.exc_info))
    elif record.exc_text:
        parts.append(record.exc_text)
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


class CapturedStream:
    """Stands in for `sys.stdout` or `sys.stderr`. Drops what workflow code prints in a replay, and hears what is written to
    stdout in a context that wants it heard. A log handler that writes to stdout is heard as well, and its records are then
    two lines."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._original = getattr(sys, name)
        self._is_on = True
        if self._original is not None:
            setattr(sys, name, self)

    def remove(self) -> None:
        self._is_on = False  # whoever kept a reference goes on writing to what is beneath
        if getattr(sys, self._name) is self:
            setattr(sys, self._name, self._original)

    def write(self, text: str) -> int:
        if self._is_on and is_silent():
            return len(text)
        written: int = self._original.write(text)
        attempt_log = current_attempt_log() if self._is_on and self._name == "stdout" else None
        if attempt_log is not None and attempt_log.prints:
            with suppress(Exception):  # who prints is never told that nobody could take it down
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
    """A hook that is there while somebody wants it."""

    def __init__(self, put: Callable[[], _Removable]) -> None:
        self._install = put
        self._hook: _Removable | None = None
        self._users = 0
        self._lock = threading.Lock()

    def acquire(self) -> Callable[[], None]:
        """Put it in place, if it is not; what is returned, called once, gives it back."""
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
    """Within, what workflow code that is being replayed logs or prints is dropped: it was logged and printed before."""
    with ExitStack() as listening:
        for listen in (listen_to_logging, listen_to_stdout, _listen_to_stderr):
            listening.callback(listen())
        yield
