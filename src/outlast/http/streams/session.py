"""What one client follows, as an iterator of messages. It reads from feeds when the transport asks for more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

from outlast.errors import Damaged, OutlastError
from outlast.history.ids import RunId
from outlast.http import page
from outlast.http.auth import Principal
from outlast.http.recovery import one_line as log_line
from outlast.http.state import ServerState
from outlast.http.streams.feed import Feed, Feeds, encode, one_line
from outlast.views.build import error_view, line_view, question_view

log = logging.getLogger("outlast.http")

HEARTBEAT_S = 15.0
"""Without other messages, one is sent this often."""
CHECK_S = 10.0
"""How often the credential of a client is checked."""
BATCH = 200
"""Events of one run that are sent before the next run has its turn."""
MAX_RUNS = 5_000
"""Runs that one client may follow."""
MAX_CHANGED = 500
"""Runs that one `changed` message names."""

Kind: TypeAlias = Literal[
    "open",
    "event",
    "backfill_complete",
    "expired",
    "missing",
    "stalled",
    "resumed",
    "progress",
    "line",
    "question",
    "changed",
    "heartbeat",
    "damaged",
    "end",
]


class Message(NamedTuple):
    """`data` is JSON on one line. `run` and `seq` are set for events: they move the cursor."""

    kind: Kind
    data: bytes
    run: RunId | None = None
    seq: int = 0


class Following:
    """One run that a client follows. `after` is its cursor, `goal` the newest event when it was subscribed."""

    def __init__(self, feed: Feed, after: int, lines_after: int | None) -> None:
        self.feed = feed
        self.after = after
        self.goal: int | None = None
        self.is_live = False
        self.is_stalled = False
        self.is_missing = False
        self.progress = b""
        self.lines_after = lines_after


class Session:
    """One client. `changes` asks for the ids of all runs that change, `inbox` for the open questions of all runs, and
    `lines` for log lines."""

    def __init__(
        self,
        state: ServerState,
        feeds: Feeds,
        who: Principal,
        *,
        changes: bool = False,
        inbox: bool = False,
        lines: bool = False,
    ) -> None:
        self._state, self._feeds, self._who = state, feeds, who
        self._engine = state.engine
        self._inbox, self._lines = inbox, lines
        self._runs: dict[RunId, Following] = {}
        self._dirty: dict[RunId, None] = {}
        self._changed: dict[RunId, None] = {}
        self._wake = asyncio.Event()
        self._changes = changes
        if changes:
            feeds.listeners.add(self._on_changes)

    # --- what is followed

    def subscribe(self, run: RunId, since: int = 0) -> None:
        """Follow a run, from the event after `since` on."""
        if run not in self._runs and len(self._runs) < MAX_RUNS:
            feed = self._feeds.follow(run, self._on_news)
            self._runs[run] = Following(feed, max(0, since), 0 if self._lines else None)
            self._on_news(run)

    def unsubscribe(self, run: RunId) -> None:
        following = self._runs.pop(run, None)
        self._dirty.pop(run, None)
        if following is not None:
            self._feeds.leave(following.feed, self._on_news)

    def close(self) -> None:
        for run in list(self._runs):
            self.unsubscribe(run)
        self._feeds.listeners.discard(self._on_changes)

    def cursor(self, runs: Iterable[RunId]) -> list[int]:
        return [self._runs[run].after if run in self._runs else 0 for run in runs]

    def wake(self) -> None:
        self._wake.set()

    def _on_news(self, run: RunId) -> None:
        self._dirty[run] = None
        self._wake.set()

    def _on_changes(self, runs: frozenset[RunId]) -> None:
        if len(self._changed) < 10 * MAX_CHANGED:
            self._changed.update(dict.fromkeys(runs))
        self._wake.set()

    # --- what is sent

    async def messages(self) -> AsyncIterator[Message]:
        """All messages, until the server shuts down, the credential ends, or the store does not answer."""
        try:
            async for message in self._messages():
                yield message
        except OutlastError as error:
            log.warning("a stream ends: %s", log_line(str(error)))
            yield _message("end", reason="store")

    async def _messages(self) -> AsyncIterator[Message]:
        clock = asyncio.get_running_loop().time
        now = await self._engine.diagnostics.now()
        yield _message("open", time=now, heartbeat_s=HEARTBEAT_S, build=page.build())
        if self._inbox:
            async for message in self._open_questions():
                yield message
        next_check, next_beat = clock() + CHECK_S, clock() + HEARTBEAT_S
        while True:
            if self._state.is_draining:
                yield _message("end", reason="shutdown")
                return
            if clock() >= next_check:
                if not await self._state.auth.is_valid(self._who):
                    yield _message("end", reason="unauthenticated")
                    return
                next_check = clock() + CHECK_S
            self._wake.clear()
            has_sent = False
            for run in list(self._dirty):
                following = self._runs.get(run)
                if following is None:
                    continue
                self._dirty.pop(run, None)
                try:
                    async for message in self._of_run(run, following):
                        has_sent = True
                        yield message
                except Damaged as error:
                    self.unsubscribe(run)
                    has_sent = True
                    yield _message("damaged", run=run, seq=error.seq)
            if self._changed:
                runs = [run for run, _ in zip(self._changed, range(MAX_CHANGED), strict=False)]
                for run in runs:
                    del self._changed[run]
                has_sent = True
                yield _message("changed", runs=runs)
            if clock() >= next_beat and not has_sent:
                has_sent = True
                yield _message("heartbeat", time=await self._engine.diagnostics.now())
            if has_sent:
                next_beat = clock() + HEARTBEAT_S
            if not self._dirty and not self._changed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.01, min(next_check, next_beat) - clock())):
                        await self._wake.wait()

    async def _of_run(self, run: RunId, following: Following) -> AsyncIterator[Message]:
        feed = following.feed
        if not feed.is_known.is_set():
            return  # its feed wakes this session when it knows
        if feed.damage is not None:
            raise feed.damage
        if feed.is_missing:
            if not following.is_missing:
                following.is_missing = True
                yield _message("missing", run=run)
            return
        following.is_missing = False
        if following.goal is None:
            following.goal = feed.last
            if following.after > feed.last and (head := await self._engine._store.head(run)) is not None:
                following.goal = head.version  # another server may have sent what this one does not know yet
                if following.after > head.version:
                    yield _message("expired", run=run, since=following.after, last=head.version)
                    following.after = 0
        if following.after < feed.last:
            async for seq, data in feed.after(following.after, BATCH):
                following.after = seq
                yield Message("event", data, run, seq)
        if following.after < feed.last:
            self._on_news(run)  # the rest has its turn after the other runs
        if not following.is_live and following.after >= following.goal:
            following.is_live = True
            yield await self._backfill_complete(run, following.after)
        if following.is_live:
            async for message in self._beside(run, following):
                yield message

    async def _beside(self, run: RunId, following: Following) -> AsyncIterator[Message]:
        """Send what is not in the log of events: who advances the run, progress, log lines."""
        feed = following.feed
        if following.is_stalled is not feed.is_stalled:
            following.is_stalled = feed.is_stalled
            yield _message("stalled" if feed.is_stalled else "resumed", run=run)
        if following.progress != feed.progress:
            following.progress = feed.progress
            yield Message("progress", b'{"run":%b,"progress":%b}' % (encode(run), one_line(feed.progress or b"[]")))
        if following.lines_after is not None:
            async for line in self._engine.lines(run, after=following.lines_after):
                following.lines_after = line.number
                yield _message("line", run=run, line=line_view(line))

    async def _backfill_complete(self, run: RunId, seq: int) -> Message:
        """The end of what was there: the cursor, the open questions, and the failure if the run can be resumed."""
        summary = await self._engine.get(run)
        failure = None
        if summary.recoverable:
            state = await self._engine._reader.state(run)
            failure = error_view(state.outline.error) if state.outline.error is not None else None
        questions = [question_view(wait) for wait in await self._engine.questions(run)]
        return _message(
            "backfill_complete",
            run=run,
            seq=seq,
            status=summary.status,
            questions=questions,
            recoverable=summary.recoverable,
            failure=failure,
        )

    async def _open_questions(self) -> AsyncIterator[Message]:
        """Each question that is open when the client connects, once."""
        cursor = ""
        while True:
            waits, cursor = await self._engine._store.waits(kind="interaction", after=cursor)
            for due in waits:
                yield _message("question", run=due.run, question=question_view(due.wait), restored=True)
            if not cursor:
                return


def _message(kind: Kind, **fields: object) -> Message:
    return Message(kind, one_line(encode(fields)))
