"""A store in memory: for tests, and the simplest implementation of the contract.

Several stores can share one `Memory`, as several processes share a database. The data ends with the `Memory` object, so S3
holds only as long as it lives.
"""

from __future__ import annotations

import hashlib
import time
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from outlast.errors import NotFound
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import (
    LANDED,
    LINES_PER_ATTEMPT,
    Append,
    BlobRef,
    Claim,
    Derived,
    Document,
    Due,
    Enrolled,
    Head,
    Holding,
    Line,
    Listed,
    Lost,
    Names,
    Notify,
    Outcome,
    Page,
    RunFilter,
    Runs,
)
from outlast.stores.shared import (
    check_limit,
    checked_document,
    cursor,
    head_after,
    invalid_cursor,
    matches,
    page_of,
    refusal,
)

TAIL = 256
"""The most records in a `Lost`."""


class Memory:
    """The data of a store, in place of a database."""

    def __init__(self) -> None:
        self.heads: dict[RunId, Head] = {}
        self.logs: dict[RunId, list[Record]] = {}
        self.summaries: dict[RunId, RunSummary] = {}
        self.scratch: dict[RunId, bytes] = {}
        self.waits: dict[RunId, dict[str, Wait]] = {}
        self.claims: dict[RunId, tuple[WorkerId, int]] = {}
        self.granted: dict[RunId, int] = {}
        self.interrupted: dict[RunId, WorkerId] = {}
        self.workers: dict[WorkerId, int] = {}
        self.seen: dict[WorkerId, tuple[int, tuple[str, ...]]] = {}
        self.blobs: dict[str, bytes] = {}
        self.lines: dict[RunId, dict[tuple[str, int], deque[Line]]] = {}
        self.numbers: dict[RunId, int] = {}
        self.documents: dict[str, Document] = {}
        self.listeners: list[tuple[MemoryStore, Notify]] = []


