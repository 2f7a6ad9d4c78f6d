"""The base class of the parts of a SQLite store: database, clock, locks of workers, and row ids of runs."""

from __future__ import annotations

import time
from typing import Any

import apsw

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.history.record import Kind, Record
from outlast.store import Head
from outlast.stores.shared import LARGEST, bounded
from outlast.stores.sqlite.database import Database
from outlast.stores.sqlite.worker_locks import WorkerLocks

REMEMBERED = 10_000
"""Row ids cached in memory. They never change, so evicting one only costs a query."""


def legible(text: Any) -> str:
    """Decode text that was read as a blob: bytes that are not UTF-8 must not make the other rows of a list unreadable."""
    return bytes(text).decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


class Rows:
    """The base class of journal, catalog, claims, wake-ups, lines and documents."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.locks = WorkerLocks(database.path)
        self._ids: dict[RunId, int] = {}
        self.skew = 0

    def _now(self) -> int:
        return time.time_ns() // 1000 + self.skew

    def _id_of(self, db: apsw.Connection, run: RunId) -> int | None:
        """Return the run's row id. The connection must see only committed rows."""
        id = self._ids.get(run)
        if id is None:
            id = db.execute("select id from head where run = ?", (run,)).get
            if id is not None:
                self._remember({run: id})
        return id

    def _remember(self, found: dict[RunId, int]) -> None:
        if len(self._ids) > REMEMBERED:
            self._ids.clear()
        self._ids.update(found)

    def _announce_own(self, landed: int, last: int) -> None:
        """Called after each batch of appends: the wake-ups do not report this process's own appends."""


_HEAD = "select run, version, digest, epoch, branch, branch_first, closed, ready from head where run = ?"
_TYPES = (str, int, bytes, int, int, int, int, int)
_READ = """
select first, count, branch, epoch, kind, append_id, time, body, digest from log
where run = ?1 and first >= ? and first <= ? and exists (select 1 from head where id = ?1) order by first limit ?"""
_START = "select max(first) from log where run = ? and first <= ?"
_KINDS = {int(kind): kind for kind in Kind}


def head_of(db: apsw.Connection, run: RunId) -> Head | None:
    try:
        row = db.execute(_HEAD, (run,)).fetchone()
    except UnicodeDecodeError as error:
        raise Damaged("the row of its head cannot be decoded", run=run) from error
    if row is None:
        return None
    _, version, digest, epoch, branch, branch_first, closed, ready = row
    if tuple(map(type, row)) != _TYPES:
        raise Damaged("the row of its head cannot be decoded", run=run)
    return Head(run, version, digest, epoch, branch, branch_first, bool(closed), bool(ready))


def records_of(db: apsw.Connection, run: RunId, id: int, first: int, last: int | None, limit: int) -> list[Record]:
    first, last, limit = bounded(first), bounded(LARGEST if last is None else last), bounded(limit)
    start = db.execute(_START, (id, first)).get or first
    try:
        rows = db.execute(_READ, (id, start, last, limit + 1)).fetchall()
    except UnicodeDecodeError as error:
        raise Damaged("a row of its log cannot be decoded", run=run, seq=first) from error
    found = [_record(run, row) for row in rows]
    if found and found[0].last < first:
        del found[0]
    return found[:limit]


def _record(run: RunId, row: tuple[Any, ...]) -> Record:
    first, count, branch, epoch, kind, append_id, time, body, digest = row
    known = _KINDS.get(kind)
    if known is None or not (type(body) is bytes and type(append_id) is bytes and type(digest) is bytes):
        raise Damaged("the row is not an append record", run=run, seq=first)
    return Record(run, first, count, branch, epoch, known, append_id, time, body, digest)  # type: ignore[arg-type]
