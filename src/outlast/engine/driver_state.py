"""State of a driver between two appends: pending events, and the commands that begin once these are durable.

All events of one append have one date, and `now` in the code is that date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    from outlast.execution.attempts import Attempts

CommandOutcome: TypeAlias = tuple[Command, e.NodeCompleted | e.NodeFailed | e.TimerFired, Any]
"""A command, its outcome, and the decoded value of a result."""

NOTHING_ADOPTABLE: dict[str, Adoptable] = {}
"""Shared by all runs without branches; never modified."""


@dataclass(slots=True, eq=False)
class DriverState:
    """The data of a driver, and the methods that its derived classes implement."""

    worker: Worker
    code: Code
    created: e.RunCreated
    writer: RunWriter
    run: RunId = field(init=False)
    attempts: Attempts = field(init=False)
    _clock: Callable[[], int] = field(init=False)
    is_over: bool = False
    is_pausing: bool = False
    is_winding_down: bool = False
    """Whether nothing more begins, though outcomes are still delivered and appended."""
    adoptable: dict[str, Adoptable] = field(default_factory=lambda: NOTHING_ADOPTABLE)
    """Results of another branch that nodes of this one may reuse."""
    in_flight: int = 0
    """Nodes that have begun and have no outcome."""
    starting: int = 0
    """Children that are being created."""
    _outcomes: list[CommandOutcome] = field(default_factory=list)
    """Outcomes of nodes and timers that the code has not received, in order of arrival."""
    _facts: list[e.AnyEvent] = field(default_factory=list)
    """Events about attempts. They do not depend on the outcomes that the code has received, and precede the pending
    events."""
    _pending: list[e.AnyEvent] = field(default_factory=list)
    """Outcomes that the code received since the last append, and the commands that followed from them."""
    _to_begin: list[Command] = field(default_factory=list)
    _after_commit: list[Callable[[], object]] = field(default_factory=list)
    _waiters: list[asyncio.Future[Ending | None]] = field(default_factory=list)
    _time: int = 0
    _is_writing: bool = False
    _is_stopping: bool = False
    _is_watched: bool = False
    """Whether a check is scheduled that code which called `continue_as_new` ends in time."""
    _has_news: bool = False
    _closed: list[tuple[Command, e.Failure]] = field(default_factory=list)
    """Commands that the code abandoned since the last append, and why: stopped once that is durable."""
    _deferred: list[Command] = field(default_factory=list)
    """Open commands that a replay found and that are not resumed, because the run is being cancelled."""
    _hold_ending: e.RunFailed | None = None
    _pause: e.RunPaused | e.RunFailed | None = None

    def __post_init__(self) -> None:
        self.run = self.code.run
        self.attempts = self.worker.attempts
        self._clock = self.worker.ledger.clock

    def _set_time(self) -> None:
        """Date the pending events."""
        code = self.code
        if not self._pending and not self._facts:
            now, then = self._clock(), code.now_us
            self._time = max(now, then)
        code.now_us = self._time

    # --- implemented by derived classes

    async def write(self, *, take_next: bool = False) -> NodeCommand | None:
        """Append pending events, and those that follow from them."""
        raise NotImplementedError

    def _write_soon(self) -> None:
        """Call `write` in a task of its own."""
        raise NotImplementedError

    def abandon_run(self, error: Exception) -> None:
        """Discard the driver after an internal error; the run is resumed from its log."""
        raise NotImplementedError

    async def _restart_code(self, delivered: Sequence[CommandOutcome]) -> None:
        """Replay the code, because it received entries in another order than the log has."""
        raise NotImplementedError

    async def _end_now(self, cleanup: Cleanup) -> None:
        """End the run as cancelled."""
        raise NotImplementedError

    async def _handle_request(self, request: Request) -> None:
        """Carry out a request of a guest."""
        raise NotImplementedError

    async def hold(self, failure: e.Failure, node: str = "") -> None:
        """Hold the run until a person decides how it continues."""
        raise NotImplementedError
