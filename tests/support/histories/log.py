"""A log that is being written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import AppendId, RunId
from outlast.history.lineage import ROOT, Branch, holder, opened
from outlast.history.record import Entry, Kind, Record, chained, genesis
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.fold import apply, fold
from outlast.lifecycle.state import State


class History:
    """A legal log in the making: its records, its branches, what each branch has told, and the state of the newest.

    `told` is kept the plain way, one list of entries per branch, so that it can judge `lineage`."""

    def __init__(self, run: str = "run", *, key: bytes = b"") -> None:
        self.run = RunId(run)
        self.key = key
        self.records: list[Record] = []
        self.branches: dict[int, Branch] = {0: ROOT}
        self.told: dict[int, list[Entry]] = {0: []}
        self.state = State()
        self.epoch = 0
        self.time = 1_700_000_000_000_000
        self._saying: list[e.AnyEvent] = []

    @property
    def seq(self) -> int:
        """The place of the newest event, on whatever branch."""
        return self.records[-1].last if self.records else 0

    @property
    def branch(self) -> int:
        return max(self.branches)

    @property
    def lineage(self) -> list[Entry]:
        """What the newest branch sees."""
        return self.told[self.branch]

    def write(
        self,
        events: Sequence[e.AnyEvent],
        kind: Kind = Kind.OWNER,
        *,
        epoch: int | None = None,
        time: int | None = None,
    ) -> Record:
        """One append more. Raises `Illegal` if it may not follow; the history is then of no further use."""
        self.epoch = self.epoch if epoch is None else epoch
        self.time = self.time + 1 if time is None else time
        for event in events:
            self.say(event)
        return self.seal(kind)

    def say(self, event: e.AnyEvent) -> Entry:
        """One event of the append that is being written."""
        if isinstance(event, e.BranchOpened):
            self._open(event)
        seq = self.seq + len(self._saying) + 1
        apply(self.state, event, seq, self.time)
        entry = Entry(seq, self.branch, self.time, event)
        self.lineage.append(entry)
        self._saying.append(event)
        return entry

    def seal(self, kind: Kind = Kind.OWNER) -> Record:
        """What was said becomes an append record."""
        record = self.sealed(self._saying, kind)
        self.records.append(record)
        self._saying = []
        return record

    def sealed(self, events: Sequence[e.AnyEvent], kind: Kind = Kind.OWNER, *, epoch: int | None = None) -> Record:
        """The record that `events` would be, numbered and chained but neither checked nor written."""
        if kind in (Kind.GUEST, Kind.CONTROL):
            own = 0
        else:
            own = self.epoch if epoch is None else epoch
        first, body = self.seq + 1, encode(events)
        id = AppendId(first.to_bytes(16, "big"))
        previous = self.records[-1].digest if self.records else genesis(self.run, self.key)
        digest = chained(previous, first, len(events), self.branch, own, kind, self.time, id, body, self.key)
        return Record(self.run, first, len(events), self.branch, own, kind, id, self.time, body, digest)

    def state_at(self, cutoff: int) -> State:
        """What the lineage that ends at `cutoff` amounts to."""
        held = self.told[holder(self.branches.values(), cutoff).id]
        return fold(State(), (entry for entry in held if entry.seq <= max(cutoff, 1)))

    def cut(self, cutoff: int, **turn: Any) -> list[e.AnyEvent]:
        """What opens a branch at `cutoff`: BranchOpened, the receipts it takes over, and what becomes of open requests.
        `open_branch` are other fields of the `BranchPlan`."""
        then, branches = self.state_at(cutoff), self.branches.values()
        return decide.open_branch(self.state, then, branches, BranchPlan(cutoff=cutoff, **turn))

    def _open(self, event: e.BranchOpened) -> None:
        shared = [entry for entry in self.told[event.parent] if entry.seq <= max(event.cutoff, 1)]
        self.branches[event.branch] = opened(event, self.seq + 1)
        self.told[event.branch] = shared
        self.state = fold(State(), shared)


def rechained(records: Iterable[Record], run: RunId, *, key: bytes = b"") -> list[Record]:
    """The same records with digests that chain, as someone who can write to the store could forge them."""
    previous = genesis(run, key)
    sound: list[Record] = []
    for each in records:
        header = (each.first, each.count, each.branch, each.epoch, each.kind, each.time, each.id)
        previous = chained(previous, *header, each.body, key)
        sound.append(replace(each, digest=previous))
    return sound
