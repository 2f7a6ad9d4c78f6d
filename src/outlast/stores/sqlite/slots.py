"""The slots of a SQLite store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import apsw

from outlast.history.ids import RunId
from outlast.store import Slot, SlotHolder
from outlast.stores.shared import bounded, check_limit, claim_not_current, slot_cursor
from outlast.stores.sqlite.rows import Rows

END_CLAIM_SLOTS = "delete from slot where id = ? and until = 'claim' and epoch <= ?"
END_RUN_SLOTS = "delete from slot where id = ? and until = 'run'"
_OTHERS = "select name, run, epoch, until from slot where name = ? and run != ? order by run"
_COUNT_OTHERS = "select count(*) from slot where name = ? and run != ?"
_TAKE = "insert or replace into slot (name, run, id, epoch, until) values (?, ?, ?, ?, ?)"
_GIVE = "delete from slot where name = ? and run = ? and epoch <= ?"
_CURRENT = "select id from head where run = ? and worker != '' and claim_epoch = ?"
_HOLDERS = "select name, run, epoch, until from slot where (name, run) > (?, ?) {} order by name, run limit ?"


def has_place(db: apsw.Connection, run: RunId, slots: Iterable[Slot]) -> bool:
    """Return whether a run can take all these slots."""
    return all(db.execute(_COUNT_OTHERS, (slot.name, run)).get < slot.limit for slot in slots)


def full_slots(db: apsw.Connection, run: RunId, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
    """Return the holders of those slots that have no place for a run."""
    if has_place(db, run, slots):
        return ()
    others = [[SlotHolder(*row) for row in db.execute(_OTHERS, (slot.name, run))] for slot in slots]
    return tuple(holder for slot, held in zip(slots, others, strict=True) if len(held) >= slot.limit for holder in held)


def take_slots(db: apsw.Connection, run: RunId, id: int, epoch: int, slots: Iterable[Slot]) -> None:
    """Take slots that have a place for the run, in the caller's transaction."""
    db.executemany(_TAKE, [(slot.name, run, id, epoch, slot.until) for slot in slots])


class SlotRows(Rows):
    """Implements the slots."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        def write(db: apsw.Connection) -> tuple[SlotHolder, ...]:
            id = db.execute(_CURRENT, (run, epoch)).get
            if id is None:
                raise claim_not_current(run, epoch)
            full = full_slots(db, run, slots)
            if not full:
                take_slots(db, run, id, epoch, slots)
            return full

        return await self._db.transact(write)

    async def give(self, run: RunId, epoch: int, names: Collection[str]) -> None:
        rows = [(name, run, epoch) for name in names]
        await self._db.transact(lambda db: db.executemany(_GIVE, rows))

    async def slot_holders(self, name: str = "", *, after: str = "", limit: int = 1000) -> list[SlotHolder]:
        check_limit(limit)
        values = (*slot_cursor(after), *([name] if name else []), bounded(limit))
        with self._db.reading() as db:
            rows: list[Any] = db.execute(_HOLDERS.format("and name = ?" if name else ""), values).fetchall()
        return [SlotHolder(*row) for row in rows]
