"""The journal of an object store: append records and heads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from outlast.clock import since_boot
from outlast.errors import NotFound, OutcomeUnknown, StoreError
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.store import LANDED, Append, Head, Lost, Outcome, SlotHolder
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Found, Tag, Taken
from outlast.stores.objects.envelope import Landed, sealed
from outlast.stores.objects.run_index import RunIndex, after_append, record_matches, wanted
from outlast.stores.objects.shared import CHECKED_S, VERIFIED_S, Known
from outlast.stores.objects.slots import Previous, SlotObjects
from outlast.stores.shared import Refusal, refusal

log = logging.getLogger("outlast.stores")

TAIL = 256
"""The most records in a `Lost`."""
LAG = 16
"""Appends after which the index is written even if only the head changed. A reader of the index reads at most so many
appends after it."""
TRIES = 4
"""Attempts of a create that the server refuses although the name is free, because it was busy."""
REMEMBERED_USES = 1000
"""Blobs of a run that are known to be recorded as used."""


class JournalObjects(SlotObjects):
    """Implements the journal."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        self._require_writable()
        outcomes: dict[int, Outcome | StoreError] = {}

        async def in_order(places: list[int]) -> None:
            for place in places:
                outcomes[place] = await self._outcome(batch[place])

        await self._each(in_order, self._in_order(batch))
        landed = frozenset(batch[place].record.run for place, outcome in outcomes.items() if outcome is LANDED)
        if landed:
            self._announce(landed)
        return _combined([outcomes[place] for place in range(len(batch))])

    def _in_order(self, batch: Sequence[Append]) -> Iterable[list[int]]:
        """Return the places of those appends that must land one after the other: of one run, and those that take slots with
        all that may end these slots."""
        by_run: dict[RunId, list[int]] = {}
        for place, append in enumerate(batch):
            by_run.setdefault(append.record.run, []).append(place)
        if not any(append.takes for append in batch):
            return by_run.values()
        chains: list[tuple[set[str], list[int]]] = []
        for run, places in by_run.items():
            cached = self._known.get(run)
            names = {slot.name for place in places for slot in batch[place].takes}
            names |= set(cached.run_index.slots) if cached is not None and cached.run_index is not None else set()
            linked = [chain for chain in chains if not names.isdisjoint(chain[0])]
            chains = [chain for chain in chains if chain not in linked]
            names = names.union(*(chain[0] for chain in linked))
            chains.append((names, sorted([*places, *(place for chain in linked for place in chain[1])])))
        return [places for _, places in chains]

    async def _outcome(self, append: Append) -> Outcome | StoreError:
        try:
            return await self._append(append)
        except StoreError as error:
            return error

    async def head(self, run: RunId) -> Head | None:
        async with self._locked(run) as known:
            run_index = await self._look(run, known)
        return None if run_index is None else run_index.head

    # --- one append

    async def _append(self, append: Append) -> Outcome:
        run, began = append.record.run, since_boot()
        async with self._locked(run) as known:
            is_old = known.run_index is not None and since_boot() - known.read > CHECKED_S
            if is_old or _refusal(known.run_index, append) is not None:  # the cached index may be stale
                await self._look(run, known)
            if known.is_deleted or _refusal(known.run_index, append) is not None:
                return await self._lost(append, known)
            _, marks = await asyncio.gather(
                self._use(run, append.blobs, known), self._mark(run, _needed_marks(known.run_index, append))
            )
            full = await self._commit_with_slots(append, marks, known)
            if full == ():
                known.read = began
                await self._land(append, marks, known)
                return LANDED
            await self._unmark(run, marks)
            if full is not None:
                return Lost("slot", known.run_index.head if known.run_index else None, (), full)
            await self._look(run, known)
            return await self._lost(append, known)

    async def _commit_with_slots(
        self, append: Append, marks: dict[str, str], known: Known
    ) -> tuple[SlotHolder, ...] | None:
        """Take the slots of the append, then commit it. Return the holders of slots that are full, nothing if the append is
        committed, None if it lost."""
        record = append.record
        body, empty = sealed(append, marks), None
        while True:
            full = await self._full(record.run, append.takes)
            previous: Previous = {}
            if not full:
                full, previous = await self._enter(record.run, record.epoch, append.takes, record.first)
            if full:
                return full
            answer = await self._commit(append, body, empty)
            if answer is True and await self._is_committed(record.run, known):
                return ()
            await self._restore(record.run, record.epoch, previous)
            if not isinstance(answer, Found):
                return None
            empty = answer.tag  # another process removed the run from its slots

    async def _commit(self, append: Append, body: bytes, empty: Tag | None) -> bool | Found:
        """Create the append's object, which commits it. False if another append has the name. An empty object is replaced if
        it is this one; else it is returned if the slots must be taken again."""
        name = keys.record(append.record.run, append.record.first)
        for number in range(TRIES):
            try:
                if empty is None:
                    await self._bucket.create(name, body)
                else:
                    await self._bucket.update(name, body, empty)
                return True
            except Taken:
                found = await self._bucket.get(name)
                if found is not None and (found.body or (append.takes and found.tag != empty)):
                    return found if not found.body else found.body == body  # equal: our own, its answer was lost
                empty = None if found is None else found.tag
                await asyncio.sleep(0.05 * number)
        raise OutcomeUnknown(f"the server refuses to create {name} but does not have it; the outcome is unknown")

    async def _is_committed(self, run: RunId, known: Known) -> bool:
        """Return whether a created object is in the log. If this process stood still for long, the run may have been deleted
        and the objects of its log removed meanwhile."""
        if known.run_index is None or since_boot() - known.read < VERIFIED_S or not await self._is_deleted(run):
            return True
        known.end()
        return False

    async def _use(self, run: RunId, blobs: Sequence[str], known: Known) -> None:
        """Record that the run uses these blobs, which then must not have been collected. A blob in a folder becomes young:
        the folder has no other way to tell a collector, and a missing file is found by who reads it."""
        new = [hash for hash in dict.fromkeys(blobs) if hash not in known.uses]
        await self._each(lambda hash: self._bucket.put(keys.use(run, hash), b""), new)
        if self._folder is not None:
            await asyncio.to_thread(self._folder.renew, new)
        kept = await self._each(lambda hash: self._collection.keep(hash), new)
        if gone := [hash for hash, is_kept in zip(new, kept, strict=True) if not is_kept]:
            raise NotFound(f"blob {gone[0]} has been collected: put it again before an event of run {run} names it")
        known.uses |= set(new)
        if len(known.uses) > REMEMBERED_USES:
            known.uses.clear()

    async def _land(self, append: Append, marks: dict[str, str], known: Known) -> None:
        """Update the index after the commit. A failed update is repeated later; until then, readers read the log after the
        index."""
        run, old = append.record.run, known.run_index
        known.run_index = after_append(old, append, marks)
        known.add(Landed(append, marks, len(append.record.body)))
        self._merge_soon(run, known)
        if not _changes_index(append, marks) and known.lag < LAG:
            return
        replaced = {place: old.marks[place] for place in marks if old is not None and place in old.marks}
        await self._update_index(run, known, replaced)
        taken = {slot.name: append.record.epoch for slot in append.takes}
        await self._leave_ended(run, old, known.run_index, taken)

    async def _update_index(self, run: RunId, known: Known, replaced: Mapping[str, str]) -> None:
        try:
            await self._change(run, known, lambda run_index: run_index)
            await self._unmark(run, replaced)
        except StoreError as error:
            log.warning("run %s: an append is committed, but its index is not updated; trying again: %s", run, error)
            self._update_index_later(run)

    async def _lost(self, append: Append, known: Known) -> Lost:
        """Return the reason, with the records in the log if the version is stale."""
        record, head = append.record, known.run_index.head if known.run_index else None
        if known.is_deleted:
            return Lost("deleted", None)
        why = _refusal(known.run_index, append) or "version"
        if why != "version" or head is None or head.version < record.first:
            return Lost(why, head)
        tail = await self.read(record.run, record.first, None, TAIL)
        if tail and record_matches(tail[0], record) and known.stored < record.last:
            await self._update_index(record.run, known, {})  # this append had landed, but its writer got no answer
        return Lost(why, head, tuple(tail))

    # --- updates after an error

    def _update_index_later(self, run: RunId) -> None:
        """Update the index and the marks of a run in the background until it succeeds."""

        async def update() -> None:
            pause = 0.1
            while True:
                await asyncio.sleep(pause)
                pause = min(2 * pause, 5.0)
                try:
                    async with self._locked(run) as known:
                        await self._look(run, known)
                        if known.run_index is None or known.stored >= known.run_index.head.version:
                            return
                        await self._change(run, known, lambda run_index: run_index)
                    return
                except StoreError as error:
                    log.info("run %s: could not update its index: %s", run, error)

        self._in_background(update(), f"index-{run}")


