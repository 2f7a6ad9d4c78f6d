"""The base class of the parts of a SQLite store: database, clock and row ids of runs."""

from __future__ import annotations

import time
from typing import Any

import apsw

from outlast.history.ids import RunId
from outlast.stores.sqlite.database import Database

REMEMBERED = 10_000
"""Row ids cached in memory. They never change, so evicting one only costs a query."""


def legible(text: Any) -> str:
    """Decode text that was read as a blob: bytes that are not UTF-8 must not make the other rows of a list unreadable."""
    return bytes(text).decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


class Rows:
    """The base class of journal, catalog, claims, wake-ups, lines and documents."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._ids: dict[RunId, int] = {}
        self.skew = 0

    def _now(self) -> int:
        return time.time_ns() // 1000 + self.skew

    def _id_of(self, db: apsw.Connection, run: RunId) -> int | None:
        """Return the run's row id. The connection must see only committed rows."""
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
        """Called after each batch of appends: the wake-ups do not report this process's own appends."""
