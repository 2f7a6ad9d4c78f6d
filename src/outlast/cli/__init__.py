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

import sys
from io import TextIOWrapper

__all__ = ["main"]


def main() -> None:
    """The command `outlast`."""
    try:
        from outlast.cli.app import app

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character must not stop a command
                stream.reconfigure(errors="backslashreplace")
        app(prog_name="outlast")
    except KeyboardInterrupt:  # before or after a command; within one, the doorway answers it
        sys.exit(130)
