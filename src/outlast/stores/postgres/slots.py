"""The slots of a PostgreSQL store: one row per holder. Who takes a slot locks its name until the end of the transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from outlast.history.ids import RunId
from outlast.store import Slot, SlotHolder
from outlast.stores.postgres.batches import transposed
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.shared import bounded, check_limit, claim_not_current, slot_cursor

_TAKE = "select is_current, others from {s}.take($1, $2, $3, $4, $5)"
_GIVE = "delete from {s}.slot where run = $1 and epoch <= $2 and name = any($3::text[])"
_HOLDERS = """
select name, run, epoch, until from {s}.slot
where ($1 = '' or {s}.short(name) = {s}.short($1)) and ({s}.short(name), run) > ({s}.short($2), $3)
order by {s}.short(name), run limit $4"""


class SlotRows(Rows):
    """Implements the slots."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        columns = transposed([(escape(slot.name), bounded(slot.limit), slot.until) for slot in slots], 3)
        rows = await self._db.write(_TAKE, escape(run), bounded(epoch), *columns, is_repeatable=True)
        is_current, others = rows[0]
        if not is_current:
            raise claim_not_current(run, epoch)
        return slot_holders(others)

    async def give(self, run: RunId, epoch: int, names: Collection[str]) -> None:
        await self._db.write(_GIVE, escape(run), bounded(epoch), [escape(name) for name in names], is_repeatable=True)

    async def slot_holders(self, name: str = "", *, after: str = "", limit: int = 1000) -> list[SlotHolder]:
        check_limit(limit)
        since = map(escape, slot_cursor(after))
        rows = await self._db.read(_HOLDERS, escape(name), *since, bounded(limit))
        return [_holder(*row) for row in rows]


def slot_holders(others: str | None) -> tuple[SlotHolder, ...]:
    """Decode the holders of full slots."""
    return tuple(_holder(*row) for row in msgspec.json.decode(others)) if others else ()


def _holder(name: str, run: str, epoch: int, until: str) -> SlotHolder:
    return SlotHolder(unescape(name), RunId(unescape(run)), epoch, "run" if until == "run" else "claim")
