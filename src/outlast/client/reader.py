"""Reads runs: lists, summaries, events, verification. Nothing here executes, repairs or changes a run (D1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from outlast.errors import Damaged, Illegal, InvalidInput, NotFound
from outlast.history.ids import RunId, checked_run
from outlast.history.lineage import Branch, Interval
from outlast.history.record import Entry, entries
from outlast.ledger.reading import (
    branches_around,
    end_of_branch,
    head_at,
    head_of,
    holdings_of,
    lineage_of,
    missing,
    records,
    runs_of,
    state_of,
    summaries_of,
)
from outlast.ledger.verification import STRANGE, Verification, verify
from outlast.lifecycle.invariants import Violation
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus, parse_status
from outlast.lifecycle.summary import RunSummary
from outlast.store import (
    NO_INFO,
    AttributeFilter,
    Head,
    Holding,
    Line,
    Listed,
    Page,
    RunFilter,
    Store,
    WorkerInfo,
)
from outlast.values.attributes import AttributeInput, checked_conditions, checked_order

__all__ = ["Entry", "Interval", "Listed", "Page", "Reader", "RunFilter", "RunSummary", "Verification"]

_FILTERS = {field.name: field.type for field in msgspec.structs.fields(RunFilter)}
Statuses: TypeAlias = RunStatus | str | Iterable[RunStatus | str]
Conditions: TypeAlias = Mapping[str, AttributeInput] | Iterable[str | AttributeFilter]
"""The values that attributes must have, or conditions such as `total>=10`."""
CANDIDATES = 5
"""How many matches the error for an ambiguous id prefix lists."""


@contextmanager
def _reading(run: RunId, seq: int, what: str) -> Iterator[None]:
    try:
        yield
    except STRANGE as error:
        raise Damaged(f"{what}: {error!r}", run=run, seq=seq) from error


def _checked(query: RunFilter) -> RunFilter:
    """The query with lists and names converted to tuples and statuses; `InvalidInput` names a field of a wrong type."""
    if not isinstance(query, RunFilter):
        raise InvalidInput(f"filter must be a RunFilter, not {type(query).__name__}")
    for name, value in msgspec.structs.asdict(query).items():
        try:
            query = msgspec.structs.replace(query, **{name: msgspec.convert(value, _FILTERS[name])})
        except msgspec.ValidationError as error:
            raise InvalidInput(f"filter.{name}: {error}") from None
    return msgspec.structs.replace(
        query,
        attributes=checked_conditions("filter.attributes", query.attributes),
        order=checked_order("filter.order", query.order) if query.order else "",
    )


def checked_filter(
    given: RunFilter | None,
    workflow: str | None,
    status: Statuses | None,
    since: datetime | None,
    attributes: Conditions | None = None,
    sort: str | None = None,
    limit: int | None = None,
) -> RunFilter:
    """The filter with these conditions added."""
    changes: dict[str, Any] = {"workflow": workflow, "order": sort, "limit": limit}
    if attributes is not None:
        changes["attributes"] = checked_conditions("attributes", attributes)
    if status is not None:
        changes["statuses"] = tuple(map(parse_status, [status] if isinstance(status, str) else status))
    if since is not None:
        if getattr(since, "tzinfo", None) is None:
            raise InvalidInput(f"since must be a datetime with a time zone, not {since!r}")
        changes["created_from"] = round(since.timestamp() * 1_000_000)
    changes = {name: value for name, value in changes.items() if value is not None}
    return _checked(msgspec.structs.replace(_checked(given or RunFilter()), **changes))


def named(prefix: RunId) -> RunFilter:
    """The runs that a prefix names, up to one more than an error lists."""
    return RunFilter(prefix=prefix, limit=CANDIDATES + 1)


def one_of(found: Sequence[RunId], prefix: RunId) -> RunId:
    """The one run that a prefix names, of those that begin with it."""
    if prefix in found:
        return prefix
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"there is no run {prefix}")
    shown = "".join(f"\n  {run}" for run in found[:CANDIDATES])
    more = "\n  … and more" if len(found) > CANDIDATES else ""
    raise InvalidInput(f"more than one run begins with {prefix}, give more of the id:{shown}{more}")


class WorkerRuns(Struct):
    """A worker, what it said of itself, and the runs it holds. It counts as live until `expires`; its last sign of
    life was at `seen`, by the store's clock."""

    worker: str
    is_live: bool
    expires: int
    seen: int = 0
    info: WorkerInfo = NO_INFO
    runs: list[str] = field(default_factory=list)


