"""Removing runs that are over, a few at a time, without getting in anybody's way.

A step is one short transaction. It skips every run whose head somebody else has locked, so it waits for nobody, and it holds
the heads of runs that nobody writes to. A run goes as a whole: log, catalogue, scratch, lines. It stays while somebody holds
it, while a message of it is undelivered, or while its parent is not over.
"""

from __future__ import annotations

from outlast.errors import BadInput
from outlast.stores.postgres.rows import Rows, bounded

STEP = 100
"""Runs removed in one step unless told otherwise."""

_PRUNE = "select {s}.prune($1, $2)"


class RetentionRows(Rows):
    """The retention's part of the store. It is this store's own, and no part of the contract."""

    async def prune(self, before: int, limit: int = STEP) -> int:
        """Remove up to `limit` runs that were over before that moment, in microseconds; returns how many there were. What is
        removed is gone, and its id is free. Fewer than `limit` means that there are no more for now."""
        if limit < 1:
            raise BadInput(f"a step removes at least one run, not {limit}")
        removed: int = (await self._db.write(_PRUNE, bounded(before), bounded(limit)))[0][0]
        return removed
