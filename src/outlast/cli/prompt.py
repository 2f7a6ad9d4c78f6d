"""Asking whoever sits at the terminal. Nobody else is waited for: Ctrl+C and the answers of others end it at once."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from outlast.cli.console import notice
from outlast.cli.questions import understood, wanted
from outlast.errors import InvalidInput
from outlast.lifecycle.state import Wait
from outlast.views.actions import schema_of

LONGEST = 1 << 16


def is_anyone_there() -> bool:
    """Whether somebody can be asked: input and remarks are both a terminal's."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


async def ask(question: Wait) -> Any:
    """The answer, asked for until it fits. `EOFError` if there is none (Ctrl+D), or nothing can be read here."""
    schema = schema_of(question)
    notice(question.text or question.id, style="bold yellow")
    while True:
        print(f"({wanted(schema)}) > ", end="", file=sys.stderr, flush=True)
        text = await _line()
        try:
            return understood(text, schema)
        except InvalidInput as error:
            notice(str(error), style="red")


async def _line() -> str:
    """One line from the terminal, read by the loop itself: a thread could not be called back from it."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    stdin = sys.stdin.fileno()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(stdin, LONGEST))

    try:
        loop.add_reader(stdin, read)
    except (NotImplementedError, OSError) as error:
        raise EOFError from error
    try:
        line = await typed
    finally:
        loop.remove_reader(stdin)
    if not line:
        raise EOFError
    return line.decode(sys.stdin.encoding or "utf-8", errors="replace").rstrip("\r\n")
