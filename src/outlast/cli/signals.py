"""Ctrl+C and SIGTERM while runs are attended here: the first asks for a pause, the second leaves at once.

The handlers are those of the command line alone; a program that opens an engine keeps its own. A signal that is ignored, as
a shell has it for what runs in the background, stays ignored.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from outlast.cli import streams
from outlast.cli.console import notice
from outlast.cli.entrypoint import INTERRUPTED, RUN_PAUSED
from outlast.client import Engine
from outlast.history.ids import RunId

_NAMES = {signal.SIGINT: "Ctrl+C", signal.SIGTERM: "SIGTERM"}


class Interruption:
    """Stands by while it is entered. `code` is the exit code for what came, 0 if nothing has. `runs` are those attended."""

    def __init__(self, by: str, where: str) -> None:
        self.runs: list[RunId] = []
        self.code = 0
        self._by = by
        self._where = where
        self._name = ""
        self._wanted = asyncio.Event()
        self._paused: asyncio.Task[None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in _NAMES if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in heeded}
        streams.drop_output()  # that nobody reads it is no reason for a node to fail
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def code_of(self, code: int) -> int:
        """The exit code of a command whose run ended with `code`: that of the signal if the run was paused because of it."""
        return self.code if self.code and code in (RUN_PAUSED, INTERRUPTED) else code

    async def wait(self) -> None:
        """Return when somebody wants to stop."""
        await self._wanted.wait()

    async def pause(self, desk: Engine) -> None:
        """Pause what is advanced here, and return when that is done; several may wait for it."""
        if self._paused is None:
            notice("pausing… (Ctrl+C again to leave at once)", style="bold")
            self._paused = asyncio.create_task(desk.pause_all(self.runs, by=self._by, reason=self._name))
        await asyncio.shield(self._paused)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        """Called between any two instructions, also while the loop has no turn."""
        if self.code:
            self._leave(128 + number)
        self.code, self._name = 128 + number, _NAMES[signal.Signals(number)]
        self._loop.call_soon_threadsafe(self._wanted.set)

    def _leave(self, code: int) -> NoReturn:
        """Without a word to anybody: what is in the log is good, and whatever was under way is found by whoever goes on."""
        said = "".join(f"run {run} can be resumed: outlast resume {run}{self._where}\n" for run in self.runs)
        with suppress(Exception):
            streams.own().flush()
        with suppress(OSError):
            os.write(2, f"\nleft at once\n{said}".encode())
        os._exit(code)
