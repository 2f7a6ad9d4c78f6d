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
    """A legal log in the making: its records, its branches, the lineage of each branch, and the state of the newest.

    `told` has one plain list of entries per branch, so that it can check `lineage`."""

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
        """The seq of the newest event on any branch."""
        return self.records[-1].last if self.records else 0

    @property
    def branch(self) -> int:
        return max(self.branches)

    @property
    def lineage(self) -> list[Entry]:
        """The entries of the newest branch's lineage."""
        return self.told[self.branch]

    def write(
        self,
        events: Sequence[e.AnyEvent],
        kind: Kind = Kind.OWNER,
        *,
        epoch: int | None = None,
        time: int | None = None,
    ) -> Record:
        """Write one append. Raises `Illegal` if it may not follow; the history is then unusable."""
        self.epoch = self.epoch if epoch is None else epoch
        self.time = self.time + 1 if time is None else time
        for event in events:
            self.say(event)
        return self.seal(kind)

    def say(self, event: e.AnyEvent) -> Entry:
        """Add one event to the current append."""
        if isinstance(event, e.BranchOpened):
            self._open(event)
        seq = self.seq + len(self._saying) + 1
        apply(self.state, event, seq, self.time)
        entry = Entry(seq, self.branch, self.time, event)
        self.lineage.append(entry)
        self._saying.append(event)
        return entry

    def seal(self, kind: Kind = Kind.OWNER) -> Record:
        """End the current append."""
        record = self.sealed(self._saying, kind)
        self.records.append(record)
        self._saying = []
        return record

    def sealed(self, events: Sequence[e.AnyEvent], kind: Kind = Kind.OWNER, *, epoch: int | None = None) -> Record:
        """The record of `events`, numbered and chained but neither checked nor written."""
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
        """The state of the lineage that ends at `cutoff`."""
        held = self.told[holder(self.branches.values(), cutoff).id]
        return fold(State(), (entry for entry in held if entry.seq <= max(cutoff, 1)))

    def cut(self, cutoff: int, **turn: Any) -> list[e.AnyEvent]:
        """The events that open a branch at `cutoff`: BranchOpened, adopted receipts, and the end of open requests.
        `turn` are other fields of the `BranchPlan`."""
        then, branches = self.state_at(cutoff), self.branches.values()
        return decide.open_branch(self.state, then, branches, BranchPlan(cutoff=cutoff, **turn))

    def _open(self, event: e.BranchOpened) -> None:
        shared = [entry for entry in self.told[event.parent] if entry.seq <= max(event.cutoff, 1)]
        self.branches[event.branch] = opened(event, self.seq + 1)
        self.told[event.branch] = shared
        self.state = fold(State(), shared)


def rechained(records: Iterable[Record], run: RunId, *, key: bytes = b"") -> list[Record]:
    """The same records with digests that chain, as an attacker with write access could forge them."""
    previous = genesis(run, key)
    sound: list[Record] = []
    for each in records:
        header = (each.first, each.count, each.branch, each.epoch, each.kind, each.time, each.id)
        previous = chained(previous, *header, each.body, key)
        sound.append(replace(each, digest=previous))
    return sound
