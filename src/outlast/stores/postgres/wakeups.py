"""What runs wait for, in PostgreSQL. How other processes hear of it is in `news`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from outlast.errors import Damaged, InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.store import Append, Due, Notify, unreadable_wait
from outlast.stores.postgres.change_feed import ChangeFeed
from outlast.stores.postgres.database import Database
from outlast.stores.postgres.rows import Rows, bounded, kept, told

_WAIT = """
select w.body from {s}.head h join {s}.wait w on w.run = h.id and md5(w.name) = md5($2) where h.run = $1"""
_WAITS = """
select h.run, w.id, w.name, w.body from {s}.wait w join {s}.head h on h.id = w.run
where w.id > $1 and ($2 = '' or w.kind = $2) order by w.id limit $3"""
_DUE = """
select h.run, w.name, w.due, w.body from {s}.wait w join {s}.head h on h.id = w.run
where w.due <= {s}.clock($1) order by w.due, w.run, w.name limit $2"""
_DUE_BEHIND = """
select h.run, w.name, w.due, w.body from {s}.wait w join {s}.head h on h.id = w.run
where w.due <= {s}.clock($1) and w.due >= $3
and (w.due, w.run, w.name) > ($3, coalesce((select id from {s}.head where run = $4), 0), $5)
order by w.due, w.run, w.name limit $2"""
_NEXT = "select min(due) from {s}.wait where due is not null"
_NOW = "select {s}.clock($1)"

_decode = msgspec.json.Decoder(Wait).decode


def read_wait(body: bytes) -> Wait | None:
    """A stored wait, or None if its bytes do not read."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class WakeupRows(Rows):
    """The wake-ups' part of the store."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._news = ChangeFeed(database)

    async def now(self) -> int:
        now: int = (await self._db.read(_NOW, self.skew))[0][0]
        return now

    async def wait(self, run: RunId, name: str) -> Wait | None:
        rows = await self._db.read(_WAIT, kept(run), kept(name))
        if not rows:
            return None
        wait = read_wait(rows[0][0])
        if wait is None:
            raise Damaged(f"the row of the wait {name!r} does not read", run=run)
        return wait

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        rows = await self._db.read(_WAITS, _cursor(after, limit), kept(kind), bounded(limit) + 1)
        shown = rows[:limit]
        following = str(shown[-1][1]) if len(rows) > limit else ""
        return [_due(run, name, None, body) for run, _, name, body in shown], following

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        most = max(0, bounded(limit))
        if after is None:
            rows = await self._db.read(_DUE, self.skew, most)
        else:
            place = (after.wait.due, kept(after.run), kept(after.wait.name))
            rows = await self._db.read(_DUE_BEHIND, self.skew, most, *place)
        return [_due(*row) for row in rows]

    async def next_due(self) -> int | None:
        found: int | None = (await self._db.read(_NEXT))[0][0]
        return found

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        return self._news.subscribe(notify)

    def _announce_own(self, landed: Sequence[Append]) -> None:
        self._news.tell(landed)


def _due(run: str, name: str, due: int | None, body: bytes) -> Due:
    wait = read_wait(body)
    return Due(RunId(run), wait) if wait is not None else unreadable_wait(run, told(name), due)


def _cursor(after: str, limit: int) -> int:
    if limit < 1:
        raise InvalidInput(f"a page holds at least one wait, not {limit}")
    if after and not re.fullmatch(r"[0-9]{1,18}", after):
        raise InvalidInput(f"{after!r} is not a cursor of a list of waits; use the one a page came with")
    return int(after or 0)
