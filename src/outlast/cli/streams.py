"""The standard streams of the command: its output, and the output of workflow code.

Workflow code must not fail because its output is not read, and its output must not be mixed into JSON or ids.
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
    """The output cannot be written. It is no `Exception`, so that neither Rich nor imported modules handle it."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the output could not be written: {cause.strerror or cause}")
        self.is_unread = cause.errno in (errno.EPIPE, errno.ESHUTDOWN)
        """Whether its reader closed it, as in `… | head -1`."""


class Outlet(io.FileIO):
    """A standard stream. A write that fails raises `Unwritable`; with `drops` it and all later writes do nothing."""

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
    """Replace the standard streams at the start of the process. A closed stream becomes the null device."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free number
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = _writer(Outlet(1), sys.stdout)
    sys.stderr = _writer(Outlet(2, drops=True), sys.stderr)


def own() -> TextIO:
    """The output of the command."""
    return _own or sys.stdout


def flush() -> None:
    """Write the buffer; `Unwritable` if that fails, or if output was dropped before."""
    own().flush()
    if (outlet := _outlet(own())) is not None and outlet.trouble is not None:
        raise outlet.trouble


def drop_output() -> None:
    """Drop later output that cannot be written; only `flush` raises."""
    if (outlet := _outlet(own())) is not None:
        outlet.drops = True


@contextmanager
def set_apart() -> Iterator[None]:
    """Reserve stdout for the command: output of other code and of the programs it starts is redirected to stderr."""
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
    """The same output under another file descriptor, while descriptor 1 is stderr."""
    if _outlet(stream) is None:  # a stream of a test
        yield stream
        return
    stream.flush()
    number = os.dup(1)
    outlet = Outlet(number)
    moved = _writer(outlet, stream)
    os.dup2(2, 1)
    try:
        yield moved
    finally:
        try:
            moved.flush()
        finally:
            outlet.drops = True  # closing the stream must not report again what could not be written
            os.dup2(number, 1)
            os.close(number)


def _writer(outlet: Outlet, before: TextIO | None) -> TextIO:
    """A text stream in the encoding of the stream it replaces. A character that the encoding lacks is escaped."""
    encoding, by_line = "utf-8", False
    if isinstance(before, io.TextIOWrapper):
        encoding, by_line = before.encoding, before.line_buffering or before.write_through
    return io.TextIOWrapper(io.BufferedWriter(outlet), encoding, errors="backslashreplace", line_buffering=by_line)


def _outlet(stream: TextIO) -> Outlet | None:
    with suppress(ValueError, AttributeError):  # user code may have closed or replaced it
        raw = stream.buffer.raw  # type: ignore[attr-defined]
        return raw if isinstance(raw, Outlet) else None
    return None
