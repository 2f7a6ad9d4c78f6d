"""Reads logs: recent records from their own objects, older ones from segments.

The object of an append is never changed or removed while its run exists. Segments repeat them, so that a long log needs few
requests to read. A process that has written enough consecutive appends writes a segment in the background. A missing segment
costs only time.
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
from outlast.stores.objects.envelope import Landed, merged, sealed, split_segment
from outlast.stores.objects.shared import Known, ObjectStoreBase
from outlast.stores.shared import LARGEST

MERGED = 64
"""Appends in a segment."""
MERGED_BYTES = 1 << 18
"""Bytes of events after which a segment is written with fewer appends."""
MERGED_AT_END = 16
"""The fewest appends that are merged when their run ends."""


class Reading(ObjectStoreBase):
    """Implements reading and the writing of segments."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        end = LARGEST if last is None else last
        place, found = max(first, 1), list[Record]()
        if await self._is_deleted(run):
            return []
        segments = [] if self._is_boundary(run, place) else await self._segments(run, end)
        while len(found) < limit and place <= end:
            row = _consecutive(segments, place, (limit - len(found)) // MERGED + 1)
            some = await self._parts(run, row) if row else await self._until(run, place, end, limit, segments)
            fitting = _fitting(some, place, end)
            if not fitting and not row:
                break
            if not fitting:  # a missing or damaged segment: read the objects of its appends
                segments = [each for each in segments if each not in row]
                continue
            found += fitting
            place = fitting[-1].last + 1
        return found[:limit]

    async def _until(
        self, run: RunId, place: int, end: int, limit: int, segments: Sequence[tuple[int, int]]
    ) -> list[Landed]:
        """Read records from their own objects, from the one that holds `place` up to the next segment."""
        before = place - 1  # a record begins right after it
        if not self._is_boundary(run, place):
            before = max((last for _, last in segments if last < place), default=0)
        end = min(end, min((start for start, _ in segments if start > place), default=LARGEST) - 1)
        names: list[str] = []
        async for listed in self._bucket.listing(f"log/{run}", after=keys.record(run, before)):
            start = int(listed.name.rpartition("/")[2])
            if start > end or len(names) > limit:
                break
            names = [listed.name] if start <= place else [*names, listed.name]
        appends, deleted = await self._appends(run, names[: limit + 1])
        return [] if deleted is not None else appends

    async def _parts(self, run: RunId, row: Sequence[tuple[int, int]]) -> list[Landed]:
        async def part(bounds: tuple[int, int]) -> list[Landed]:
            found = await self._bucket.get(keys.segment(run, *bounds))
            with suppress(Damaged):
                return [] if found is None else split_segment(run, bounds[0], found.body)
            return []

        return [landed for some in await self._each(part, row) for landed in some]

    def _is_boundary(self, run: RunId, place: int) -> bool:
        """Return whether the cache shows that a record begins at `place`, or that the log ends before it."""
        known = self._known.get(run)
        if known is None or known.run_index is None:
            return False
        return place == known.run_index.head.version + 1 or any(each.record.first == place for each in known.recent)

    # --- segments

    async def _segments(self, run: RunId, end: int) -> list[tuple[int, int]]:
        """Return first and last event of each segment, in order."""
        found: list[tuple[int, int]] = []
        async for listed in self._bucket.listing(f"merged/{run}"):
            first, _, last = listed.name.rpartition("/")[2].partition("-")
            if int(first) > end:
                break
            found.append((int(first), int(last)))
        return found

    def _merge_soon(self, run: RunId, known: Known) -> None:
        """Write a segment if there are enough consecutive appends, or if the run has ended."""
        is_over = known.run_index is not None and known.run_index.head.closed
        if not is_over and len(known.recent) < MERGED and known.recent_bytes < MERGED_BYTES:
            return
        row, known.recent, known.recent_bytes = known.recent, [], 0
        if len(row) >= (MERGED_AT_END if is_over else 2):
            self._in_background(self._merge(run, row), f"merge-{run}")

    async def _merge(self, run: RunId, row: Sequence[Landed]) -> None:
        body = merged([sealed(each.append, each.marks) for each in row])
        with suppress(StoreError):  # a segment only makes reading faster
            await self._bucket.put(keys.segment(run, row[0].record.first, row[-1].record.last), body)

    # --- background tasks

    def _in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"outlast-objects-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _announce(self, runs: frozenset[RunId]) -> None:
        """Called after each batch with the changed runs."""


def _consecutive(segments: Sequence[tuple[int, int]], place: int, most: int) -> list[tuple[int, int]]:
    """Return up to `most` consecutive segments from the one that holds `place`."""
    row: list[tuple[int, int]] = []
    for first, last in segments:
        if len(row) < most and first <= place <= last:
            row.append((first, last))
            place = last + 1
    return row


def _fitting(landed: Sequence[Landed], place: int, end: int) -> list[Record]:
    """Return consecutive records from the one that holds `place`: segments may overlap."""
    found: list[Record] = []
    for each in landed:
        record = each.record
        if record.first > end:
            break
        if (found and record.first == found[-1].last + 1) or (not found and record.first <= place <= record.last):
            found.append(record)
    return found
