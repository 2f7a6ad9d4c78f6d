"""Workers and the runs they hold, in SQLite.

A worker has one row with the end of its lease, which one renewal extends for all its runs, and a lock on its own file, which
the operating system releases when the process ends. The lock decides: while it is held the worker is alive at any clock
time, because a clock can be set and a machine can sleep. The lease decides only if the lock cannot be checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import apsw
import msgspec

from outlast.history.ids import RunId, WorkerId
from outlast.store import NO_INFO, Claim, Enrolled, Holding, Names, Runs, SlotsOf, WorkerInfo
from outlast.stores.shared import LARGEST, bounded, info_in
from outlast.stores.sqlite.rows import Rows, legible
from outlast.stores.sqlite.slots import END_CLAIM_SLOTS, take_slots
from outlast.stores.sqlite.turns import Turns, Wanted, are_claimable, are_due, holders, mark_due

# Values of a wrong type, in an edited file, must not stop the claims of other runs.
_GRANTED = f"""
cast(iif(head.claim_epoch between head.epoch and {LARGEST}, head.claim_epoch, min(head.epoch, {LARGEST})) as integer)"""
_EXPIRES = "cast(coalesce(worker.expires, 0) as integer)"
_SEEN = "cast(coalesce(worker.seen, 0) as integer)"
_ENROL = "insert or replace into worker (id, expires, seen, info) values (?, ?, ?, ?)"
_RENEW = "update worker set expires = ?, seen = ? where id = ?"
_ENROLLED = f"select cast(id as text), {_EXPIRES}, {_SEEN}, cast(info as text) from worker order by id"
_DELETE_OLD = """
delete from worker where expires < ? and not exists (
    select 1 from head where head.worker != '' and head.worker = worker.id) returning id"""
_LAST_SEEN = f"select {_SEEN} from worker where id = ?"
_UNTIL = f"select {_EXPIRES} from worker where id = ?"
_END_SLOTS = """
delete from slot where until = 'claim' and id in (
    select id from head where worker != '' and worker = ?1 and interrupted in ('', ?1))"""
_RELEASED = "worker = '', interrupted = iif(interrupted = ?1, '', interrupted)"
"""Slots of a claim stay while an interrupted worker may still append: until a takeover is in the log."""
_RETIRE = f"update head set ready = 1, {_RELEASED} where worker != '' and worker = ?1"
_RELEASE = f"""
update head set ready = ?4, {_RELEASED} where run = ?2 and worker = ?1 and version = ?3
returning id, interrupted, claim_epoch"""
_HOLDER = f"""
select head.id, cast(head.worker as blob), {_EXPIRES}, {_SEEN}
from head left join worker on worker.id = head.worker where head.run = ?"""
_HOLDINGS = f"""
select cast(head.run as blob), cast(head.worker as blob), {_EXPIRES}, {_SEEN} from head indexed by head_held
left join worker on worker.id = head.worker
where head.worker != '' {{}} and head.run > ? order by head.run limit ?"""
_GRANTABLE = f"""
select cast(run as blob), cast(interrupted as blob), cause, {_GRANTED}, cast(worker as blob) from head where id = ?"""
_GRANT = "update head set worker = ?, claim_epoch = ?, interrupted = ?, cause = ? where id = ?"

FORGOTTEN_AFTER = 86_400_000_000
"""Microseconds until the row and the lock file of a dead worker without runs are deleted."""

Cause: TypeAlias = Literal["claimed", "expired", "dead"]


class ClaimRows(Rows):
    """Implements the claims."""

    async def enrol(self, worker: WorkerId, ttl: float, info: WorkerInfo = NO_INFO) -> None:
        def write(db: apsw.Connection) -> list[WorkerId]:
            self._db.check_version(db)
            db.execute(_ENROL, (worker, self._until(ttl), self._now(), encoded))
            return [WorkerId(name) for (name,) in _rows(db, _DELETE_OLD, self._now() - FORGOTTEN_AFTER)]

        encoded = msgspec.json.encode(info).decode()
        self._db.require_writable()
        self.locks.acquire(worker)
        for forgotten in await self._db.transact(write):
            self.locks.remove(forgotten)

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        def write(db: apsw.Connection) -> bool:
            self._db.check_version(db)
            db.execute(_RENEW, (self._until(ttl), self._now(), worker))
            return db.changes() > 0

        is_known = await self._db.transact(write)
        if not is_known:
            self.locks.release(worker)  # a worker that must stop must not look alive
        return is_known

    async def retire(self, worker: WorkerId) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_END_SLOTS, (worker,))
            db.execute(_RETIRE, (worker,))
            db.execute("delete from worker where id = ?", (worker,))

        await self._db.transact(write)
        self.locks.release(worker)

    async def claim(
        self,
        worker: WorkerId,
        *,
        runs: Runs = None,
        workflows: Names = None,
        queues: Names = None,
        slots: SlotsOf | None = None,
        limit: int = 1,
    ) -> list[Claim]:
        def write_named(db: apsw.Connection) -> list[Claim]:
            self._db.check_version(db)
            return self._claim_named(db, worker, runs or (), limit)

        def write(db: apsw.Connection) -> tuple[list[Claim], bool]:
            self._db.check_version(db)
            has_more = mark_due(db, self._now())
            return self._claim_any(db, worker, wanted, limit - len(granted)), has_more

        if runs is not None:
            return await self._db.transact(write_named)
        granted, wanted, has_more = list[Claim](), Wanted(workflows, queues, slots or {}), True
        if not self._may_claim(worker, wanted):
            return []
        while has_more and len(granted) < limit:
            found, has_more = await self._db.transact(write)
            granted += found
        return granted

    def _may_claim(self, worker: WorkerId, wanted: Wanted) -> bool:
        """Return whether a run may be there to claim, without the write lock: idle workers must not block busy ones."""
        self._db.require_writable()
        with self._db.reading() as db:
            self._db.check_version(db)
            return are_due(db, self._now()) or are_claimable(db, self._dead_workers(db, worker), wanted)
        raise AssertionError("the context does not swallow errors")

    def _claim_named(self, db: apsw.Connection, worker: WorkerId, runs: Sequence[RunId], limit: int) -> list[Claim]:
        """Claim those of the named runs that no other live worker holds."""
        granted: list[Claim] = []
        for run in dict.fromkeys(runs):
            for id, held, expires, _ in _rows(db, _HOLDER, run):
                holder = legible(held)
                cause = "claimed" if holder == worker else self._why_free(holder, expires)
                if cause is not None and len(granted) < limit:
                    granted.append(_grant(db, id, worker, cause))
        return granted

    def _claim_any(self, db: apsw.Connection, worker: WorkerId, wanted: Wanted, limit: int) -> list[Claim]:
        dead, granted = self._dead_workers(db, worker), list[Claim]()
        turns = Turns(db, dead, wanted)
        while len(granted) < limit and (found := turns.next()) is not None:
            if not turns.has_slots(found):
                continue
            claim = _grant(db, found.id, worker, dead.get(found.holder, "claimed"))
            take_slots(db, claim.run, found.id, claim.epoch, wanted.slots.get(found.queue, ()))
            turns.served(found, self._now())
            granted.append(claim)
        turns.save()
        return granted

    def _dead_workers(self, db: apsw.Connection, worker: WorkerId) -> dict[str, Cause]:
        """Return the dead workers that hold runs, and why they count as dead."""
        causes = {holder: self._why_free(holder, expires) for holder, expires in holders(db) if holder != worker}
        return {holder: cause for holder, cause in causes.items() if cause is not None}

    def _is_free(self, db: apsw.Connection, holder: str) -> bool:
        return self._why_free(WorkerId(holder), db.execute(_UNTIL, (holder,)).get or 0) is not None

    def _why_free(self, holder: str, expires: int) -> Cause | None:
        if not holder:
            return "claimed"
        is_alive = self.locks.is_alive(WorkerId(holder))
        if is_alive is None:
            return "expired" if expires <= self._now() else None
        return None if is_alive else "dead"

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        def write(db: apsw.Connection) -> bool:
            row = db.execute(_RELEASE, (worker, run, version, ready)).fetchone()
            if row is None:
                holder = db.execute(_HOLDER, (run,)).fetchone()
                return holder is None or legible(holder[1]) != worker
            id, interrupted, epoch = row
            if not interrupted:
                db.execute(END_CLAIM_SLOTS, (id, epoch))
            return True

        return await self._db.transact_together(write)

    async def holding(self, run: RunId) -> Holding | None:
        with self._db.reading() as db:
            row: Any = db.execute(_HOLDER, (run,)).fetchone()
        if row is None or not row[1]:
            return None
        _, held, expires, seen = row
        holder = WorkerId(legible(held))
        return Holding(run, holder, expires, self._why_free(holder, expires) is None, seen)

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        sql = _HOLDINGS.format("" if worker is None else "and head.worker = ?")
        with self._db.reading() as db:
            rows = _rows(db, sql, *(() if worker is None else (worker,)), after, bounded(limit))
        held = [(RunId(legible(run)), WorkerId(legible(holder)), until, seen) for run, holder, until, seen in rows]
        live = {holder: self._why_free(holder, until) is None for _, holder, until, _ in held}
        return [Holding(run, holder, until, live[holder], seen) for run, holder, until, seen in held]

    async def workers(self) -> list[Enrolled]:
        with self._db.reading() as db:
            rows = _rows(db, _ENROLLED)
        return [
            Enrolled(WorkerId(id), self._why_free(id, until) is None, until, seen, info_in(info))
            for id, until, seen, info in rows
        ]

    def _until(self, ttl: float) -> int:
        return self._now() + int(ttl * 1_000_000)


def _rows(db: apsw.Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return db.execute(sql, values).fetchall()


def _grant(db: apsw.Connection, id: int, worker: WorkerId, cause: Cause) -> Claim:
    """The interrupted worker is stored until a takeover is in the log, because the claimant may be interrupted too. Then
    the new owner is stored, until it releases the run."""
    ((run, interrupted, known, granted, holder),) = _rows(db, _GRANTABLE, id)
    previous = legible(interrupted)
    if cause != "claimed":
        previous, known = legible(holder), cause
    db.execute(_GRANT, (worker, granted + 1, previous, known, id))
    if previous in ("", worker):
        return Claim(RunId(legible(run)), worker, granted + 1)
    why: Cause = "dead" if known == "dead" else "expired"
    return Claim(RunId(legible(run)), worker, granted + 1, previous, why, db.execute(_LAST_SEEN, (previous,)).get or 0)
