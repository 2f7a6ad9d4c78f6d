"""The state of a lineage: the outline of the run, its nodes, and its waits.

The parts are immutable and replaced, never changed in place, so that a draft (see `draft`) can cover a state without copying
it. The state holds only what later events or the drivers need.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from outlast.history.events import (
    NULL,
    AttributeValue,
    CancelRequested,
    CleanupStarted,
    Cursor,
    Failure,
    NodeScheduled,
    NodeStarted,
    Value,
)
from outlast.lifecycle.requests import Requests
from outlast.lifecycle.status import COMPENSATING, CREATED, LIVE, RUNNING, TERMINAL, WAITING, RunStatus

Part = TypeVar("Part")


class Table(Protocol[Part]):
    """The dictionary operations that the fold uses. The overlay of a draft supports the same ones."""

    def get(self, key: str, /) -> Part | None: ...
    def __setitem__(self, key: str, part: Part, /) -> None: ...
    def pop(self, key: str, default: None, /) -> object: ...
    def clear(self) -> None: ...
    def values(self) -> Iterable[Part]: ...
    def items(self) -> Iterable[tuple[str, Part]]: ...
    def __len__(self) -> int: ...


class NodeStatus(IntEnum):
    SCHEDULED = 1
    STARTED = 2
    COMPLETED = 3
    FAILED = 4
    SKIPPED = 5
    RETRYING = 6
    COMPENSATING = 7
    COMPENSATED = 8


CLEANUP = "cleanup"
"""The timer that limits the clean-up of a cancelled run."""

OPEN = frozenset({NodeStatus.SCHEDULED, NodeStatus.STARTED})
"""The statuses of a node that has an attempt scheduled or started."""


class NodeState(Struct, frozen=True, gc=False):
    """One node on this lineage. `seq` is the seq of its newest event; `started` is the start of its newest attempt, until it
    completes; `crashes` are counted apart from retries; outcomes before `reset` do not count. `given` is the event with
    which a user supplied feedback or other inputs."""

    status: NodeStatus
    attempt: int
    seq: int
    output: Value = NULL
    error: Failure | None = None
    started: NodeStarted | None = None
    checkpoint: Value | None = None
    crashes: int = 0
    retries: int = 0
    reset: int = 0
    given: NodeScheduled | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether another attempt may follow the started one without a user's decision."""
        return self.started is None or self.started.repeatable


WaitKind: TypeAlias = Literal["interaction", "signal", "timer", "child", "outbox", "trigger"]


class Wait(Struct, frozen=True, omit_defaults=True, gc=False):
    """A named wait that another party will end. `detail` is the schema with which a guest checks an answer; `since` is the
    time when it was opened, in microseconds."""

    kind: WaitKind
    id: str
    node: str = ""
    due: int | None = None
    text: str = ""
    hash: str = ""
    detail: Value = NULL
    since: int = 0

    @property
    def name(self) -> str:
        """Unique within the run."""
        return f"{self.kind}:{self.id}"


class Interaction(Struct, frozen=True, gc=False):
    """A question of this lineage; `answer` is None while it is open."""

    node: str
    key: str
    hash: str
    seq: int
    answer: Value | None = None
    withdrawn: bool = False
    by: str = ""


class Signal(Struct, frozen=True, gc=False):
    """A received signal. It stays after it is consumed, so that a repeated delivery does not count as a second signal."""

    name: str
    data: Value
    seq: int
    consumed: bool = False


class Child(Struct, frozen=True, gc=False):
    """A run that this run started; `status` is empty until it ends, `seq` is the event of its end. The run does not wait for
    a `detached` child. A child that is also `cancelled` belongs to a branch that was left; the owner cancels it until it has
    ended."""

    node: str
    detached: bool
    status: Literal["", "completed", "failed", "cancelled"] = ""
    output: Value = NULL
    error: Failure | None = None
    seq: int = 0
    cancelled: bool = False


class Trigger(Struct, frozen=True, gc=False):
    """A source of inputs and the position up to which it has been read."""

    kind: str
    cursor: Cursor | None = None
    received: int = 0


