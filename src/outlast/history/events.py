"""Every kind of fact a log can hold.

Events are past tense, immutable and small. Fields at their defaults are not written, so a trivial node costs few bytes.
Values of users (parameters, outputs, answers) are kept as the JSON they were given in: the kernel never looks inside.
Times are microseconds since 1970, UTC.

Adding a field with a default, or a type at the end of its group, is an ordinary change; renaming or retyping one is not:
old logs must decode for ever (`tests/histories/` holds some to prove it).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Raw, Struct, field

Value: TypeAlias = Raw
"""JSON, in its exact bytes."""

Cursor: TypeAlias = int | str
"""How far a trigger's source has been read; numbers compare as numbers, texts as texts."""

NULL = Raw(b"null")
NO_TIME = 0.0
"""Less than is worth telling. What is at its default is not written, and for numbers that means this very object."""


class Event(
    Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag=lambda name: name,
    gc=False,
    kw_only=True,
):
    """The trunk. `more` keeps the fields a newer version wrote, so that an event written again loses nothing."""

    more: dict[str, Raw] | None = field(default=None, name="+")


Category: TypeAlias = Literal[
    "permanent", "transient", "timeout", "cancelled", "crash", "rejected", "denied", "invalid"
]


class Failure(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An error as a fact: its kind, what it said, where it came from, how it is to be treated, and what it carried. The kind
    is a code of `errors.CODES`, or "module:Name" for any other class."""

    kind: str
    message: str = ""
    trace: str = ""
    category: Category = "permanent"
    data: Value = NULL
    more: dict[str, Raw] | None = field(default=None, name="+")


# --- the run -----------------------------------------------------------------------------------------------------------


class RunCreated(Event, frozen=True, kw_only=True):
    workflow: str
    version: str = ""
    params: Value = NULL
    by: str = ""
    kind: Literal["function", "graph", "plan", "trigger", "schedule"] = "function"
    key: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    parent: str = ""
    parent_node: str = ""
    as_child: str = ""
    """The id under which the parent waits for it, if that does not follow from `parent` and `parent_node`."""
    forked_from: str = ""
    forked_at: int = 0
    on_restart: Literal["resume", "hold"] = "resume"
    exclusive: str = ""
    entry: str = ""
    """Where the code is: `module:name`, or the path of a file and the name."""
    folder: str = ""
    """The folder to import the module from, if other processes may not find it by themselves."""
    root: str = ""


class RunStarted(Event, frozen=True, kw_only=True):
    resumed: bool = False
    by: str = ""


class RunPaused(Event, frozen=True, kw_only=True):
    """`copied_to` is the address of the store to which the run was copied and where it continues."""

    by: str = ""
    reason: str = ""
    copied_to: str = ""


class RunTakenOver(Event, frozen=True, kw_only=True):
    epoch: int
    worker: str = ""
    previous: str = ""
    cause: Literal["claimed", "expired", "dead"] = "claimed"


class PauseRequested(Event, frozen=True, kw_only=True):
    by: str = ""
    reason: str = ""
    copied_to: str = ""


class CancelRequested(Event, frozen=True, kw_only=True):
    """With `force` the run ends at once, without or amid its clean-up."""

    by: str = ""
    reason: str = ""
    force: bool = False


class RequestRefused(Event, frozen=True, kw_only=True):
    """The request at event `request` is not obeyed. `code` says why: the run `ended` first, another request `superseded` it,
    it `cannot` be met, or the run stood `still` already."""

    request: int
    code: Literal["ended", "superseded", "cannot", "still"]
    reason: str = ""


class RunCompleted(Event, frozen=True, kw_only=True):
    output: Value = NULL
    ms: float = NO_TIME


class RunFailed(Event, frozen=True, kw_only=True):
    error: Failure
    node: str = ""
    recoverable: bool = False
    held: bool = False


class CleanupStarted(Event, frozen=True, kw_only=True):
    """Here the code of a cancelled run received CancelledError. Its clean-up ends at `due` at the latest. Said again with
    `extended`, that it has until then because a person had it go on."""

    due: int
    extended: bool = False
    by: str = ""
    reason: str = ""


class RunCancelled(Event, frozen=True, kw_only=True):
    """`cleanup` says what became of the clean-up: there was `none`, it `completed`, it `failed` with `error`, its time
    `expired`, or somebody `stopped` it by a second cancellation."""

    by: str = ""
    reason: str = ""
    cleanup: Literal["none", "completed", "failed", "expired", "stopped"] = "none"
    error: Failure | None = None


class RunContinued(Event, frozen=True, kw_only=True):
    successor: str
    carried: Value = NULL


class RunRecovered(Event, frozen=True, kw_only=True):
    code: str
    reason: str = ""
    evidence: tuple[int, ...] = ()
    previous_branch: int = 0
    new_branch: int = 0
    cutoff: int = 0


class VersionChanged(Event, frozen=True, kw_only=True):
    version: str
    previous: str = ""
    reason: str = ""


# --- branches ----------------------------------------------------------------------------------------------------------


BranchCause: TypeAlias = Literal["jump", "retry", "recovery", "activate", "migrate", "replan"]
Children: TypeAlias = Literal["cancel", "keep"]
"""What becomes of the children that were started in the part that a branch leaves."""


class BranchOpened(Event, frozen=True, kw_only=True):
    """The first event of its branch. `parent_first` and `previous_first` are where its parent and the branch numbered
    before it opened: a lineage, or the list of all branches, is read by walking back and nothing else is touched.

    `withdrawn` are the questions that belong to the part that is left, `cancelled` its children that are cancelled, and
    `detached` those that go on although the run no longer waits for them. `redo` are the nodes for whose sake it opened:
    their results over there do not count here. `request` is the JumpRequested that it obeys."""

    branch: int
    parent: int
    cutoff: int
    parent_first: int = 1
    previous_first: int = 1
    cause: BranchCause = "jump"
    by: str = ""
    reason: str = ""
    withdrawn: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    redo: tuple[str, ...] = ()
    request: int = 0


class JumpRequested(Event, frozen=True, kw_only=True):
    """Someone wants to go back to event `target` and on from there as a new branch. It says all that the branch needs, so
    that whoever owns the run, now or after a crash, can open it: `redo` are the nodes to be done again, `then` the events
    that are said first on the new branch."""

    target: int
    branch: int
    by: str = ""
    reason: str = ""
    cause: BranchCause = "jump"
    redo: tuple[str, ...] = ()
    then: Value = NULL
    children: Children = "cancel"


class Recalled(Event, frozen=True, kw_only=True):
    """In a fork: the following events were copied from event `at` of the run it was forked from, and date from `time`. When
    workflow code received them there, it ran with the id of `run`; empty: here it runs with the id of the fork itself."""

    at: int
    time: int
    run: str = ""


# --- steps and nodes ---------------------------------------------------------------------------------------------------


class StepStarted(Event, frozen=True, kw_only=True):
    step: str


class StepCompleted(Event, frozen=True, kw_only=True):
    step: str


class NodeScheduled(Event, frozen=True, kw_only=True):
    """`feedback` is what a person gives the node; `inputs`, if there are any, replace those the code calls it with."""

    node: str
    attempt: int = 1
    cause: Literal["first", "retry", "crash", "pause", "reset"] = "first"
    step: str = ""
    feedback: Value = NULL
    inputs: Value = NULL


class NodeStarted(Event, frozen=True, kw_only=True):
    """`hash` is of the inputs that the code asked with, where `inputs` does not show just those: they are too large, or a
    person gave the node others."""

    node: str
    attempt: int = 1
    inputs: Value = NULL
    hash: str = ""
    code: str = ""
    repeatable: bool = True


class NodeCheckpointed(Event, frozen=True, kw_only=True):
    node: str
    attempt: int = 1
    data: Value = NULL


class NodeCompleted(Event, frozen=True, kw_only=True):
    """`adopted` is the place of the completion on a branch that was left, which a new branch takes over; `by` is the person
    who gave the output in the node's stead."""

    node: str
    attempt: int = 1
    output: Value = NULL
    ms: float = NO_TIME
    adopted: int = 0
    by: str = ""


class NodeFailed(Event, frozen=True, kw_only=True):
    """Final unless `retry_at` says when the next attempt is due."""

    node: str
    error: Failure
    attempt: int = 1
    ms: float = NO_TIME
    retry_at: int | None = None


class NodesRetired(Event, frozen=True, kw_only=True):
    """These nodes are over and nothing will ask for them again: the state forgets them, so that a run over a million items
    does not carry all of them along."""

    nodes: tuple[str, ...]


class NodeSkipped(Event, frozen=True, kw_only=True):
    node: str
    reason: str = ""


class CompensationStarted(Event, frozen=True, kw_only=True):
    node: str
    attempt: int = 1


class NodeCompensated(Event, frozen=True, kw_only=True):
    node: str
    attempt: int = 1
    ms: float = NO_TIME


class CompensationFailed(Event, frozen=True, kw_only=True):
    node: str
    error: Failure
    attempt: int = 1


class GraphExtended(Event, frozen=True, kw_only=True):
    by: str = ""
    nodes: Value = NULL


# --- people and time ---------------------------------------------------------------------------------------------------


class InteractionRequested(Event, frozen=True, kw_only=True):
    interaction: str
    node: str = ""
    key: str = ""
    kind: Literal["ask", "approve", "form"] = "ask"
    prompt: str = ""
    schema: Value = NULL
    hash: str = ""
    due: int | None = None


class InteractionAnswered(Event, frozen=True, kw_only=True):
    interaction: str
    answer: Value = NULL
    by: str = ""


class InteractionWithdrawn(Event, frozen=True, kw_only=True):
    interaction: str
    reason: str = ""


class SignalAwaited(Event, frozen=True, kw_only=True):
    """The run waits for a signal of this name; without it a waiting run could not say for what."""

    wait: str
    name: str


class SignalReceived(Event, frozen=True, kw_only=True):
    signal: str
    name: str
    data: Value = NULL
    by: str = ""


class SignalConsumed(Event, frozen=True, kw_only=True):
    signal: str
    wait: str = ""


class TimerSet(Event, frozen=True, kw_only=True):
    timer: str
    due: int
    node: str = ""


class TimerFired(Event, frozen=True, kw_only=True):
    timer: str


class TimerCancelled(Event, frozen=True, kw_only=True):
    timer: str
    reason: str = ""


class NewsHeard(Event, frozen=True, kw_only=True):
    """The owner has heard what guests wrote up to this event. Guests write at any time, also in front of what an owner wrote
    without knowing of it: this says in which order the run came to know of things, and replay keeps to it."""

    upto: int


class DecisionRecorded(Event, frozen=True, kw_only=True):
    key: str
    value: Value = NULL


# --- the outside -------------------------------------------------------------------------------------------------------


class TriggerRegistered(Event, frozen=True, kw_only=True):
    trigger: str
    kind: str = ""
    config: Value = NULL


class TriggerInputReceived(Event, frozen=True, kw_only=True):
    trigger: str
    input: str
    data: Value = NULL
    cursor: Cursor | None = None


class TriggerCursorAdvanced(Event, frozen=True, kw_only=True):
    trigger: str
    cursor: Cursor
    count: int = 0


class OutboxEnqueued(Event, frozen=True, kw_only=True):
    message: str
    target: str = ""
    data: Value = NULL
    node: str = ""


class OutboxSent(Event, frozen=True, kw_only=True):
    """`adopted` is the place of the receipt on a branch that was left, which a new branch takes over."""

    message: str
    receipt: str = ""
    adopted: int = 0


class ChildStarted(Event, frozen=True, kw_only=True):
    child: str
    workflow: str = ""
    node: str = ""
    detached: bool = False
    hash: str = ""


class ChildEnded(Event, frozen=True, kw_only=True):
    child: str
    status: Literal["completed", "failed", "cancelled"] = "completed"
    output: Value = NULL
    error: Failure | None = None
    adopted: int = 0


AnyEvent: TypeAlias = (
    RunCreated
    | RunStarted
    | RunPaused
    | RunTakenOver
    | PauseRequested
    | CancelRequested
    | RequestRefused
    | RunCompleted
    | RunFailed
    | CleanupStarted
    | RunCancelled
    | RunContinued
    | RunRecovered
    | VersionChanged
    | BranchOpened
    | JumpRequested
    | Recalled
    | StepStarted
    | StepCompleted
    | NodeScheduled
    | NodeStarted
    | NodeCheckpointed
    | NodeCompleted
    | NodeFailed
    | NodesRetired
    | NodeSkipped
    | CompensationStarted
    | NodeCompensated
    | CompensationFailed
    | GraphExtended
    | InteractionRequested
    | InteractionAnswered
    | InteractionWithdrawn
    | SignalAwaited
    | SignalReceived
    | SignalConsumed
    | TimerSet
    | TimerFired
    | TimerCancelled
    | NewsHeard
    | DecisionRecorded
    | TriggerRegistered
    | TriggerInputReceived
    | TriggerCursorAdvanced
    | OutboxEnqueued
    | OutboxSent
    | ChildStarted
    | ChildEnded
)

EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in AnyEvent.__args__}
"""Every event type by its name, which is also its tag in the stored JSON."""
