"""The ground that the parts of the store stand on: the bucket, the clock, and what this process knows of runs.

What is known of a run is its sheet, exact as of some version of its log. A log only grows and an append's object never
changes, so knowledge may be behind but is never wrong: an append that expects the version we know is judged without
asking anybody, and its own `create` finds out whether the log has grown.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec.structs import replace

from outlast.errors import Damaged, StoreReadOnly
from outlast.history.ids import RunId
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Listed, Tag, Taken
from outlast.stores.objects.clock import Clock
from outlast.stores.objects.envelope import Landed, opened
from outlast.stores.objects.run_index import RunIndex, after_append, decode_run_index, encode_run_index, fresh, wanted

REMEMBERED = 10_000
"""Runs that are known at once; to forget one only costs reading its sheet again."""
LARGE = 1 << 16
"""Bytes of events in an append that are too many to be kept in memory."""
GRACE = 600_000_000
"""Microseconds after which a mark that no sheet knows of is removed: whoever put it has long given up."""
TOGETHER = 48
"""Requests of one kind of work that are under way at once."""
T = TypeVar("T")
R = TypeVar("R")


class Known:
    """A run, as far as this process knows it. `run_index` is exact for its version; `tag` and `stored` are those of
    the sheet's
    object when it was last seen, `kept` the newest appends that no segment holds yet."""

    __slots__ = ("kept", "kept_bytes", "lag", "lock", "run_index", "stored", "tag", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.run_index: RunIndex | None = None
        self.tag: Tag | None = None
        self.stored = 0
        self.kept: list[Landed] = []
        self.kept_bytes = 0
        self.lag = 0
        self.users = 0

    def take(self, landed: Landed) -> None:
        """Remember an append, as long as those that are remembered are in a row."""
        size = len(landed.record.body)
        if size > LARGE or (self.kept and self.kept[-1].record.last + 1 != landed.record.first):
            self.kept, self.kept_bytes = [], 0
        if size <= LARGE:
            self.kept.append(landed)
            self.kept_bytes += size
        self.lag += 1


class ObjectStoreBase:
    """What all parts share."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        self._bucket = bucket
        self._readonly = readonly
        self._clock = Clock(bucket, readonly=readonly)
        self._known: OrderedDict[RunId, Known] = OrderedDict()
        self.skew = 0

    async def _now(self) -> int:
        return await self._clock.now() + self.skew

    def _require_writable(self) -> None:
        if self._readonly:
            raise StoreReadOnly("the store was opened for reading only")

    # --- knowing runs

    @asynccontextmanager
    async def _locked(self, run: RunId) -> AsyncIterator[Known]:
        """What is known of a run, for one task of this process at a time."""
        known = self._known.get(run)
        if known is None:
            known = self._known[run] = Known()
        known.users += 1
        try:
            async with known.lock:
                yield known
        finally:
            known.users -= 1
            self._forget_some(run)

    def _forget_some(self, used: RunId) -> None:
        if used in self._known:
            self._known.move_to_end(used)
        while len(self._known) > REMEMBERED:
            oldest = next(iter(self._known))
            if self._known[oldest].users:
                break
            del self._known[oldest]

    async def _look(self, run: RunId, known: Known) -> RunIndex | None:
        """Bring what is known of the run up to the end of its log; None if there is no such run."""
        found = await self._bucket.get(keys.run_index(run))
        if found is not None:
            known.tag = found.tag
            run_index = decode_run_index(run, found.body)
            known.stored = run_index.head.version
            if known.run_index is None or run_index.head.version >= known.run_index.head.version:
                known.run_index = run_index
            else:  # the object lags behind what we know of the log; who holds the run, only it can tell
                known.run_index = self._caught_up(run_index, known)
        await self._read_on(run, known)
        return known.run_index

    def _caught_up(self, run_index: RunIndex, known: Known) -> RunIndex:
        """The stored sheet with the appends after it folded in, those that we remember without reading them."""
        for landed in known.kept:
            if landed.record.first == run_index.head.version + 1:
                run_index = after_append(run_index, landed.append, landed.marks)
        return run_index

    async def _read_on(self, run: RunId, known: Known) -> None:
        """Fold in what has been appended since."""
        version = known.run_index.head.version if known.run_index else 0
        names = [listed.name async for listed in self._bucket.listing(f"log/{run}", after=keys.record(run, version))]
        for landed in await self._appends(run, names):
            if landed.record.first == version + 1:
                known.run_index = after_append(known.run_index, landed.append, landed.marks)
                known.take(landed)
                version = landed.record.last

    async def _appends(self, run: RunId, names: Iterable[str]) -> list[Landed]:
        """What is in these objects of a log; they are there for good."""

        async def read(name: str) -> Landed | None:
            found = await self._bucket.get(name)
            return None if found is None else opened(run, int(name.rpartition("/")[2]), found.body)

        return [each for each in await self._each(read, names) if each is not None]

    async def _stored(self, run: RunId) -> RunIndex | None:
        """The sheet as it is stored, which may be behind: one request."""
        found = await self._bucket.get(keys.run_index(run))
        return None if found is None else decode_run_index(run, found.body)

    # --- writing sheets and marks

    async def _mark(self, run: RunId, places: Iterable[str]) -> dict[str, str]:
        """Put a new mark at each of these places."""
        marks = {place: fresh() for place in places}
        names = [keys.Mark(place, run, nonce).name for place, nonce in marks.items()]
        await self._each(lambda name: self._bucket.put(name, b""), names)
        return marks

    async def _change(self, run: RunId, known: Known, change: Callable[[RunIndex], RunIndex | None]) -> bool:
        """Replace the sheet of a run that is there by what `change` makes of it, once that is settled; False if it makes
        nothing of it. What is known of the run has to be looked up before."""
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
            # What we put in vain. Ours may have landed and been built upon: then the sheet has its marks.
            marks = known.run_index.marks if known.run_index else {}
            await self._unmark(run, {place: nonce for place, nonce in spare.items() if marks.get(place) != nonce})

    async def _store(self, run: RunId, known: Known, new: RunIndex, spare: dict[str, str]) -> bool:
        """Put the marks that are missing, then the sheet, then remove the marks that are right no longer; False if someone
        else has changed the sheet meanwhile. `spare` marks were put before."""
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
            return found is not None and found.body == body  # it was our own, sent again after its answer was lost
        return True

    async def _sweep(self, found: Iterable[Listed]) -> None:
        """Remove those of these marks that are old and that no sheet knows of."""
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

    # --- many at once

    async def _each(self, work: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """Do the work for each, some at a time; the results in order."""
        todo = list(items)
        if len(todo) == 1:
            return [await work(todo[0])]
        gate = asyncio.Semaphore(TOGETHER)

        async def one(item: T) -> R:
            async with gate:
                return await work(item)

        return await asyncio.gather(*(one(item) for item in todo))
