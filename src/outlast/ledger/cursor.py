"""The position of an owner in the log of its run, and the reading of other writers' events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from outlast.errors import Damaged, Fenced
from outlast.history import events as e
from outlast.history.ids import AppendId, RunId, WorkerId
from outlast.history.lineage import Branch
from outlast.history.record import Entry, Kind, Record, entries, follows
from outlast.ledger.reading import (
    RecordEntries,
    branches_around,
    created_of,
    fold_within,
    head_at,
    lineage_of,
    records,
    state_of,
)
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.state import State
from outlast.store import Head, Store

if TYPE_CHECKING:
    from outlast.ledger.ledger import Ledger

_NONE: frozenset[AppendId] = frozenset()


class LogCursor:
    """The reading part of a run writer. `state` is the fold of the durable log, `head` its end."""

    def __init__(self, ledger: Ledger, worker: WorkerId, epoch: int, head: Head, state: State) -> None:
        self.run: RunId = head.run
        self.worker = worker
        self.epoch = epoch
        self.head = head
        self.state = state
        self.news: Callable[[], None] | None = None
        """Called when a guest of this process has written to the run."""
        self.has_missed_news = False
        """Whether a guest has written while there was nobody to call."""
        self.arrived: deque[Entry] = deque()
        """Events of guests that the owner has not processed yet, in the order of the log; the owner removes them."""
        self.remembered: list[RecordEntries] = []
        """The records that the takeover read, for one more pass over the log; the reader of that pass clears the list."""
        self._ledger = ledger
        self._draft = Draft(state)
        self._busy = False
        self._unconfirmed: frozenset[AppendId] = _NONE
        self._unconfirmed_events: Sequence[e.AnyEvent] = ()
        self._confirmed_at = 0
        self._summary_behind = False

    @property
    def store(self) -> Store:
        """The store, for reading only."""
        return self._ledger.store

    @property
    def key(self) -> bytes:
        """The key of the digests of the log."""
        return self._ledger.key

    async def created(self) -> e.RunCreated:
        """The first event of the run."""
        first = self.remembered[0][1][0] if self.remembered else None
        return first if isinstance(first, e.RunCreated) else await created_of(self.store, self.run)

    # --- branches

    async def branches(self, cutoff: int) -> dict[int, Branch]:
        """The current branch, the one that holds the event at `cutoff`, and those that they descend from."""
        return await branches_around(self.store, self.head, cutoff)

    async def state_at(self, cutoff: int) -> State:
        """The state of the lineage that ends at `cutoff`, on any branch."""
        there = await head_at(self.store, self.head, cutoff)
        return await state_of(self.store, self.run, await lineage_of(self.store, there))

    # --- events of other writers

    async def catch_up(self) -> list[Entry]:
        """Read and fold the new events of guests; returns them. Raises `Fenced` if the run has a newer owner."""
        return await self._fold_newer([record async for record in self._newer()], Kind.OWNER)

    def _newer(self) -> AsyncIterator[Record]:
        return records(self.store, self.run, self.head.version + 1)

    async def _fold_newer(self, newer: Sequence[Record], kind: Kind) -> list[Entry]:
        taken: list[Entry] = []
        for record in newer:
            self._check_not_fenced(record, kind)
            if record.first != self.head.version + 1 or not follows(record, self.head.digest, self._ledger.key):
                raise Damaged("the record does not follow the previous one", run=self.run, seq=record.first)
            found = entries(record)
            if found and isinstance(found[0].event, e.BranchOpened):
                await self._follow_branch(record)
            else:
                fold_within(self.state, record, record.first, record.last)
            self.head = self._head_at(record)
            taken += found
            if record.epoch == 0:
                self.arrived += found
        if taken:
            self._ledger.measures.taken_in += len(taken)
            self._draft.drop()
            self._summary_behind = True
        return taken

    def _check_not_fenced(self, record: Record, kind: Kind) -> None:
        """Accept records of guests, and our own whose answer was lost. Accept another owner's only before our takeover."""
        if record.kind in (Kind.GUEST, Kind.CONTROL):
            return
        if record.id in self._unconfirmed:
            self._unconfirmed -= {record.id}
            self._confirmed_at = record.first
            return
        if kind is Kind.OWNER or record.epoch >= self.epoch:
            raise self._fenced(f"epoch {record.epoch} wrote event {record.first}")

    async def _follow_branch(self, record: Record) -> None:
        """Follow a branch that the previous owner opened before our takeover, or our own append whose answer was lost."""
        self.state = await state_of(self.store, self.run, await lineage_of(self.store, self._head_at(record)))
        self._draft = Draft(self.state)
        self.remembered = []

    def _head_at(self, record: Record) -> Head:
        old = self.head
        first = old.branch_first if record.branch == old.branch else record.first
        return Head(
            old.run,
            record.last,
            record.digest,
            max(old.epoch, record.epoch),
            record.branch,
            first,
            self.state.is_closed,
            old.ready,
        )

    def _fenced(self, why: str) -> Fenced:
        self._ledger.forget_fenced(self)
        return Fenced(f"epoch {self.epoch} of run {self.run} has ended, because the run has a newer owner: {why}")
