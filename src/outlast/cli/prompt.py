"""Asks a question of a run on the terminal. Ctrl+C, or an answer from elsewhere, ends it at once."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from outlast.cli.console import notice
from outlast.cli.questions import expected, parsed
from outlast.errors import InvalidInput
from outlast.lifecycle.state import Wait
from outlast.views.actions import schema_of

MAX_ANSWER = 1 << 16


def is_terminal() -> bool:
    """Whether a question can be asked: stdin and stderr are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


async def ask(question: Wait) -> Any:
    """Ask until the answer is valid. `EOFError` if there is none (Ctrl+D), or if the terminal cannot be read."""
    schema = schema_of(question)
    notice(question.text or question.id, style="bold yellow")
    while True:
        print(f"({expected(schema)}) > ", end="", file=sys.stderr, flush=True)
        text = await _line()
        try:
            return parsed(text, schema)
        except InvalidInput as error:
            notice(str(error), style="red")


async def _line() -> str:
    """One line from the terminal, read by the loop: a thread that waits for input could not be cancelled."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    stdin = sys.stdin.fileno()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(stdin, MAX_ANSWER))

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
