"""Append records and heads in SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import apsw
import msgspec

from outlast.errors import Damaged
from outlast.history.ids import AppendId, RunId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Append, Head, Lost, Outcome
from outlast.stores.sqlite.catalog import put_summary
from outlast.stores.sqlite.rows import LARGEST, Rows, bounded

TAIL = 256
"""How many records a `Lost` brings along at most."""

_HEAD = "select run, version, digest, epoch, branch, branch_first, closed, ready from head where run = ?"
_NEW_HEAD = """
insert into head (run, version, digest, epoch, branch, branch_first, closed, ready, granted)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_MOVE = """
update head set version = ?, digest = ?, epoch = ?, branch = ?, branch_first = ?, closed = ?
where id = ? and version = ?"""
_FENCE = {Kind.GUEST: "", Kind.CONTROL: "", Kind.OWNER: " and epoch = ?", Kind.TAKEOVER: " and epoch < ?"}
_MOVE_BY = {kind: _MOVE + fence for kind, fence in _FENCE.items()}
_GOES_ON = "update head set interrupted = '' where id = ?"
_READY = "update head set ready = ? where id = ?"
_LOG = """
insert into log (run, first, count, branch, epoch, kind, append_id, time, body, digest)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_READ = """
select first, count, branch, epoch, kind, append_id, time, body, digest from log
where run = ? and first >= ? and first <= ? order by first limit ?"""
_START = "select max(first) from log where run = ? and first <= ?"
_CLOSE = "delete from wait where run = ? and name = ?"
_OPEN = "insert or replace into wait (run, name, kind, due, body) values (?, ?, ?, ?, ?)"
_HAS_WAIT = "select 1 from wait where run = ? and name = ?"
_TAKE = "insert or replace into claim (run, worker, epoch) values (?, ?, ?)"
_GIVE_BACK = "delete from claim where run = ? and epoch = ?"

_TAKEOVER = Kind.TAKEOVER
_encode = msgspec.json.Encoder().encode


class JournalRows(Rows):
    """The journal's part of the store."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        def write(db: apsw.Connection) -> _Batch:
            work = _Batch(db, self._ids)
            for append in batch:
                work.outcomes.append(work.append(append))
            work.flush()
            return work

        done = await self._db.transact(write)
        self._remember(done.fresh)
        self._saw_own(done.landed, done.last)
        return done.outcomes

    async def head(self, run: RunId) -> Head | None:
        with self._db.reading() as db:
            return _head(db, run)

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        with self._db.reading() as db:
            id = self._id_of(db, run)
            return [] if id is None else _records(db, run, id, first, last, limit)