class MemoryStore:
    """One process's connection to a `Memory`."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory if memory is not None else Memory()
        self.skew = 0
        self.blobs = MemoryBlobs(self.memory.blobs)

    async def now(self) -> int:
        return self._now()

    def reopen(self) -> MemoryStore:
        other = MemoryStore(self.memory)
        other.skew = self.skew
        return other

    async def close(self) -> None:
        self.memory.listeners = [pair for pair in self.memory.listeners if pair[0] is not self]

    def _now(self) -> int:
        return time.time_ns() // 1000 + self.skew

    # --- journal

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = [self._append_one(each) for each in batch]
        changed = frozenset(each.record.run for each, outcome in zip(batch, outcomes, strict=True) if outcome is LANDED)
        for store, notify in list(self.memory.listeners):
            if changed and store is not self:
                notify(changed)
        return outcomes

    def _append_one(self, append: Append) -> Outcome:
        memory, record = self.memory, append.record
        run = record.run
        head = memory.heads.get(run)
        why = refusal(append, head, memory.waits.get(run, {}))
        if why is not None:
            tail = self._read(run, record.first, None, TAIL) if why == "version" else []
            return Lost(why, head, tuple(tail))
        memory.logs.setdefault(run, []).append(record)
        memory.heads[run] = head_after(head, append)
        memory.granted[run] = max(memory.granted.get(run, 0), append.head.epoch)
        if append.summary is not None:
            memory.summaries[run] = append.summary
        waits = memory.waits.setdefault(run, {})
        for name in append.closes:
            waits.pop(name, None)
        for wait in append.opens:
            waits[wait.name] = wait
        if append.claim is not None:
            memory.claims[run] = (append.claim, record.epoch)
            memory.interrupted[run] = append.claim
        if record.kind is Kind.TAKEOVER and run in memory.claims:
            memory.interrupted[run] = memory.claims[run][0]
        if append.release:
            memory.interrupted.pop(run, None)
        if append.release and memory.claims.get(run, ("", 0))[1] == record.epoch:
            memory.claims.pop(run, None)
        return LANDED

    async def head(self, run: RunId) -> Head | None:
        return self.memory.heads.get(run)

    async def runs(self, *, unfinished: bool = False, after: str = "", limit: int = 1000) -> tuple[list[RunId], str]:
        heads = self.memory.heads
        found = sorted(run for run, head in heads.items() if run > after and not (unfinished and head.closed))
        return found[:limit], found[limit - 1] if len(found) > limit else ""

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        return self._read(run, first, last, limit)

    def _read(self, run: RunId, first: int, last: int | None, limit: int) -> list[Record]:
        log = self.memory.logs.get(run, [])
        start = bisect_left(log, first, key=lambda record: record.last)
        return [record for record in log[start : start + limit] if last is None or record.first <= last]

    # --- catalog

    async def summary(self, run: RunId) -> RunSummary | None:
        return self.memory.summaries.get(run)

    async def search(self, query: RunFilter) -> Page:
        check_limit(query.limit)
        found = sorted(
            (summary for summary in self.memory.summaries.values() if matches(summary, query)),
            key=_summary_order,
            reverse=True,
        )
        if query.after:
            found = [summary for summary in found if _summary_order(summary) < cursor(query.after)]
        shown = (Listed(each, self.memory.scratch.get(each.run, b"")) for each in found[: query.limit])
        return page_of(shown, is_last=len(found) <= query.limit)

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        stored = self.memory.summaries.get(summary.run)
        if summary.run not in self.memory.heads or (stored.at if stored else 0) != seen or summary.at < seen:
            return False
        self.memory.summaries[summary.run] = summary
        return True

    async def derived(self, run: RunId) -> Derived:
        memory = self.memory
        waits, interrupted = dict(memory.waits.get(run, {})), bool(memory.interrupted.get(run))
        return Derived(memory.heads.get(run), memory.summaries.get(run), waits, interrupted=interrupted)

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        memory, run = self.memory, summary.run
        head = memory.heads.get(run)
        if head is None or head.version != summary.at:
            return False
        memory.heads[run] = replace(head, closed=closed)
        memory.summaries[run] = summary
        memory.waits[run] = {wait.name: wait for wait in waits}
        return True

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        self.memory.scratch.update(scratch)

    # --- claims

    async def enrol(self, worker: WorkerId, ttl: float, workflows: Collection[str] = ()) -> None:
        self.memory.workers[worker] = self._now() + int(ttl * 1_000_000)
        self.memory.seen[worker] = self._now(), tuple(sorted(workflows))

    async def workers(self) -> list[Enrolled]:
        now, seen = self._now(), self.memory.seen
        return [Enrolled(each, expires > now, expires, *seen[each]) for each, expires in self.memory.workers.items()]

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        if worker not in self.memory.workers:
            return False
        await self.enrol(worker, ttl, self.memory.seen[worker][1])
        return True

    async def retire(self, worker: WorkerId) -> None:
        memory = self.memory
        memory.workers.pop(worker, None)
        for run, (holder, _) in list(memory.claims.items()):
            if holder == worker:
                self._released(run, worker, ready=True)

    async def claim(
        self, worker: WorkerId, *, runs: Runs = None, workflows: Names = None, limit: int = 1
    ) -> list[Claim]:
        granted: list[Claim] = []
        for run in dict.fromkeys(runs) if runs is not None else list(self._claimable(workflows)):
            if len(granted) >= limit:
                break
            if run in self.memory.heads and (self._is_free(run) or (runs is not None and self._is_own(run, worker))):
                granted.append(self._grant(run, worker))
        return granted

    def _claimable(self, workflows: Collection[str] | None) -> Iterator[RunId]:
        memory = self.memory
        for run, head in memory.heads.items():
            wanted = run in memory.claims or (head.ready and not head.closed)
            summary = memory.summaries.get(run)
            if wanted and (workflows is None or (summary is not None and summary.workflow in workflows)):
                yield run

    def _is_free(self, run: RunId) -> bool:
        holder = self.memory.claims.get(run)
        return holder is None or self.memory.workers.get(holder[0], 0) <= self._now()

    def _is_own(self, run: RunId, worker: WorkerId) -> bool:
        return self.memory.claims.get(run, ("", 0))[0] == worker

    def _grant(self, run: RunId, worker: WorkerId) -> Claim:
        """The interrupted worker is stored until a takeover is in the log, because the claimant may be interrupted too. From
        then on the new owner is stored, until it releases the run."""
        memory = self.memory
        holder, _ = memory.claims.get(run, (worker, 0))
        if holder != worker:
            memory.interrupted[run] = holder
        epoch = max(memory.granted.get(run, 0), memory.heads[run].epoch) + 1
        memory.granted[run] = epoch
        memory.claims[run] = (worker, epoch)
        previous = memory.interrupted.get(run, "")
        previous = "" if previous == worker else previous
        seen = memory.seen.get(WorkerId(previous), (0, ()))[0]
        return Claim(run, worker, epoch, previous, "expired" if previous else "claimed", seen)

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        memory = self.memory
        if memory.claims.get(run, ("", 0))[0] != worker:
            return True
        if memory.heads[run].version != version:
            return False
        self._released(run, worker, ready=ready)
        return True

    def _released(self, run: RunId, worker: WorkerId, *, ready: bool) -> None:
        memory = self.memory
        del memory.claims[run]
        memory.heads[run] = replace(memory.heads[run], ready=ready)
        if memory.interrupted.get(run) == worker:
            del memory.interrupted[run]

    async def holding(self, run: RunId) -> Holding | None:
        held = self.memory.claims.get(run)
        return None if held is None else self._holding(run, held[0])

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        runs = sorted(run for run, held in self.memory.claims.items() if run > after and worker in (None, held[0]))
        return [self._holding(run, self.memory.claims[run][0]) for run in runs[:limit]]

    def _holding(self, run: RunId, worker: WorkerId) -> Holding:
        expires = self.memory.workers.get(worker, 0)
        return Holding(run, worker, expires, expires > self._now(), self.memory.seen.get(worker, (0, ()))[0])

    # --- wake-ups

    async def wait(self, run: RunId, name: str) -> Wait | None:
        return self.memory.waits.get(run, {}).get(name)

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        check_limit(limit)
        found = sorted((due for due in self._all_waits() if not kind or due.wait.kind == kind), key=_wait_cursor)
        if after and "\n" not in after:
            raise invalid_cursor(after)
        found = [due for due in found if _wait_cursor(due) > after]
        shown = found[:limit]
        return shown, _wait_cursor(shown[-1]) if len(found) > len(shown) else ""

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        now = self._now()
        found = sorted((due for due in self._all_waits() if _is_due(due.wait, now)), key=_due_order)
        if after is not None:
            found = [due for due in found if _due_order(due) > _due_order(after)]
        return found[: max(limit, 0)]

    async def next_due(self) -> int | None:
        return min((due.wait.due for due in self._all_waits() if due.wait.due is not None), default=None)

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        pair = (self, notify)
        self.memory.listeners.append(pair)
        return lambda: self.memory.listeners.remove(pair) if pair in self.memory.listeners else None

    def _all_waits(self) -> Iterator[Due]:
        for run, waits in self.memory.waits.items():
            for wait in waits.values():
                yield Due(run, wait)

    # --- lines

    async def keep(self, lines: Sequence[Line]) -> None:
        for line in lines:
            if line.run in self.memory.heads:
                self._keep_one(line)

    def _keep_one(self, line: Line) -> None:
        attempts, numbers = self.memory.lines.setdefault(line.run, {}), self.memory.numbers
        kept = attempts.setdefault((line.node, line.attempt), deque(maxlen=LINES_PER_ATTEMPT))
        numbers[line.run] = numbers.get(line.run, 0) + 1
        kept.append(replace(line, number=numbers[line.run], place=kept[-1].place + 1 if kept else 1))

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        check_limit(limit)
        found = [
            line
            for (name, number), kept in self.memory.lines.get(run, {}).items()
            if node in ("", name) and attempt in (None, number)
            for line in kept
            if line.number > after
        ]
        return sorted(found, key=lambda line: line.number)[:limit]

    # --- documents

    async def document(self, name: str) -> Document | None:
        return self.memory.documents.get(name)

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        stored = self.memory.documents.get(checked_document(document.name))
        if (stored.version if stored else "") == replaces:
            self.memory.documents[document.name] = document
            return True
        return stored is not None and stored.version == document.version

    async def remove_document(self, name: str, version: str) -> bool:
        stored = self.memory.documents.get(name)
        if stored is not None and stored.version == version:
            del self.memory.documents[name]
        return stored is None or stored.version == version

    async def documents(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Document]:
        check_limit(limit)
        found = self.memory.documents.items()
        return [each for name, each in sorted(found) if name.startswith(prefix) and name > after][:limit]


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents = contents

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        whole = chunks if isinstance(chunks, bytes) else b"".join([chunk async for chunk in chunks])
        name = hashlib.blake2b(whole, digest_size=32).hexdigest()
        self._contents[name] = whole
        return BlobRef(name, len(whole))

    async def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        if ref.hash not in self._contents:
            raise NotFound(f"blob {ref.hash} is not in the store")
        yield self._contents[ref.hash]

    async def has(self, hash: str) -> bool:
        return hash in self._contents

    async def remove(self, hash: str) -> None:
        self._contents.pop(hash, None)


def _summary_order(summary: RunSummary) -> tuple[int, str]:
    return summary.created, summary.run


def _is_due(wait: Wait, now: int) -> bool:
    return wait.due is not None and wait.due <= now


def _due_order(due: Due) -> tuple[int, str, str]:
    return due.wait.due or 0, due.run, due.wait.name


def _wait_cursor(due: Due) -> str:
    return f"{due.run}\n{due.wait.name}"
