"""Notifies of other processes' appends.

Each open store has one object, its change list, with the runs it recently wrote. It rewrites the object after new appends,
a few times a second at most and not as part of an append. A subscriber lists these objects, one per open store, and reads
those that changed. A store with subscribers knows whether other stores exist and publishes nothing while there are none:
a single worker makes no such requests.

A process may die between its append and its publication. A guest's append has put a ready mark before, so subscribers also
list the ready marks and report each mark once.
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
from outlast.stores.shared import Subscriptions

log = logging.getLogger("outlast.stores")

BUSY_POLL_S, IDLE_POLL_S = 0.2, 1.0
"""Seconds between polls: after recent changes, and without."""
IDLE_AFTER_S = 5.0
"""Seconds without changes until polls become rare."""
MARKS_EVERY = 5
"""One poll in so many also lists the marks."""
MANY = 1000
"""Ready marks that are listed in one request: the more there are, the rarer."""
MAX_LISTED = 2000
"""The most runs in a change list, which is read a few times a second."""
LISTED_S = 30.0
"""Seconds for which a change list names a run after an append."""
OPEN_US = 120_000_000
"""Microseconds without a write until a store counts as closed. A store with subscribers writes three times as often."""


class ChangeList(Struct, frozen=True):
    """Runs that a store recently wrote, with a change number. Runs with numbers up to `since` may be missing."""

    since: int
    runs: dict[RunId, int]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ChangeList).decode


class ChangeFeedObjects(Reading):
    """Implements the notifications."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._own = f"changes/{fresh()}"
        self._listed: OrderedDict[RunId, int] = OrderedDict()
        self._since: dict[int, float] = {}
        self._count = 0
        self._dropped = 0
        self._published = -1
        self._publisher: asyncio.Task[None] | None = None
        self._subscriptions = Subscriptions(self._watch, "outlast-objects-watcher")
        self._others = True
        self._tags: dict[str, str] = {}
        self._reported: dict[str, int] = {}
        self._marks: set[str] = set()
        self._last_change = 0.0

    # --- sending

    def _announce(self, runs: frozenset[RunId]) -> None:
        for run in runs:
            self._count += 1
            self._listed[run] = self._count
            self._listed.move_to_end(run)
        while len(self._listed) > MAX_LISTED:
            self._dropped = self._listed.popitem(last=False)[1]
        if self._others or not self._subscriptions:
            self._publish_soon()

    def _publish_soon(self) -> None:
        if self._publisher is None or self._publisher.done():
            self._publisher = asyncio.get_running_loop().create_task(self._publish(), name="outlast-objects-publisher")

    async def _publish(self) -> None:
        """Write the change list until it is current. After a failure, the next one contains the same runs."""
        while self._published < self._count:
            count = self._count
            try:
                await self._put_change_list()
            except StoreError as error:
                log.info("could not publish %d appends: %s", count - self._published, error)
            await asyncio.sleep(BUSY_POLL_S)

    async def _put_change_list(self) -> None:
        count = self._count
        await self._bucket.put(self._own, _encode(ChangeList(self._dropped, {**self._listed})))
        self._published = count
        self._drop_old(count)

    def _drop_old(self, count: int) -> None:
        """Drop old runs: all subscribers have read them."""
        now = asyncio.get_running_loop().time()
        self._since[count] = now
        old = max((number for number, when in self._since.items() if when < now - LISTED_S), default=0)
        self._since = {number: when for number, when in self._since.items() if number > old}
        while self._listed and next(iter(self._listed.values())) <= old:
            self._dropped = self._listed.popitem(last=False)[1]

    # --- receiving

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        if not self._subscriptions:
            self._others = True
        return self._subscriptions.add(notify)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_change, number, shown = loop.time(), 0, -OPEN_US
        while True:
            try:
                if not self._readonly and await self._clock.now() - shown > OPEN_US // 3:
                    await self._put_change_list()
                    shown = await self._clock.now()
                runs = await self._poll_change_lists()
                if number % (MARKS_EVERY * (1 + len(self._marks) // MANY)) == 0:
                    runs |= await self._poll_marks()
                number += 1
            except StoreError as error:
                log.info("could not read changes of other processes: %s", error)
                runs = set()
            if runs:
                self._last_change = loop.time()
                self._subscriptions.notify(frozenset(runs))
            await asyncio.sleep(BUSY_POLL_S if loop.time() - self._last_change < IDLE_AFTER_S else IDLE_POLL_S)

    async def _poll_change_lists(self) -> set[RunId]:
        """Return the runs that other stores listed since the last poll."""
        now = await self._clock.now()
        listed = [each async for each in self._bucket.listing("changes") if each.name != self._own]
        self._others = any(each.time > now - OPEN_US for each in listed)
        if self._others and self._published < self._count:
            self._publish_soon()
        changed = [each for each in listed if self._tags.get(each.name) != each.tag]
        self._tags = {each.name: each.tag for each in listed}
        self._reported = {name: count for name, count in self._reported.items() if name in self._tags}
        runs = {run for some in await self._each(self._new_runs, changed) for run in some}
        if not self._readonly:
            await self._bucket.delete([each.name for each in listed if each.time < now - 30 * OPEN_US])
        return runs

    async def _new_runs(self, listed: Listed) -> set[RunId]:
        found = await self._bucket.get(listed.name)
        if found is None:
            return set()
        try:
            changes = _decode(found.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return set()
        reported = self._reported.get(listed.name, 0)
        self._reported[listed.name] = max(changes.runs.values(), default=0)
        runs = {run for run, count in changes.runs.items() if count > reported}
        return runs if reported >= changes.since else runs | await self._claimed_runs()

    async def _claimed_runs(self) -> set[RunId]:
        """Return all claimed runs: the change list has dropped some, which may be among them."""
        return {RunId(keys.mark(each.name).run) async for each in self._bucket.listing("claims")}

    async def _poll_marks(self) -> set[RunId]:
        """Return the runs that were marked ready since the last poll."""
        marks = {each.name async for each in self._bucket.listing("ready")}
        added, self._marks = marks - self._marks, marks
        return {RunId(keys.mark(name).run) for name in added}

    # --- closing

    async def _stop_publishing(self) -> None:
        """Publish pending changes, or delete the change list."""
        self._subscriptions.stop()
        if self._publisher is not None:
            self._publisher.cancel()
        is_pending = self._published < self._count and self._others
        try:
            if is_pending and not self._readonly:
                await self._put_change_list()  # it stays, for others to read
            elif self._published >= 0 and not self._listed:
                await self._bucket.delete([self._own])
        except StoreError as error:
            log.info("could not publish the last appends: %s", error)
