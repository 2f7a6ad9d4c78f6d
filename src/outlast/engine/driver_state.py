"""What is about to be written of one run: what has been said since the last append, and what is to begin once it landed.

Everything said until the next append has one date, and `now` is that date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from outlast.engine.terminal_events import Ending
from outlast.functions.code import Code
from outlast.functions.commands import Command, NodeCommand
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import RunWriter
from outlast.lifecycle.adoption import Adoptable
from outlast.lifecycle.decide import Cleanup
from outlast.lifecycle.requests import Request

if TYPE_CHECKING:
    from outlast.engine.worker import Worker

CommandOutcome: TypeAlias = tuple[Command, e.NodeCompleted | e.NodeFailed | e.TimerFired, Any]
"""What was asked for, its outcome, and the value of that, if it has one."""

NOTHING_ADOPTABLE: dict[str, Adoptable] = {}
"""Shared by all runs that have no branches: nobody puts anything into it."""


class DriverState:
    """The trunk of a driver: what it knows of its run, and what it is about to say."""

    __slots__ = (
        "_after_commit",
        "_clock",
        "_closed",
        "_deferred",
        "_facts",
        "_has_news",
        "_hold_ending",
        "_is_stopping",
        "_is_watched",
        "_is_writing",
        "_outcomes",
        "_pause",
        "_pending",
        "_time",
        "_to_begin",
        "_waiters",
        "adoptable",
        "attempts",
        "code",
        "created",
        "in_flight",
        "is_over",
        "is_pausing",
        "is_winding_down",
        "run",
        "starting",
        "worker",
        "writer",
    )

    def __init__(self, worker: Worker, code: Code, created: e.RunCreated, writer: RunWriter) -> None:
        self.worker = worker
        self.attempts = worker.attempts
        self._clock = worker.ledger.clock
        self.code = code
        self.run: RunId = code.run
        self.created = created
        self.writer = writer
        self.is_over = False
        self.is_pausing = False
        self.is_winding_down = False
        """Whether nothing more begins, though outcomes are still told to the code and written."""
        self.adoptable = NOTHING_ADOPTABLE
        """What need not be done again on this branch."""
        self.in_flight = 0
        """How many nodes are being worked on."""
        self.starting = 0
        """How many children are about to be created."""
        self._outcomes: list[CommandOutcome] = []
        """Outcomes of nodes and timers that the code has not been given yet, in the order in which they came."""
        self._facts: list[e.AnyEvent] = []
        """Events about attempts, which hold whatever the code has been told; they come before what is pending."""
        self._pending: list[e.AnyEvent] = []
        """What the code was told since the last append, and what it asked for because of that."""
        self._to_begin: list[Command] = []
        self._after_commit: list[Callable[[], object]] = []
        self._waiters: list[asyncio.Future[Ending | None]] = []
        self._time = 0
        self._is_writing = False
        self._is_stopping = False
        self._is_watched = False
        """Whether code that called `continue_as_new` ends in time is watched."""
        self._has_news = False
        self._closed: list[tuple[Command, e.Failure]] = []
        """What the code gave up since the last append, and why: stopped only when that is durable."""
        self._deferred: list[Command] = []
        """What a replay found in the log and what does not go on, because the run is to be cancelled."""
        self._hold_ending: e.RunFailed | None = None
        self._pause: e.RunPaused | e.RunFailed | None = None

    def _set_time(self) -> None:
        """Date what is about to be said. Everything said until the next append has this date."""
        code = self.code
        if not self._pending and not self._facts:
            now, then = self._clock(), code.now_us
            self._time = max(now, then)
        code.now_us = self._time

    # --- what the parts above do, for those between

    async def write(self, *, take_next: bool = False) -> NodeCommand | None:
        """Append what there is to say, and what comes of it."""
        raise NotImplementedError

    def _write_soon(self) -> None:
        """The same, in a task of its own."""
        raise NotImplementedError

    def abandon_run(self, error: Exception) -> None:
        """Give up over an error of ours; the run is taken up again from its log."""
        raise NotImplementedError

    async def _restart_code(self, delivered: Sequence[CommandOutcome]) -> None:
        """Give the code, in the order of the log, what it was told in another order."""
        raise NotImplementedError

    async def _end_now(self, cleanup: Cleanup) -> None:
        """End the run as cancelled."""
        raise NotImplementedError

    async def _handle_request(self, request: Request) -> None:
        """Do what someone asked for."""
        raise NotImplementedError

    async def hold(self, failure: e.Failure, node: str = "") -> None:
        """Stop here and let a person decide."""
        raise NotImplementedError
