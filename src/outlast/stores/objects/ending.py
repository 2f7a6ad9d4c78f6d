"""The end of a run's log, when the run is deleted.

A deletion first writes itself into the index of the run, by compare-and-set, so that no worker can claim the run. Then it
creates an object at the end of the log that has the tombstone. It is created as an append is, so it lands only if the log
is still at the expected version, and every later append loses. Now the run is deleted: the tombstone gets its own object,
the slots and the marks of the run are removed, and its index becomes empty.

A process may die in between. A mark in `deleting/` is put before the first step, so the next process that lists runs
finishes the deletion. It does so with the same bytes, so two processes may do it at once. If another append is in the log
instead, the deletion has lost, and its entry in the index has no meaning."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from outlast.errors import Damaged, OutcomeUnknown
from outlast.history.ids import RunId
from outlast.store import Tombstone
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Taken
from outlast.stores.objects.envelope import sealed_deletion
from outlast.stores.objects.run_index import Deletion, decode_run_index
from outlast.stores.objects.shared import GRACE, Known
from outlast.stores.objects.slots import SlotObjects

TRIES = 4
"""Attempts of a create that the server refuses although the name is free, because it was busy."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Tombstone).decode


class EndingObjects(SlotObjects):
    """Ends the logs of deleted runs."""

    async def _end_log(self, deletion: Deletion, version: int) -> bool:
        """Create the end of the log. False if another append or deletion has the name."""
        name, body, tag = keys.record(deletion.tombstone.run, version + 1), sealed_deletion(deletion), None
        for number in range(TRIES):
            try:
                await (self._bucket.create(name, body) if tag is None else self._bucket.update(name, body, tag))
                return True
            except Taken:
                found = await self._bucket.get(name)
                if found is not None and found.body:
                    return found.body == body
                tag = None if found is None else found.tag  # empty: no append is there
                await asyncio.sleep(0.05 * number)
        raise OutcomeUnknown(f"the server refuses to create {name} but does not have it; the outcome is unknown")

    async def _finish(self, run: RunId, known: Known) -> None:
        """Write what follows from the end of the log. This can be repeated."""
        if known.deletion is None or self._readonly:
            return
        await self._bucket.put(keys.tombstone(run), _encode(known.deletion.tombstone))
        await self._put_marks([keys.Mark(keys.remains(0), run, known.deletion.nonce)])
        name = keys.run_index(run)
        while True:
            found = await self._bucket.get(name)
            if found is not None and not found.body:
                break
            if found is not None:
                with suppress(Damaged):  # then its marks are swept
                    run_index = decode_run_index(run, found.body)
                    await self._leave(run, {slot: held.epoch for slot, held in run_index.slots.items()})
                    kept = {place: nonce for place, nonce in run_index.marks.items() if place != keys.DELETING}
                    await self._unmark(run, kept)
            with suppress(Taken):
                await (self._bucket.create(name, b"") if found is None else self._bucket.update(name, b"", found.tag))
                break
        known.end()

    async def _settle_deletions(self) -> set[RunId]:
        """Finish the deletions whose process died. Return their runs: a store that is open read-only cannot finish them."""
        deleted: set[RunId] = set()
        async for listed in self._bucket.listing(keys.DELETING[:-1]):
            run = RunId(keys.mark(listed.name).run)
            with suppress(Damaged):
                async with self._locked(run) as known:
                    is_deleted = await self._settle(run, known)
                    is_old = listed.time < await self._clock.now() - GRACE
                if is_deleted:
                    deleted.add(run)
                if (is_deleted or is_old) and not self._readonly:
                    await self._bucket.delete([listed.name])
        return deleted

    async def _settle(self, run: RunId, known: Known) -> bool:
        """Finish the deletion of a run that was begun. Return whether the run is deleted."""
        run_index = await self._look(run, known)
        if run_index is not None and run_index.deletion is not None and not self._readonly:
            await self._end_log(run_index.deletion, run_index.head.version)
            await self._look(run, known)
        if known.is_deleted:
            await self._finish(run, known)
        return known.is_deleted

    async def _tombstone(self, run: RunId, known: Known) -> Tombstone | None:
        found = await self._bucket.get(keys.tombstone(run))
        if found is None:
            await self._look(run, known)
            if known.deletion is None:
                return None
            tombstone = known.deletion.tombstone
            await self._finish(run, known)
            return tombstone
        try:
            return _decode(found.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Damaged(f"the tombstone cannot be decoded: {error}", run=run) from error
