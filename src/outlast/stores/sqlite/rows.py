"""What the parts of the store share: the database, the clock, and the small number each run has in it."""

from __future__ import annotations

import time
from typing import Any

import apsw

from outlast.history.ids import RunId
from outlast.stores.sqlite.database import Database

REMEMBERED = 10_000
"""Runs whose row numbers are kept in memory; they never change, so forgetting one only costs a look-up."""


LARGEST = 1 << 62
"""Larger than any seq, time or number of rows; SQLite's own numbers end at 2 to the 63rd."""


def bounded(number: int) -> int:
    """The number, or the largest one that makes sense to ask SQLite for."""
    return max(-LARGEST, min(number, LARGEST))


def legible(text: Any) -> str:
    """Text that was read as a blob: bytes that are not UTF-8 must not hide the other rows of a list."""
    return bytes(text).decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


class Rows:
    """The ground the journal, the catalog, the claims, the wake-ups and the lines stand on."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._ids: dict[RunId, int] = {}
        self.skew = 0

    def _now(self) -> int:
        return time.time_ns() // 1000 + self.skew

    def _id_of(self, db: apsw.Connection, run: RunId) -> int | None:
        """The run's row number, by a connection that sees only what is committed."""
        id = self._ids.get(run)
        if id is None:
            id = db.execute("select id from head where run = ?", (run,)).get
            if id is not None:
                self._remember({run: id})
        return id

    def _remember(self, found: dict[RunId, int]) -> None:
        if len(self._ids) > REMEMBERED:
            self._ids.clear()
        self._ids.update(found)

    def _announce_own(self, landed: int, last: int) -> None:
        """Told after each batch of appends of this process; the wake-ups use it to skip our own news."""
