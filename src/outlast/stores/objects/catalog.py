"""The catalog of an object store: summaries and scratch.

A summary is in the run's index object. Marks in status folders list the runs, newest first: one folder for unfinished runs,
one for each final status. A search costs a list per folder and one request per run that it reads. A prefix of ids is
compared with the marks. Any other filter but status and time also costs the runs that do not match, and an order costs all.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence

from msgspec.structs import replace

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Derived, Listed, Page, RunFilter, unreadable
from outlast.stores.objects import keys
from outlast.stores.objects.deletion import DeletionObjects
from outlast.stores.objects.run_index import STATUS_FOLDERS, UNFINISHED_FOLDER, RunIndex, status_folder
from outlast.stores.shared import (
    attribute_cursor,
    check_limit,
    cursor,
    follows,
    invalid_cursor,
    is_descending,
    matches,
    page_of,
    place,
)

_RUN = re.compile(r"[A-Za-z0-9._:@=+-]{0,200}")
AT_ONCE = 100
"""Index objects that a search reads concurrently."""


class CatalogObjects(DeletionObjects):
    """Implements the catalog."""

    async def summary(self, run: RunId) -> RunSummary | None:
        async with self._locked(run) as known:
            run_index = await self._look(run, known)
        return None if run_index is None else run_index.summary

    async def derived(self, run: RunId) -> Derived:
        try:
            async with self._locked(run) as known:
                run_index = await self._look(run, known)
        except Damaged as damage:
            return Derived(None, faults=(str(damage),))
        if run_index is None:
            return Derived(None)
        interrupted = bool(run_index.interrupted or run_index.held)
        return Derived(run_index.head, run_index.summary, run_index.waits, interrupted=interrupted)

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        self._require_writable()

        def rewritten(run_index: RunIndex) -> RunIndex | None:
            if run_index.head.version != summary.at:
                return None
            return replace(
                run_index,
                head=replace(run_index.head, closed=closed),
                summary=summary,
                waits={wait.name: wait for wait in waits},
            )

        async with self._locked(summary.run) as known:
            await self._look(summary.run, known)
            return await self._change(summary.run, known, rewritten)

    async def search(self, query: RunFilter) -> Page:
        if query.order:
            return await self._search_in_order(query)
        after = _cursor(query)
        found: list[RunSummary] = []
        async for batch in self._places(query, after, min(AT_ONCE, query.limit + 1)):
            found += await self._matching(batch, query)
            if len(found) > query.limit:
                break
        shown = await self._each(self._with_scratch, found[: query.limit])
        return page_of(shown, is_last=len(found) <= query.limit)

    async def _search_in_order(self, query: RunFilter) -> Page:
        """Search by an attribute: every run that may match is read, on each page."""
        check_limit(query.limit)
        if query.after:
            attribute_cursor(query.after)
        found: list[RunSummary] = []
        async for batch in self._places(query, "", AT_ONCE):
            some = await self._matching(batch, query)
            found += [each for each in some if not query.after or follows(each, query)]
            found.sort(key=lambda each: place(each, query.order), reverse=is_descending(query.order))
            del found[query.limit + 1 :]
        shown = await self._each(self._with_scratch, found[: query.limit])
        return page_of(shown, is_last=len(found) <= query.limit, order=query.order)

    async def _places(self, query: RunFilter, after: str, size: int) -> AsyncIterator[list[str]]:
        """Yield the places of the runs that may match, newest first, in batches."""
        deleted = await self._settle_deletions()
        last, batch = after, list[str]()
        async for named in self._in_folders(_folders(query), _since(query, after), _upto(query)):
            run = named.partition(",")[2]
            if named == last or not run.startswith(query.prefix) or run in deleted:
                continue  # a run that changes its status has marks in two folders
            last = named
            batch.append(named)
            if len(batch) >= size:
                yield batch
                batch = []
        yield batch

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        self._require_writable()

        def corrected(run_index: RunIndex) -> RunIndex | None:
            at = run_index.summary.at if run_index.summary else 0
            return None if at != seen or summary.at < seen else replace(run_index, summary=summary)

        async with self._locked(summary.run) as known:
            await self._look(summary.run, known)
            return await self._change(summary.run, known, corrected)

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        self._require_writable()

        async def keep(run: RunId) -> None:
            if await self._exists(run):
                await self._bucket.put(keys.scratch(run), scratch[run])

        await self._each(keep, scratch)

    async def _exists(self, run: RunId) -> bool:
        if (cached := self._known.get(run)) is not None and cached.run_index is not None:
            return True
        async with self._locked(run) as known:
            return await self._look(run, known) is not None

    async def runs(self, *, unfinished: bool = False, after: str = "", limit: int = 1000) -> tuple[list[RunId], str]:
        folder = f"catalog/{UNFINISHED_FOLDER}" if unfinished else "index"
        deleted = await self._settle_deletions()
        found: list[str] = []
        async for listed in self._bucket.listing(folder, after=f"{folder}/{after}" if after else ""):
            name = listed.name.removeprefix(f"{folder}/")
            if (unfinished or listed.size) and (keys.mark(name).run if unfinished else name) not in deleted:
                found.append(name)
            if len(found) > limit:
                break
        runs = [RunId(name.rpartition(",")[0].rpartition(",")[2] if unfinished else name) for name in found[:limit]]
        return list(dict.fromkeys(runs)), found[limit - 1] if len(found) > limit else ""

    async def _in_folders(self, folders: Sequence[str], after: str, upto: str) -> AsyncIterator[str]:
        """Yield `age,run` of the runs in these folders, in order."""
        heads: dict[str, str] = {}
        lists = {
            folder: self._bucket.listing(f"catalog/{folder}", after=f"catalog/{folder}/{after}") for folder in folders
        }

        async def step(folder: str) -> None:
            heads.pop(folder, None)
            async for listed in lists[folder]:
                heads[folder] = listed.name.rpartition("/")[2].rpartition(",")[0]
                break

        for folder in folders:
            await step(folder)
        while heads:
            folder = min(heads, key=heads.__getitem__)
            if heads[folder] > upto:
                return
            yield heads[folder]
            await step(folder)

    async def _matching(self, places: Sequence[str], query: RunFilter) -> list[RunSummary]:
        """Return the matching summaries of the runs at these places, in order."""

        async def read(place: str) -> RunSummary | None:
            age, _, run = place.partition(",")
            try:
                run_index = await self._stored(RunId(run))
            except Damaged:
                found = unreadable(run, keys.LATEST - int(age))
                return found if matches(found, query) else None
            if run_index is None or run_index.summary is None:  # the process that put the mark did not write the index
                async with self._locked(RunId(run)) as known:
                    run_index = await self._look(RunId(run), known)
            summary = run_index.summary if run_index else None
            is_current = summary is not None and keys.in_status_folder("", summary.created) == f"catalog//{age},"
            return summary if summary is not None and is_current and matches(summary, query) else None

        return [summary for summary in await self._each(read, places) if summary is not None]

    async def _with_scratch(self, summary: RunSummary) -> Listed:
        """Add the scratch of an unfinished run."""
        if status_folder(summary.status) != UNFINISHED_FOLDER:
            return Listed(summary)
        found = await self._bucket.get(keys.scratch(summary.run))
        return Listed(summary, b"" if found is None else found.body)


def _folders(query: RunFilter) -> list[str]:
    if not query.statuses:
        return [UNFINISHED_FOLDER, *STATUS_FOLDERS.values()]
    return list(dict.fromkeys(status_folder(status) for status in query.statuses))


def _age(created: int) -> str:
    return keys.number(keys.LATEST - max(created, 0))


def _cursor(query: RunFilter) -> str:
    """Decode the cursor to `age,run`, empty at the beginning of the list."""
    check_limit(query.limit)
    if not query.after:
        return ""
    created, run = cursor(query.after)
    if not _RUN.fullmatch(run):
        raise invalid_cursor(query.after)
    return f"{_age(created)},{run}"


def _since(query: RunFilter, after: str) -> str:
    """The name on a folder after which to look. A nonce is of digits and letters up to f, and a comma goes before a dash."""
    until = "" if query.created_until is None else f"{_age(query.created_until)}-"
    return max(f"{after},g" if after else "", until)


def _upto(query: RunFilter) -> str:
    return "~" if query.created_from is None else f"{_age(query.created_from)}-"
