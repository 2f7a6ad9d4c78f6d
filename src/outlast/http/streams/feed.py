"""Follows runs for all clients of this process: the newest events of each run, encoded once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import cast

import msgspec

from outlast.client import Engine
from outlast.errors import Damaged, NotFound, OutlastError
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger.reading import head_of, read_events
from outlast.lifecycle.status import RunStatus
from outlast.views.build import event_view

log = logging.getLogger("outlast.http")

MAX_KEPT, MAX_KEPT_BYTES = 512, 262_144
"""Events of a run that are kept encoded for clients that are nearly up to date, and their bytes."""
READ_AT_ONCE = 8
"""Records of a log that a client reads first: it holds them in memory while it does not read its connection."""
POLL_S = 1.0
"""How often a run that has not ended is looked at, if no change is announced."""
POLL_ENDED_S = 10.0
"""How often a run that has ended is looked at: it may be resumed."""
GOING = (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING)

encode = msgspec.json.Encoder().encode


def one_line(data: bytes) -> bytes:
    """JSON without the line separators that JSON allows and JavaScript once did not."""
    return data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def encoded(run: RunId, entry: Entry) -> bytes:
    return one_line(encode({"run": run, "event": event_view(entry)}))


class Feed:
    """One run. `last` is its newest event that this process knows; `is_stalled` says that the run is running and no live
    worker advances it (F1); `progress` is what its nodes last reported."""

    def __init__(self, engine: Engine, run: RunId) -> None:
        self.run = run
        self.last = 0
        self.is_known = asyncio.Event()
        """The run was looked at."""
        self.is_missing = False
        self.is_stalled = False
        self.progress = b""
        self.watchers: set[Callable[[RunId], None]] = set()
        self._engine = engine
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._changed = asyncio.Event()
        self._is_closed = False
        self.damage: Damaged | None = None
        """Why the log cannot be followed any further."""
        self._task = asyncio.create_task(self._follow())

    def changed(self) -> None:
        """The store announced a change of the run."""
        self._changed.set()

    def close(self) -> None:
        self._task.cancel()

    async def after(self, seq: int, limit: int) -> AsyncIterator[tuple[int, bytes]]:
        """Up to `limit` events after this one, from memory if they are kept, else from the log."""
        count = 0
        if self._kept and self._kept[0][0] <= seq + 1:
            for number, data in list(self._kept):
                if number > seq and count < limit:
                    count += 1
                    yield number, data
            return
        async with aclosing(self._entries(seq, self.last)) as entries:
            async for entry in entries:
                yield entry.seq, encoded(self.run, entry)
                count += 1
                if count >= limit:
                    return

    def _entries(self, after: int, last: int) -> AsyncGenerator[Entry, None]:
        """The events after one of them, up to another one, from the log."""
        entries = read_events(self._engine._store, self.run, [(after + 1, last)], size=READ_AT_ONCE)
        return cast("AsyncGenerator[Entry, None]", entries)

    def _keep(self, entry: Entry) -> None:
        data = encoded(self.run, entry)
        self._kept.append((entry.seq, data))
        self._kept_bytes += len(data)
        while len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft()[1])

    async def _follow(self) -> None:
        while True:
            self._changed.clear()
            try:
                if await self._look():
                    for watch in list(self.watchers):
                        watch(self.run)
            except Damaged as error:
                self.damage = error
                self.is_known.set()
                for watch in list(self.watchers):
                    watch(self.run)
                return
            except OutlastError as error:  # the store is away: it is looked at again
                log.debug("the stream of run %s waits for the store: %s", self.run, error)
            except Exception:
                log.exception("the stream of run %s failed; it is looked at again", self.run)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_ENDED_S if self._is_closed or self.is_missing else POLL_S):
                    await self._changed.wait()

    async def _look(self) -> bool:
        """Take in what is new; whether there is something."""
        engine, before = self._engine, (self.last, self.is_stalled, self.progress, self.is_missing)
        is_first = not self.is_known.is_set()
        try:
            head = await head_of(engine._store, self.run)
        except NotFound:
            self.is_missing = True
            self.is_known.set()
            return is_first or not before[-1]
        self.is_missing, self._is_closed = False, head.closed
        if is_first:
            self.last = head.version
        elif head.version > self.last:
            async for entry in self._entries(self.last, head.version):
                self._keep(entry)
                self.last = entry.seq
        await self._look_beside(is_over=head.closed)
        self.is_known.set()
        return is_first or before != (self.last, self.is_stalled, self.progress, self.is_missing)

    async def _look_beside(self, *, is_over: bool) -> None:
        """Who advances the run, and what its nodes report."""
        if is_over:
            self.is_stalled, self.progress = False, b""
            return
        summary = await self._engine.get(self.run)
        holding = await self._engine._store.holding(self.run)
        is_going = summary.status in GOING and not summary.awaits_start
        self.is_stalled = is_going and (holding is None or not holding.is_live)
        self.progress = await self._engine.diagnostics.scratch(self.run, summary.created)


class Feeds:
    """The feeds of one server process. A run is followed while a client follows it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._feeds: dict[RunId, tuple[Feed, int]] = {}
        self.listeners: set[Callable[[frozenset[RunId]], None]] = set()
        """Called with the runs that changed, followed or not."""
        self._end = engine._ledger.listen(self._on_changes)

    def follow(self, run: RunId, watcher: Callable[[RunId], None]) -> Feed:
        feed, users = self._feeds.get(run) or (Feed(self._engine, run), 0)
        self._feeds[run] = (feed, users + 1)
        feed.watchers.add(watcher)
        return feed

    def leave(self, feed: Feed, watcher: Callable[[RunId], None]) -> None:
        feed.watchers.discard(watcher)
        if feed.run not in self._feeds:
            return  # all feeds were closed
        _, users = self._feeds[feed.run]
        if users > 1:
            self._feeds[feed.run] = (feed, users - 1)
        else:
            del self._feeds[feed.run]
            feed.close()

    def close(self) -> None:
        self._end()
        for feed, _ in self._feeds.values():
            feed.close()
        self._feeds.clear()

    def _on_changes(self, runs: frozenset[RunId]) -> None:
        for run in runs:
            if found := self._feeds.get(run):
                found[0].changed()
        for listener in list(self.listeners):
            listener(runs)