class Outline(Struct, gc=False):
    """The run as a whole: small, and copied when a draft begins. `base` is the status without `waiting`; `generation` is
    the newest branch that a user opened."""

    base: RunStatus | None = None
    seq: int = 0
    time: int = 0
    branch: int = 0
    branch_first: int = 1
    workflow: str = ""
    version: str = ""
    kind: str = "function"
    created: int = 0
    parent: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    exclusive: str = ""
    queue: str = ""
    priority: int = 0
    fairness_key: str = ""
    attributes: dict[str, AttributeValue] = {}
    """Replaced when it changes, never changed in place."""
    on_restart: str = "resume"
    deferred: bool = False
    """Whether the run was created to begin only when a user starts it, and has not begun."""
    open_nodes: int = 0
    done_nodes: int = 0
    recoverable: bool = False
    held: bool = False
    undoing: bool = False
    reason: str = ""
    copied_to: str = ""
    error: Failure | None = None
    failed_node: str = ""
    output: Value = NULL
    successor: str = ""
    requests: Requests = ()
    """The open requests, in the order of the log."""
    cancel_inherited: CancelRequested | None = None
    """A cancellation that was open when the run continued: it applies to the successor."""
    generation: int = 0
    cleanup: CleanupStarted | None = None
    """The event that began or extended the clean-up of a cancelled run."""
    extends_cleanup: bool = False
    """Whether a user resumed the run during its clean-up: its owner extends the clean-up by the whole time limit."""

    @property
    def awaits_start(self) -> bool:
        """Whether the run begins only when a user starts it."""
        return self.deferred and self.base is CREATED

    @property
    def is_live(self) -> bool:
        """Whether the run advances or waits by itself: it has begun or will begin, and no user has to act first."""
        return self.base in LIVE and not self.awaits_start

    @property
    def is_cleaning(self) -> bool:
        """Whether the run is in its clean-up and not held."""
        return self.cleanup is not None and self.base is COMPENSATING


class Lazy:
    """A table that is created and stored as an attribute on first access."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, state: State, owner: type) -> Any:
        table = state.new_table(self.name)
        setattr(state, self.name, table)
        return table


class State:
    """The fold of one lineage of a run.

    `waits` are the waits of the run; `loose` are ends that others may close although the run does not wait for them:
    messages in the outbox, detached children, registered triggers. The store shows both to guests. `sent` maps sent messages
    to the seq of their receipts.

    Only the table `nodes` always exists: most runs have nodes and nothing else, and thousands of runs are in memory at
    once."""

    outline: Outline
    nodes: Table[NodeState]
    waits: Table[Wait]
    loose: Table[Wait]
    interactions: Table[Interaction]
    signals: Table[Signal]
    children: Table[Child]
    sent: Table[int]
    triggers: Table[Trigger]
    steps: Table[bool]
    decisions: Table[Value]

    if not TYPE_CHECKING:  # the type checker sees plain tables
        waits = Lazy()
        loose = Lazy()
        interactions = Lazy()
        signals = Lazy()
        children = Lazy()
        sent = Lazy()
        triggers = Lazy()
        steps = Lazy()
        decisions = Lazy()

    def __init__(self) -> None:
        self.outline = Outline()
        nodes: dict[str, NodeState] = {}
        self.nodes = nodes

    def new_table(self, _name: str) -> object:
        """A new table of that name."""
        return {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self.outline == other.outline and all(getattr(self, name) == getattr(other, name) for name in TABLES)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"State({', '.join(f'{name}={getattr(self, name)!r}' for name in ('outline', *TABLES))})"

    @property
    def status(self) -> RunStatus:
        """The displayed status: a running run with no open nodes and at least one wait is waiting."""
        outline = self.outline
        if outline.base is None:
            return CREATED
        if outline.base is RUNNING and not outline.open_nodes and self.count("waits"):
            return WAITING
        return outline.base

    def count(self, name: str) -> int:
        """The size of the table of that name. Counting does not create the table."""
        table = self.__dict__.get(name)
        return 0 if table is None else len(table)

    def to_cancel(self) -> list[str]:
        """The children of left branches that must be cancelled and have not ended according to the log."""
        if not self.count("children"):
            return []
        return [name for name, child in self.children.items() if child.cancelled and not child.status]

    @property
    def is_closed(self) -> bool:
        """Whether the run is over and not held: it accepts only receipts."""
        outline = self.outline
        return outline.base in TERMINAL and not outline.held


TABLES = ("nodes", *(name for name, part in vars(State).items() if isinstance(part, Lazy)))
