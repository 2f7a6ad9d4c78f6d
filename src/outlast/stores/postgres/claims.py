"""Workers and the runs they hold, in PostgreSQL.

A worker has one row with the end of its lease by the server's clock; one renewal covers all its runs. Its process holds a
lock on the server too (`presence`): if the lock is free for a while, the worker is dead before its lease ends. A worker
that is frozen keeps its lock and loses its runs when its lease ends.

A claim first looks at the locks and makes runs claimable whose timer is due, in transactions of their own. Then one call
chooses the runs, by workflow, fairness key, queue and priority, through an index in this order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.history.ids import RunId, WorkerId
from outlast.store import NO_INFO, Claim, Enrolled, Holding, Names, Runs, SlotsOf, WorkerInfo
from outlast.stores.postgres.database import Database
from outlast.stores.postgres.presence import PATIENCE_S, Presence
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.postgres.schema import VERSION
from outlast.stores.shared import bounded

FORGOTTEN_AFTER = 86_400_000_000
"""Microseconds until the row of a dead worker without runs is deleted."""
PATIENCE = int(PATIENCE_S * 1_000_000)

_ENROL = "select {s}.enrol($1, $2, $3, $4, $5, $6)"
_RENEW = "select {s}.renew($1, $2, $3, $4)"
_ENROLLED = "select w.id, {s}.standing(w.id, $2, $1), w.expires, w.seen, w.info from {s}.worker w order by w.id"
_RETIRE = "select {s}.retire($1)"
_LOOK = "select run, ripe from {s}.look_at_workers($1)"
_WAKE = "select {s}.wake_due($1)"
_CLAIM = """
select c.run, c.epoch, c.previous, c.cause, coalesce((select w.seen from {s}.worker w where w.id = c.previous), 0)
from {s}."""
_CLAIM_NAMED = _CLAIM + "claim_named($1, $2, $3, $4, $5, $6) c"
_CLAIM_FREE = _CLAIM + "claim_free($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) c"
_RELEASE = "select {s}.release($1, $2, $3, $4)"
_HOLDING = """
select c.worker, coalesce(w.expires, 0), {s}.standing(c.worker, $3, $2), coalesce(w.seen, 0)
from {s}.head h join {s}.claim c on c.run = h.id left join {s}.worker w on w.id = c.worker where h.run = $1"""
_HOLDINGS = """
with page as materialized (
    select h.run, c.worker from {s}.claim c join {s}.head h on h.id = c.run
    where h.run > $1 and ($2::text is null or c.worker = $2) order by h.run limit $3),
holder as materialized (
    select d.worker, {s}.standing(d.worker, $5, $4) as standing from (select distinct worker from page) d)
