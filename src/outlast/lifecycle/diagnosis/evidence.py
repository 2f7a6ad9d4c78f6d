"""What the doctor looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.invariants import Violation
from outlast.lifecycle.state import State, Wait
from outlast.lifecycle.summary import RunSummary


class Holder(Struct, frozen=True):
    """Whoever claims the run, whether they still count as alive, and until when they have renewed (microseconds)."""

    worker: str
    is_live: bool
    expires: int


class RelatedRun(Struct, frozen=True):
    """A run that this one depends on and that is not as its log expects: a child or successor that does not exist, a child
    that has ended without telling it, or a child of a part that was left (`left`) and that nobody has asked to stop."""

    run: RunId
    relation: Literal["child", "successor", "left"]
    has_ended: bool = False


class Evidence(Struct, kw_only=True):
    """What there is to look at. `log` is the current lineage as far as it reads, `state` what it amounts to; `version` is
    where the log ends. `today` is the version of the code that is known here, `initial` the one the run began with."""

    run: RunId
    now: int
    log: Sequence[Entry]
    state: State
    version: int
    summary: RunSummary | None
    true: RunSummary
    """The summary that the log would give."""
    is_closed: bool = False
    """Whether the head says that the run is over."""
    waits: Mapping[str, Wait] = {}
    """What the store shows that the run waits for."""
    faults: Sequence[str] = ()
    """What does not read of what the store keeps beside the log."""
    related_runs: Sequence[RelatedRun] = ()
    holder: Holder | None = None
    is_ready: bool = False
    today: str = ""
    initial: str = ""
    known_versions: frozenset[str] | None = None
    attempts: dict[str, int] = {}
    """How often today's code would try each of its nodes."""
    damage: Sequence[Violation] = ()
    last_good: int = 0
    missing: Sequence[tuple[int, str, str]] = ()
    """Places whose blobs are not there or damaged, the nodes that made them, and which it is."""
    watchers: int | None = None
    unused: int = 0
    """Branches that the current one does not descend from."""

    @property
    def is_held(self) -> bool:
        """Whether somebody alive advances it."""
        return self.holder is not None and self.holder.is_live


class Rewrite(Struct, frozen=True):
    """Write the summary, the waits and the head's flag again, from the log; `changes` says what that changes."""

    changes: tuple[str, ...] = ()


class Open(Struct, frozen=True):
    """Open a branch."""

    plan: BranchPlan


class Settle(Struct, frozen=True):
    """Do what a run owes to others: tell the parent of one that ended, start its successor, cancel children that it left."""

    run: RunId


class Say(Struct, frozen=True):
    """Append these on the same branch."""

    events: tuple[e.AnyEvent, ...]


class HandOver(Struct, frozen=True):
    """Take it over, which counts what was interrupted, and let the next worker go on."""


Remedy: TypeAlias = Rewrite | Settle | Open | Say | HandOver
Standing: TypeAlias = Literal["consistent", "repairable", "reported"]


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is the case. `events` prove it; `actions` are what is safe to do, as commands or sentences."""

    code: str
    sentence: str
    standing: Standing = "consistent"
    events: tuple[int, ...] = ()
    cause: str = ""
    actions: tuple[str, ...] = ()
    remedy: Remedy | None = None


def and_more(count: int) -> str:
    """For people: how many there are beyond those that were named."""
    return f", and {count} more" if count > 0 else ""
