"""Deletes runs (`ending.py`), removes what remains of them, and collects the blobs that nobody uses.

`purge` removes the other objects of deleted runs. The log goes last: its objects refuse the appends of processes that have
not noticed the deletion. A process reads the run again before an append if it has not done so for a while
(`shared.CHECKED_S`), and after one that took longer. So the objects of the log can be removed after `FENCED_S`, however
long a request or a process stands still. The first object of the log is replaced by the tombstone and stays, so a start with
this id is refused without a request more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.store import Tombstone
from outlast.stores.blob_files import blob_files
from outlast.stores.objects import blobs, keys
from outlast.stores.objects.bucket import Listed
from outlast.stores.objects.claims import ClaimObjects, replacement
from outlast.stores.objects.envelope import sealed_deletion
from outlast.stores.objects.run_index import Deletion, fresh
from outlast.stores.objects.shared import CHECKED_S, GRACE
from outlast.stores.shared import check_limit

AT_ONCE = 32
"""Deleted runs whose objects are listed concurrently."""
FENCED_S = 2 * CHECKED_S
"""Seconds until the log of a deleted run is removed."""
T = TypeVar("T")


class DeletionObjects(ClaimObjects):
    """Implements the deletion."""

    _collect_from: tuple[int, str] = (0, "")
    """Where `collect` continues: the time that it was called with, and the last blob that it looked at."""

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        self._require_writable()
        await self._check_version()
        run, deletion = tombstone.run, Deletion(tombstone, fresh())
        async with self._locked(run) as known:
            while True:
                run_index = await self._look(run, known)
                if known.is_deleted:
                    return await self._tombstone(run, known) == tombstone
                if (run_index.head.version if run_index else 0) != version:
                    return False
                if run_index is None:
                    marks = await self._mark(run, [keys.DELETING])
                    await self._end_log(deletion, 0)
                    await self._settle(run, known)
                    await self._unmark(run, marks)
                    continue
                if run_index.deletion is None:
                    if run_index.held is not None and await self._is_alive(keys.plain(run_index.held.worker)):
                        return False
                    await self._change(
                        run, known, partial(replacement, run_index, replace(run_index, deletion=deletion))
                    )
                elif await self._settle(run, known):
                    await self._unmark(run, {keys.DELETING: run_index.marks[keys.DELETING]})

    # --- tombstones

    async def tombstone(self, run: RunId) -> Tombstone | None:
        async with self._locked(run) as known:
            return await self._tombstone(run, known)

    async def tombstones(self, *, after: str = "", limit: int = 1000) -> list[Tombstone]:
        check_limit(limit)
        unlisted = await self._settle_deletions() if self._readonly else set()
        if not self._readonly:
            await self._settle_deletions()
        runs = [run for run in unlisted if run > after]
        async for listed in self._bucket.listing("tombstones", after=keys.tombstone(after) if after else ""):
            runs.append(RunId(listed.name.partition("/")[2]))
            if len(runs) >= limit + len(unlisted):
                break
        found = await self._each(self.tombstone, sorted(set(runs))[:limit])
        return [each for each in found if each is not None]

    # --- purge

    async def purge(self, limit: int = 1000) -> bool:
        self._require_writable()
        check_limit(limit)
        await self._settle_deletions()
        marks = await _first(self._bucket.listing(keys.REMAINS[:-1]), limit)
        have_more = len(marks) == limit
        while marks and limit > 0:
            some, marks = marks[:AT_ONCE], marks[AT_ONCE:]
            removed, are_done = await self._purge_remains(some, limit)
            limit -= removed
            if not are_done:
                return True
        return have_more or limit <= 0 or await self._purge_logs(limit)

    async def _purge_remains(self, marks: Sequence[Listed], limit: int) -> tuple[int, bool]:
        """Remove up to `limit` objects of these runs but not their logs. Return the number, and whether that is all."""
        left, now, are_done = limit, await self._clock.now(), True
        found = await self._each(lambda listed: self._remains(keys.mark(listed.name), limit), marks)
        for listed, (uses, others, seq) in zip(marks, found, strict=True):
            if left <= 0:
                return limit - left, False
            some = others[: max(left - len(uses), 0)]
            await self._bucket.delete([*uses, *some])
            left -= len(uses) + len(some)
            is_done = seq == keys.LATEST and len(some) == len(others)
            mark = keys.mark(listed.name)
            place = keys.old_log(now) if is_done else keys.remains(seq)
            if place != mark.place:
                await self._put_marks([keys.Mark(place, mark.run, mark.nonce)])
                await self._bucket.delete([listed.name])
            are_done = are_done and is_done
        return limit - left, are_done

    async def _remains(self, mark: keys.Mark, limit: int) -> tuple[list[str], list[str], int]:
        """Return the uses of blobs in up to `limit` appends of a run after those that the mark names, up to `limit` other
        objects if these are all appends, and the last of the appends."""
        run = RunId(mark.run)
        after = keys.record(run, keys.number_of(mark))
        logs = await _first((each.name async for each in self._bucket.listing(f"log/{run}", after=after)), limit)
        uses = await self._uses(run, logs)
        if len(logs) == limit:
            return uses, [], int(logs[-1].rpartition("/")[2])
        return uses, await _first(self._others_of(run), limit), keys.LATEST

    async def _uses(self, run: RunId, names: Sequence[str]) -> list[str]:
        """Return the names that record the uses of blobs by these appends."""
        with suppress(Damaged):
            appends, _ = await self._appends(run, names)
            return [keys.use(run, hash) for each in appends for hash in each.append.blobs]
        return []

    async def _others_of(self, run: RunId) -> AsyncIterator[str]:
        """Yield the names of the objects of a run besides its log and the uses of blobs."""
        for folder in ("merged", "lines"):
            async for listed in self._bucket.listing(f"{folder}/{run}"):
                yield listed.name
        if await self._bucket.written(keys.scratch(run)) is not None:
            yield keys.scratch(run)

    async def _purge_logs(self, limit: int) -> bool:
        """Remove up to `limit` objects of logs that were fenced long ago. Return whether some of these remain."""
        now = await self._clock.now()
        async for listed in self._bucket.listing(keys.OLD_LOGS[:-1]):
            mark = keys.mark(listed.name)
            if keys.number_of(mark) > now - int(FENCED_S * 1_000_000):
                return False
            run = RunId(mark.run)
            if (tombstone := await self.tombstone(run)) is None:
                continue
            first = keys.record(run, 1)
            await self._bucket.put(first, sealed_deletion(Deletion(tombstone, mark.nonce)))
            rest = (each.name async for each in self._bucket.listing(f"log/{run}", after=first))
            names = await _first(rest, limit)
            await self._bucket.delete(names)
            limit -= len(names)
            if limit <= 0:
                return True
            await self._bucket.delete([listed.name])
        return False

    # --- blobs

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        self._require_writable()
        check_limit(limit)
        since = self._collect_from[1] if self._collect_from[0] == put_before else ""
        before = put_before - self.skew
        removed: list[str] = []
        batch: list[str] = []
        async for hash in self._unused(before, since):
            batch.append(hash)
            if len(batch) >= limit - len(removed):
                removed += await self._removed(batch, before)
                since, batch = hash, []
                if len(removed) >= limit:
                    self._collect_from = put_before, since
                    return removed
        removed += await self._removed(batch, before)
        self._collect_from = 0, ""
        await self._forget_collected()
        return removed

    async def _removed(self, hashes: Sequence[str], before: int) -> list[str]:
        """Remove those of the blobs that are still unused and old."""
        if self._folder is not None:
            return await asyncio.to_thread(self._folder.remove_old, hashes, before)
        begun = dict(zip(hashes, await self._each(self._collection.begin, hashes), strict=True))
        await asyncio.sleep(blobs.WAIT_S if hashes else 0)
        removed = await self._each(lambda hash: self._collection.remove(hash, begun[hash], before), hashes)
        return [hash for hash, is_removed in zip(hashes, removed, strict=True) if is_removed]

    async def _unused(self, before: int, since: str) -> AsyncIterator[str]:
        """Yield the blobs after `since` that were put before this time and have no use, in order. Both lists are in the same
        order, so they are read side by side."""
        uses = self._used_hashes(since)
        used = await anext(uses, "~")
        async for hash, written in self._written_blobs(since):
            while used < hash:
                used = await anext(uses, "~")
            if used != hash and written < before:
                yield hash

    async def _used_hashes(self, since: str) -> AsyncIterator[str]:
        async for listed in self._bucket.listing("uses", after=f"uses/{since}" if since else ""):
            yield listed.name.split("/")[1]

    async def _written_blobs(self, since: str) -> AsyncIterator[tuple[str, int]]:
        if self._folder is not None:
            for hash, written in await asyncio.to_thread(_files, self._folder.root):
                if hash > since:
                    yield hash, written
            return
        async for listed in self._bucket.listing("blobs", after=keys.blob(since) if since else ""):
            yield listed.name.rpartition("/")[2], listed.time

    async def _forget_collected(self) -> None:
        """Remove the states of old removals. A collector that uses one again notices that it is gone."""
        now = await self._clock.now()
        old = [each.name async for each in self._bucket.listing("collected") if each.time < now - GRACE]
        await self._bucket.delete(old)


async def _first(items: AsyncIterator[T], limit: int) -> list[T]:
    """Return the first items."""
    found: list[T] = []
    async for item in items:
        found.append(item)
        if len(found) >= limit:
            break
    return found


def _files(folder: Path) -> list[tuple[str, int]]:
    """Return the blobs in a folder and when they were written, in order."""
    found: list[tuple[str, int]] = []
    for file in blob_files(folder):
        try:
            found.append((file.parent.name + file.name, file.stat().st_mtime_ns // 1000))
        except FileNotFoundError:
            continue
    return sorted(found)
