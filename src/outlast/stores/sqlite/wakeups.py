"""What runs wait for, and the news of other processes, in SQLite."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from outlast.errors import Damaged, InvalidInput, StoreError
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.store import Due, Notify, unreadable_wait
from outlast.stores.sqlite.database import Database
from outlast.stores.sqlite.rows import Rows, bounded

POLL = 0.02
"""Seconds between two looks at whether another process has written."""

OPEN_WAIT = "insert or replace into wait (run, name, kind, due, body) values (?, ?, ?, ?, ?)"
_WAIT = "select wait.body from wait join head on head.id = wait.run where head.run = ? and name = ?"
_WAITS = """
select head.run, wait.run, wait.name, wait.body from wait join head on head.id = wait.run
where (wait.run, wait.name) > (?, ?) {} order by wait.run, wait.name limit ?"""
_DUE = """
select head.run, wait.name, wait.due, wait.body from wait join head on head.id = wait.run
where due <= ? {} order by due, wait.run, name limit ?"""
_BEHIND = """
and due >= ? and (due, wait.run, name) > (?, coalesce((select id from head where run = ?), 0), ?)"""
_NEXT = "select due from wait where due is not null and typeof(due) = 'integer' order by due limit 1"
_NEWEST = "select coalesce(max(id), 0) from log"
_NEWS = "select distinct head.run from log join head on head.id = log.run where log.id > ? and log.id <= ?"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Wait).decode


def wait_row(id: int, wait: Wait) -> tuple[Any, ...]:
    """A wait as it is stored; `id` is the number of its run."""
    return id, wait.name, wait.kind, wait.due, _encode(wait)


def read_wait(body: Any) -> Wait | None:
    """A stored wait, or None if its bytes do not read."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return None


class WakeupRows(Rows):
    """The wake-ups' part of the store."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._notifies: list[Notify] = []
        self._watcher: asyncio.Task[None] | None = None
        self._seen = 0
        self._own: list[tuple[int, int]] = []
        """Rows beyond `_seen` that this process wrote: those after the first number, up to the second."""

    async def wait(self, run: RunId, name: str) -> Wait | None:
        with self._db.reading() as db:
            body = db.execute(_WAIT, (run, name)).get
        if body is None:
            return None
        wait = read_wait(body)
        if wait is None:
            raise Damaged(f"the row of the wait {name!r} does not read", run=run)
        return wait

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        place, name = _cursor(after, limit)
        values: list[Any] = [place, name, *([kind] if kind else []), bounded(limit) + 1]
        sql = _WAITS.format("and wait.kind = ?" if kind else "")
        rows = await self._db.scan(lambda db: list(db.execute(sql, values)))
        shown = rows[:limit]
        following = f"{shown[-1][1]}:{shown[-1][2]}" if len(rows) > limit else ""
        return [_due(run, name, None, body) for run, _, name, body in shown], following

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        sql = _DUE.format("" if after is None else _BEHIND)
        place = () if after is None else (after.wait.due, after.wait.due, after.run, after.wait.name)
        with self._db.reading() as db:
            rows = list(db.execute(sql, (self._now(), *place, max(0, bounded(limit)))))
        return [_due(*row) for row in rows]

    async def next_due(self) -> int | None:
        with self._db.reading() as db:
            found: int | None = db.execute(_NEXT).get
        return found

    # --- news of other processes

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        if self._watcher is None:
            with self._db.reading() as db:
                self._seen = db.execute(_NEWEST).get
            self._watcher = asyncio.get_running_loop().create_task(self._watch(), name="outlast-sqlite-watcher")
        self._notifies.append(notify)

        def unsubscribe() -> None:
            if notify in self._notifies:
                self._notifies.remove(notify)
            if not self._notifies:
                self._stop_watching()

        return unsubscribe

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def _watch(self) -> None:
        version = -1
        while True:
            await asyncio.sleep(POLL)
            try:
                with self._db.reading() as db:
                    found = int(db.pragma("data_version"))
                if found == version:
                    continue
                async with self._db.between_transactions():  # or rows that our own thread writes would count as others'
                    with self._db.reading() as db:
                        runs = self._news(db)
                version = found
            except StoreError:
                continue  # a passing fault: the next look asks from the same place
            if runs:
                for notify in list(self._notifies):
                    notify(runs)

    def _news(self, db: apsw.Connection) -> frozenset[RunId]:
        newest, runs = db.execute(_NEWEST).get, set[RunId]()
        for before, last in (*self._own, (newest, newest)):
            if before > self._seen:
                runs.update(RunId(run) for (run,) in db.execute(_NEWS, (self._seen, before)))
            self._seen = max(self._seen, last)
        self._own.clear()
        return frozenset(runs)

    def _announce_own(self, landed: int, last: int) -> None:
        if landed and self._seen == last - landed:
            self._seen = last
        elif landed and self._watcher is not None:
            self._own.append((last - landed, last))


def _due(run: str, name: str, due: int | None, body: Any) -> Due:
    wait = read_wait(body)
    return Due(RunId(run), wait) if wait is not None else unreadable_wait(run, str(name), due)


def _cursor(after: str, limit: int) -> tuple[int, str]:
    place, separator, name = after.partition(":")
    if limit < 1:
        raise InvalidInput(f"a page holds at least one wait, not {limit}")
    if after and not (separator and re.fullmatch(r"[0-9]{1,18}", place)):
        raise InvalidInput(f"{after!r} is not a cursor of a list of waits; use the one a page came with")
    return int(place or 0), name
