"""What may be read of runs: lists, summaries, events, proofs. Nothing here executes, repairs or changes a run (D1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct, field

from outlast.errors import Damaged, Illegal, InvalidInput, NotFound
from outlast.history.ids import RunId, checked_run
from outlast.history.lineage import Branch, Interval, holder, lineage
from outlast.history.record import Entry, entries
from outlast.ledger.reading import branches_of, head_of, lineage_of, read_events, records, runs_of, state_of
from outlast.ledger.verification import STRANGE, Verification, verify
from outlast.lifecycle.invariants import Violation
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus, parse_status
from outlast.lifecycle.summary import RunSummary
from outlast.store import Head, Holding, Line, Listed, Page, RunFilter, Store

if TYPE_CHECKING:  # who only starts runs need not load what tells about them
    from outlast.lifecycle.branching import BranchSummary
    from outlast.lifecycle.comparison import Comparison
    from outlast.lifecycle.explanation import Explanation

__all__ = ["Entry", "Interval", "Listed", "Page", "Reader", "RunFilter", "RunSummary", "Verification"]

_FILTERS = {field.name: field.type for field in msgspec.structs.fields(RunFilter)}
Statuses: TypeAlias = RunStatus | str | Iterable[RunStatus | str]
CANDIDATES = 5
"""How many runs an ambiguous beginning of an id is answered with."""


@contextmanager
def _reading(run: RunId, seq: int, what: str) -> Iterator[None]:
    try:
        yield
    except STRANGE as error:
        raise Damaged(f"{what}: {error!r}", run=run, seq=seq) from error


def _checked(query: RunFilter) -> RunFilter:
    """The query, with tuples and statuses where lists and names were given; `InvalidInput` names a field of a wrong type."""
    if not isinstance(query, RunFilter):
        raise InvalidInput(f"a Query is needed to list runs, not {type(query).__name__}")
    for name, value in msgspec.structs.asdict(query).items():
        try:
            query = msgspec.structs.replace(query, **{name: msgspec.convert(value, _FILTERS[name])})
        except msgspec.ValidationError as error:
            raise InvalidInput(f"query.{name}: {error}") from None
    return query


def _filter(
    given: RunFilter | None,
    workflow: str | None,
    status: Statuses | None,
    since: datetime | None,
    limit: int | None,
) -> RunFilter:
    """A filter with what is given besides."""
    changes: dict[str, Any] = {"workflow": workflow, "limit": limit}
    if status is not None:
        changes["statuses"] = tuple(map(parse_status, [status] if isinstance(status, str) else status))
    if since is not None:
        if getattr(since, "tzinfo", None) is None:
            raise InvalidInput(f"since is a datetime with a time zone, not {since!r}")
        changes["created_from"] = round(since.timestamp() * 1_000_000)
    changes = {name: value for name, value in changes.items() if value is not None}
    return _checked(msgspec.structs.replace(_checked(given), **changes) if given is not None else RunFilter(**changes))


class WorkerRuns(Struct):
    """A worker, the workflows it knows and the runs it holds. It counts as alive until `expires` and was last heard of when
    it was `seen`, by the store's clock."""

    worker: str
    is_live: bool
    expires: int
    seen: int = 0
    workflows: tuple[str, ...] = ()
    runs: list[str] = field(default_factory=list)


