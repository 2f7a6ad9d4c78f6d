"""The base class of the parts of an object store: bucket, clock and cached indexes of runs.

A cached index is exact for some version of the log. A log only grows and the object of an append never changes, so the cache
may be stale but is never wrong: an append that expects the cached version is checked without a request, and its own `create`
detects a longer log.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from outlast.clock import since_boot
from outlast.errors import Damaged, StoreReadOnly, StoreUnusable
from outlast.history.ids import RunId
from outlast.stores.objects import keys
from outlast.stores.objects.blobs import Collection
from outlast.stores.objects.bucket import Bucket, Listed, Tag, Taken
from outlast.stores.objects.clock import Clock
from outlast.stores.objects.envelope import Landed, opened, opened_deletion
from outlast.stores.objects.format import check_format
from outlast.stores.objects.run_index import (
    Deletion,
    RunIndex,
    after_append,
    decode_run_index,
    encode_run_index,
    fresh,
    wanted,
)

REMEMBERED = 10_000
"""Cached runs. Evicting one only costs another read of its index."""
LARGE = 1 << 16
"""Bytes of events above which an append is not cached."""
GRACE = 600_000_000
"""Microseconds until a mark that is not in its index is deleted: no request takes so long."""
CHECKED_S = 20.0
"""Seconds after which a run must be read again before an append: it may be deleted, and its log removed."""
VERIFIED_S = 1.5 * CHECKED_S
"""Seconds since a run was read after which it must be read again after an append."""
TOGETHER = 48
"""Concurrent requests of one operation."""
if TYPE_CHECKING:
    from outlast.stores.blob_folder import FolderBlobs

T = TypeVar("T")
R = TypeVar("R")


class Known:
    """The cache of a run. `run_index` is exact for its version, and `read` is when that was last checked. `tag` and `stored`
    are tag and version of the index object when it was last read. `recent` has the newest appends, which are not in a
    segment yet. `deletion` is the end of its log if it is deleted and has an index still, `uses` are the blobs that it is
    known to use."""

    __slots__ = (
        *(
            "deletion",
            "is_deleted",
            "lag",
            "lock",
            "read",
            "recent",
            "recent_bytes",
            "run_index",
            "stored",
            "tag",
            "users",
        ),
        "uses",
    )

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.run_index: RunIndex | None = None
        self.tag: Tag | None = None
        self.stored = 0
        self.recent: list[Landed] = []
        self.recent_bytes = 0
        self.lag = 0
        self.users = 0
        self.read = -math.inf
        self.is_deleted = False
        self.deletion: Deletion | None = None
        self.uses: set[str] = set()

    def end(self, deletion: Deletion | None = None) -> None:
        """Record that the run is deleted."""
        self.run_index, self.recent, self.recent_bytes = None, [], 0
        self.is_deleted, self.deletion = True, deletion

    def add(self, landed: Landed) -> None:
        """Cache an append; cached appends are consecutive."""
        size = len(landed.record.body)
        if size > LARGE or (self.recent and self.recent[-1].record.last + 1 != landed.record.first):
            self.recent, self.recent_bytes = [], 0
        if size <= LARGE:
            self.recent.append(landed)
            self.recent_bytes += size
        self.lag += 1


class ObjectStoreBase:
    """The base class of the parts of the store."""

    _folder: FolderBlobs | None = None
    """The blobs of a store that keeps them in a folder."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        self._bucket = bucket
        self._readonly = readonly
        self._clock = Clock(bucket, readonly=readonly)
        self._collection = Collection(bucket)
        self._known: OrderedDict[RunId, Known] = OrderedDict()
        self._refusal: StoreUnusable | None = None
        self.skew = 0

    async def _now(self) -> int:
        return await self._clock.now() + self.skew

    def _require_writable(self) -> None:
        if self._readonly:
            raise StoreReadOnly("the store was opened read-only")

    # --- cached runs

    @asynccontextmanager
    async def _locked(self, run: RunId) -> AsyncIterator[Known]:
        """Lock the cache of a run for one task of this process."""
        known = self._known.get(run)
        if known is None:
            known = self._known[run] = Known()
        known.users += 1
        try:
            async with known.lock:
                yield known
        finally:
            known.users -= 1
            self._evict(run)

    def _evict(self, used: RunId) -> None:
        if used in self._known:
            self._known.move_to_end(used)
        while len(self._known) > REMEMBERED:
            oldest = next(iter(self._known))
            if self._known[oldest].users:
                break
            del self._known[oldest]

    async def _look(self, run: RunId, known: Known) -> RunIndex | None:
        """Read the run up to the end of its log. Return its index; None if the run does not exist or is deleted."""
        began = since_boot()
        found = await self._bucket.get(keys.run_index(run))
        if found is not None and not found.body:
            known.end()
            return None
        if found is not None:
            known.tag = found.tag
            run_index = decode_run_index(run, found.body)
            known.stored = run_index.head.version
            if known.run_index is None or run_index.head.version >= known.run_index.head.version:
                known.run_index = run_index
            else:  # the object is older than the cached log, but only it has the holder
                known.run_index = self._caught_up(run_index, known)
        await self._read_on(run, known)
        known.read = began
        return known.run_index

    def _caught_up(self, run_index: RunIndex, known: Known) -> RunIndex:
        """Add the cached appends after the stored index to it."""
        for landed in known.recent:
            if landed.record.first == run_index.head.version + 1:
                run_index = after_append(run_index, landed.append, landed.marks)
        return run_index

    async def _read_on(self, run: RunId, known: Known) -> None:
        """Read the appends after the cached version and add them to the index."""
        version = known.run_index.head.version if known.run_index else 0
        names = [listed.name async for listed in self._bucket.listing(f"log/{run}", after=keys.record(run, version))]
        appends, deleted = await self._appends(run, names)
        if deleted is not None:
            known.end(deleted)
            return
        for landed in appends:
            if landed.record.first == version + 1:
                known.run_index = after_append(known.run_index, landed.append, landed.marks)
                known.add(landed)
                version = landed.record.last

    async def _appends(self, run: RunId, names: Iterable[str]) -> tuple[list[Landed], Deletion | None]:
        """Read these appends of a log, and its end if the run is deleted."""

        async def read(name: str) -> Landed | Deletion | None:
            found = await self._bucket.get(name)
            if found is None or not found.body:
                return None
            return opened_deletion(found.body) or opened(run, int(name.rpartition("/")[2]), found.body)

        found = await self._each(read, names)
        deleted = next((each for each in found if isinstance(each, Deletion)), None)
        return [each for each in found if isinstance(each, Landed)], deleted

    async def _stored(self, run: RunId) -> RunIndex | None:
        """Return the stored index, which may be stale, with one request."""
        found = await self._bucket.get(keys.run_index(run))
        return None if found is None or not found.body else decode_run_index(run, found.body)

    async def _is_deleted(self, run: RunId) -> bool:
        """Return whether the index shows that the run is deleted, with one request."""
        found = await self._bucket.get(keys.run_index(run))
        return found is not None and not found.body

    async def _check_version(self) -> None:
        """Refuse a store that has another version than when it was opened; then claims are refused too."""
        found = await self._bucket.get(keys.FORMAT)
        try:
            check_format(b"" if found is None else found.body, "the bucket")
        except StoreUnusable as error:
            self._refusal = error
            raise
        self._refusal = None

    # --- writing indexes and marks

    async def _mark(self, run: RunId, places: Iterable[str]) -> dict[str, str]:
        """Put a new mark at each of these places. Return the nonces."""
        marks = {place: fresh() for place in places}
        await self._put_marks(keys.Mark(place, run, nonce) for place, nonce in marks.items())
        return marks

    async def _change(self, run: RunId, known: Known, change: Callable[[RunIndex], RunIndex | None]) -> bool:
        """Replace the index of a run by the result of `change`, and repeat that after a conflict. False if the run does not
        exist or `change` returns None. The caller has read the run."""
        spare: dict[str, str] = {}
        try:
            while known.run_index is not None:
                new = change(known.run_index)
                if new is None:
                    return False
                if await self._store(run, known, new, spare):
                    return True
                await self._look(run, known)
            return False
        finally:
            # Delete unused marks. If our write did succeed and others followed it, the index lists its marks.
            marks = known.run_index.marks if known.run_index else {}
            await self._unmark(run, {place: nonce for place, nonce in spare.items() if marks.get(place) != nonce})

    async def _store(self, run: RunId, known: Known, new: RunIndex, spare: dict[str, str]) -> bool:
        """Put the missing marks, then write the index, then delete stale marks. False if another process changed the index
        meanwhile. `spare` has marks of earlier attempts."""
        places = wanted(new)
        spare |= await self._mark(run, places - new.marks.keys() - spare.keys())
        marks = {**spare, **new.marks}
        stale = {place: nonce for place, nonce in new.marks.items() if place not in places}
        new = replace(new, marks={place: marks[place] for place in places}, nonce=fresh())
        if not await self._put_run_index(run, known, new):
            return False
        known.run_index, known.stored, known.lag = new, new.head.version, 0
        await self._unmark(run, stale)
        return True

    async def _unmark(self, run: RunId, marks: Mapping[str, str]) -> None:
        if marks:
            await self._bucket.delete([keys.Mark(place, run, nonce).name for place, nonce in marks.items()])

    async def _put_run_index(self, run: RunId, known: Known, new: RunIndex) -> bool:
        name, body = keys.run_index(run), encode_run_index(new)
        try:
            if known.tag is None:
                known.tag = await self._bucket.create(name, body)
            else:
                known.tag = await self._bucket.update(name, body, known.tag)
        except Taken:
            found = await self._bucket.get(name)
            known.tag = found.tag if found else None
            return found is not None and found.body == body  # equal: our own, sent again after its answer was lost
        return True

    async def _put_marks(self, marks: Iterable[keys.Mark]) -> None:
        await self._each(lambda mark: self._bucket.put(mark.name, b""), marks)

    async def _sweep(self, found: Iterable[Listed]) -> None:
        """Delete the old ones of these marks that are not in their index."""
        now = await self._clock.now()
        for listed in found:
            if not self._readonly and listed.time < now - GRACE:
                mark = keys.mark(listed.name)
                try:
                    async with self._locked(RunId(mark.run)) as known:
                        run_index = await self._look(RunId(mark.run), known)
                except Damaged:
                    continue
                if run_index is None or run_index.marks.get(mark.place) != mark.nonce:
                    await self._bucket.delete([listed.name])

    # --- concurrency

    async def _each(self, work: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """Call `work` for each item, some concurrently. Return the results in order."""
        todo = list(items)
        if len(todo) == 1:
            return [await work(todo[0])]
        gate = asyncio.Semaphore(TOGETHER)

        async def one(item: T) -> R:
            async with gate:
                return await work(item)

        return await asyncio.gather(*(one(item) for item in todo))