class Reader:
    """Reads the runs of one store. `key` authenticates the log if it was written with one."""

    def __init__(self, store: Store, *, key: bytes = b"") -> None:
        self.key = key
        self._store = store

    async def now(self) -> int:
        """The store's clock, in microseconds since 1970."""
        return await self._store.now()

    # --- finding runs

    async def list_runs(self, query: RunFilter) -> Page:
        """See `Engine.list_runs`."""
        if query.limit < 1:
            raise InvalidInput(f"limit must be at least 1, not {query.limit}")
        try:
            return await self._store.search(query)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
            raise Damaged(f"a stored summary is unreadable: {error}") from error
        except (ValueError, OverflowError) as error:
            raise InvalidInput(f"invalid filter: {error}") from error

    async def iter_runs(self, query: RunFilter) -> AsyncIterator[RunSummary]:
        """See `Engine.iter_runs`."""
        async for summary in summaries_of(self.list_runs, query):
            yield summary

    def run_ids(self, *, unfinished: bool = False) -> AsyncIterator[RunId]:
        """The ids of all runs, or of all unfinished ones, whether or not their summaries are right."""
        return runs_of(self._store, unfinished=unfinished)

    async def get(self, run: RunId) -> RunSummary:
        """The stored summary of a run. It may lag behind the log: `at` is the version it was made from."""
        with _reading(run, 1, "the stored summary is unreadable"):
            summary = await self._store.summary(run)
        if summary is None:
            raise Damaged("the summary of this log is missing", run=run, seq=(await self.head(run)).version)
        return summary

    async def find(self, prefix: str) -> RunId:
        """The id of the one run whose id is `prefix` or begins with it."""
        wanted = checked_run(prefix)
        try:
            if await self._store.head(wanted) is not None:
                return wanted
        except Damaged:
            return wanted  # it exists
        found = [summary.run for summary in await self.list_runs(named(wanted))]
        if not found:
            await self.must_not_be_deleted(wanted)
            if (await self._store.derived(wanted)).summary is not None:
                return wanted  # its head is lost
        return one_of(found, wanted)

    async def must_not_be_deleted(self, prefix: RunId) -> None:
        """Raise `RunDeleted` if a deleted run has this id, or one that begins with it."""
        following = [await self._store.tombstone(prefix), *await self._store.tombstones(after=prefix, limit=1)]
        for each in following:
            if each is not None and each.run.startswith(prefix):
                raise await missing(self._store, each.run)

    async def head(self, run: RunId) -> Head:
        with _reading(run, 1, "the head is unreadable"):
            return await head_of(self._store, run)

    async def state(self, run: RunId) -> State:
        """The folded state of the current lineage of a run."""
        return await state_of(self._store, run, list(await self.lineage(run)))

    async def branches_around(self, run: RunId, seq: int) -> dict[int, Branch]:
        """The current branch, the one that holds the event at `seq`, and those that they descend from."""
        return await branches_around(self._store, await self.head(run), seq)

    async def state_at(self, run: RunId, cutoff: int) -> State:
        """The folded state of the lineage that ends at an event, on the branch that holds the event."""
        there = await head_at(self._store, await self.head(run), cutoff)
        return await state_of(self._store, run, await lineage_of(self._store, there))

    # --- what happened

    async def lineage(self, run: RunId, branch: int | None = None) -> tuple[Interval, ...]:
        """The intervals of events that a branch (default: the current one) consists of. Only a first branch has a
        single interval."""
        head = await self.head(run)
        try:
            if branch is None or branch == head.branch:
                return tuple(await lineage_of(self._store, head))
            return tuple(await lineage_of(self._store, await end_of_branch(self._store, head, branch)))
        except Illegal as objection:
            raise Damaged(objection.reason, run=run, seq=head.branch_first) from objection
        except STRANGE as error:
            raise Damaged(f"a branch should open here: {error!r}", run=run, seq=head.branch_first) from error

    async def events(
        self, run: RunId, *, node: str = "", branch: int | None = None, everything: bool = False, after: int = 0
    ) -> AsyncIterator[Entry]:
        """See `Engine.events`."""
        if everything and branch is not None:
            raise InvalidInput("give either a branch or everything")
        if after < 0:
            raise InvalidInput(f"after must be 0 or the number of an event, not {after}")
        if everything:
            intervals: tuple[Interval, ...] = ((1, (await self.head(run)).version),)
        else:
            intervals = await self.lineage(run, branch)
        for first, last in intervals:
            if last > after:
                events = self._interval(run, max(first, after + 1), last, node)
                async for entry in events:
                    if not node or getattr(entry.event, "node", "") == node:
                        yield entry

    async def _interval(self, run: RunId, first: int, last: int, node: str) -> AsyncIterator[Entry]:
        """All events of an interval; `Damaged` at the first one that is missing or unreadable. With `node`, appends that do
        not name it are not decoded."""
        due, name = first, msgspec.json.encode(node) if node else b""
        try:
            async for record in records(self._store, run, first, last):
                if name not in record.body:
                    due = record.last + 1
                    continue
                for entry in entries(record):
                    if first <= entry.seq <= last:
                        yield entry
                        due = entry.seq + 1
        except STRANGE as error:
            raise Damaged(f"the stored bytes are not a list of events: {error}", run=run, seq=due) from error
        if due <= last:
            raise Damaged(f"this event and all to {last} are missing", run=run, seq=due)

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0
    ) -> AsyncIterator[Line]:
        """See `Engine.lines`."""
        await self.head(run)
        while True:
            page = await self._store.lines(run, node=node, attempt=attempt, after=after, limit=1000)
            for line in page:
                yield line
            if len(page) < 1000:
                return
            after = page[-1].number

    async def workers(self) -> list[WorkerRuns]:
        """See `Engine.workers`."""
        found = {
            each.worker: WorkerRuns(each.worker, each.is_live, each.expires, each.seen, each.info)
            for each in await self._store.workers()
        }
        async for each in holdings_of(self._store):
            known = found.setdefault(each.worker, WorkerRuns(each.worker, each.is_live, each.expires, each.seen))
            known.runs.append(each.run)
        return sorted(found.values(), key=lambda each: (not each.is_live, each.worker))

    async def holder(self, run: RunId) -> Holding | None:
        """The claim on a run; None if no worker holds it."""
        return await self._store.holding(run)

    async def scratch(self, run: RunId, created: int) -> bytes:
        """The progress that the nodes of a run last reported. It is not durable."""
        page = await self._store.search(RunFilter(created_from=created, created_until=created + 1, prefix=run, limit=1))
        return page.items[0].scratch if page.items else b""

    # --- reports

    async def current_branch(self, run: RunId) -> int:
        """The number of the current branch of a run."""
        return (await self.head(run)).branch

    # --- verification

    async def verify(self, run: RunId, *, blobs: bool = True) -> Verification:
        """See `Engine.verify`."""
        found = await verify(self._store, run, self.key)
        if not blobs or not found.appends:
            return found
        from outlast.values.codec import damaged_blobs

        log: list[Entry] = []
        with suppress(Damaged, *STRANGE):  # `found` reports what is unreadable
            async for record in records(self._store, run, 1, (await self.head(run)).version):
                log += entries(record)
        faults = [
            Violation(entry.seq, "G4", f"blob {ref.hash} {why}")
            async for entry, ref, why in damaged_blobs(self._store.blobs, log)
        ]
        return msgspec.structs.replace(found, violations=(*found.violations, *faults))
