"""What attempts said, in SQLite.

The counters are read off the rows: only the oldest of an attempt are dropped, so its newest line, and with it the newest of
the run, is always there. A row names its run by number and refers to nothing; nothing that an append touches knows of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import apsw

from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.store import LINES_PER_ATTEMPT, Line
from outlast.stores.sqlite.rows import Rows, bounded

_NUMBER = "select max(number) from line where run = ?"
_PLACE = "select max(place) from line where run = ? and node = ? and attempt = ?"
_KEEP = """
insert into line (run, node, attempt, number, place, time, level, logger, text)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_DROP = "delete from line where run = ? and node = ? and attempt = ? and place <= ?"
_LINES = """
select node, attempt, time, level, logger, text, number, place from line indexed by {}
where run = ? {} and number > ? order by number limit ?"""

Attempt: TypeAlias = tuple[int, str, int]
"""The row number of the run, the node, the attempt."""


class LineRows(Rows):
    """The lines' part of the store."""

    async def keep(self, lines: Sequence[Line]) -> None:
        self._db.require_writable()
        with self._db.reading() as db:
            told = [(id, line) for line in lines if (id := self._id_of(db, line.run)) is not None]
        if told:
            await self._db.transact(lambda db: _write(db, told), flushed=False)

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        if limit < 1:
            raise InvalidInput(f"a page holds at least one line, not {limit}")
        with self._db.reading() as db:
            id = self._id_of(db, run)
        if id is None:
            return []
        sql, values = _asked(node, attempt)
        asked = (id, *values, bounded(after), bounded(limit))
        rows: list[Any] = await self._db.scan(lambda db: db.execute(sql, asked).fetchall())
        return [Line(run, *row) for row in rows]


def _write(db: apsw.Connection, told: Sequence[tuple[int, Line]]) -> None:
    """Number the lines and insert them, but for those that their own successors would push out."""
    numbers: dict[int, int] = {}
    places: dict[Attempt, int] = {}
    newest: dict[Attempt, deque[tuple[Any, ...]]] = {}
    for run, line in told:
        attempt = (run, line.node, line.attempt)
        if run not in numbers:
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


def _asked(node: str, attempt: int | None) -> tuple[str, list[Any]]:
    """The query and its values. A node is looked up by itself: its few lines are sorted sooner than a long run is read."""
    index, terms, values = "line_run_number", "", list[Any]()
    if node:
        index, terms, values = "line_attempt", "and node = ?", [node]
    if attempt is not None:
        terms, values = f"{terms} and attempt = ?", [*values, bounded(attempt)]
    return _LINES.format(index, terms), values
