"""The event types of a log.

Events are immutable, small, and named in the past tense. Fields with default values are not written, so a trivial node costs
few bytes. Users' values (parameters, outputs, answers) stay in the JSON they arrived in; this package never decodes them.
Times are microseconds since 1970, UTC.

Adding a field with a default, or a type at the end of its group, is an ordinary change. Renaming or retyping one is not: old
logs must always decode (`tests/histories/` has examples).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Raw, Struct, field

Value: TypeAlias = Raw
"""JSON, in its exact bytes."""

Cursor: TypeAlias = int | str
"""The read position in the source of a trigger; numbers compare as numbers, texts as texts."""


class Moment(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A point in time as the value of a search attribute, in microseconds since 1970, UTC."""

    time: int


AttributeValue: TypeAlias = bool | int | float | str | Moment
"""The value of a search attribute: true or false, a number, text, or a time."""

NULL = Raw(b"null")
NO_TIME = 0.0
"""The default of durations. msgspec omits a float only if it is this very object."""


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
    """The base of all events. `more` holds the fields of a newer version, so that rewriting an event loses no field."""

    more: dict[str, Raw] | None = field(default=None, name="+")


Category: TypeAlias = Literal[
    "permanent", "transient", "timeout", "cancelled", "crash", "rejected", "denied", "invalid"
]


class Failure(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A recorded error: its kind, message, traceback, category and data. The kind is a code of `errors.CODES`, or
    "module:Name" for any other class."""

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
    """The id under which the parent waits for it, if it cannot be derived from `parent` and `parent_node`."""
    forked_from: str = ""
    forked_at: int = 0
    on_restart: Literal["resume", "hold"] = "resume"
    exclusive: str = ""
    entry: str = ""
    """The location of the code: `module:name`, or the path of a file and the name."""
    folder: str = ""
    """The folder to import the module from, if other processes may not find the module without it."""
    root: str = ""
    deferred: bool = False
    """Whether the run begins only when a user starts it."""
    trace: str = ""
    """The W3C trace context of the caller (`traceparent`)."""
    queue: str = ""
    priority: int = 0
    fairness_key: str = ""
    attributes: dict[str, AttributeValue] = {}


class RunStarted(Event, frozen=True, kw_only=True):
    resumed: bool = False
    by: str = ""


class RunPaused(Event, frozen=True, kw_only=True):
    """`copied_to` is the address of the store to which the run was copied and where it continues."""

    by: str = ""
    reason: str = ""
    copied_to: str = ""


class RunTakenOver(Event, frozen=True, kw_only=True):
    """`seen` is when the store last heard of the `previous` worker, 0 if that is unknown."""

    epoch: int
    worker: str = ""
    previous: str = ""
    cause: Literal["claimed", "expired", "dead"] = "claimed"
    seen: int = 0


class PauseRequested(Event, frozen=True, kw_only=True):
    by: str = ""
    reason: str = ""
    copied_to: str = ""


class CancelRequested(Event, frozen=True, kw_only=True):
    """With `force` the run ends at once, without its clean-up or in the middle of it."""

    by: str = ""
    reason: str = ""
    force: bool = False


class RequestRefused(Event, frozen=True, kw_only=True):
    """The request at event `request` is refused. `code` is the reason: the run `ended` first, another request `superseded`
    it, it `cannot` be met, or the run was `still` (paused or held) already."""

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
    """The code of a cancelled run received CancelledError. Its clean-up ends at `due` at the latest. A second event with
    `extended` moves `due` because a user resumed the run."""

    due: int
    extended: bool = False
    by: str = ""
    reason: str = ""


class RunCancelled(Event, frozen=True, kw_only=True):
    """`cleanup` is the outcome of the clean-up: there was `none`, it `completed`, it `failed` with `error`, its time
    `expired`, or a second cancellation `stopped` it."""

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


class AttributesSet(Event, frozen=True, kw_only=True):
    """Search attributes that the workflow code set; null removes one."""

    attributes: dict[str, AttributeValue | None]


class VersionChanged(Event, frozen=True, kw_only=True):
    version: str
    previous: str = ""
    reason: str = ""


# --- branches ----------------------------------------------------------------------------------------------------------


BranchCause: TypeAlias = Literal["jump", "retry", "recovery", "activate", "migrate", "replan"]
Children: TypeAlias = Literal["cancel", "keep"]
"""Whether a branch cancels the children that were started after its cutoff."""


class BranchOpened(Event, frozen=True, kw_only=True):
    """The first event of its branch. `parent_first` and `previous_first` are the first events of its parent and of the
    branch numbered before it: a reader finds a lineage, or all branches, by walking back from one BranchOpened to another.

    The events after the cutoff are left: `withdrawn` are their open questions, `cancelled` their children that the branch
    cancels, and `detached` those that continue although the run stops waiting for them. `redo` are the nodes to repeat: the
    branch does not adopt their results. `request` is the JumpRequested that it obeys."""

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
    """A request to continue from event `target` on a new branch. It has all fields of the branch, so that the owner of the
    run, now or after a crash, can open it: `redo` are the nodes to repeat, `then` the first events of the new branch."""

    target: int
    branch: int
    by: str = ""
    reason: str = ""
    cause: BranchCause = "jump"
    redo: tuple[str, ...] = ()
    then: Value = NULL
    children: Children = "cancel"


class Recalled(Event, frozen=True, kw_only=True):
    """In a fork: the following events are copies from event `at` of the original run, where they were recorded at `time`.
    `run` is the id that the workflow code had when it received them; empty: the code has the id of the fork."""

    at: int
    time: int
    run: str = ""


# --- steps and nodes ---------------------------------------------------------------------------------------------------


class StepStarted(Event, frozen=True, kw_only=True):
    step: str


class StepCompleted(Event, frozen=True, kw_only=True):
    step: str


class NodeScheduled(Event, frozen=True, kw_only=True):
    """`feedback` is for the node, from a user; `inputs`, if present, replace the inputs of the call."""

    node: str
    attempt: int = 1
    cause: Literal["first", "retry", "crash", "pause", "reset"] = "first"
    step: str = ""
    feedback: Value = NULL
    inputs: Value = NULL


class NodeStarted(Event, frozen=True, kw_only=True):
    """`hash` is the hash of the inputs of the call, if `inputs` differs from them because they are too large or a user
    replaced them."""

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
    """`adopted` is the seq of the completion on an earlier branch that this branch adopts; `by` is the user who supplied the
    output instead of the node."""

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
    """These nodes are over and the code will not call them again. The state drops them, so that a run over a million items
    does not hold all of them in memory."""

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
    """The run waits for a signal of this name."""

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


class GuestEventsRead(Event, frozen=True, kw_only=True):
    """The owner has read the events of guests up to this event. Guests append at any time, also before an append that the
    owner made without having read them. This event records the order in which the run received events, for replay."""

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
    """`adopted` is the seq of the receipt on an earlier branch that this branch adopts."""

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
    | AttributesSet
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
    | GuestEventsRead
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
