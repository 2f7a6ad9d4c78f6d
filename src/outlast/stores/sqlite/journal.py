"""Append records and heads in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.store import LANDED, Append, Head, Outcome
from outlast.stores.sqlite.appending import Batch, only_goes_on, written_row
from outlast.stores.sqlite.records import head_of, records_of
from outlast.stores.sqlite.rows import Rows, bounded, legible

_RUNS = "select id, cast(run as blob) from head where id > ? {} order by id limit ?"


class JournalRows(Rows):
    """The journal's part of the store."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        if len(batch) == 1 and await self._went_on(batch[0]):
            return [LANDED]
        done = await self._db.transact(lambda db: Batch(db, self._ids).done(batch))
        self._remember(done.fresh)
        self._announce_own(done.rows.landed, done.rows.last)
        return done.outcomes

    async def _went_on(self, append: Append) -> bool:
        """Do a lone append that only goes on; False, and nothing is changed, if it is not one, or does not land as one."""
        id = self._ids.get(append.record.run)
        if id is None or not only_goes_on(append):
            return False
        row = await self._db.transact(lambda db: written_row(db, append, id))
        if row:
            self._announce_own(1, row)
        return row > 0

    async def head(self, run: RunId) -> Head | None:
        with self._db.reading() as db:
            return head_of(db, run)

    async def runs(self, *, unfinished: bool = False, after: str = "", limit: int = 1000) -> tuple[list[RunId], str]:
        sql = _RUNS.format("and closed = 0" if unfinished else "")
        rows: list[tuple[int, bytes]] = await self._db.scan(
            lambda db: list(db.execute(sql, (int(after or 0), bounded(limit) + 1)))
        )
        shown = rows[:limit]
        return [RunId(legible(run)) for _, run in shown], str(shown[-1][0]) if len(rows) > limit else ""

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        with self._db.reading() as db:
            id = self._id_of(db, run)
            return [] if id is None else records_of(db, run, id, first, last, limit)
