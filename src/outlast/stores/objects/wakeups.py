"""The waits of an object store: they are in the indexes of the runs, with marks for each kind and each due time."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.store import Due
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Listed
from outlast.stores.objects.deletion import DeletionObjects
from outlast.stores.shared import check_limit, invalid_cursor

log = logging.getLogger("outlast.stores")

AT_ONCE = 100
"""Index objects that are read concurrently."""
_KIND = re.compile(r"[a-z][a-z_-]*")
_CURSOR = re.compile(r"([a-z][a-z_-]*)\n([A-Za-z0-9._:@=+-]+)\n(.*)", re.DOTALL)


class WakeupObjects(DeletionObjects):
    """Implements the waits; `change_feed` implements the notifications."""

    async def wait(self, run: RunId, name: str) -> Wait | None:
        async with self._locked(run) as known:
            run_index = await self._look(run, known)
        return None if run_index is None else run_index.waits.get(name)

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        since = _cursor(after, limit)
        deleted = await self._settle_deletions()
        kinds = [kind] if kind else sorted(await self._bucket.folders("waiting"))
        found: list[Due] = []
        for each in kinds:
            if _KIND.fullmatch(each) and each >= since[0]:
                begin = since if each == since[0] else ("", "", "")
                found += await self._waits_of(each, begin, limit - len(found), deleted)
            if len(found) > limit:
                break
        shown = found[:limit]
        last = shown[-1] if len(found) > limit else None
        return shown, f"{last.wait.kind}\n{last.run}\n{last.wait.name}" if last else ""

    async def _waits_of(
        self, kind: str, since: tuple[str, str, str], limit: int, deleted: Collection[RunId]
    ) -> list[Due]:
        """Return waits of a kind after `since`: more than `limit`, if there are more."""
        place, found, runs = keys.waiting_for(kind), list[Due](), list[RunId]()

        async def read_batch() -> None:
            for run, waits in zip(runs, await self._each(self._of_run_index, runs), strict=True):
                names = sorted(name for name, wait in waits.items() if wait.kind == kind)
                found.extend(Due(run, waits[name]) for name in names if run != since[1] or name > since[2])
            runs.clear()

        async for listed in self._bucket.listing(place[:-1], after=f"{place}{since[1]}," if since[1] else ""):
            run = RunId(keys.mark(listed.name).run)
            if run not in runs[-1:] and run not in deleted:
                runs.append(run)
            if len(runs) >= AT_ONCE:
                await read_batch()
                if len(found) > limit:
                    return found
        await read_batch()
        return found

    async def _of_run_index(self, run: RunId) -> dict[str, Wait]:
        try:
            run_index = await self._stored(run)
        except Damaged as damage:  # damage of one run must not hide the waits of others
            log.error("%s", damage)
            return {}
        return {} if run_index is None else run_index.waits

    # --- times

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        now, found = await self._now(), dict[tuple[str, str, str], Due]()
        since = ("", "", "") if after is None else _due_order(after)
        marks: list[Listed] = []

        async def read_batch() -> None:  # a wait may have two marks
            found.update((_due_order(due), due) for due in await self._due_at(marks) if _due_order(due) > since)
            marks.clear()

        async for listed in self._bucket.listing("timers", after=f"{since[0]}{since[1]}," if after else ""):
            if keys.number_of(keys.mark(listed.name)) > now:
                break
            marks.append(listed)
            if len(marks) >= AT_ONCE:
                await read_batch()
                if len(found) >= limit:
                    break
        await read_batch()
        return list(found.values())[: max(limit, 0)]

    async def _due_at(self, marks: Sequence[Listed]) -> list[Due]:
        """Return the waits that are due at these marks, in order. Delete old marks without a wait."""

        async def read(listed: Listed) -> list[Due]:
            mark = keys.mark(listed.name)
            waits = await self._of_run_index(RunId(mark.run))
            due = [wait for wait in waits.values() if wait.due is not None and keys.due_at(wait.due) == mark.place]
            return [Due(RunId(mark.run), wait) for wait in sorted(due, key=lambda wait: wait.name)]

        found = await self._each(read, marks)
        await self._sweep([mark for mark, due in zip(marks, found, strict=True) if not due])
        deleted = await self._settle_deletions() if any(found) else ()
        unique: dict[tuple[str, str], Due] = {}
        for due in (each for some in found for each in some if each.run not in deleted):
            unique.setdefault((due.run, due.wait.name), due)
        return list(unique.values())

    async def next_due(self, after: int = 0) -> int | None:
        async for listed in self._bucket.listing("timers", after=f"{keys.due_at(after)}~"):
            for due in await self._due_at([listed]):
                return due.wait.due
        return None


def _due_order(due: Due) -> tuple[str, str, str]:
    """Return the sort key of a due wait: that of its mark, then its name."""
    return keys.due_at(due.wait.due or 0), due.run, due.wait.name


def _cursor(after: str, limit: int) -> tuple[str, str, str]:
    """Decode the cursor into kind, run and name."""
    check_limit(limit)
    if not after:
        return "", "", ""
    parts = _CURSOR.fullmatch(after)
    if parts is None:
        raise invalid_cursor(after)
    return parts[1], parts[2], parts[3]
