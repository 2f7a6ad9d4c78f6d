"""Writes appends as rows in SQLite, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import apsw
from msgspec.structs import replace

from outlast.history.ids import RunId
from outlast.history.record import Kind, Record
from outlast.lifecycle.summary import RunSummary
from outlast.store import LANDED, Append, Lost, Outcome
from outlast.stores.sqlite.catalog import PLACE, SET_TIMER, put_again, put_new
from outlast.stores.sqlite.deletion import is_deleted
from outlast.stores.sqlite.rows import head_of, records_of
from outlast.stores.sqlite.slots import END_CLAIM_SLOTS, END_RUN_SLOTS, full_slots, take_slots
from outlast.stores.sqlite.wakeups import OPEN_WAIT, wait_row

TAIL = 256
"""The most records in a `Lost`."""

_NEW_HEAD = """
insert into head (id, run, version, digest, epoch, branch, branch_first, closed, ready, worker, claim_epoch, interrupted,
    cause, workflow, queue, priority, fairness_key, created)
select ?, ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? where not exists (select 1 from tombstone where run = ?2)"""
_NEXT_ID = """
select 1 + max(
    ifnull((select max(id) from head), 0), ifnull((select max(run) from log), 0), ifnull((select max(id) from tombstone), 0)
)"""
"""Skips the id of a log whose head was lost, and those of deleted runs, which other processes may remember."""
_MOVE = """
update head set version = ?, digest = ?, epoch = ?, branch = ?, branch_first = ?, closed = ?, ready = ifnull(?, ready){}
where id = ? and version = ?{}"""
_RELEASED = {False: "", True: ", interrupted = '', worker = iif(claim_epoch = ?, '', worker)"}
_FENCE = {Kind.GUEST: "", Kind.CONTROL: "", Kind.OWNER: " and epoch = ?", Kind.TAKEOVER: " and epoch < ?"}
_MOVE_BY = {
    (kind, release): _MOVE.format(released, fence)
    for kind, fence in _FENCE.items()
    for release, released in _RELEASED.items()
}
"""The change of the head by the kind of an append, and by whether it releases the claim."""
_ADVANCE = "update head set version = ?, digest = ? where id = ? and version = ? and epoch = ? and closed = 0"
"""The change of the head by nearly all appends of an owner: only version and digest."""
_SET_INTERRUPTED = """
update head set interrupted = worker, cause = iif(worker = '', '', 'expired') where id = ?"""
"""From its takeover until its release, the claiming worker is the one that an interruption would name."""
_LOG = """
insert into log (run, first, count, branch, epoch, kind, append_id, time, body, digest)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_CLOSE = "delete from wait where run = ? and name = ?"
_HAS_WAIT = "select 1 from wait where run = ? and name = ?"
_USE_BLOB = "insert or ignore into blob_use (run, blob) values (?, ?)"

_NO_PLACE = ("", "", 0, "", 0)
_OWNER, _TAKEOVER = Kind.OWNER, Kind.TAKEOVER