def _needed_marks(old: RunIndex | None, append: Append) -> set[str]:
    """Return the places of marks that the append needs before its commit. A guest always marks the run ready, because its
    owner may release it at the same time."""
    record, head = append.record, append.head
    if not _changes_index(append, {}):
        return set()
    places = wanted(after_append(old, append, {})) - (old.marks.keys() if old else set())
    if record.kind in (Kind.GUEST, Kind.CONTROL) and head.ready and not head.closed:
        places.add(keys.READY)
    return places


def _changes_index(append: Append, marks: dict[str, str]) -> bool:
    """Return whether the append changes more of the index than the head."""
    return bool(
        marks
        or append.summary is not None
        or append.opens
        or append.closes
        or append.release
        or append.claim is not None
        or append.takes
        or append.frees
        or append.record.kind is not Kind.OWNER
        or append.record.first == 1
    )


def _combined(outcomes: list[Outcome | StoreError]) -> list[Outcome]:
    """Return the outcomes, or raise one error for the batch: not a definite one if some of its appends landed."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
    if not errors:
        return [outcome for outcome in outcomes if not isinstance(outcome, StoreError)]
    unknown = [error for error in errors if isinstance(error, OutcomeUnknown)]
    if unknown:
        raise unknown[0]
    if len(errors) == len(outcomes) or all(outcome is not LANDED for outcome in outcomes):
        raise errors[0]
    raise OutcomeUnknown(f"some of {len(outcomes)} appends landed, {len(errors)} failed: {errors[0]}")


def _refusal(run_index: RunIndex | None, append: Append) -> Refusal | None:
    """Return why the append does not fit this index, which is exact for its version."""
    return refusal(append, run_index.head, run_index.waits) if run_index else refusal(append, None, ())