select p.run, p.worker, coalesce(w.expires, 0), o.standing, coalesce(w.seen, 0)
from page p join holder o on o.worker = p.worker left join {s}.worker w on w.id = p.worker order by p.run"""


class ClaimRows(Rows):
    """Implements the claims."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._presence = Presence(database)
        self._ripe: asyncio.TimerHandle | None = None

    async def enrol(self, worker: WorkerId, ttl: float, info: WorkerInfo = NO_INFO) -> None:
        said = escape(msgspec.json.encode(info).decode())
        values = escape(worker), VERSION, self.skew, _microseconds(ttl), said, FORGOTTEN_AFTER
        await self._db.write(_ENROL, *values, is_repeatable=True)
        await self._presence.hold(escape(worker))

    async def workers(self) -> list[Enrolled]:
        rows = await self._db.read(_ENROLLED, self.skew, PATIENCE)
        return [
            Enrolled(WorkerId(unescape(id)), standing == "live", until, seen, _info(unescape(info)))
            for id, standing, until, seen, info in rows
        ]

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        values = escape(worker), VERSION, self.skew, _microseconds(ttl)
        rows = await self._db.write(_RENEW, *values, is_repeatable=True)
        if not rows[0][0]:
            self._presence.drop(escape(worker))  # a worker that must stop must not look alive
        return bool(rows[0][0])

    async def retire(self, worker: WorkerId) -> None:
        await self._db.write(_RETIRE, escape(worker), is_repeatable=True)
        self._presence.drop(escape(worker))

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
        if runs is not None:
            return await self._claim_named(worker, list(dict.fromkeys(runs)), limit)
        await self._look_at_workers()
        await self._db.write(_WAKE, self.skew, is_repeatable=True)
        rows = await self._db.write(
            _CLAIM_FREE,
            *self._claimant(worker),
            None if workflows is None else [escape(name) for name in workflows],
            None if queues is None else [escape(name) for name in queues],
            *_needed(slots or {}),
            bounded(limit),
        )
        return _claims(worker, rows)

    async def _claim_named(self, worker: WorkerId, runs: Sequence[RunId], limit: int) -> list[Claim]:
        """Claim these runs. If the death of one's holder is about to be certain, wait for it."""

        async def claimed(some: Sequence[RunId], most: int) -> list[Claim]:
            names = [escape(run) for run in some]
            return _claims(worker, await self._db.write(_CLAIM_NAMED, *self._claimant(worker), names, bounded(most)))

        claims = await claimed(runs, limit)
        if len(claims) < min(limit, len(runs)):
            granted = {claim.run for claim in claims}
            left = [run for run in runs if run not in granted]
            dying = await self._look_at_workers()
            if pauses := [dying[run] for run in left if run in dying]:
                await asyncio.sleep(max(pauses))
                claims += await claimed(left, limit - len(claims))
        return claims

    def _claimant(self, worker: WorkerId) -> tuple[Any, ...]:
        return escape(worker), VERSION, PATIENCE, self.skew

    async def _look_at_workers(self) -> dict[RunId, float]:
        """Note which locks of workers are free. Return some of the runs whose holder is probably dead, and the seconds until
        that is certain; then they are announced."""
        rows = await self._db.write(_LOOK, PATIENCE, is_repeatable=True)
        dying = {RunId(unescape(run)): ripe / 1_000_000 for run, ripe in rows}
        if dying and (self._ripe is None or self._ripe.when() < asyncio.get_running_loop().time()):
            pause = max(dying.values())
            self._ripe = asyncio.get_running_loop().call_later(pause, self._announce, frozenset(dying))
        return dying

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        rows = await self._db.write(_RELEASE, escape(run), escape(worker), bounded(version), ready, is_repeatable=True)
        return bool(rows[0][0])

    async def holding(self, run: RunId) -> Holding | None:
        rows = await self._db.read(_HOLDING, escape(run), self.skew, PATIENCE)
        return _holding(run, *rows[0]) if rows else None

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        holder = None if worker is None else escape(worker)
        rows = await self._db.read(_HOLDINGS, escape(after), holder, max(0, bounded(limit)), self.skew, PATIENCE)
        return [_holding(RunId(unescape(run)), *columns) for run, *columns in rows]

    async def _stop_claiming(self) -> None:
        if self._ripe is not None:
            self._ripe.cancel()
        await self._presence.close()


def _needed(slots: SlotsOf) -> list[list[Any] | None]:
    rows = [
        (escape(queue), escape(slot.name), slot.limit, slot.until) for queue, some in slots.items() for slot in some
    ]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [None] * 4


def _claims(worker: WorkerId, rows: Sequence[Any]) -> list[Claim]:
    return [
        Claim(RunId(unescape(run)), worker, epoch, unescape(previous), cause, seen)
        for run, epoch, previous, cause, seen in rows
    ]


def _holding(run: RunId, worker: str, expires: int, standing: str, seen: int) -> Holding:
    return Holding(run, WorkerId(unescape(worker)), expires, standing == "live", seen)


def _info(said: str) -> WorkerInfo:
    try:
        return msgspec.json.decode(said, type=WorkerInfo)
    except msgspec.DecodeError:
        return NO_INFO


def _microseconds(seconds: float) -> int:
    return bounded(int(seconds * 1_000_000))