class Batch:
    """Several appends in one transaction.

    Nearly always all succeed, so appends of different runs are written together, table by table. If one of them loses, that
    is rolled back, and they are written one by one, in order."""

    def __init__(self, db: apsw.Connection, ids: Mapping[RunId, int]) -> None:
        self.db = db
        self.ids = ids
        self.fresh: dict[RunId, int] = {}
        """Ids of runs that this batch looked up or created."""
        self.outcomes: list[Outcome] = []
        self.rows = _Rows(db)

    def write(self, batch: Sequence[Append]) -> Batch:
        """Write the batch. Returns itself, with one outcome for each append."""
        if len(batch) > 1 and self._all_at_once(batch):
            self.outcomes = [LANDED] * len(batch)
        else:
            for append in batch:
                self.outcomes.append(self._append(append))
        return self

    # --- all at once

    def _all_at_once(self, batch: Sequence[Append]) -> bool:
        """Write the appends together. False, with nothing changed, if that is impossible or one of them loses."""
        if len({append.record.run for append in batch}) < len(batch):
            return False
        self.db.execute("savepoint together")
        if self._write_together(batch):
            self.db.execute("release together")
            return True
        self.db.execute("rollback to together")
        self.db.execute("release together")
        self.fresh, self.rows = {}, _Rows(self.db)
        return False

    def _write_together(self, batch: Sequence[Append]) -> bool:
        db, rows = self.db, self.rows
        born: list[tuple[Any, ...]] = []
        moves: list[tuple[Any, ...]] = []
        releases: list[tuple[Any, ...]] = []
        advances: list[tuple[Any, ...]] = []
        known = self.ids.get
        for append in batch:
            record = append.record
            if append.needs or append.takes or record.kind is not _OWNER:
                return False
            id = known(record.run)
            if record.first == 1 and id is None:
                id = self.fresh[record.run] = born[-1][0] + 1 if born else db.execute(_NEXT_ID).get
                born.append(_new_head(append, id))
            else:
                id = id or self._id(record.run)
                if id is None:
                    return False
                if _only_advances_head(append):
                    advances.append(_advance_row(append, id))
                else:
                    (releases if append.release else moves).append(_move(append, id))
            rows.add(append, id)
        before = db.total_changes()
        db.executemany(_ADVANCE, advances)
        db.executemany(_MOVE_BY[_OWNER, False], moves)
        db.executemany(_MOVE_BY[_OWNER, True], releases)
        if db.total_changes() - before != len(advances) + len(moves) + len(releases):
            return False
        before = db.total_changes()
        try:
            db.executemany(_NEW_HEAD, born)
        except apsw.ConstraintError:
            return False  # a run with this id exists already
        if db.total_changes() - before != len(born):
            return False  # or was deleted
        rows.write()
        return True

    # --- one by one

    def _append(self, append: Append) -> Outcome:
        """Write one append completely or not at all: every check but that of the slots comes before the first change."""
        if not append.takes:
            return self._write_one(append)
        self.db.execute("savepoint slots")
        outcome = self._write_one(append)
        if isinstance(outcome, Lost):
            self.db.execute("rollback to slots")
            self.fresh.pop(append.record.run, None)
            outcome = replace(outcome, head=head_of(self.db, append.record.run))
        self.db.execute("release slots")
        return outcome

    def _write_one(self, append: Append) -> Outcome:
        db, record = self.db, append.record
        id = self._id(record.run)
        if id is None:
            if record.first != 1:
                return self._lost(append, None, "version")
            if append.needs or record.kind is _TAKEOVER:
                return self._lost(append, None, "wait" if append.needs else "epoch")
            id = self.fresh[record.run] = db.execute(_NEXT_ID).get
            db.execute(_NEW_HEAD, _new_head(append, id))
            if not db.changes():
                del self.fresh[record.run]
                return Lost("deleted", None)
        else:
            if append.needs and not _has_waits(db, id, append.needs):
                return self._lost(append, id, "wait")
            if not self._moved_head(append, id):
                return self._lost(append, id, "epoch")
            if record.kind is _TAKEOVER:
                db.execute(_SET_INTERRUPTED, (id,))
                db.execute(END_CLAIM_SLOTS, (id, record.epoch - 1))
        if append.takes:
            if full := full_slots(db, record.run, append.takes):
                return Lost("slot", None, full=full)
            take_slots(db, record.run, id, record.epoch, append.takes)
        self.rows.add(append, id)
        self.rows.write()
        return LANDED

    def _moved_head(self, append: Append, id: int) -> bool:
        db, record = self.db, append.record
        if record.kind is _OWNER and _only_advances_head(append):
            db.execute(_ADVANCE, _advance_row(append, id))
            if db.changes():
                return True  # else it lost, or reopens a closed run
        db.execute(_MOVE_BY[record.kind, append.release], _move(append, id))
        return db.changes() > 0

    def _id(self, run: RunId) -> int | None:
        found = self.ids.get(run) or self.fresh.get(run)
        if found is None:
            found = self.db.execute("select id from head where run = ?", (run,)).get
            if found is not None:
                self.fresh[run] = found
        return found

    def _lost(self, append: Append, id: int | None, why: Literal["version", "epoch", "wait"]) -> Lost:
        """Return the reason. A stale version precedes every other reason: its tail may show that this same append landed."""
        record = append.record
        head = head_of(self.db, record.run)
        if head is None and is_deleted(self.db, record.run):
            return Lost("deleted", None)
        if id is None or head is None or head.version == record.first - 1:
            return Lost(why, head)
        return Lost("version", head, tuple(records_of(self.db, record.run, id, record.first, None, TAIL)))


