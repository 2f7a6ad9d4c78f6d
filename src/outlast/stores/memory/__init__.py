"""A store in memory: for tests, and the simplest implementation of the contract.

Several stores can share one `Memory`, as several processes share a database. The data ends with the `Memory` object, so S3
holds only as long as it lives.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from outlast.history.ids import RunId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import (
    LANDED,
    LINES_PER_ATTEMPT,
    Append,
    Derived,
    Document,
    Due,
    Head,
    Line,
    Listed,
    Lost,
    Notify,
    Outcome,
    Page,
    RunFilter,
    Tombstone,
)
from outlast.stores.memory.claims import MemoryClaims
from outlast.stores.memory.data import Memory, MemoryBlobs
from outlast.stores.shared import (
    check_limit,
    checked_document,
    follows,
    head_after,
    invalid_cursor,
    is_descending,
    matches,
    page_of,
    place,
    refusal,
)

__all__ = ["Memory", "MemoryBlobs", "MemoryStore"]

_TAKEOVER = Kind.TAKEOVER

TAIL = 256
"""The most records in a `Lost`."""


class MemoryStore(MemoryClaims):
    """One process's connection to a `Memory`."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory if memory is not None else Memory()
        self.skew = 0
        self.blobs = MemoryBlobs(self.memory, self._now)

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
        if run in memory.tombstones:
            return Lost("deleted", None)
        head = memory.heads.get(run)
        why = refusal(append, head, memory.waits.get(run, {}))
        if why is not None:
            tail = self._read(run, record.first, None, TAIL) if why == "version" else []
            return Lost(why, head, tuple(tail))
        if append.takes and (full := memory.full_slots(run, append.takes)):
            return Lost("slot", head, full=full)
        memory.logs.setdefault(run, []).append(record)
        memory.heads[run] = head_after(head, append)
        if append.summary is not None:
            memory.summaries[run] = append.summary
        if append.closes or append.opens:
            waits = memory.waits.setdefault(run, {})
            for name in append.closes:
                waits.pop(name, None)
            for wait in append.opens:
                waits[wait.name] = wait
        if append.claim is not None:
            memory.claims[run] = (append.claim, record.epoch)
            memory.interrupted[run] = append.claim
        if append.blobs:
            memory.uses.setdefault(run, set()).update(append.blobs)
        if record.kind is _TAKEOVER:
            memory.end_slots(run, until="claim", epoch=record.epoch - 1)
            if run in memory.claims:
                memory.interrupted[run] = memory.claims[run][0]
        if append.takes:
            memory.take_slots(run, record.epoch, append.takes)
        if append.frees:
            memory.end_slots(run, until="run")
        if append.release:
            memory.end_slots(run, until="claim", epoch=record.epoch)
            memory.interrupted.pop(run, None)
            if memory.claims.get(run, ("", 0))[1] == record.epoch:
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
            key=lambda summary: place(summary, query.order),
            reverse=is_descending(query.order),
        )
        if query.after:
            found = [summary for summary in found if follows(summary, query)]
        shown = (Listed(each, self.memory.scratch.get(each.run, b"")) for each in found[: query.limit])
        return page_of(shown, is_last=len(found) <= query.limit, order=query.order)

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
        self.memory.scratch.update({run: each for run, each in scratch.items() if run in self.memory.heads})

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
        found = sorted(
            (due for due in self._all_waits() if due.wait.due is not None and due.wait.due <= now), key=_due_order
        )
        if after is not None:
            found = [due for due in found if _due_order(due) > _due_order(after)]
        return found[: max(limit, 0)]

    async def next_due(self, after: int = 0) -> int | None:
        times = (due.wait.due for due in self._all_waits())
        return min((time for time in times if time is not None and time > after), default=None)

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        pair = (self, notify)
        self.memory.listeners.append(pair)
        return lambda: self.memory.listeners.remove(pair) if pair in self.memory.listeners else None

    def _all_waits(self) -> Iterator[Due]:
        for run, waits in self.memory.waits.items():
            for wait in waits.values():
                yield Due(run, wait)

    # --- deletion

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        self._check_version()
        memory, run = self.memory, tombstone.run
        if run in memory.tombstones:
            return memory.tombstones[run] == tombstone
        head = memory.heads.get(run)
        if (head.version if head else 0) != version or not self._is_free(run):
            return False
        memory.bury(tombstone)
        return True

    async def purge(self, limit: int = 1000) -> bool:
        return self.memory.purge(limit)

    async def tombstone(self, run: RunId) -> Tombstone | None:
        return self.memory.tombstones.get(run)

    async def tombstones(self, *, after: str = "", limit: int = 1000) -> list[Tombstone]:
        check_limit(limit)
        return [each for run, each in sorted(self.memory.tombstones.items()) if run > after][:limit]

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        used = {name for run, names in self.memory.uses.items() if run in self.memory.heads for name in names}
        old = [name for name, put in self.memory.put_times.items() if put < put_before and name not in used][:limit]
        for name in old:
            await self.blobs.remove(name)
        return old

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


def _due_order(due: Due) -> tuple[int, str, str]:
    return due.wait.due or 0, due.run, due.wait.name


def _wait_cursor(due: Due) -> str:
    return f"{due.run}\n{due.wait.name}"
