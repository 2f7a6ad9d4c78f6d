"""Workers and the runs they hold, in PostgreSQL.

A worker has one row with the end of its lease by the server's clock; one renewal covers all its runs. A broken connection
does not prove that a worker is dead, so its claims end only with its lease.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from outlast.history.ids import RunId, WorkerId
from outlast.store import Claim, Enrolled, Holding, Names, Runs
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.shared import bounded, names_in

FORGOTTEN_AFTER = 86_400_000_000
"""Microseconds until the row of a dead worker without runs is deleted."""

_ENROL = """
with gone as (
    delete from {s}.worker w where w.id != $1 and w.expires < {s}.clock($2) - $4
        and not exists (select 1 from {s}.claim c where c.worker = w.id))
insert into {s}.worker (id, expires, seen, workflows) values ($1, {s}.clock($2) + $3, {s}.clock($2), $5)
on conflict (id) do update set expires = excluded.expires, seen = excluded.seen, workflows = excluded.workflows"""
_RENEW = "update {s}.worker set expires = {s}.clock($2) + $3, seen = {s}.clock($2) where id = $1 returning 1"
_ENROLLED = "select w.id, w.expires > {s}.clock($1), w.expires, w.seen, w.workflows from {s}.worker w order by w.id"
_RETIRE = "select {s}.retire($1)"
_CLAIM = """
select c.run, c.epoch, c.previous, coalesce((select w.seen from {s}.worker w where w.id = c.previous), 0)
from {s}.claim_runs($1, $2, $3, $4, $5) c"""
_RELEASE = "select {s}.release($1, $2, $3, $4)"
_HOLDING = """
select c.worker, coalesce(w.expires, 0), coalesce(w.expires, 0) > {s}.clock($2), coalesce(w.seen, 0)
from {s}.head h join {s}.claim c on c.run = h.id left join {s}.worker w on w.id = c.worker where h.run = $1"""
_HOLDINGS = """
select h.run, c.worker, coalesce(w.expires, 0), coalesce(w.expires, 0) > {s}.clock($4), coalesce(w.seen, 0)
from {s}.claim c join {s}.head h on h.id = c.run left join {s}.worker w on w.id = c.worker
where h.run > $1 and ($2::text is null or c.worker = $2) order by h.run limit $3"""


class ClaimRows(Rows):
    """Implements the claims."""

    async def enrol(self, worker: WorkerId, ttl: float, workflows: Collection[str] = ()) -> None:
        names = escape(msgspec.json.encode(sorted(workflows)).decode())
        times = self.skew, _microseconds(ttl), FORGOTTEN_AFTER
        await self._db.write(_ENROL, escape(worker), *times, names, is_repeatable=True)

    async def workers(self) -> list[Enrolled]:
        rows = await self._db.read(_ENROLLED, self.skew)
        return [
            Enrolled(WorkerId(unescape(id)), is_live, until, seen, names_in(unescape(workflows)))
            for id, is_live, until, seen, workflows in rows
        ]

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        return bool(await self._db.write(_RENEW, escape(worker), self.skew, _microseconds(ttl), is_repeatable=True))

    async def retire(self, worker: WorkerId) -> None:
        await self._db.write(_RETIRE, escape(worker), is_repeatable=True)

    async def claim(
        self, worker: WorkerId, *, runs: Runs = None, workflows: Names = None, limit: int = 1
    ) -> list[Claim]:
        named = None if runs is None else [escape(run) for run in dict.fromkeys(runs)]
        names = None if workflows is None or runs is not None else [escape(name) for name in workflows]
        rows = await self._db.write(_CLAIM, escape(worker), self.skew, named, names, bounded(limit))
        return [
            Claim(RunId(run), worker, epoch, unescape(previous), "expired" if previous else "claimed", seen)
            for run, epoch, previous, seen in rows
        ]

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        rows = await self._db.write(_RELEASE, escape(run), escape(worker), bounded(version), ready, is_repeatable=True)
        return bool(rows[0][0])

    async def holding(self, run: RunId) -> Holding | None:
        rows = await self._db.read(_HOLDING, escape(run), self.skew)
        return Holding(run, WorkerId(unescape(rows[0][0])), *rows[0][1:]) if rows else None

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        holder = None if worker is None else escape(worker)
        rows = await self._db.read(_HOLDINGS, escape(after), holder, max(0, bounded(limit)), self.skew)
        return [Holding(RunId(run), WorkerId(unescape(holder)), *times) for run, holder, *times in rows]


def _microseconds(seconds: float) -> int:
    return bounded(int(seconds * 1_000_000))