class _Rows:
    """The rows of successful appends in the tables other than `head`, collected and written together."""

    def __init__(self, db: apsw.Connection) -> None:
        self.landed = 0
        self.last = 0
        self._db = db
        self._log: list[tuple[Any, ...]] = []
        self._new: list[tuple[int, RunSummary]] = []
        self._again: dict[int, RunSummary] = {}
        """Summaries of new runs, and others."""
        self._more: dict[str, list[tuple[Any, ...]]] = {
            sql: [] for sql in (_CLOSE, OPEN_WAIT, SET_TIMER, END_RUN_SLOTS, END_CLAIM_SLOTS, _USE_BLOB)
        }
        """Rows for further statements, which are executed in this order."""

    def add(self, append: Append, id: int) -> None:
        self._log.append(_log_row(append.record, id))
        if _has_more(append):
            self._add_more(append, id)

    def _add_more(self, append: Append, id: int) -> None:
        more, epoch = self._more, append.record.epoch
        if append.summary is not None:
            if append.record.first == 1:
                self._new.append((id, append.summary))
            else:
                self._again[id] = append.summary
        if append.closes or append.opens:
            self._add_waits(append, id)
        if append.frees:
            more[END_RUN_SLOTS].append((id,))
        if append.release:
            more[END_CLAIM_SLOTS].append((id, epoch))
        for blob in append.blobs:
            more[_USE_BLOB].append((id, blob))

    def _add_waits(self, append: Append, id: int) -> None:
        more = self._more
        if _has_timers(append):
            more[SET_TIMER].append((id,))
        for name in append.closes:
            more[_CLOSE].append((id, name))
        for wait in append.opens:
            more[OPEN_WAIT].append(wait_row(id, wait))

    def write(self) -> None:
        db = self._db
        db.executemany(_LOG, self._log)
        self.landed += len(self._log)
        self.last = db.last_insert_rowid()
        self._log.clear()
        if self._new:
            put_new(db, self._new)
            self._new.clear()
        if self._again:
            put_again(db, self._again)
            self._again.clear()
        for sql, rows in self._more.items():
            if rows:
                db.executemany(sql, rows)
                rows.clear()


def _log_row(record: Record, id: int) -> tuple[Any, ...]:
    placed = id, record.first, record.count, record.branch, record.epoch, record.kind, record.id, record.time
    return *placed, record.body, record.digest


def _only_advances_head(append: Append) -> bool:
    """Return whether an owner's append changes only version and digest of the head of an open run."""
    head = append.head
    return not (head.closed or append.release or head.branch_first == append.record.first)


def _has_more(append: Append) -> bool:
    """Return whether the append uses tables other than `log` and `head`."""
    if append.summary is not None or append.release or append.frees:
        return True
    return bool(append.opens or append.closes or append.needs or append.takes or append.blobs)


def _has_timers(append: Append) -> bool:
    return any(name.startswith("timer:") for name in append.closes) or any(
        wait.kind == "timer" for wait in append.opens
    )


def only_extends_log(append: Append) -> bool:
    """Return whether this is an owner's append that only extends the log, as nearly all are."""
    return append.record.kind is _OWNER and _only_advances_head(append) and not _has_more(append)


def written_row(db: apsw.Connection, append: Append, id: int) -> int:
    """Write an append that only extends the log. Return the id of its log row, or 0 if the head does not match."""
    db.execute(_ADVANCE, _advance_row(append, id))
    if not db.changes():
        return 0
    db.execute(_LOG, _log_row(append.record, id))
    return db.last_insert_rowid()


def _advance_row(append: Append, id: int) -> tuple[Any, ...]:
    record = append.record
    return append.head.version, record.digest, id, record.first - 1, record.epoch


def _move(append: Append, id: int) -> tuple[Any, ...]:
    record, head = append.record, append.head
    moved = head.version, head.digest, head.epoch, head.branch, head.branch_first, head.closed
    is_guest = record.epoch == 0
    ready = head.ready if append.release or is_guest else None
    released = (record.epoch,) if append.release else ()
    fence = () if is_guest else (record.epoch,)  # a guest's append carries no epoch
    return *moved, ready, *released, id, record.first - 1, *fence


def _new_head(append: Append, id: int) -> tuple[Any, ...]:
    head = append.head
    owner = append.claim or ""
    place = _NO_PLACE if append.summary is None else PLACE(append.summary)
    begun = head.version, head.digest, head.epoch, head.branch, head.branch_first, head.closed, head.ready
    return id, head.run, *begun, owner, head.epoch, owner, "expired" if owner else "", *place


def _has_waits(db: apsw.Connection, id: int, names: Sequence[str]) -> bool:
    return all(db.execute(_HAS_WAIT, (id, name)).get is not None for name in names)
