"""The waits of a PostgreSQL store. Notifications are in `change_feed`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.store import Append, Due, Notify
from outlast.stores.postgres.change_feed import ChangeFeed
from outlast.stores.postgres.database import Database
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.shared import bounded, check_limit, due_of, invalid_cursor, wait_of

_WAIT = """
select w.body from {s}.head h join {s}.wait w on w.run = h.id and md5(w.name) = md5($2) where h.run = $1"""
_WAITS = """
select h.run, w.id, w.name, w.body from {s}.wait w join {s}.head h on h.id = w.run
where w.id > $1 and ($2 = '' or w.kind = $2) order by w.id limit $3"""
_DUE = """
select h.run, w.name, w.due, w.body from {{s}}.wait w join {{s}}.head h on h.id = w.run
where w.due <= {{s}}.clock($1) {} order by w.due, w.run, w.name limit $2"""
_AFTER = """
and w.due >= $3 and (w.due, w.run, w.name) > ($3, coalesce((select id from {s}.head where run = $4), 0), $5)"""
_NEXT = """
select w.due from {s}.wait w join {s}.head h on h.id = w.run where w.due > $1 order by w.due limit 1"""
_NOW = "select {s}.clock($1)"


class WakeupRows(Rows):
    """Implements the wake-ups."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._change_feed = ChangeFeed(database)

    async def now(self) -> int:
        now: int = (await self._db.read(_NOW, self.skew))[0][0]
        return now

    async def wait(self, run: RunId, name: str) -> Wait | None:
        rows = await self._db.read(_WAIT, escape(run), escape(name))
        return wait_of(run, name, rows[0][0]) if rows else None

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        rows = await self._db.read(_WAITS, _cursor(after, limit), escape(kind), bounded(limit) + 1)
        shown = rows[:limit]
        following = str(shown[-1][1]) if len(rows) > limit else ""
        return [due_of(run, unescape(name), None, body) for run, _, name, body in shown], following

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        place = () if after is None else (after.wait.due, escape(after.run), escape(after.wait.name))
        sql = _DUE.format("" if after is None else _AFTER)
        rows = await self._db.read(sql, self.skew, max(0, bounded(limit)), *place)
        return [due_of(run, unescape(name), due, body) for run, name, due, body in rows]

    async def next_due(self, after: int = 0) -> int | None:
        rows = await self._db.read(_NEXT, bounded(after))
        return rows[0][0] if rows else None

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        return self._change_feed.subscribe(notify)

    def _announce(self, runs: frozenset[RunId]) -> None:
        self._change_feed.announce(runs)

    def _announce_own(self, landed: Sequence[Append]) -> None:
        self._change_feed.publish(landed)


def _cursor(after: str, limit: int) -> int:
    check_limit(limit)
    if after and not re.fullmatch(r"[0-9]{1,18}", after):
        raise invalid_cursor(after)
    return int(after or 0)
