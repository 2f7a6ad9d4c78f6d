"""Reading logs: records one by one where they are young, many at once where they were merged.

An append's object is never changed and never removed. Merged segments repeat what they hold, so that a long log is read
with few requests; whoever has written enough of a log in a row writes one, in its own time. A segment that is missing
costs speed and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from outlast.errors import Damaged, StoreError
from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket
from outlast.stores.objects.envelope import Landed, merged, parted, sealed
from outlast.stores.objects.shared import Known, ObjectStoreBase

MERGED = 64
"""Appends that make a segment."""
MERGED_BYTES = 1 << 18
"""Bytes of events that make one, however few appends."""
WORTHWHILE = 16
"""Appends that are merged when their run is over."""
ENDLESS = 1 << 62


class Reading(ObjectStoreBase):
    """Records by place, and the segments that make it quick."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        end = ENDLESS if last is None else last
        place, found = max(first, 1), list[Record]()
        segments = [] if self._is_boundary(run, place) else await self._segments(run, end)
        while len(found) < limit and place <= end:
            row = _in_a_row(segments, place, (limit - len(found)) // MERGED + 1)
            some = await self._parts(run, row) if row else await self._until(run, place, end, limit, segments)
            fitting = _fitting(some, place, end)
            if not fitting and not row:
                break
            if not fitting:  # a segment that is gone or does not read: the appends have objects of their own
                segments = [each for each in segments if each not in row]
                continue
            found += fitting
            place = fitting[-1].last + 1
        return found[:limit]

    async def _until(
        self, run: RunId, place: int, end: int, limit: int, segments: Sequence[tuple[int, int]]
    ) -> list[Landed]:
        """Records by their own objects, until the next segment."""
        before = max((last for _, last in segments if last < place), default=0)
        until = min((start for start, _ in segments if start > place), default=ENDLESS)
        return await self._singles(run, place, min(end, until - 1), before, limit)

    async def _parts(self, run: RunId, row: Sequence[tuple[int, int]]) -> list[Landed]:
        async def part(bounds: tuple[int, int]) -> list[Landed]:
            found = await self._bucket.get(keys.segment(run, *bounds))
            with suppress(Damaged):
                return [] if found is None else parted(run, bounds[0], found.body)
            return []

        return [landed for some in await self._each(part, row) for landed in some]

    async def _singles(self, run: RunId, place: int, end: int, before: int, limit: int) -> list[Landed]:
        """Records from the one that holds `place`, by their own objects. One of them begins right after `before`."""
        if self._is_boundary(run, place):
            before = place - 1
        names: list[str] = []
        async for listed in self._bucket.listing(f"log/{run}", after=keys.record(run, before)):
            start = int(listed.name.rpartition("/")[2])
            if start > end or len(names) > limit:
                break
            names = [listed.name] if start <= place else [*names, listed.name]
        return await self._appends(run, names[: limit + 1])

    def _is_boundary(self, run: RunId, place: int) -> bool:
        """Whether a record is known to begin at that place, or the log to end before it."""
        known = self._known.get(run)
        if known is None or known.run_index is None:
            return False
        return place == known.run_index.head.version + 1 or any(each.record.first == place for each in known.kept)

    # --- segments

    async def _segments(self, run: RunId, end: int) -> list[tuple[int, int]]:
        """First and last event of each, in order."""
        found: list[tuple[int, int]] = []
        async for listed in self._bucket.listing(f"merged/{run}"):
            first, _, last = listed.name.rpartition("/")[2].partition("-")
            if int(first) > end:
                break
            found.append((int(first), int(last)))
        return found

    def _merge_soon(self, run: RunId, known: Known) -> None:
        """If enough was appended in a row, or nothing more will be, write it as one."""
        is_over = known.run_index is not None and known.run_index.head.closed
        if not is_over and len(known.kept) < MERGED and known.kept_bytes < MERGED_BYTES:
            return
        row, known.kept, known.kept_bytes = known.kept, [], 0
        if len(row) >= (WORTHWHILE if is_over else 2):
            self._in_background(self._merge(run, row), f"merge-{run}")

    async def _merge(self, run: RunId, row: Sequence[Landed]) -> None:
        body = merged([sealed(each.append, each.marks) for each in row])
        with suppress(StoreError):  # it only makes reading quicker
            await self._bucket.put(keys.segment(run, row[0].record.first, row[-1].record.last), body)

    # --- work that nobody waits for

    def _in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"outlast-objects-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _announce(self, runs: frozenset[RunId]) -> None:
        """Told after each batch which runs this process has appended to."""


def _in_a_row(segments: Sequence[tuple[int, int]], place: int, most: int) -> list[tuple[int, int]]:
    """Segments that hold `place` and what follows it without a gap, at most so many."""
    row: list[tuple[int, int]] = []
    for first, last in segments:
        if len(row) < most and first <= place <= last:
            row.append((first, last))
            place = last + 1
    return row


def _fitting(landed: Sequence[Landed], place: int, end: int) -> list[Record]:
    """The records from the one that holds `place` on, each after the one before it: segments may overlap."""
    found: list[Record] = []
    for each in landed:
        record = each.record
        if record.first > end:
            break
        if (found and record.first == found[-1].last + 1) or (not found and record.first <= place <= record.last):
            found.append(record)
    return found
