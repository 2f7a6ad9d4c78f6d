"""The input of a diagnosis, its findings, and their remedies."""

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
    """The worker that claims the run, whether it counts as alive, and when its lease expires (microseconds)."""

    worker: str
    is_live: bool
    expires: int


class RelatedRun(Struct, frozen=True):
    """A related run that differs from the log: a child or successor that does not exist, a child whose end was not
    delivered, or a child of a left branch (`left`) that was not cancelled."""

    run: RunId
    relation: Literal["child", "successor", "left"]
    has_ended: bool = False


class QueueState(Struct, frozen=True):
    """The queue in which a run waits: the runs that hold its slots, and whether a live worker serves it."""

    name: str
    holders: tuple[str, ...]
    is_served: bool


class Evidence(Struct, kw_only=True):
    """The facts about one run. `log` is the readable part of the current lineage, `state` its fold; `version` is the last
    event of the log. `today` is the version of the code in this process, `initial` the version the run began with."""

    run: RunId
    now: int
    log: Sequence[Entry]
    state: State
    version: int
    summary: RunSummary | None
    true: RunSummary
    """The summary made from the log."""
    is_closed: bool = False
    """Whether the head marks the run as over."""
    waits: Mapping[str, Wait] = {}
    """The stored waits."""
    faults: Sequence[str] = ()
    """The stored rows beside the log that cannot be read."""
    related_runs: Sequence[RelatedRun] = ()
    holder: Holder | None = None
    is_ready: bool = False
    queue: QueueState | None = None
    """The queue of a run that nobody holds."""
    knowing: Sequence[str] = ()
    """The live workers that claim runs of this workflow."""
    today: str = ""
    initial: str = ""
    known_versions: frozenset[str] | None = None
    attempts: dict[str, int] = {}
    """The maximum number of attempts of each node in the current code."""
    damage: Sequence[Violation] = ()
    last_good: int = 0
    missing: Sequence[tuple[int, str, str]] = ()
    """For each missing or damaged blob: the event, its node, and the fault."""
    watchers: int | None = None
    unused: int = 0
    """Branches that the current one does not descend from."""

    @property
    def is_held(self) -> bool:
        """Whether a live worker advances the run."""
        return self.holder is not None and self.holder.is_live


class Rewrite(Struct, frozen=True):
    """Write the summary, the waits and the head's flag again, from the log; `changes` describes the effect."""

    changes: tuple[str, ...] = ()


class Open(Struct, frozen=True):
    """Open a branch."""

    plan: BranchPlan


class Settle(Struct, frozen=True):
    """Complete what an ended run owes to others: notify its parent, start its successor, cancel the children of left
    branches."""

    run: RunId


class Say(Struct, frozen=True):
    """Append these events on the current branch."""

    events: tuple[e.AnyEvent, ...]


class HandOver(Struct, frozen=True):
    """Take the run over, which records the interruption, and release it for the next worker."""


Remedy: TypeAlias = Rewrite | Settle | Open | Say | HandOver
Standing: TypeAlias = Literal["consistent", "repairable", "reported"]


class Finding(Struct, frozen=True, kw_only=True):
    """One fact about the run. `events` prove it; `actions` are safe actions, as commands or sentences."""

    code: str
    sentence: str
    standing: Standing = "consistent"
    events: tuple[int, ...] = ()
    cause: str = ""
    actions: tuple[str, ...] = ()
    remedy: Remedy | None = None


def and_more(count: int) -> str:
    """The end of a list that names only some items."""
    return f", and {count} more" if count > 0 else ""
