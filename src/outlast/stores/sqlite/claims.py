"""Workers and the runs they hold, in SQLite.

A worker has one row with the end of its lease, which one renewal extends for all its runs, and a lock on its own file, which
the operating system releases when the process ends. The lock decides: while it is held the worker is alive at any clock
time, because a clock can be set and a machine can sleep. The lease decides only if the lock cannot be checked.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakSet

import apsw
import msgspec

from outlast.errors import StoreError, StoreFull, StoreReadOnly
from outlast.history.ids import RunId, WorkerId
from outlast.store import Claim, Enrolled, Holding, Names, Runs
from outlast.stores.shared import LARGEST, names_in
from outlast.stores.sqlite.database import Database
from outlast.stores.sqlite.rows import Rows, legible

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

# Values of a wrong type, in an edited file, must not stop the claims of other runs.
_GRANTED = f"""
cast(head.interrupted as blob),
cast(iif(head.granted between head.epoch and {LARGEST}, head.granted, min(head.epoch, {LARGEST})) as integer)"""
_EXPIRES = "cast(coalesce(worker.expires, 0) as integer)"
_SEEN = "cast(coalesce(worker.seen, 0) as integer)"
_ENROL = "insert or replace into worker (id, expires, seen, workflows) values (?, ?, ?, ?)"
_RENEW = "update worker set expires = ?, seen = ? where id = ?"
_ENROLLED = f"select cast(id as text), {_EXPIRES}, {_SEEN}, cast(workflows as text) from worker order by id"
_DELETE_OLD = """
delete from worker where expires < ? and not exists (select 1 from claim where claim.worker = worker.id) returning id"""
_LAST_SEEN = f"select {_SEEN} from worker where id = ?"
_RELEASED = "interrupted = iif(interrupted = 'expired:' || ?, '', interrupted)"
_RETIRE = f"update head set ready = 1, {_RELEASED} where id in (select run from claim where worker = ?)"
_HOLDER = f"""
select head.id, {_GRANTED}, claim.worker, {_EXPIRES}, {_SEEN}
from head left join claim on claim.run = head.id left join worker on worker.id = claim.worker
where head.run = ?"""
_READY_RUNS = f"""
select head.id, cast(head.run as blob), {_GRANTED}, null, 'claimed' from head indexed by head_ready
where ready = 1 and closed = 0 and not exists (select 1 from claim where claim.run = head.id)"""
_WORKERS = f"""
select held.worker, {_EXPIRES} from (select distinct worker from claim) held
left join worker on worker.id = held.worker where held.worker != ?"""
_HELD_BY = f"""
select head.id, cast(head.run as blob), {_GRANTED}, claim.worker, ?
from claim join head on head.id = claim.run where claim.worker = ?"""
_HOLDINGS = f"""
select head.run, claim.worker, {_EXPIRES}, {_SEEN}
from claim join head on head.id = claim.run left join worker on worker.id = claim.worker
where head.run > ? and (? is null or claim.worker = ?) order by head.run limit ?"""
_OF_WORKFLOW = " and exists (select 1 from catalogue c where c.id = head.id and c.workflow in ({}))"
_GRANT = "update head set granted = ?, interrupted = ? where id = ?"
_CLAIM = "insert or replace into claim (run, worker, epoch) values (?, ?, ?)"
_DELETE_CLAIM = """
delete from claim where worker = ? and run = (select id from head where run = ? and version = ?) returning run"""
_SET_READY = f"update head set ready = ?, {_RELEASED} where id = ?"

FORGOTTEN_AFTER = 86_400_000_000
"""Microseconds until the row and the lock file of a dead worker without runs are deleted."""

Cause: TypeAlias = Literal["claimed", "expired", "dead"]
Candidate: TypeAlias = tuple[int, RunId, str, int, WorkerId | None, Cause]
"""Row id, run, interrupted worker, greatest granted epoch, last holder, and why the run is free."""


class ClaimRows(Rows):
    """Implements the claims."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._locks: dict[WorkerId, int] = {}
        _stores.add(self)

    async def enrol(self, worker: WorkerId, ttl: float, workflows: Collection[str] = ()) -> None:
        def write(db: apsw.Connection) -> list[WorkerId]:
            db.execute(_ENROL, (worker, self._until(ttl), self._now(), encoded))
            return [WorkerId(name) for (name,) in _rows(db, _DELETE_OLD, self._now() - FORGOTTEN_AFTER)]

        encoded = msgspec.json.encode(sorted(workflows)).decode()
        self._db.require_writable()
        self._acquire_lock(worker)
        for forgotten in await self._db.transact(write):
            with suppress(OSError):  # the file is harmless, and may belong to another user
                self._lock_path(forgotten).unlink()

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_RENEW, (self._until(ttl), self._now(), worker))
            return db.changes() > 0

        is_known = await self._db.transact(write)
        if not is_known:
            self._unlock(worker)  # a worker that must stop must not look alive
        return is_known

    async def retire(self, worker: WorkerId) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_RETIRE, (worker, worker))
            db.execute("delete from claim where worker = ?", (worker,))
            db.execute("delete from worker where id = ?", (worker,))

        await self._db.transact(write)
        self._unlock(worker)

    async def claim(
        self, worker: WorkerId, *, runs: Runs = None, workflows: Names = None, limit: int = 1
    ) -> list[Claim]:
        def write(db: apsw.Connection) -> list[Claim]:
            free = self._named(db, worker, runs) if runs is not None else self._claimable(db, worker, workflows, limit)
            return [_grant(db, candidate, worker) for candidate in free[:limit]]

        if runs is None:  # check first without the write lock: idle workers must not block busy ones
            with self._db.reading() as db:
                if not self._claimable(db, worker, workflows, 1):
                    return []
        return await self._db.transact(write)

    def _named(self, db: apsw.Connection, worker: WorkerId, runs: Sequence[RunId]) -> list[Candidate]:
        """Return those of the named runs that no other live worker holds."""
        found: list[Candidate] = []
        for run in dict.fromkeys(runs):
            for id, interrupted, granted, holder, expires, _ in _rows(db, _HOLDER, run):
                is_own = holder == worker
                cause = "claimed" if is_own else self._why_free(holder, expires)
                if cause is not None:
                    found.append((id, run, legible(interrupted), granted, None if is_own else holder, cause))
        return found

    def _claimable(
        self, db: apsw.Connection, worker: WorkerId, workflows: Collection[str] | None, limit: int
    ) -> list[Candidate]:
        """Return runs of dead workers, then ready runs. The cost does not depend on the runs of live workers."""
        names = list(workflows or ())
        condition = "" if workflows is None else _OF_WORKFLOW.format(", ".join("?" * len(names)))
        found: list[Candidate] = []
        for holder, expires in _rows(db, _WORKERS, worker):
            cause = self._why_free(holder, expires)
            if cause is not None and len(found) < limit:
                held = db.execute(_HELD_BY + condition + " limit ?", (cause, holder, *names, limit - len(found)))
                found += [_candidate(row) for row in held]
        waiting = db.execute(_READY_RUNS + condition + " limit ?", (*names, limit - len(found)))
        return [*found, *(_candidate(row) for row in waiting)]

    def _why_free(self, holder: WorkerId | None, expires: int) -> Cause | None:
        if holder is None:
            return "claimed"
        is_alive = self._is_alive(holder)
        if is_alive is None:
            return "expired" if expires <= self._now() else None
        return None if is_alive else "dead"

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        def write(db: apsw.Connection) -> bool:
            id = db.execute(_DELETE_CLAIM, (worker, run, version)).get
            if id is not None:
                db.execute(_SET_READY, (ready, worker, id))
                return True
            holder = db.execute(_HOLDER, (run,)).fetchone()
            return holder is None or holder[3] != worker

        return await self._db.transact(write)

    async def holding(self, run: RunId) -> Holding | None:
        with self._db.reading() as db:
            row = db.execute(_HOLDER, (run,)).fetchone()
        if row is None or row[3] is None:
            return None
        return Holding(run, row[3], row[4], self._why_free(row[3], row[4]) is None, row[5])

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        with self._db.reading() as db:
            rows = _rows(db, _HOLDINGS, after, worker, worker, limit)
        live = {holder: self._why_free(holder, until) is None for _, holder, until, _ in rows}
        return [Holding(run, holder, until, live[holder], seen) for run, holder, until, seen in rows]

    async def workers(self) -> list[Enrolled]:
        with self._db.reading() as db:
            rows = _rows(db, _ENROLLED)
        return [
            Enrolled(WorkerId(id), self._why_free(id, until) is None, until, seen, names_in(workflows))
            for id, until, seen, workflows in rows
        ]

    def _until(self, ttl: float) -> int:
        return self._now() + int(ttl * 1_000_000)

    # --- locks that prove a death

    def _lock_path(self, worker: WorkerId) -> Path:
        folder = self._db.path.with_name(self._db.path.name + ".workers")
        return folder / (worker.replace("/", "_") + ".lock")

    def _acquire_lock(self, worker: WorkerId) -> None:
        """Take the lock. It is free: other processes check it only after the worker's row exists."""
        if worker in self._locks:
            return
        path = self._lock_path(worker)
        try:
            path.parent.mkdir(exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _no_lock(self._db.path, error) from error
        _lock(handle)
        self._locks[worker] = handle

    def _unlock(self, worker: WorkerId) -> None:
        handle = self._locks.pop(worker, None)
        if handle is not None:
            with suppress(OSError):
                self._lock_path(worker).unlink()
            os.close(handle)

    def _close_locks(self) -> None:
        for handle in self._locks.values():
            os.close(handle)
        self._locks.clear()

    def _is_alive(self, worker: WorkerId) -> bool | None:
        """Return whether a process holds the worker's lock; None if that cannot be checked."""
        if worker in self._locks:
            return True
        try:
            handle = os.open(self._lock_path(worker), os.O_RDWR)
        except OSError:
            return None
        try:
            return _is_locked(handle)
        finally:
            os.close(handle)


_stores: WeakSet[ClaimRows] = WeakSet()


def _close_locks_after_fork() -> None:
    """A forked child shares its parent's locks, and would keep the parent's workers alive after the parent's death."""
    for store in list(_stores):
        store._close_locks()


if fcntl is not None:
    os.register_at_fork(after_in_child=_close_locks_after_fork)


def _no_lock(store: Path, error: OSError) -> StoreError:
    """Return the error for a lock file that cannot be created: a store without write access has no workers."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(f"could not write to {store}: it may only be read ({error}); nothing was written")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"could not write to {store}: no space is left ({error}); nothing was written")
    return StoreError(f"could not write to {store}: {error}; nothing was written")


def _lock(handle: int) -> None:
    """Hold the lock until the handle is closed. Without file locks, only the lease decides."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(handle: int) -> bool | None:
    """Return whether another handle holds the lock; None without file locks. Concurrent checks do not conflict."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _rows(db: apsw.Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return db.execute(sql, values).fetchall()


def _candidate(row: tuple[Any, ...]) -> Candidate:
    id, run, interrupted, granted, holder, cause = row
    return id, RunId(legible(run)), legible(interrupted), granted, holder, cause


def _grant(db: apsw.Connection, candidate: Candidate, worker: WorkerId) -> Claim:
    """The interrupted worker is stored until a takeover is in the log, because the claimant may be interrupted too. Then
    the new owner is stored, until it releases the run: so a lost row of `claim` hides no interruption."""
    id, run, interrupted, granted, holder, cause = candidate
    if cause != "claimed":
        interrupted = f"{cause}:{holder}"
    db.execute(_GRANT, (granted + 1, interrupted, id))
    db.execute(_CLAIM, (id, worker, granted + 1))
    known, _, previous = interrupted.partition(":")
    if previous == worker:
        known = previous = ""
    seen = (previous and db.execute(_LAST_SEEN, (previous,)).get) or 0
    why: Cause = "dead" if known == "dead" else "expired" if known else "claimed"
    return Claim(run, worker, granted + 1, previous, why, seen)
