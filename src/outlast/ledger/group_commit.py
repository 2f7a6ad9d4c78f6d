"""Group commit: appends that arrive during a flush share the next one.

This module also makes the outcome of an append certain. A store that fails during a write leaves the outcome unknown; an
append whose answer was lost is found by its id at its position in the log. Only appends that are known not to have landed
are sent again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from outlast.errors import OutcomeUnknown, StoreError
from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.store import LANDED, Append, Journal, Lost, Outcome

log = logging.getLogger("outlast.ledger")

MAX_BATCH = 500
"""Appends per flush; further ones wait for the next. While a server writes, the writers of the last flush continue."""
TURN_S = 0.002
"""Seconds during which a run that writes alone need not yield to the event loop before it writes."""
TRIES = 3
"""How often an append of unknown outcome is sent before `OutcomeUnknown` is raised."""


class Measures(Struct):
    """Counters of a ledger since its creation."""

    appends: int = 0
    events: int = 0
    bytes: int = 0
    flushes: int = 0
    flush_seconds: float = 0.0
    largest_batch: int = 0
    lost: int = 0
    taken_in: int = 0
    fenced: int = 0
    unknown: int = 0
    failed: int = 0


class GroupCommit:
    """Gathers appends and hands them to the store in batches, one batch at a time."""

    def __init__(
        self,
        store: Journal,
        landed: Callable[[Sequence[Append], float], None],
        *,
        pulse: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store = store
        self._landed = landed
        self._pulse = pulse
        self._waiting: list[tuple[Append, asyncio.Future[Outcome]]] = []
        self._flushing: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop
        """The loop of the last writer that wrote alone."""
        self._alone: RunId | None = None
        self._alone_until = 0.0
        self.measures = Measures()

    def submit(self, append: Append) -> Awaitable[Outcome]:
        """The outcome, once it is certain. Await it at once: the append of a single writer begins only then."""
        if self._flushing is None:
            if self._alone == append.record.run and self._pulse() < self._alone_until:
                return self._commit_alone(append)
            self._loop = asyncio.get_running_loop()
            self._flush_soon()
        answer: asyncio.Future[Outcome] = asyncio.Future(loop=self._loop)
        self._waiting.append((append, answer))
        return answer

    def _flush_soon(self) -> None:
        self._flushing = task = self._loop.create_task(self._flush(), name="outlast-ledger-flush")
        task.add_done_callback(self._on_flush_done)

    def _on_flush_done(self, task: asyncio.Task[Any]) -> None:
        """A flush that was cancelled before it began has not failed its appends."""
        if self._flushing is task:
            self._flushing = None
            waiting, self._waiting = self._waiting, []
            _fail(waiting, OutcomeUnknown("the flush was cancelled"))

    async def _commit_alone(self, append: Append) -> Outcome:
        """The run that wrote last writes again and no other append waits: the flush need not yield to the event loop, which
        has run a moment ago."""
        self._flushing = asyncio.current_task()
        try:
            return (await self._commit([append]))[0]
        finally:
            self._flushing = None
            if self._waiting:
                self._flush_soon()

    async def drain(self) -> None:
        """Wait until no flush is running."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _flush(self) -> None:
        self._alone_until = self._pulse() + TURN_S
        suspects = 0
        try:
            while self._waiting:
                most = 1 if suspects else MAX_BATCH
                suspects -= suspects > 0
                batch, self._waiting = self._waiting[:most], self._waiting[most:]
                try:
                    outcomes = await self._commit([append for append, _ in batch])
                except BaseException as error:
                    if len(batch) > 1 and not isinstance(error, StoreError) and isinstance(error, Exception):
                        # One append cannot be written; the others must not fail with it, so each is written alone.
                        suspects, self._waiting = len(batch), batch + self._waiting
                        continue
                    _fail(batch, error)
                    if not isinstance(error, Exception):
                        _fail(self._waiting, error)
                        self._waiting = []
                        raise
                    continue
                for (_, answer), outcome in zip(batch, outcomes, strict=True):
                    if not answer.done():
                        answer.set_result(outcome)
        finally:
            self._flushing = None

    async def _commit(self, batch: list[Append]) -> list[Outcome]:
        began = time.perf_counter()
        try:
            outcomes = await self._store.append(batch)
        except OutcomeUnknown as error:
            self.measures.unknown += len(batch)
            log.warning("flush of %d appends failed with unknown outcome, sending it again: %s", len(batch), error)
            outcomes = await self._send_again(batch, error)
        except StoreError as error:
            self.measures.failed += len(batch)
            log.error("flush of %d appends failed, nothing was written: %s", len(batch), error)
            raise
        self._alone = batch[0].record.run if len(batch) == 1 else None
        landed = batch
        if outcomes.count(LANDED) < len(outcomes):
            outcomes = [_confirmed_outcome(append, outcome) for append, outcome in zip(batch, outcomes, strict=True)]
            landed = [append for append, outcome in zip(batch, outcomes, strict=True) if outcome is LANDED]
        seconds = time.perf_counter() - began
        self._measure(landed, len(batch), seconds)
        if landed:
            self._landed(landed, seconds)
        return outcomes

    async def _send_again(self, batch: list[Append], cause: OutcomeUnknown) -> list[Outcome]:
        """Send the batch again. The store refuses a second copy, because the append names the version that it follows."""
        for _ in range(TRIES):
            try:
                return await self._store.append(batch)
            except OutcomeUnknown as error:
                cause = error
            except StoreError:
                continue  # this try wrote nothing; the outcome of the first one stays unknown
        raise cause

    def _measure(self, landed: list[Append], tried: int, seconds: float) -> None:
        measures = self.measures
        measures.flushes += 1
        measures.flush_seconds += seconds
        measures.largest_batch = max(measures.largest_batch, tried)
        measures.lost += tried - len(landed)
        measures.appends += len(landed)
        events = size = 0
        for append in landed:
            record = append.record
            events += record.count
            size += len(record.body)
        measures.events += events
        measures.bytes += size


def _confirmed_outcome(append: Append, outcome: Outcome) -> Outcome:
    """Landed, if the append lost to itself: to an earlier try whose answer was lost."""
    if isinstance(outcome, Lost) and outcome.tail and _is_same(append.record, outcome.tail[0]):
        return LANDED
    return outcome


def _is_same(one: Record, other: Record) -> bool:
    return one.first == other.first and one.id == other.id


def _fail(waiting: Sequence[tuple[Append, asyncio.Future[Outcome]]], error: BaseException) -> None:
    for _, answer in waiting:
        if not answer.done():
            answer.set_exception(error if isinstance(error, Exception) else OutcomeUnknown(f"interrupted: {error!r}"))
            answer.exception()  # waiters receive it; without one, the loop must not log it as never retrieved
