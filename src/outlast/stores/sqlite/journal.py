"""The journal of a SQLite store: append records and heads."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.store import LANDED, Append, Head, Outcome
from outlast.stores.shared import bounded
from outlast.stores.sqlite.appending import Batch, only_extends_log, written_row
from outlast.stores.sqlite.rows import Rows, head_of, legible, records_of

_RUNS = "select id, cast(run as blob) from head where id > ? {} order by id limit ?"


class JournalRows(Rows):
    """Implements the journal."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        if len(batch) == 1 and await self._append_lone(batch[0]):
            return [LANDED]
        written = await self._db.transact(lambda db: Batch(db, self._ids).write(batch))
        self._remember(written.fresh)
        self._announce_own(written.rows.landed, written.rows.last)
        return written.outcomes

    async def _append_lone(self, append: Append) -> bool:
        """Write an append that only extends the log. False, with nothing changed, for any other append or if it loses."""
        id = self._ids.get(append.record.run)
        if id is None or not only_extends_log(append):
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
        values = (int(after or 0), bounded(limit) + 1)
        rows: list[tuple[int, bytes]] = await self._db.scan(lambda db: list(db.execute(sql, values)))
        shown = rows[:limit]
        return [RunId(legible(run)) for _, run in shown], str(shown[-1][0]) if len(rows) > limit else ""

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        with self._db.reading() as db:
            id = self._id_of(db, run)
            return [] if id is None else records_of(db, run, id, first, last, limit)
