"""How other processes learn that a log has grown.

Each process that has the store open, a door, keeps one object that names the runs it wrote to lately, and writes it anew
when it has written to more, a few times a second at most and beside the appends. Whoever listens lists these objects,
which are as many as there are processes, and reads those that changed. A door that listens itself knows whether there are
others, and keeps its news to itself while there are none: a lone worker makes no request for it.

A process that dies between its append and its news tells nobody. A guest has put a mark before, though: who listens also
looks at what is marked ready, and tells of every mark once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec import Struct

from outlast.errors import StoreError
from outlast.history.ids import RunId
from outlast.store import Notify
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Listed
from outlast.stores.objects.reading import Reading
from outlast.stores.objects.run_index import fresh

log = logging.getLogger("outlast.stores")

SOON, LATER = 0.2, 1.0
"""Seconds between two looks for news: after something happened, and when nothing does."""
CALM = 5.0
"""Seconds without anything happening after which looks become rare."""
MARKS_EVERY = 5
"""One look in so many is also for marks."""
TOLD = 2000
"""Runs that a door's object names at most. It is read a few times a second."""
NAMED_FOR = 30.0
"""Seconds for which a run is named after it was written to."""
ALIVE = 120_000_000
"""Microseconds without a new object after which a door counts as closed; one that listens writes three times as often."""


class ChangeList(Struct, frozen=True):
    """What a door wrote to lately: runs by the number of the news. Some up to the number `since` are no longer named."""

    since: int
    runs: dict[RunId, int]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ChangeList).decode


class ChangeFeedObjects(Reading):
    """The wake-ups' second part."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._own = f"news/{fresh()}"
        self._told: OrderedDict[RunId, int] = OrderedDict()
        self._since: dict[int, float] = {}
        self._count = 0
        self._dropped = 0
        self._published = -1
        self._publisher: asyncio.Task[None] | None = None
        self._notifies: list[Notify] = []
        self._watcher: asyncio.Task[None] | None = None
        self._others = True
        self._tags: dict[str, str] = {}
        self._heard: dict[str, int] = {}
        self._marks: set[str] = set()
        self._happened = 0.0

    # --- telling

    def _announce(self, runs: frozenset[RunId]) -> None:
        for run in runs:
            self._count += 1
            self._told[run] = self._count
            self._told.move_to_end(run)
        while len(self._told) > TOLD:
            self._dropped = self._told.popitem(last=False)[1]
        if self._others or self._watcher is None:
            self._publish_soon()

    def _publish_soon(self) -> None:
        if self._publisher is None or self._publisher.done():
            self._publisher = asyncio.get_running_loop().create_task(self._publish(), name="outlast-objects-publisher")

    async def _publish(self) -> None:
        """Write what is new, then what came meanwhile. A failure is no loss that matters: the next news tell it too."""
        while self._published < self._count:
            count = self._count
            try:
                await self._put_bulletin()
            except StoreError as error:
                log.info("news of %d appends were not written: %s", count - self._published, error)
            await asyncio.sleep(SOON)

    async def _put_bulletin(self) -> None:
        count = self._count
        await self._bucket.put(self._own, _encode(ChangeList(self._dropped, {**self._told})))
        self._published = count
        self._drop_old(count)

    def _drop_old(self, count: int) -> None:
        """What was written long enough ago has been heard by everyone who listens."""
        now = asyncio.get_running_loop().time()
        self._since[count] = now
        old = max((number for number, when in self._since.items() if when < now - NAMED_FOR), default=0)
        self._since = {number: when for number, when in self._since.items() if number > old}
        while self._told and next(iter(self._told.values())) <= old:
            self._dropped = self._told.popitem(last=False)[1]

    # --- hearing

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        self._notifies.append(notify)
        if self._watcher is None:
            self._others = True
            self._watcher = asyncio.get_running_loop().create_task(self._watch(), name="outlast-objects-watcher")

        def unsubscribe() -> None:
            if notify in self._notifies:
                self._notifies.remove(notify)
            if not self._notifies and self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None

        return unsubscribe

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._happened, number, shown = loop.time(), 0, -ALIVE
        while True:
            try:
                if not self._readonly and await self._clock.now() - shown > ALIVE // 3:
                    await self._put_bulletin()
                    shown = await self._clock.now()
                runs = await self._look_at_processes()
                if number % MARKS_EVERY == 0:
                    runs |= await self._look_at_marks()
                number += 1
            except StoreError as error:
                log.info("no news could be read: %s", error)
                runs = set()
            if runs:
                self._happened = loop.time()
                for notify in list(self._notifies):
                    notify(frozenset(runs))
            await asyncio.sleep(SOON if loop.time() - self._happened < CALM else LATER)

    async def _look_at_processes(self) -> set[RunId]:
        """The runs that other doors have named since the last look."""
        now = await self._clock.now()
        listed = [each async for each in self._bucket.listing("news") if each.name != self._own]
        self._others = any(each.time > now - ALIVE for each in listed)
        if self._others and self._published < self._count:
            self._publish_soon()
        changed = [each for each in listed if self._tags.get(each.name) != each.tag]
        self._tags = {each.name: each.tag for each in listed}
        self._heard = {name: count for name, count in self._heard.items() if name in self._tags}
        runs = {run for some in await self._each(self._bulletin, changed) for run in some}
        if not self._readonly:
            await self._bucket.delete([each.name for each in listed if each.time < now - 30 * ALIVE])
        return runs

    async def _bulletin(self, listed: Listed) -> set[RunId]:
        found = await self._bucket.get(listed.name)
        if found is None:
            return set()
        try:
            news = _decode(found.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return set()
        heard = self._heard.get(listed.name, 0)
        self._heard[listed.name] = max(news.runs.values(), default=0)
        runs = {run for run, count in news.runs.items() if count > heard}
        return runs if heard >= news.since else runs | await self._held_by_anyone()

    async def _held_by_anyone(self) -> set[RunId]:
        """More was written than a bulletin holds: whoever has an owner may be among it."""
        return {RunId(keys.mark(each.name).run) async for each in self._bucket.listing("claims")}

    async def _look_at_marks(self) -> set[RunId]:
        """Runs that were marked ready since the last look."""
        marks = {each.name async for each in self._bucket.listing("ready")}
        fresh_ones, self._marks = marks - self._marks, marks
        return {RunId(keys.mark(name).run) for name in fresh_ones}

    # --- ending

    async def _publish_and_leave(self) -> None:
        """Tell what is not told yet, and leave."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        if self._publisher is not None:
            self._publisher.cancel()
        is_untold = self._published < self._count and self._others
        try:
            if is_untold and not self._readonly:
                await self._put_bulletin()  # it stays, for others to read
            elif self._published >= 0 and not self._told:
                await self._bucket.delete([self._own])
        except StoreError as error:
            log.info("the last news were not written: %s", error)