class _Batch:
    """Several appends inside one transaction. Log rows are gathered and written together; the rest is written at once."""

    def __init__(self, db: apsw.Connection, ids: Mapping[RunId, int]) -> None:
        self.db = db
        self.ids = ids
        self.fresh: dict[RunId, int] = {}
        self.outcomes: list[Outcome] = []
        self.landed = 0
        self.last = 0
        self._rows: list[tuple[Any, ...]] = []

    def append(self, append: Append) -> Outcome:
        """Do it or leave no trace of it: every check comes before the first change."""
        db, record = self.db, append.record
        id = self._id(record.run)
        if id is None:
            if record.first != 1:
                return self._lost(append, None, "version")
            if append.needs or record.kind is Kind.TAKEOVER:
                return self._lost(append, None, "wait" if append.needs else "epoch")
            id = self.fresh[record.run] = _new_head(db, append.head)
        else:
            if append.needs and not _has_waits(db, id, append.needs):
                return self._lost(append, id, "wait")
            db.execute(_MOVE_BY[record.kind], _move(append, id))
            if not db.changes():
                return self._lost(append, id, "epoch")
            if append.release or record.epoch == 0:
                db.execute(_READY, (append.head.ready, id))
            if record.kind is _TAKEOVER:
                db.execute(_GOES_ON, (id,))
        self._rows.append(
            (
                id,
                record.first,
                record.count,
                record.branch,
                record.epoch,
                record.kind,
                record.id,
                record.time,
                record.body,
                record.digest,
            )
        )
        if append.summary is not None:
            put_summary(db, id, append.summary)
        if append.closes:
            db.executemany(_CLOSE, [(id, name) for name in append.closes])
        if append.opens:
            db.executemany(_OPEN, [_wait_row(id, wait) for wait in append.opens])
        if append.claim is not None:
            db.execute(_TAKE, (id, append.claim, record.epoch))
        if append.release:
            db.execute(_GIVE_BACK, (id, record.epoch))
        return LANDED

    def flush(self) -> None:
        if self._rows:
            self.db.executemany(_LOG, self._rows)
            self.landed += len(self._rows)
            self.last = self.db.last_insert_rowid()
            self._rows.clear()

    def _id(self, run: RunId) -> int | None:
        found = self.ids.get(run) or self.fresh.get(run)
        if found is None:
            found = self.db.execute("select id from head where run = ?", (run,)).get
            if found is not None:
                self.fresh[run] = found
        return found

    def _lost(self, append: Append, id: int | None, why: Literal["version", "epoch", "wait"]) -> Lost:
        """Say why. A stale version goes before every other reason: its tail may show that this very append landed."""
        record = append.record
        head = _head(self.db, record.run)
        if id is None or head is None or head.version == record.first - 1:
            return Lost(why, head)
        self.flush()  # an earlier append of this batch may be what it lost to
        return Lost("version", head, tuple(_records(self.db, record.run, id, record.first, None, TAIL)))


def _wait_row(run: int, wait: Wait) -> tuple[int, str, str, int | None, bytes]:
    return run, wait.name, wait.kind, wait.due, _encode(wait)


def _move(append: Append, id: int) -> tuple[Any, ...]:
    record, head = append.record, append.head
    values = (
        head.version,
        head.digest,
        head.epoch,
        head.branch,
        head.branch_first,
        head.closed,
        id,
        record.first - 1,
    )
    return (*values, record.epoch) if record.epoch else values  # a guest's append carries no epoch


def _new_head(db: apsw.Connection, head: Head) -> int:
    db.execute(
        _NEW_HEAD,
        (
            head.run,
            head.version,
            head.digest,
            head.epoch,
            head.branch,
            head.branch_first,
            head.closed,
            head.ready,
            head.epoch,
        ),
    )
    return db.last_insert_rowid()


def _has_waits(db: apsw.Connection, id: int, names: Sequence[str]) -> bool:
    return all(db.execute(_HAS_WAIT, (id, name)).get is not None for name in names)


def _head(db: apsw.Connection, run: RunId) -> Head | None:
    row = db.execute(_HEAD, (run,)).fetchone()
    if row is None:
        return None
    name, version, digest, epoch, branch, branch_first, closed, ready = row
    return Head(RunId(name), version, digest, epoch, branch, branch_first, bool(closed), bool(ready))


def _records(db: apsw.Connection, run: RunId, id: int, first: int, last: int | None, limit: int) -> list[Record]:
    first, last, limit = bounded(first), bounded(LARGEST if last is None else last), bounded(limit)
    start = db.execute(_START, (id, first)).get or first
    rows = db.execute(_READ, (id, start, last, limit + 1))
    found = [_record(run, row) for row in rows]
    if found and found[0].last < first:
        del found[0]
    return found[:limit]


def _record(run: RunId, row: tuple[Any, ...]) -> Record:
    first, count, branch, epoch, kind, append_id, time, body, digest = row
    known = _KINDS.get(kind)
    if known is None or not (type(body) is bytes and type(append_id) is bytes and type(digest) is bytes):
        raise Damaged("the row is not an append record", run=run, seq=first)
    return Record(run, first, count, branch, epoch, known, AppendId(append_id), time, body, digest)


_KINDS = {int(kind): kind for kind in Kind}
