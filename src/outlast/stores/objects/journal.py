"""Append records and heads, as objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from outlast.errors import OutcomeUnknown, StoreError
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.store import LANDED, Append, Head, Lost, Outcome
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Taken
from outlast.stores.objects.envelope import Landed, sealed
from outlast.stores.objects.reading import Reading
from outlast.stores.objects.run_index import RunIndex, after_append, record_matches, wanted
from outlast.stores.objects.shared import Known
from outlast.stores.shared import Refusal, refusal

log = logging.getLogger("outlast.stores")

TAIL = 256
"""How many records a `Lost` brings along at most."""
LAG = 16
"""Appends that change nothing but the head after which the sheet is written all the same: so many objects at most have to be
read behind a sheet."""
TRIES = 4
"""How often a create is tried that is refused though there is nothing: the server was busy with another one."""


class JournalObjects(Reading):
    """The journal's part of the store."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        self._require_writable()
        by_run: dict[RunId, list[int]] = {}
        for at, append in enumerate(batch):
            by_run.setdefault(append.record.run, []).append(at)
        outcomes: dict[int, Outcome | StoreError] = {}

        async def in_order(places: list[int]) -> None:
            for at in places:
                outcomes[at] = await self._outcome(batch[at])

        await self._each(in_order, by_run.values())
        landed = frozenset(batch[at].record.run for at, outcome in outcomes.items() if outcome is LANDED)
        if landed:
            self._announce(landed)
        return _certain([outcomes[at] for at in range(len(batch))])

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
        record = append.record
        async with self._locked(record.run) as known:
            if _refusal(known.run_index, append) is not None:  # by what we know, which may be behind
                await self._look(record.run, known)
                if _refusal(known.run_index, append) is not None:
                    return await self._lost(append, known)
            marks = await self._mark(record.run, _to_mark(known.run_index, append))
            if await self._commit(append, marks):
                await self._land(append, marks, known)
                return LANDED
            await self._unmark(record.run, marks)
            await self._look(record.run, known)
            return await self._lost(append, known)

    async def _commit(self, append: Append, marks: dict[str, str]) -> bool:
        """Create the append's object: from here on it is in the log. False if another is there."""
        record = append.record
        name, body = keys.record(record.run, record.first), sealed(append, marks)
        for number in range(TRIES):
            try:
                await self._bucket.create(name, body)
                return True
            except Taken:
                found = await self._bucket.get(name)
                if found is not None:
                    return found.body == body  # ours, if it was sent again after its answer was lost
                await asyncio.sleep(0.05 * number)
        raise OutcomeUnknown(f"the server neither takes {name} nor has it")

    async def _land(self, append: Append, marks: dict[str, str], known: Known) -> None:
        """The append is in the log; everything else follows. What fails of that is done again later, and whoever reads the
        log meanwhile knows all the same."""
        run, old = append.record.run, known.run_index
        known.run_index = after_append(old, append, marks)
        known.take(Landed(append, marks, len(append.record.body)))
        self._merge_soon(run, known)
        if not _shows(append, marks) and known.lag < LAG:
            return
        replaced = {place: old.marks[place] for place in marks if old is not None and place in old.marks}
        await self._follow(run, known, replaced)

    async def _follow(self, run: RunId, known: Known, replaced: Mapping[str, str]) -> None:
        try:
            await self._change(run, known, lambda run_index: run_index)
            await self._unmark(run, replaced)
        except StoreError as error:
            log.warning("run %s: an append landed, but what follows from it did not yet: %s", run, error)
            self._follow_later(run)

    async def _lost(self, append: Append, known: Known) -> Lost:
        """Say why; a stale version brings what is there."""
        record, head = append.record, known.run_index.head if known.run_index else None
        why = _refusal(known.run_index, append) or "version"
        if why != "version" or head is None or head.version < record.first:
            return Lost(why, head)
        tail = await self.read(record.run, record.first, None, TAIL)
        if tail and record_matches(tail[0], record) and known.stored < record.last:
            await self._follow(record.run, known, {})  # it had landed, and its writer was told nothing
        return Lost(why, head, tuple(tail))

    # --- what was left undone

    def _follow_later(self, run: RunId) -> None:
        """Bring the sheet and the marks of a run up to its log, however often it takes."""

        async def follow() -> None:
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
                    log.info("run %s: its sheet still does not follow: %s", run, error)

        self._in_background(follow(), f"follow-{run}")


def _to_mark(old: RunIndex | None, append: Append) -> set[str]:
    """Where marks have to be before the append lands. A guest marks the run ready whatever its sheet says: its owner may be
    giving it back at this moment."""
    record, head = append.record, append.head
    if not _shows(append, {}):
        return set()
    places = wanted(after_append(old, append, {})) - (old.marks.keys() if old else set())
    if record.kind in (Kind.GUEST, Kind.CONTROL) and head.ready and not head.closed:
        places.add(keys.READY)
    return places


def _shows(append: Append, marks: dict[str, str]) -> bool:
    """Whether anything but the head changes with it."""
    return bool(
        marks
        or append.summary is not None
        or append.opens
        or append.closes
        or append.release
        or append.claim is not None
        or append.record.kind is not Kind.OWNER
        or append.record.first == 1
    )


def _certain(outcomes: list[Outcome | StoreError]) -> list[Outcome]:
    """The outcomes, or the one error that is true of them all: nothing was written only if nothing was."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
    if not errors:
        return [outcome for outcome in outcomes if not isinstance(outcome, StoreError)]
    unknown = [error for error in errors if isinstance(error, OutcomeUnknown)]
    if unknown:
        raise unknown[0]
    if len(errors) == len(outcomes) or all(outcome is not LANDED for outcome in outcomes):
        raise errors[0]
    raise OutcomeUnknown(f"some of {len(outcomes)} appends landed, {len(errors)} were refused: {errors[0]}")


def _refusal(run_index: RunIndex | None, append: Append) -> Refusal | None:
    """Why the append may not land on this sheet, which is exact for its version."""
    return refusal(append, run_index.head, run_index.waits) if run_index else refusal(append, None, ())
