"""Reading logs: records, the lineage of a branch, and the state of a lineage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from msgspec.structs import replace

from outlast.errors import Damaged, NotFound, RunDeleted
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.history.lineage import ROOT, Branch, Interval, lineage, opened
from outlast.history.record import Entry, Record, entries, follows, genesis
from outlast.lifecycle import decide
from outlast.lifecycle.fold import apply_all
from outlast.lifecycle.invariants import WRONG_DIGEST
from outlast.lifecycle.state import State
from outlast.lifecycle.status import UNFINISHED
from outlast.lifecycle.summary import RunSummary
from outlast.store import Claims, Deletion, Head, Holding, Journal, Page, RunFilter, Store, Tombstone

Ended: TypeAlias = decide.Ending
PAGE_SIZE = 1000
SMALL_PAGE = 262_144
"""Bytes of a page that may be followed by one of twice as many records."""
MISSING_EVENT = "the event is missing from the log"
WRONG_HEAD = "the head of the run differs from the end of its log"


async def missing(store: Deletion, run: RunId) -> NotFound:
    """The error to raise for a run that has no head: it was deleted, or never existed."""
    tombstone = await store.tombstone(run)
    if tombstone is None:
        return NotFound(f"there is no run {run}")
    return RunDeleted(f"run {run} {deletion(tombstone)}", run=run)


def deletion(tombstone: Tombstone) -> str:
    """When a run was deleted, by whom and why: a predicate whose subject is the run."""
    from outlast.lifecycle.timeline.phrases import moment

    when = moment(tombstone.deleted)
    on = f" on {when:%Y-%m-%d %H:%M} UTC" if when is not None else ""
    by = f" by {tombstone.by}" if tombstone.by else ""
    return f"was deleted{on}{by}{f': {tombstone.reason}' if tombstone.reason else ''}"


async def head_of(store: Store, run: RunId) -> Head:
    """The head of a run that must exist."""
    head = await store.head(run)
    if head is None:
        raise await missing(store, run)
    return head


async def sound_head(store: Store, run: RunId) -> Head:
    """The head of a run that must exist, compared with the end of its log and with its summary. Raises `Damaged` if they
    differ: an append would damage the log (G3), or hide that its end is lost (G5)."""
    head = await head_of(store, run)
    while fault := await _head_fault(store, head):
        again = await head_of(store, run)
        if again == head:
            raise Damaged(fault, run=run, seq=head.version)
        head = again  # a concurrent append moved the head
    return head


async def _head_fault(store: Store, head: Head) -> str:
    version = head.version
    found = [(each.last, each.digest, each.branch) for each in await store.read(head.run, version, version + 1, 2)]
    if found != [(version, head.digest, head.branch)]:
        return WRONG_HEAD
    summary = None
    with suppress(Damaged):  # a summary that cannot be read is written again from the log
        summary = await store.summary(head.run)
    if summary is not None and summary.at > version:
        return lost_end(version, summary.at)
    return ""


def lost_end(version: int, at: int) -> str:
    return f"the log ends at event {version}, but its summary is of event {at}"


async def summaries_of(search: Callable[[RunFilter], Awaitable[Page]], query: RunFilter) -> AsyncIterator[RunSummary]:
    """All summaries that match, page by page."""
    while True:
        page = await search(query)
        for listed in page.items:
            yield listed.summary
        if not page.next:
            return
        query = replace(query, after=page.next)


async def holdings_of(store: Claims, worker: WorkerId | None = None) -> AsyncIterator[Holding]:
    """What one worker or all workers hold, page by page."""
    after = ""
    while True:
        page = await store.holdings(worker, after=after, limit=PAGE_SIZE)
        for each in page:
            yield each
        if len(page) < PAGE_SIZE:
            return
        after = page[-1].run


async def runs_of(store: Store, *, unfinished: bool = False) -> AsyncIterator[RunId]:
    """Every run; with `unfinished`, those that are not over according to their head or their summary: one may be wrong."""
    seen: set[RunId] = set()
    query = RunFilter(limit=PAGE_SIZE, statuses=tuple(sorted(UNFINISHED)) if unfinished else ())
    async for summary in summaries_of(store.search, query):
        seen.add(summary.run)
        yield summary.run
    after = ""
    while True:
        found, after = await store.runs(unfinished=unfinished, after=after, limit=PAGE_SIZE)
        for run in found:
            if run not in seen:
                yield run
        if not after:
            return


async def pages(
    store: Journal, run: RunId, first: int = 1, last: int | None = None, *, size: int = PAGE_SIZE
) -> AsyncIterator[list[Record]]:
    """All records that hold events `first` to `last`, many at a time. The first page has at most `size` records; the size
    doubles while pages are small. A gap raises `Damaged`, after the records before it (G3)."""
    while last is None or first <= last:
        page = await store.read(run, first, last, size)
        for place, record in enumerate(page):
            begin = record.first
            if not begin <= first < begin + record.count:
                yield page[:place]
                raise Damaged(MISSING_EVENT, run=run, seq=first)
            first = begin + record.count
        yield page
        if len(page) < size:
            break
        if size < PAGE_SIZE and sum(len(record.body) for record in page) < SMALL_PAGE:
            size = min(PAGE_SIZE, 2 * size)
    if last is not None and first <= last:
        raise Damaged(MISSING_EVENT, run=run, seq=first)


async def records(store: Journal, run: RunId, first: int = 1, last: int | None = None) -> AsyncIterator[Record]:
    """The records of `pages`, one by one."""
    async for page in pages(store, run, first, last):
        for record in page:
            yield record


async def branches_of(store: Journal, head: Head, *, ancestors_only: bool = False) -> dict[int, Branch]:
    """The branches of a run, or only those that the current one descends from, found by walking back from BranchOpened to
    BranchOpened."""
    found = {0: ROOT}
    number, first = head.branch, head.branch_first
    while number:
        event = await _branch_opened(store, head.run, first)
        if event.branch != number or not 0 <= event.parent < number:
            raise Damaged(f"the event does not open branch {number} from an earlier one", run=head.run, seq=first)
        found[number] = opened(event, first)
        if ancestors_only:
            number, first = event.parent, event.parent_first
        else:
            number, first = number - 1, event.previous_first
    return found


async def branches_around(store: Journal, head: Head, seq: int) -> dict[int, Branch]:
    """The current branch, the one that holds the event at `seq`, and those that they descend from."""
    found = await branches_of(store, head, ancestors_only=True)
    if any(first <= seq <= last for first, last in lineage(found, head.branch, head.version)):
        return found
    return {**await branches_of(store, await head_at(store, head, seq), ancestors_only=True), **found}


async def head_at(store: Journal, head: Head, seq: int) -> Head:
    """Version and branch of a run when the event at `seq` was its last one. Costs a number of small reads that grows with
    the logarithm of the length of that branch."""
    if seq >= head.branch_first:
        return replace(head, version=seq)
    branch = (await _record_at(store, head.run, seq)).branch if seq else 0
    first = await _first_of(store, head.run, branch, seq) if branch else 1
    return Head(head.run, seq, b"", 0, branch, first)


async def end_of_branch(store: Journal, head: Head, branch: int) -> Head:
    """Version and branch of a run when the last event of a branch was its last one. Raises `NotFound` if the run has no such
    branch."""
    if branch == head.branch:
        return head
    if not 0 <= branch < head.branch:
        raise NotFound(f"run {head.run} has no branch {branch}; its newest is {head.branch}")
    return await head_at(store, head, await _first_of(store, head.run, branch + 1, head.branch_first) - 1)


async def _first_of(store: Journal, run: RunId, branch: int, seq: int) -> int:
    """The event that opens a branch, which is not after the event at `seq`. Branches lie in the log in the order of their
    numbers; the search begins near `seq`."""
    low, high, step = 1, seq, 1
    while low < high:
        middle = max(low, high - step) if step else (low + high) // 2
        record = await _record_at(store, run, middle)
        if record.branch >= branch:
            high, step = record.first, step * 2
        else:
            low, step = record.last + 1, 0
    return high


async def _record_at(store: Journal, run: RunId, seq: int) -> Record:
    for record in await store.read(run, seq, seq, 1):
        return record
    raise Damaged(MISSING_EVENT, run=run, seq=seq)


async def _branch_opened(store: Journal, run: RunId, seq: int) -> e.BranchOpened:
    for record in await store.read(run, seq, seq, 1):
        for entry in entries(record):
            if entry.seq == seq and isinstance(entry.event, e.BranchOpened):
                return entry.event
    raise Damaged("the event does not open a branch", run=run, seq=seq)


async def lineage_of(store: Journal, head: Head) -> list[Interval]:
    """The intervals that the current branch sees. Costs one small read per branch it descends from."""
    branches = await branches_of(store, head, ancestors_only=True)
    return lineage(branches, head.branch, head.version)


async def previous_branch(store: Journal, head: Head, key: bytes) -> tuple[e.BranchOpened, list[Entry], Head]:
    """The event that opened the current branch; the verified events after the cutoff on the previous branch; and the head of
    that branch."""
    opening = await _branch_opened(store, head.run, head.branch_first)
    before = Head(head.run, head.branch_first - 1, b"", 0, opening.branch - 1, opening.previous_first)
    intervals = [
        (max(first, opening.cutoff + 1), last)
        for first, last in await lineage_of(store, before)
        if last > opening.cutoff
    ]
    return opening, [entry async for entry in read_events(store, head.run, intervals, key=key)], before


async def read_events(
    store: Journal, run: RunId, intervals: list[Interval], *, key: bytes | None = None, size: int = PAGE_SIZE
) -> AsyncIterator[Entry]:
    """The events of these intervals, in order. With a `key`, which may be empty, the records are verified. `size` is that of
    the first page."""
    for first, last in intervals:
        async for page in _read(store, run, first, last, key, size):
            for record in page:
                for entry in entries(record):
                    if first <= entry.seq <= last:
                        yield entry


RecordEntries: TypeAlias = tuple[Record, list[e.AnyEvent], int, int]
"""A record, its events, and the interval of the lineage that it was read for."""
MAX_REMEMBERED = 20_000
"""Records that stay in memory for a second pass over a lineage."""


def _read(
    store: Journal, run: RunId, first: int, last: int, key: bytes | None, size: int = PAGE_SIZE
) -> AsyncIterator[list[Record]]:
    return pages(store, run, first, last, size=size) if key is None else verified_pages(store, run, first, last, key)


async def verified_pages(store: Journal, run: RunId, first: int, last: int, key: bytes) -> AsyncIterator[list[Record]]:
    """The pages of `pages`, with the digest of each record verified, so that no caller uses changed bytes (G3)."""
    previous: bytes | None = None
    async for page in pages(store, run, first, last):
        if previous is None and page:
            previous = await _digest_before(store, page[0], key)
        for place, record in enumerate(page):
            assert previous is not None
            if not follows(record, previous, key):
                yield page[:place]
                raise Damaged(WRONG_DIGEST, run=run, seq=max(first, record.first))
            previous = record.digest
        yield page


async def _digest_before(store: Journal, record: Record, key: bytes) -> bytes:
    if record.first == 1:
        return genesis(record.run, key)
    before = await store.read(record.run, record.first - 1, record.first - 1, 1)
    if not before:
        raise Damaged(MISSING_EVENT, run=record.run, seq=record.first - 1)
    return before[0].digest


async def state_of(
    store: Journal,
    run: RunId,
    intervals: list[Interval],
    remembered: list[RecordEntries] | None = None,
    *,
    key: bytes | None = None,
    head: Head | None = None,
) -> State:
    """The state of these intervals. `remembered` receives the records, up to a limit. With a `key`, which may be empty, the
    records are verified. With a `head`, the intervals are its lineage, and the head must agree with them."""
    state, record, epoch = State(), None, 0
    for first, last in intervals:
        async for page in _read(store, run, first, last, key):
            for record in page:
                events = fold_within(state, record, first, last)
                epoch = max(epoch, record.epoch)
                if remembered is not None and len(remembered) < MAX_REMEMBERED:
                    remembered.append((record, events, first, last))
    if head is not None:
        _check_head(head, state, record, epoch)
    return state


def _check_head(head: Head, state: State, last: Record | None, epoch: int) -> None:
    """Refuse a head that differs from the end of its log: an append after it would damage the log (G3)."""
    outline = state.outline
    stored = (head.version, head.digest, head.epoch, head.branch, head.branch_first)
    found = (last.last, last.digest, epoch, outline.branch, outline.branch_first) if last is not None else ()
    if stored != found:
        raise Damaged(WRONG_HEAD, run=head.run, seq=head.version)


def fold_within(state: State, record: Record, first: int, last: int) -> list[e.AnyEvent]:
    """Fold the events of a record from `first` to `last`: a cutoff may lie inside an append."""
    begin, events = record.first, record.events()
    if first <= begin and begin + record.count <= last + 1:
        apply_all(state, events, begin, record.time)
    else:
        skipped = max(0, first - begin)
        apply_all(state, events[skipped : last + 1 - begin], begin + skipped, record.time)
    return events


async def read_entries(
    store: Journal, run: RunId, intervals: list[Interval], remembered: list[RecordEntries]
) -> AsyncIterator[list[RecordEntries]]:
    """The records of these intervals with their events, many at a time. Records in `remembered` are not read again."""
    after = remembered[-1][0].last if remembered else 0
    yield remembered
    for first, last in intervals:
        if last > after:
            async for page in pages(store, run, max(first, after + 1), last):
                yield [(record, record.events(), first, last) for record in page]


# --- the first and the last event of a run


async def latest_run_of(store: Journal, run: RunId) -> RunId:
    """The last existing run in the chain of successors of a run."""
    while (head := await store.head(run)) is not None and head.closed:
        ending = await ending_of(store, head)
        if not isinstance(ending, e.RunContinued) or await store.head(RunId(ending.successor)) is None:
            break
        run = RunId(ending.successor)
    return run


async def created_of(store: Store, run: RunId) -> e.RunCreated:
    """The first event of a run."""
    records = await store.read(run, 1, 1, 1)
    if not records:
        raise await missing(store, run)
    event = records[0].events()[0]
    if not isinstance(event, e.RunCreated):
        raise Damaged("the first event is not RunCreated", run=run, seq=1)
    return event


async def ending_of(store: Journal, head: Head) -> Ended:
    """The terminal event of a closed run. The search begins at the end of the log: receipts may follow the event, and a
    branch may begin after it."""
    for first, seq in reversed(await lineage_of(store, head)):
        while seq >= first:
            records = await store.read(head.run, seq, seq, 1)
            if not records:
                raise Damaged("the event is missing from the log", run=head.run, seq=seq)
            record = records[0]
            for at, event in reversed(list(enumerate(record.events(), record.first))):
                if at <= seq and isinstance(event, e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued):
                    return event
            seq = record.first - 1
    raise Damaged("the run is closed but its log has no terminal event", run=head.run, seq=head.version)
