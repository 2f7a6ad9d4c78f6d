"""The three standard streams, and whose they are: our own output, what the code of runs prints, and remarks.

The code of runs must not fail because nobody reads what it prints, and what is for programs must not be mixed with it.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_own: TextIO | None = None
"""Our own output, where that is not simply `sys.stdout`."""


class Unwritable(BaseException):
    """What was to be put out cannot be written. No `Exception`: whoever happens to write, a module that is being imported or
    the parser of the command line, would take it for a trouble of its own."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the output could not be written: {cause.strerror or cause}")
        self.is_unheard = cause.errno in (errno.EPIPE, errno.ESHUTDOWN)
        """Whether nobody reads it any more, as in `… | head -1`."""


class Outlet(io.FileIO):
    """An open file of this process. What cannot be written is raised as `Unwritable`, or, once there is somebody to be
    `told` of it, told and dropped, from any thread."""

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number, "wb", closefd=False)
        self.name = name
        self.trouble: Unwritable | None = None
        self.told: Callable[[Unwritable], object] | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        if self.trouble is None:
            try:
                return super().write(data)
            except OSError as error:
                self.trouble = Unwritable(error)
        if self.told is None:
            raise self.trouble
        self.told(self.trouble)
        return memoryview(data).nbytes


def take_over() -> None:
    """At the very beginning of the process: no stream is missing, and what cannot be written is noticed as such.

    Where stdout was closed, `sys.stdout` stays None, so that prints of others go nowhere as ever.
    """
    global _own
    _fill_gaps()
    stdin, stdout, stderr = (cast("TextIO | None", each) for each in (sys.stdin, sys.stdout, sys.stderr))
    sys.stdin = stdin or os.fdopen(0, closefd=False)
    sys.stderr = _taken_over(stderr or os.fdopen(2, "w", closefd=False))
    if stdout is None:
        _own = _writer(Outlet(1, "<stdout>"), "utf-8")
    else:
        _own = sys.stdout = _taken_over(stdout)


def own() -> TextIO:
    """Where our own output goes."""
    return sys.stdout if _own is None else _own


def flush() -> None:
    """Bring out what is on its way; `Unwritable` if that fails, or if something was dropped before."""
    own().flush()
    if (outlet := _outlet(own())) is not None and outlet.trouble is not None:
        raise outlet.trouble


def is_anybody_listening() -> bool:
    """False once a remark was dropped because nobody reads remarks any more."""
    outlet = _outlet(sys.stderr)
    return outlet is None or outlet.trouble is None or not outlet.trouble.is_unheard


def tell_of_trouble(told: Callable[[Unwritable], object]) -> None:
    """From now on output that cannot be written is dropped, be it ours or printed by others; `told` hears of it."""
    if (outlet := _outlet(own())) is not None:
        outlet.told = told


def drop_output() -> None:
    """From now on output that cannot be written is dropped, and only `flush` tells."""
    tell_of_trouble(_be_content)


def drop_remarks() -> None:
    """From now on a remark that nobody reads is not missed."""
    if (outlet := _outlet(sys.stderr)) is not None:
        outlet.told = _be_content


@contextmanager
def set_apart() -> Iterator[None]:
    """In here, stdout is ours alone: what others print, or the programs they start, goes to stderr."""
    global _own
    own_before, printed_before = _own, sys.stdout
    _own = own()
    with _moved_away(_own) as moved:
        _own, sys.stdout = moved, sys.stderr
        try:
            yield
        finally:
            _own, sys.stdout = own_before, printed_before


@contextmanager
def _moved_away(stream: TextIO) -> Iterator[TextIO]:
    """The same output under another number, while the number 1 is that of stderr."""
    if _outlet(stream) is None:  # not a real file: a test's
        yield stream
        return
    stream.flush()
    number = os.dup(1)
    moved = _writer(Outlet(number, "<stdout>"), stream.encoding)
    os.dup2(2, 1)
    try:
        yield moved
    finally:
        try:
            moved.flush()
        finally:
            os.dup2(number, 1)
            os.close(number)


def _fill_gaps() -> None:
    """What is opened later must not be taken for a standard stream that was closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)  # the lowest number that is free


def _taken_over(stream: TextIO) -> TextIO:
    """The same stream over an `Outlet`, if it is a plain one. Characters that a terminal lacks must not stop a command."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors="backslashreplace")
    raw = getattr(stream.buffer, "raw", stream.buffer)
    if type(raw) is not io.FileIO:
        return stream
    stream.flush()
    is_buffered = raw is not stream.buffer
    outlet = Outlet(raw.fileno(), stream.name)
    return _writer(outlet, stream.encoding, is_buffered=is_buffered, line_buffering=stream.line_buffering)


def _writer(outlet: Outlet, encoding: str, *, is_buffered: bool = True, line_buffering: bool = False) -> TextIO:
    buffer: Any = io.BufferedWriter(outlet) if is_buffered else outlet
    return io.TextIOWrapper(
        buffer,
        encoding,
        errors="backslashreplace",
        line_buffering=line_buffering,
        write_through=not is_buffered,
    )


def _outlet(stream: TextIO | None) -> Outlet | None:
    buffer = getattr(stream, "buffer", None)
    with suppress(ValueError, AttributeError):  # the user's code may have closed or replaced it
        raw = getattr(buffer, "raw", buffer)
        return raw if isinstance(raw, Outlet) else None
    return None


def _be_content(_trouble: Unwritable) -> None:
    """Nobody needs to know."""
