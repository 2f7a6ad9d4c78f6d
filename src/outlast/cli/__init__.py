"""The command line.

It calls the methods of the engine and prints their results as text, JSON or ids. It does not access a store directly.
Only this package imports Typer and Rich, and only when a command is used, not with `import outlast`.

Promises:

C1  Each refusal is one or two lines on stderr with the action to take, and an exit code; a traceback is a bug.
C2  The formats for programs (`-o json`, `-o ids`) have stable names, and are neither cropped nor decorated.
C3  Reading commands create nothing.
C4  Text from a store has no effect on the terminal: control characters and markup in it are escaped.
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
            _exit(end.code)
        raise


def _main() -> None:
    try:
        streams.take_over()
        from outlast.cli.app import app

        try:
            app(prog_name="outlast")
        finally:
            streams.flush()
    except KeyboardInterrupt:  # before or after a command; `carry_out` handles it inside one
        sys.exit(130)
    except streams.Unwritable as trouble:
        streams.drop_output()
        from outlast.cli.entrypoint import unwritten

        sys.exit(unwritten(trouble))


def _exit(code: object) -> NoReturn:
    """Exit without finalizing the interpreter: a thread of the object store driver that releases an object meanwhile aborts
    the process (PyO3/pyo3-async-runtimes, issue 40)."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
