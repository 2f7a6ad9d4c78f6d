"""Workers and the runs they hold, in PostgreSQL.

A worker's life is one row with a time by the server's clock, renewed for all its runs at once. That a worker is dead cannot
be proved from afar: a line that is cut proves nothing. Its claims run out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from outlast.history.ids import RunId, WorkerId
from outlast.store import Claim, Enrolled, Holding
from outlast.stores.postgres.rows import Rows, bounded, kept, told
from outlast.stores.shared import names_in

FORGOTTEN_AFTER = 86_400_000_000
"""Microseconds after which the row of a dead worker that holds nothing is removed."""

_ENROL = """
with gone as (
    delete from {s}.worker w where w.id != $1 and w.expires < {s}.clock($2) - $4
        and not exists (select 1 from {s}.claim c where c.worker = w.id))
insert into {s}.worker (id, expires, seen, workflows) values ($1, {s}.clock($2) + $3, {s}.clock($2), $5)
on conflict (id) do update set expires = excluded.expires, seen = excluded.seen, workflows = excluded.workflows"""
_RENEW = "update {s}.worker set expires = {s}.clock($2) + $3, seen = {s}.clock($2) where id = $1 returning 1"
_ENROLLED = "select w.id, w.expires > {s}.clock($1), w.expires, w.seen, w.workflows from {s}.worker w order by w.id"
_RETIRE = "select {s}.retire($1)"
_CLAIM = "select run, epoch, previous from {s}.claim_runs($1, $2, $3, $4, $5)"
_RELEASE = "select {s}.release($1, $2, $3, $4)"
_HOLDING = """
select c.worker, coalesce(w.expires, 0), coalesce(w.expires, 0) > {s}.clock($2), coalesce(w.seen, 0)
from {s}.head h join {s}.claim c on c.run = h.id left join {s}.worker w on w.id = c.worker where h.run = $1"""
_HOLDINGS = """
select h.run, c.worker, coalesce(w.expires, 0), coalesce(w.expires, 0) > {s}.clock($4), coalesce(w.seen, 0)
from {s}.claim c join {s}.head h on h.id = c.run left join {s}.worker w on w.id = c.worker
where h.run > $1 and ($2::text is null or c.worker = $2) order by h.run limit $3"""


class ClaimRows(Rows):
    """The claims' part of the store."""

    async def enrol(self, worker: WorkerId, ttl: float, workflows: Collection[str] = ()) -> None:
        names = kept(msgspec.json.encode(sorted(workflows)).decode())
        times = self.skew, _microseconds(ttl), FORGOTTEN_AFTER
        await self._db.write(_ENROL, kept(worker), *times, names, is_repeatable=True)

    async def workers(self) -> list[Enrolled]:
        rows = await self._db.read(_ENROLLED, self.skew)
        return [
            Enrolled(WorkerId(told(id)), is_live, until, seen, names_in(told(workflows)))
            for id, is_live, until, seen, workflows in rows
        ]

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        return bool(await self._db.write(_RENEW, kept(worker), self.skew, _microseconds(ttl), is_repeatable=True))

    async def retire(self, worker: WorkerId) -> None:
        await self._db.write(_RETIRE, kept(worker), is_repeatable=True)

    async def claim(
        self,
        worker: WorkerId,
        *,
        runs: Sequence[RunId] | None = None,
        workflows: Collection[str] | None = None,
        limit: int = 1,
    ) -> list[Claim]:
        named = None if runs is None else [kept(run) for run in dict.fromkeys(runs)]
        names = None if workflows is None or runs is not None else [kept(name) for name in workflows]
        rows = await self._db.write(_CLAIM, kept(worker), self.skew, named, names, bounded(limit))
        return [
            Claim(RunId(run), worker, epoch, told(previous), "expired" if previous else "claimed")
            for run, epoch, previous in rows
        ]

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        rows = await self._db.write(_RELEASE, kept(run), kept(worker), bounded(version), ready, is_repeatable=True)
        return bool(rows[0][0])

    async def holding(self, run: RunId) -> Holding | None:
        rows = await self._db.read(_HOLDING, kept(run), self.skew)
        return Holding(run, WorkerId(told(rows[0][0])), *rows[0][1:]) if rows else None

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        whose = None if worker is None else kept(worker)
        rows = await self._db.read(_HOLDINGS, kept(after), whose, max(0, bounded(limit)), self.skew)
        return [Holding(RunId(run), WorkerId(told(holder)), *times) for run, holder, *times in rows]


def _microseconds(seconds: float) -> int:
    return bounded(int(seconds * 1_000_000))