class Reader:
    """Reads what one store holds. `key` is the one the log was written with, if it was."""

    def __init__(self, store: Store, *, key: bytes = b"") -> None:
        self.key = key
        self._store = store

    async def now(self) -> int:
        """The store's clock, in microseconds since 1970."""
        return await self._store.now()

    # --- which runs there are

    async def list_runs(
        self,
        filter: RunFilter | None = None,
        *,
        workflow: str | None = None,
        status: Statuses | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> Page:
        """One page of the runs that match, newest first: `for run in await engine.list_runs(status="failed")` gives their
        summaries. `since` is when they were created at the earliest. A `RunFilter` has more to filter by, and the place to
        continue from: `RunFilter(after=page.next)`."""
        return await self._page(_filter(filter, workflow, status, since, limit))

    async def _page(self, query: RunFilter) -> Page:
        if query.limit < 1:
            raise InvalidInput(f"a page holds at least one run, not {query.limit}")
        try:
            return await self._store.search(query)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
            raise Damaged(f"a stored summary does not read: {error}") from error
        except (ValueError, OverflowError) as error:
            raise InvalidInput(f"runs cannot be searched for that: {error}") from error

    async def iter_runs(
        self,
        filter: RunFilter | None = None,
        *,
        workflow: str | None = None,
        status: Statuses | None = None,
        since: datetime | None = None,
    ) -> AsyncIterator[RunSummary]:
        """The summaries of all runs that match, newest first; `limit` of the filter is how many are read at once."""
        query = _filter(filter, workflow, status, since, None)
        while True:
            page = await self._page(query)
            for summary in page:
                yield summary
            if not page.next:
                return
            query = msgspec.structs.replace(query, after=page.next)

    def run_ids(self, *, unfinished: bool = False) -> AsyncIterator[RunId]:
        """Every run, or every one that is not over, whether or not its row in the catalogue is right."""
        return runs_of(self._store, unfinished=unfinished)

    async def get(self, run: RunId) -> RunSummary:
        """The stored summary of a run; it may be a little behind the log, and says so by `at`."""
        with _reading(run, 1, "the stored summary does not read"):
            summary = await self._store.summary(run)
        if summary is None:
            raise Damaged("the log is there, its summary is not", run=run, seq=(await self.head(run)).version)
        return summary

    async def find(self, prefix: str) -> RunId:
        """The one run whose id is `prefix` or begins with it."""
        wanted = checked_run(prefix)
        try:
            if await self._store.head(wanted) is not None:
                return wanted
        except Damaged:
            return wanted  # it is there
        found = [run async for run in self._with_prefix(wanted)]
        if len(found) == 1 or wanted in found:
            return found[0] if len(found) == 1 else wanted
        if not found:
            raise NotFound(f"there is no run {prefix}")
        shown = "".join(f"\n  {run}" for run in found[:CANDIDATES])
        more = "\n  … and more" if len(found) > CANDIDATES else ""
        raise InvalidInput(f"more than one run begins with {prefix}, give more of the id:{shown}{more}")

    async def _with_prefix(self, prefix: RunId) -> AsyncIterator[RunId]:
        """Those runs, up to one more than anybody is shown."""
        left = CANDIDATES + 1
        async for summary in self.iter_runs(RunFilter(text=prefix, limit=1000)):
            if summary.run.startswith(prefix):
                yield summary.run
                left -= 1
                if not left:
                    return

    async def head(self, run: RunId) -> Head:
        with _reading(run, 1, "the head does not read"):
            return await head_of(self._store, run)

    async def state(self, run: RunId) -> State:
        """What the current lineage of a run amounts to."""
        return await state_of(self._store, run, list(await self.lineage(run)))

    async def branch_map(self, run: RunId) -> dict[int, Branch]:
        return await branches_of(self._store, await self.head(run))

    async def state_at(self, run: RunId, cutoff: int) -> State:
        """What the lineage that ends at an event amounts to, on whichever branch that event lies."""
        branches = await self.branch_map(run)
        return await state_of(self._store, run, lineage(branches, holder(branches.values(), cutoff).id, cutoff))

    # --- what happened

    async def lineage(self, run: RunId, branch: int | None = None) -> tuple[Interval, ...]:
        """The intervals of events that a branch (the current one) sees; more than one means that it is not the first."""
        head = await self.head(run)
        try:
            if branch is None or branch == head.branch:
                return tuple(await lineage_of(self._store, head))
            branches = await branches_of(self._store, head)
            if branch not in branches:
                raise NotFound(f"run {run} has no branch {branch}; its newest is {head.branch}")
            following = branches.get(branch + 1)
            return tuple(lineage(branches, branch, following.first - 1 if following else head.version))
        except Illegal as objection:
            raise Damaged(objection.reason, run=run, seq=head.branch_first) from objection
        except STRANGE as error:
            raise Damaged(f"a branch should open here: {error!r}", run=run, seq=head.branch_first) from error

    async def events(
        self, run: RunId, *, branch: int | None = None, everything: bool = False, after: int = 0
    ) -> AsyncIterator[Entry]:
        """The events after seq `after` on the current lineage, or on that of `branch`, or in the whole log."""
        if everything and branch is not None:
            raise InvalidInput("either one branch or everything")
        if after < 0:
            raise InvalidInput(f"events are numbered from 1: nothing comes after {after}")
        if everything:
            intervals: tuple[Interval, ...] = ((1, (await self.head(run)).version),)
        else:
            intervals = await self.lineage(run, branch)
        for first, last in intervals:
            if last > after:
                async for entry in self._interval(run, max(first, after + 1), last):
                    yield entry

    async def _interval(self, run: RunId, first: int, last: int) -> AsyncIterator[Entry]:
        """All events of an interval, or `Damaged` where the first one is missing or does not read."""
        due = first
        try:
            async for entry in read_events(self._store, run, [(first, last)]):
                if entry.seq != due:
                    raise Damaged(f"this event is missing, the next one there is {entry.seq}", run=run, seq=due)
                yield entry
                due += 1
        except STRANGE as error:
            raise Damaged(f"the stored bytes are not a list of events: {error}", run=run, seq=due) from error
        if due <= last:
            raise Damaged(f"this event and all to {last} are missing", run=run, seq=due)

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0
    ) -> AsyncIterator[Line]:
        """What the nodes of a run logged, after line number `after`; of one node or attempt, if it is named."""
        await self.head(run)
        while True:
            page = await self._store.lines(run, node=node, attempt=attempt, after=after, limit=1000)
            for line in page:
                yield line
            if len(page) < 1000:
                return
            after = page[-1].number

    async def workers(self) -> list[WorkerRuns]:
        """The workers of the store and the runs they hold; those that are alive first."""
        found = {
            each.worker: WorkerRuns(each.worker, each.is_live, each.expires, each.seen, each.workflows)
            for each in await self._store.workers()
        }
        after = ""
        while True:
            page = await self._store.holdings(after=after, limit=1000)
            for each in page:
                known = found.setdefault(each.worker, WorkerRuns(each.worker, each.is_live, each.expires, each.seen))
                known.runs.append(each.run)
            if len(page) < 1000:
                return sorted(found.values(), key=lambda each: (not each.is_live, each.worker))
            after = page[-1].run

    async def holder(self, run: RunId) -> Holding | None:
        """Which worker holds a run, None if none does."""
        return await self._store.holding(run)

    async def scratch(self, run: RunId, created: int) -> bytes:
        """The progress that the nodes of a run last reported. It is not durable."""
        page = await self._store.search(RunFilter(created_from=created, created_until=created + 1, text=run, limit=1))
        return page.items[0].scratch if page.items else b""

    # --- what it means

    async def current_branch(self, run: RunId) -> int:
        """The number of its current branch."""
        return (await self.head(run)).branch

    async def explain(self, run: RunId, *, branch: int | None = None, full: bool = False) -> Explanation:
        """What happened in a run, its state and the useful actions. `full` gives every event an entry."""
        from outlast.client.reports import explanation_of

        return await explanation_of(self, self._store, self.key, run, branch, full=full)

    async def branches(self, run: RunId) -> tuple[BranchSummary, ...]:
        """All branches of a run as they opened, with where, why and by whom, and how each one ended."""
        from outlast.client.reports import branches_in

        return tuple(await branches_in(self, run))

    async def compare(
        self, run: RunId, other: RunId | None = None, *, branch: int | None = None, other_branch: int | None = None
    ) -> Comparison:
        """Two lineages, event by event: the current branches of two runs, or those that are named. With one run alone, the
        branch before it and the branch."""
        from outlast.client.reports import before, comparison_of

        if other is None and other_branch is None:
            older = await before(self, run, branch)
            return await comparison_of(self, (run, older), (run, branch), self._store.blobs)
        return await comparison_of(self, (run, branch), (other or run, other_branch), self._store.blobs)

    # --- whether it can be believed

    async def verify(self, run: RunId, *, blobs: bool = True) -> Verification:
        """Judge V1 to V12 over the whole log, its head and its summary; damage is reported, not raised. With `blobs`,
        the content of every blob that the log names is held against its hash (G4)."""
        found = await verify(self._store, run, self.key)
        if not blobs or not found.appends:
            return found
        from outlast.values.codec import damaged_blobs

        log: list[Entry] = []
        with suppress(Damaged, *STRANGE):  # what does not read has been told
            async for record in records(self._store, run, 1, (await self.head(run)).version):
                log += entries(record)
        faults = [
            Violation(entry.seq, "G4", f"blob {ref.hash} {why}")
            async for entry, ref, why in damaged_blobs(self._store.blobs, log)
        ]
        return msgspec.structs.replace(found, violations=(*found.violations, *faults))
