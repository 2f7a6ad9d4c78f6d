"""Ctrl+C and SIGTERM: the first asks for a regular end, the second ends the process at once.

Only the command line installs these handlers; a program that opens an engine keeps its own. An ignored signal, such as in
a background job of a shell, stays ignored.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn, Self

from outlast.cli import streams
from outlast.cli.console import notice
from outlast.cli.entrypoint import INTERRUPTED, RUN_PAUSED
from outlast.client import Engine
from outlast.history.ids import RunId

_NAMES = {signal.SIGINT: "Ctrl+C", signal.SIGTERM: "SIGTERM"}


class StopSignals:
    """Handles the signals inside its `with` block. `code` is the exit code for the first one, 0 before it. The log is valid
    after a second signal too: another worker repeats the interrupted work."""

    def __init__(self) -> None:
        self.code, self._name = 0, ""
        self._received = asyncio.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            handled = [number for number in _NAMES if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for a signal, at most so many seconds; returns whether one came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._received.wait()
        return self._received.is_set()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """Called between any two instructions, also while the loop is blocked."""
        if self.code:
            self._exit(128 + number)
        self.code, self._name = 128 + number, _NAMES[signal.Signals(number)]
        self._loop.call_soon_threadsafe(self._received.set)

    def _exit(self, code: int) -> NoReturn:
        os._exit(code)


class Interruption(StopSignals):
    """The first signal pauses the `runs` that the command waits for. If a server advances them (`is_elsewhere`), it only
    ends the waiting."""

    def __init__(self, by: str, where: str, *, is_elsewhere: bool = False) -> None:
        super().__init__()
        self._is_elsewhere = is_elsewhere
        streams.drop_output()  # a node must not fail because its output is not read
        self.runs: list[RunId] = []
        self._by, self._where = by, where
        self._paused: asyncio.Task[None] | None = None

    def code_of(self, code: int) -> int:
        """The exit code of a command whose run ended with `code`: that of the signal, if the signal paused the run."""
        return self.code if self.code and code in (RUN_PAUSED, INTERRUPTED) else code

    async def pause(self, engine: Engine) -> None:
        """Pause the runs. Several tasks may wait for it."""
        if self._is_elsewhere:
            return
        if self._paused is None:
            notice("pausing… (Ctrl+C again to exit at once)", style="bold")
            self._paused = asyncio.create_task(engine.pause_all(self.runs, by=self._by, reason=self._name))
        await asyncio.shield(self._paused)

    def _exit(self, code: int) -> NoReturn:
        commands = "".join(f"Resume run {run}: outlast resume {run}{self._where}\n" for run in self.runs)
        with suppress(Exception):
            streams.own().flush()
        with suppress(OSError):
            os.write(2, f"\nexited at once\n{commands}".encode())
        os._exit(code)
