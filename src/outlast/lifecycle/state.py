"""What a lineage amounts to: the outline of the run, its nodes, and what it has asked of others.

The parts are immutable and replaced, never changed in place, so that a draft (see `draft`) can lie over a state without
copying it. Only what later events or the drivers ask for is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from outlast.history.events import (
    NULL,
    CancelRequested,
    CleanupStarted,
    Cursor,
    Failure,
    NodeScheduled,
    NodeStarted,
    Value,
)
from outlast.lifecycle.requests import Requests
from outlast.lifecycle.status import TERMINAL, RunStatus

Part = TypeVar("Part")


class Table(Protocol[Part]):
    """The few things the fold does to a dictionary, so that a draft can stand in for one."""

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
"""The timer by which the clean-up of a cancelled run ends."""

OPEN = frozenset({NodeStatus.SCHEDULED, NodeStatus.STARTED})
"""A node in one of these is somebody's work right now."""


class NodeState(Struct, frozen=True, gc=False):
    """One node on this lineage. `seq` is the place of its newest event; `started` is how its newest attempt began, until it
    completes; `crashes` are counted apart from retries; outcomes before `reset` no longer count. `given` is where a person
    gave it feedback or other inputs."""

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
        """Whether the attempt that has begun may simply be followed by another."""
        return self.started is None or self.started.repeatable


WaitKind: TypeAlias = Literal["interaction", "signal", "timer", "child", "outbox", "trigger"]


class Wait(Struct, frozen=True, omit_defaults=True, gc=False):
    """Something named that someone else will end. `detail` is what a guest needs to check an answer (a schema); `since` is
    when it was opened, in microseconds."""

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
    """A received signal. It is remembered when consumed, so that the same one delivered again is not another."""

    name: str
    data: Value
    seq: int
    consumed: bool = False


class Child(Struct, frozen=True, gc=False):
    """A run this one started; `status` is empty until it ended, `seq` the place of its end. A `detached` child is not waited
    for; one that is `cancelled` as well belongs to a part that was left, and has to be cancelled until it has ended."""

    node: str
    detached: bool
    status: Literal["", "completed", "failed", "cancelled"] = ""
    output: Value = NULL
    error: Failure | None = None
    seq: int = 0
    cancelled: bool = False


class Trigger(Struct, frozen=True, gc=False):
    """A source of inputs and how far it has been read."""

    kind: str
    cursor: Cursor | None = None
    received: int = 0


class Outline(Struct, gc=False):
    """The run as a whole: small, and copied when a draft begins. `base` is the status without `waiting`; `generation` is
    the newest branch that a person opened."""

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
    on_restart: str = "resume"
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
    """Neither obeyed nor refused yet, in the order of the log."""
    cancel_inherited: CancelRequested | None = None
    """What was asked of the run before it continued: then it is asked of its successor."""
    generation: int = 0
    cleanup: CleanupStarted | None = None
    """Where the clean-up of a cancelled run began, or was given more time."""
    extends_cleanup: bool = False
    """Whether a person had a run go on amid its clean-up, which its owner gives the whole time again."""

    @property
    def is_cleaning(self) -> bool:
        """Whether the run is in its clean-up and not held."""
        return self.cleanup is not None and self.base is RunStatus.COMPENSATING


class Lazy:
    """A table that begins when it is first asked for. It is no attribute of the object before, and like any other after."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, state: State, owner: type) -> Any:
        table = state.new_table(self.name)
        setattr(state, self.name, table)
        return table


class State:
    """Everything the fold knows of a run on one lineage.

    `waits` are what the run waits for; `loose` are ends that others may still tie without the run waiting: messages in the
    outbox, detached children, registered triggers. Both are shown to guests by the store. `sent` are the messages that went
    out, with the place of the receipt.

    Of the tables only `nodes` is always there: most runs have nodes and nothing else, and thousands of them are in memory
    at once."""

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

    if not TYPE_CHECKING:  # to the type checker they are tables from the beginning
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
        """The table of that name as it begins."""
        return {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self.outline == other.outline and all(getattr(self, name) == getattr(other, name) for name in TABLES)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        told = [f"{name}={getattr(self, name)!r}" for name in ("outline", *TABLES)]
        return f"State({', '.join(told)})"

    @property
    def status(self) -> RunStatus:
        """The status people see: a running run with nothing in flight and something to wait for is waiting."""
        outline = self.outline
        if outline.base is None:
            return RunStatus.CREATED
        if outline.base is RunStatus.RUNNING and not outline.open_nodes and self.count("waits"):
            return RunStatus.WAITING
        return outline.base

    def count(self, name: str) -> int:
        """How much there is in the table of that name; one that nobody has asked for does not begin for that."""
        table = self.__dict__.get(name)
        return 0 if table is None else len(table)

    def to_cancel(self) -> list[str]:
        """The children of parts that were left that have to be cancelled and have not ended, as far as the log says."""
        if not self.count("children"):
            return []
        return [name for name, child in self.children.items() if child.cancelled and not child.status]

    @property
    def is_closed(self) -> bool:
        """Over, and not merely held: nothing but receipts is taken in."""
        outline = self.outline
        return outline.base in TERMINAL and not outline.held


TABLES = ("nodes", *(name for name, part in vars(State).items() if isinstance(part, Lazy)))
