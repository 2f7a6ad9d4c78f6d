"""The lines of a SQLite store.

The counters come from the rows: only the oldest lines of an attempt are dropped, so its newest line, and the newest of the
run, always exist. Appends do not touch the table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import apsw

from outlast.history.ids import RunId
from outlast.store import LINES_PER_ATTEMPT, Line
from outlast.stores.shared import bounded, check_limit
from outlast.stores.sqlite.rows import Rows

_NUMBER = "select max(number) from line where run = ?"
_PLACE = "select max(place) from line where run = ? and node = ? and attempt = ?"
_KEEP = """
insert into line (run, node, attempt, number, place, time, level, logger, text)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_DROP = "delete from line where run = ? and node = ? and attempt = ? and place <= ?"
_LINES = """
select node, attempt, time, level, logger, text, number, place from line indexed by {}
where run = ? {} and number > ? and exists (select 1 from head where id = line.run) order by number limit ?"""
_IS_KEPT = "select 1 from head where id = ?"

Attempt: TypeAlias = tuple[int, str, int]
"""Row id of the run, node, attempt."""


class LineRows(Rows):
    """Implements the lines."""

    async def keep(self, lines: Sequence[Line]) -> None:
        self._db.require_writable()
        with self._db.reading() as db:
            known = [(id, line) for line in lines if (id := self._id_of(db, line.run)) is not None]
        if known:
            await self._db.transact(lambda db: _write(db, known), flushed=False)

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        check_limit(limit)
        with self._db.reading() as db:
            id = self._id_of(db, run)
        if id is None:
            return []
        sql, values = _query(node, attempt)
        values = [id, *values, bounded(after), bounded(limit)]
        rows: list[Any] = await self._db.scan(lambda db: db.execute(sql, values).fetchall())
        return [Line(run, *row) for row in rows]


def _write(db: apsw.Connection, lines: Sequence[tuple[int, Line]]) -> None:
    """Number the lines and insert them, except those that later lines of the same call would displace."""
    numbers: dict[int, int] = {}
    places: dict[Attempt, int] = {}
    newest: dict[Attempt, deque[tuple[Any, ...]]] = {}
    for run, line in lines:
        attempt = (run, line.node, line.attempt)
        if run not in numbers:
            if db.execute(_IS_KEPT, (run,)).get is None:
                continue  # it was deleted
            numbers[run] = db.execute(_NUMBER, (run,)).get or 0
        if attempt not in places:
            places[attempt] = db.execute(_PLACE, attempt).get or 0
            newest[attempt] = deque(maxlen=LINES_PER_ATTEMPT)
        numbers[run] += 1
        places[attempt] += 1
        newest[attempt].append((*attempt, numbers[run], places[attempt], line.time, line.level, line.logger, line.text))
    for attempt, rows in newest.items():
        db.executemany(_KEEP, rows)
        if places[attempt] > LINES_PER_ATTEMPT:
            db.execute(_DROP, (*attempt, places[attempt] - LINES_PER_ATTEMPT))


def _query(node: str, attempt: int | None) -> tuple[str, list[Any]]:
    """Return the query and its values. A node has its own index: sorting its few lines is faster than reading a long run."""
    index, terms, values = "line_run_number", "", list[Any]()
    if node:
        index, terms, values = "line_attempt", "and node = ?", [node]
    if attempt is not None:
        terms, values = f"{terms} and attempt = ?", [*values, bounded(attempt)]
    return _LINES.format(index, terms), values
