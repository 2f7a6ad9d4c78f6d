"""The wake-ups of a SQLite store: waits, and notifications of other processes' appends."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from outlast.errors import StoreError
from outlast.history.ids import RunId, WorkerId
from outlast.lifecycle.state import Wait
from outlast.store import Due, Notify
from outlast.stores.shared import Subscriptions, bounded, check_limit, due_of, invalid_cursor, wait_of
from outlast.stores.sqlite.announcements import Inbox, Outbox
from outlast.stores.sqlite.database import Database
from outlast.stores.sqlite.rows import Rows, legible
from outlast.stores.sqlite.turns import holders

POLL = 0.02
"""Seconds between checks for writes of other processes, where they cannot announce them."""
POLL_BESIDE_PIPE = 0.1
"""The same where they announce them: an announcement may be lost."""
DEATHS_S = 0.2
"""Seconds between two checks for workers of other processes that died."""
PAUSE = 0.005
"""Seconds between checks at least, however many announcements arrive."""

OPEN_WAIT = "insert or replace into wait (run, name, kind, due, body) values (?, ?, ?, ?, ?)"
_WAIT = "select wait.body from wait join head on head.id = wait.run where head.run = ? and name = ?"
_WAITS = """
select head.run, wait.run, wait.name, wait.body from wait join head on head.id = wait.run
where (wait.run, wait.name) > (?, ?) {} order by wait.run, wait.name limit ?"""
_DUE = """
select head.run, wait.name, wait.due, wait.body from wait join head on head.id = wait.run
where wait.due <= ? {} order by wait.due, wait.run, wait.name limit ?"""
_AFTER = """
and wait.due >= ? and (wait.due, wait.run, wait.name) > (?, coalesce((select id from head where run = ?), 0), ?)"""
_NEXT = """
select wait.due from wait join head on head.id = wait.run
where wait.due is not null and typeof(wait.due) = 'integer' and wait.due > ? order by wait.due limit 1"""
_NEWEST = "select coalesce(max(id), 0) from log"
_HELD = "select cast(run as blob) from head where worker != '' and worker = ?"
_NEW_RUNS = "select distinct head.run from log join head on head.id = log.run where log.id > ? and log.id <= ?"

_encode = msgspec.json.Encoder().encode


def wait_row(id: int, wait: Wait) -> tuple[Any, ...]:
    """Return the stored row of a wait; `id` is the row id of its run."""
    return id, wait.name, wait.kind, wait.due, _encode(wait)


class WakeupRows(Rows):
    """Implements the wake-ups."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._subscriptions = Subscriptions(self._watch, "outlast-sqlite-watcher")
        self._outbox = Outbox(self.locks.folder)
        self._seen = 0
        self._own: list[tuple[int, int]] = []
        """Log rows beyond `_seen` that this process wrote, as pairs (before the first one, last one)."""

    async def wait(self, run: RunId, name: str) -> Wait | None:
        with self._db.reading() as db:
            body = db.execute(_WAIT, (run, name)).get
        return None if body is None else wait_of(run, name, body)

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        place, name = _cursor(after, limit)
        values: list[Any] = [place, name, *([kind] if kind else []), bounded(limit) + 1]
        sql = _WAITS.format("and wait.kind = ?" if kind else "")
        rows = await self._db.scan(lambda db: list(db.execute(sql, values)))
        shown = rows[:limit]
        following = f"{shown[-1][1]}:{shown[-1][2]}" if len(rows) > limit else ""
        return [due_of(run, str(name), None, body) for run, _, name, body in shown], following

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        sql = _DUE.format("" if after is None else _AFTER)
        place = () if after is None else (after.wait.due, after.wait.due, after.run, after.wait.name)
        with self._db.reading() as db:
            rows = list(db.execute(sql, (self._now(), *place, max(0, bounded(limit)))))
        return [due_of(run, str(name), due, body) for run, name, due, body in rows]

    async def next_due(self, after: int = 0) -> int | None:
        with self._db.reading() as db:
            found: int | None = db.execute(_NEXT, (bounded(after),)).get
        return found

    # --- appends of other processes

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        if not self._subscriptions:
            with self._db.reading() as db:
                self._seen = db.execute(_NEWEST).get
        return self._subscriptions.add(notify)

    async def _watch(self) -> None:
        with Inbox(self._outbox.folder) as inbox:
            self._outbox.own = inbox.path
            version, interval = -1, POLL_BESIDE_PIPE if inbox.is_open else POLL
            dead, check_deaths = frozenset[WorkerId](), 0.0
            while True:
                version = await self._look(version)
                if (now := time.monotonic()) >= check_deaths:
                    dead, check_deaths = self._notify_of_deaths(dead), now + DEATHS_S
                await asyncio.sleep(PAUSE)
                await inbox.wait(interval - PAUSE)

    async def _look(self, version: int) -> int:
        """Notify of new rows, if the file has changed since it had this version. Return the version that it has now."""
        try:
            with self._db.reading() as db:
                found = int(db.pragma("data_version"))
            if found == version:
                return version
            async with self._db.between_transactions():  # else our writer thread's rows would count as foreign
                with self._db.reading() as db:
                    runs = self._new_runs(db)
        except StoreError:
            return version  # a temporary error: the next check starts at the same row
        if runs:
            self._subscriptions.notify(runs)
        return found

    def _notify_of_deaths(self, known: frozenset[WorkerId]) -> frozenset[WorkerId]:
        """Notify of the runs of workers that have died and are not `known` to be dead. Return the dead workers that hold
        runs."""
        try:
            with self._db.reading() as db:
                workers = [WorkerId(holder) for holder, _ in holders(db)]
                dead = frozenset(worker for worker in workers if self.locks.is_alive(worker) is False)
                held = [db.execute(_HELD, (worker,)).fetchall() for worker in dead - known]
        except StoreError:
            return known
        if runs := frozenset(RunId(legible(run)) for rows in held for (run,) in rows):
            self._subscriptions.notify(runs)
        return dead

    def _new_runs(self, db: apsw.Connection) -> frozenset[RunId]:
        newest, runs = db.execute(_NEWEST).get, set[RunId]()
        for before, last in (*self._own, (newest, newest)):
            if before > self._seen:
                runs.update(RunId(run) for (run,) in db.execute(_NEW_RUNS, (self._seen, before)))
            self._seen = max(self._seen, last)
        self._own.clear()
        return frozenset(runs)

    def _announce_own(self, landed: int, last: int) -> None:
        if landed:
            self._outbox.announce()
        if landed and self._seen == last - landed:
            self._seen = last
        elif landed and self._subscriptions:
            self._own.append((last - landed, last))


def _cursor(after: str, limit: int) -> tuple[int, str]:
    place, separator, name = after.partition(":")
    check_limit(limit)
    if after and not (separator and re.fullmatch(r"[0-9]{1,18}", place)):
        raise invalid_cursor(after)
    return int(place or 0), name
