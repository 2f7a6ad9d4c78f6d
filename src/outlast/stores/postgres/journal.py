"""The journal of a PostgreSQL store: append records and heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outlast.errors import Damaged
from outlast.history.ids import AppendId, RunId
from outlast.history.record import Kind, Record
from outlast.store import LANDED, Append, Head, Lost, Outcome
from outlast.stores.postgres.batches import APPEND, columns, split_batch
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.postgres.slots import slot_holders
from outlast.stores.shared import LARGEST, bounded

_HEAD = """
select run, version, digest, epoch, branch, branch_first, closed, ready from {s}.head where run = $1"""
_READ = """
select l.first, l.count, l.branch, l.epoch, l.kind, l.append_id, l.time, l.body, l.digest
from {s}.head h join {s}.log l on l.run = h.id
where h.run = $1 and l.first <= $3 and l.first + l.count > $2
    and l.first >= coalesce((select max(o.first) from {s}.log o where o.run = h.id and o.first <= $2), $2)
order by l.first limit $4"""

_RUNS = "select id, run from {s}.head where id > $1 order by id limit $2"
_OPEN_RUNS = "select id, run from {s}.head where not closed and id > $1 order by id limit $2"

_KINDS = {int(kind): kind for kind in Kind}


class JournalRows(Rows):
    """Implements the journal."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        if not batch:
            return []
        parts = split_batch(batch)
        answers = await self._db.append(
            APPEND, [columns([batch[place] for place in part], self._db.relaxed) for part in parts]
        )
        outcomes: list[Outcome] = [LANDED] * len(batch)
        for part, rows in zip(parts, answers, strict=True):
            for number, lost in _losses([batch[place].record.run for place in part], rows).items():
                outcomes[part[number]] = lost
        self._announce_own([append for append, outcome in zip(batch, outcomes, strict=True) if outcome is LANDED])
        return outcomes

    async def head(self, run: RunId) -> Head | None:
        rows = await self._db.read(_HEAD, escape(run))
        return _head(run, rows[0][1:]) if rows else None

    async def runs(self, *, unfinished: bool = False, after: str = "", limit: int = 1000) -> tuple[list[RunId], str]:
        sql = _OPEN_RUNS if unfinished else _RUNS
        rows = await self._db.read(sql, int(after or 0), bounded(limit) + 1)
        shown = rows[:limit]
        return [RunId(unescape(run)) for _, run in shown], str(shown[-1][0]) if len(rows) > limit else ""

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        until = bounded(LARGEST if last is None else last)
        rows = await self._db.read(_READ, escape(run), bounded(first), until, max(0, bounded(limit)))
        return [_record(run, row) for row in rows]


def _losses(runs: Sequence[RunId], rows: Sequence[Any]) -> dict[int, Lost]:
    """Decode the losing appends: the server returns a row for each record of a tail, at least one per append."""
    found: dict[int, Lost] = {}
    for row in rows:
        number, why = row[0] - 1, row[1]
        run = runs[number]
        tail = (_record(run, row[9:18]),) if row[9] is not None else ()
        before = found.get(number)
        if before is None:
            found[number] = Lost(why, None if row[2] is None else _head(run, row[2:9]), tail, slot_holders(row[18]))
        else:
            found[number] = Lost(why, before.head, before.tail + tail)
    return found


def _head(run: RunId, row: Sequence[Any]) -> Head:
    version, digest, epoch, branch, branch_first, closed, ready = row
    return Head(run, version, digest, epoch, branch, branch_first, closed, ready)


def _record(run: RunId, row: Sequence[Any]) -> Record:
    first, count, branch, epoch, kind, append_id, time, body, digest = row
    known = _KINDS.get(kind)
    if known is None:
        raise Damaged("the row is not an append record", run=run, seq=first)
    return Record(run, first, count, branch, epoch, known, AppendId(append_id), time, body, digest)
