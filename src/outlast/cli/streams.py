"""The standard streams of the command: its own output, and what the code of runs prints.

The code of runs must not fail because nobody reads what it prints, and what is for programs must not be mixed with it.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_own: TextIO | None = None
"""The output of the command while it is not `sys.stdout`."""


class Unwritable(BaseException):
    """The output cannot be written. No `Exception`: neither Rich nor a module that is being imported may handle it."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the output could not be written: {cause.strerror or cause}")
        self.is_unheard = cause.errno in (errno.EPIPE, errno.ESHUTDOWN)
        """Whether nobody reads it any more, as in `… | head -1`."""


class Outlet(io.FileIO):
    """A standard stream. A write that fails raises `Unwritable`; with `drops` it and all that follow do nothing."""

    def __init__(self, number: int, *, drops: bool = False) -> None:
        super().__init__(number, "wb", closefd=False)
        self.name = "<stderr>" if number == 2 else "<stdout>"
        self.drops = drops
        self.trouble: Unwritable | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        if self.trouble is None:
            try:
                return super().write(data)
            except OSError as error:
                self.trouble = Unwritable(error)
        if not self.drops:
            raise self.trouble
        return memoryview(data).nbytes


def take_over() -> None:
    """Replace the standard streams, at the start of the process. One that is closed becomes the null device."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = _writer(Outlet(1), sys.stdout)
    sys.stderr = _writer(Outlet(2, drops=True), sys.stderr)


def own() -> TextIO:
    """The output of the command."""
    return _own or sys.stdout


def flush() -> None:
    """Write what is buffered; `Unwritable` if that fails, or if something was dropped before."""
    own().flush()
    if (outlet := _outlet(own())) is not None and outlet.trouble is not None:
        raise outlet.trouble


def drop_output() -> None:
    """From now on output that cannot be written is dropped, and only `flush` raises."""
    if (outlet := _outlet(own())) is not None:
        outlet.drops = True


@contextmanager
def set_apart() -> Iterator[None]:
    """Within, stdout is for the command alone: what others print, and the programs they start, goes to stderr."""
    global _own
    printed = sys.stdout
    with _moved_away(printed) as _own:
        sys.stdout = sys.stderr
        try:
            yield
        finally:
            _own, sys.stdout = None, printed


@contextmanager
def _moved_away(stream: TextIO) -> Iterator[TextIO]:
    """The same output under another number, while the number 1 is that of stderr."""
    if _outlet(stream) is None:  # a test's
        yield stream
        return
    stream.flush()
    number = os.dup(1)
    moved = _writer(Outlet(number), stream)
    os.dup2(2, 1)
    try:
        yield moved
    finally:
        try:
            moved.flush()
        finally:
            os.dup2(number, 1)
            os.close(number)


def _writer(outlet: Outlet, before: TextIO | None) -> TextIO:
    """As text, in the encoding of the stream it replaces. Characters that a terminal lacks must not stop a command."""
    encoding, by_line = "utf-8", False
    if isinstance(before, io.TextIOWrapper):
        encoding, by_line = before.encoding, before.line_buffering or before.write_through
    return io.TextIOWrapper(io.BufferedWriter(outlet), encoding, errors="backslashreplace", line_buffering=by_line)


def _outlet(stream: TextIO) -> Outlet | None:
    with suppress(ValueError, AttributeError):  # the user's code may have closed or replaced it
        raw = stream.buffer.raw  # type: ignore[attr-defined]
        return raw if isinstance(raw, Outlet) else None
    return None
