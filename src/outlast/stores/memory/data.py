"""The data of a store in memory, in place of a database, and its blobs."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

from outlast.errors import NotFound
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import BlobRef, Document, Head, Line, Notify, Slot, SlotHolder, Tombstone, WorkerInfo
from outlast.stores.shared import VERSION

if TYPE_CHECKING:
    from outlast.stores.memory import MemoryStore


class Memory:
    """The data of a store, in place of a database."""

    def __init__(self) -> None:
        self.version = VERSION
        self.heads: dict[RunId, Head] = {}
        self.logs: dict[RunId, list[Record]] = {}
        self.summaries: dict[RunId, RunSummary] = {}
        self.scratch: dict[RunId, bytes] = {}
        self.waits: dict[RunId, dict[str, Wait]] = {}
        self.claims: dict[RunId, tuple[WorkerId, int]] = {}
        self.granted: dict[RunId, int] = {}
        self.interrupted: dict[RunId, WorkerId] = {}
        self.workers: dict[WorkerId, int] = {}
        self.seen: dict[WorkerId, tuple[int, WorkerInfo]] = {}
        self.turns: dict[tuple[str, ...], int] = {}
        """When a workflow, or a fairness key of a workflow, was last served."""
        self.slots: dict[tuple[str, RunId], SlotHolder] = {}
        self.blobs: dict[str, bytes] = {}
        self.put_times: dict[str, int] = {}
        self.uses: dict[RunId, set[str]] = {}
        """The blobs that the appends of a run named."""
        self.lines: dict[RunId, dict[tuple[str, int], deque[Line]]] = {}
        self.numbers: dict[RunId, int] = {}
        self.documents: dict[str, Document] = {}
        self.tombstones: dict[RunId, Tombstone] = {}
        self.listeners: list[tuple[MemoryStore, Notify]] = []

    # --- slots

    def full_slots(self, run: RunId, slots: Iterable[Slot]) -> tuple[SlotHolder, ...]:
        """Return the holders of those slots that have no place for this run."""
        full: list[SlotHolder] = []
        for slot in slots:
            others = [held for (name, holder), held in self.slots.items() if name == slot.name and holder != run]
            if len(others) >= slot.limit:
                full += others
        return tuple(full)

    def take_slots(self, run: RunId, epoch: int, slots: Iterable[Slot]) -> None:
        for slot in slots:
            self.slots[slot.name, run] = SlotHolder(slot.name, run, epoch, slot.until)

    def end_slots(self, run: RunId, *, until: str, epoch: int | None = None) -> None:
        """End the slots of a run with this lifetime, or those that were taken under this epoch or an earlier one."""
        for place, held in list(self.slots.items()):
            if held.run == run and held.until == until and (epoch is None or held.epoch <= epoch):
                del self.slots[place]

    # --- deletion

    def bury(self, tombstone: Tombstone) -> None:
        """Replace a run by its tombstone. The rows that `purge` removes stay."""
        run = tombstone.run
        for table in (self.heads, self.summaries, self.waits, self.claims, self.granted, self.interrupted):
            table.pop(run, None)
        for until in ("claim", "run"):
            self.end_slots(run, until=until)
        self.tombstones[run] = tombstone

    def purge(self, limit: int) -> bool:
        """Remove up to `limit` rows of deleted runs. Return whether some remain."""
        for run in self.tombstones:
            for rows in (self.logs.get(run), *self.lines.get(run, {}).values(), self.uses.get(run)):
                while rows and limit > 0:
                    rows.pop()
                    limit -= 1
                if rows:
                    return True
            if run in self.scratch:
                if limit <= 0:
                    return True
                del self.scratch[run]
                limit -= 1
            for table in (self.logs, self.lines, self.numbers, self.uses):
                table.pop(run, None)
        return False


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self, memory: Memory, now: Callable[[], int]) -> None:
        self._memory = memory
        self._now = now

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        whole = chunks if isinstance(chunks, bytes) else b"".join([chunk async for chunk in chunks])
        name = hashlib.blake2b(whole, digest_size=32).hexdigest()
        self._memory.blobs[name] = whole
        self._memory.put_times[name] = self._now()
        return BlobRef(name, len(whole))

    async def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        if ref.hash not in self._memory.blobs:
            raise NotFound(f"blob {ref.hash} is not in the store")
        yield self._memory.blobs[ref.hash]

    async def has(self, hash: str) -> bool:
        return hash in self._memory.blobs

    async def remove(self, hash: str) -> None:
        self._memory.blobs.pop(hash, None)
        self._memory.put_times.pop(hash, None)
