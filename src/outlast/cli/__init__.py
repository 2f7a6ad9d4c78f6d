"""A WINDOW: the command line.

It translates words typed in a shell into the desk's verbs and the answers into tables, lines and JSON. It never touches a
store, and keeps Typer and Rich to itself: they are imported when a command is given, not with `import outlast`.

What holds here:

C1  Every refusal is one or two lines on stderr that say what to do, and an exit code; a traceback is a bug of ours.
C2  What is read by programs (`-o json`, `-o ids`) has stable names, is never cropped and never decorated.
C3  Reading commands create nothing.
C4  Text from a store is shown, never obeyed: control characters and markup in it have no effect on the terminal.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

from outlast.cli import streams

__all__ = ["main"]


def main() -> None:
    """The command `outlast`."""
    try:
        _main()
    except SystemExit as end:
        if "obstore" in sys.modules:
            _leave(end.code)
        raise


def _main() -> None:
    try:
        streams.take_over()
        from outlast.cli.app import app

        try:
            app(prog_name="outlast")
        finally:
            streams.flush()
    except KeyboardInterrupt:  # before or after a command; within one, the doorway answers it
        sys.exit(130)
    except streams.Unwritable as trouble:
        streams.drop_output()
        from outlast.cli.entrypoint import unwritten

        sys.exit(unwritten(trouble))


def _leave(code: object) -> NoReturn:
    """End without taking the interpreter apart: a thread of the driver of object stores that lets go of something just then
    aborts the process, though all is done (PyO3/pyo3-async-runtimes, issue 40)."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
