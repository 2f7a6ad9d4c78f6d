"""Every error that Outlast raises, as one tree, each with a stable code.

    OutlastError
    ├── NotAllowed             the request is not allowed; nothing was changed
    │   ├── Illegal            the event is not valid at this place in the log (names the invariant)
    │   ├── NotFound           no such run, branch, event or blob
    │   │   └── RunDeleted         the run was deleted
    │   ├── AlreadyExists      the run id is used by another run
    │   ├── NotAsked           the run does not ask this question now
    │   ├── RunGone            the question, the branch or the run is over
    │   │   └── AlreadyAnswered    the question has been answered
    │   ├── NotDurable         workflow code did something that replay cannot repeat
    │   ├── Unawaited          workflow code did not await a call
    │   ├── NotImportable      the code of the run cannot be imported here
    │   └── InvalidInput       an argument is invalid
    │       ├── NotStorable    a value cannot be stored without loss (names the part)
    │       └── NotSetUp       what a node needs to run is not configured or not installed
    ├── Conflict               another writer was first; read again and decide again
    │   ├── Overtaken          a request or an event arrived that the decision did not know
    │   ├── Fenced             the claim on the run is lost; this owner must stop
    │   └── Claimed            another live worker holds the run
    ├── NodeFailure            a node failed with an error whose class cannot be loaded here
    ├── Rejected               raised by user code: the run fails and cannot be resumed
    ├── RunHeld                the run is held until a person decides
    │   └── RunDiverged        the code no longer matches the log
    ├── RunCancelled           the run was cancelled
    ├── StillRunning           the run did not end within the timeout (a TimeoutError)
    ├── ClusterAway            the cluster that runs the node is unreachable (a ConnectionError)
    ├── NotBegun               the cluster cannot start the node (a RuntimeError)
    ├── Damaged                the log cannot be read as it was written
    │   └── UnknownEvent       an event type that this version does not know
    ├── ServerError            a server refused the request, or failed
    │   ├── ServerAway         no server answers at the address (a ConnectionError)
    │   ├── NotPermitted       no valid token, or a role without the permission
    │   └── ServerMismatch     not an Outlast server, or one of another version
    └── StoreError             the store failed
        ├── StoreFull          no space left; nothing was written
        ├── StoreReadOnly      the store is read-only; nothing was written
        ├── StoreBusy          other processes held the store too long; nothing was written
        ├── StoreUnusable      not an Outlast store, or one of another version
        └── OutcomeUnknown     the store failed during a write; check before trying again

A log holds these errors by their code, so a class may move to another module. `CODES` lists every code with its cause, which
is the docstring of the class, and its remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple


class OutlastError(Exception):
    """Outlast raised an error. `except OutlastError` catches all of them."""

    code: ClassVar[str] = "outlast.error"
    remedy: ClassVar[str] = "Read the message; a subclass says more."


class NotAllowed(OutlastError):
    """The request is not allowed in the present state. Nothing was changed."""

    code = "outlast.not_allowed"
    remedy = "Follow the message: it names what to do first, or instead."


class Illegal(NotAllowed):
    """The event is not valid after what the log holds. `invariant` is V1 to V12, `seq` the position of the event."""

    code = "outlast.illegal_event"
    remedy = "Run `outlast doctor RUN`. If Outlast itself wrote the event, report a bug."

    def __init__(self, invariant: str, message: str, *, seq: int = 0) -> None:
        self.invariant = invariant
        self.seq = seq
        self.reason = message
        place = f" at event {seq}" if seq else ""
        super().__init__(f"{invariant}{place}: {message}")


class NotFound(NotAllowed):
    """The run, branch, event or blob does not exist."""

    code = "outlast.not_found"
    remedy = "Check the id and the store: `outlast ps` lists the runs of a store."


class RunDeleted(NotFound):
    """The run was deleted. Its id and its idempotency key cannot be used again. `run` is its id."""

    code = "outlast.run_deleted"
    remedy = "Restore the run from a backup of the store; for a new run, choose another id or idempotency key."

    def __init__(self, message: str, *, run: str = "") -> None:
        self.run = run
        super().__init__(message)


class AlreadyExists(NotAllowed):
    """The run id is already used by a run with other parameters."""

    code = "outlast.already_exists"
    remedy = "Choose another id, or start with the same parameters to get the existing run."


class NotAsked(NotAllowed):
    """The run does not ask this question now. It may ask it later."""

    code = "outlast.not_asked"
    remedy = "See the open questions with `outlast show RUN`, or answer again when the run asks."


class RunGone(NotAllowed):
    """The run has ended, the question was withdrawn, or the branch is inactive."""

    code = "outlast.run_gone"
    remedy = "Look at the run with `outlast show RUN`."


class AlreadyAnswered(RunGone):
    """The question has been answered. The first answer stays."""

    code = "outlast.already_answered"
    remedy = "Nothing to do. To change the answer, jump back to an event before it."


class NotDurable(NotAllowed):
    """Workflow code did something that a replay cannot repeat, such as I/O."""

    code = "outlast.not_durable"
    remedy = "Move that code into a node."


class Unawaited(NotAllowed):
    """Workflow code made a call and did not await it, so the call was not executed."""

    code = "outlast.unawaited"
    remedy = "Await the call; in a plain function, use `.wait()`."


class NotImportable(NotAllowed):
    """The code of the run cannot be imported here. The run is unchanged."""

    code = "outlast.not_importable"
    remedy = "Name the module or file that defines the workflow with `--app` or the setting `apps`."


class InvalidInput(NotAllowed):
    """An argument is invalid."""

    code = "outlast.invalid_input"
    remedy = "Correct the argument that the message names."


class NotStorable(InvalidInput):
    """A value cannot be stored without loss. The message names the part; nothing was stored."""

    code = "outlast.not_storable"
    remedy = "Convert that part to a type that Outlast stores, or annotate it with one."


class NotSetUp(InvalidInput):
    """The place where the node runs (`run_in`) is not configured, or a package it needs is not installed."""

    code = "outlast.not_set_up"
    remedy = "Set the setting, or install the package, that the message names."
    retryable = False


class Conflict(OutlastError):
    """Another writer appended to the run first."""

    code = "outlast.conflict"
    remedy = "Read the run again and repeat the request."


class Overtaken(Conflict):
    """Events arrived that the decision did not know. The state now includes them."""

    code = "outlast.overtaken"
    remedy = "Decide again with the present state."


class Fenced(Conflict):
    """A newer owner has taken over the run. This owner must stop and cannot append."""

    code = "outlast.fenced"
    remedy = "Nothing to do: the new owner continues the run."


class Claimed(Conflict):
    """Another live worker holds the run."""

    code = "outlast.claimed"
    remedy = "Send the request to the run, or stop that worker first."


class NodeFailure(OutlastError):
    """A node failed with an error whose class cannot be loaded here. `kind` is its code or its class as "module:Name",
    `message` its text, `category` how it is treated; the notes hold its traceback."""

    code = "outlast.node_failure"
    remedy = (
        "Read `kind` and `message`, and correct the node. Import the module of the class to catch the error itself."
    )

    def __init__(self, kind: str, message: str = "", category: str = "permanent") -> None:
        self.kind = kind
        self.category = category
        self.message = message
        super().__init__(f"{kind}: {message}" if message else kind)


class Rejected(OutlastError):
    """User code raised this error because a person or a rule refused. The node is not retried and the run cannot be resumed.

    Any other error has the same effect with the attribute `recoverable = False`, or the opposite with `True`."""

    code = "outlast.rejected"
    remedy = "Go back with `jump`, `rewind` or `retry NODE`, or start a new run."


class RunHeld(OutlastError):
    """The run is held until a person decides."""

    code = "outlast.run_held"
    remedy = "Read the reason with `outlast show RUN`; then resume it, retry a node, or cancel it."


class RunDiverged(RunHeld):
    """The workflow code no longer matches the log, so the run was held. The log is unchanged."""

    code = "outlast.run_diverged"
    remedy = "Restore the old code and resume, or run `outlast migrate RUN`."


class RunCancelled(OutlastError):
    """The run was cancelled."""

    code = "outlast.run_cancelled"
    remedy = "Nothing to do. To continue from an earlier event, use `outlast jump RUN`."


class StillRunning(OutlastError, TimeoutError):
    """The run did not end within the timeout. The run continues."""

    code = "outlast.still_running"
    remedy = "Wait again with a longer timeout, or cancel the run."


class ClusterAway(OutlastError, ConnectionError):
    """The scheduler of the cluster did not respond in time. The node did not start."""

    code = "outlast.cluster_unreachable"
    remedy = "Check the address of the scheduler and the network. A node with retries is tried again."


class NotBegun(OutlastError, RuntimeError):
    """The cluster cannot start the node, for example because Outlast is not installed there."""

    code = "outlast.cluster_not_ready"
    remedy = "Install Outlast and the code of the node on the workers of the cluster."


class Damaged(OutlastError):
    """The log cannot be read as it was written. `run` and `seq` say where."""

    code = "outlast.damaged"
    remedy = "Run `outlast doctor RUN`; restore the store from a backup if it cannot repair the run."

    def __init__(self, message: str, *, run: str = "", seq: int = 0) -> None:
        self.run = run
        self.seq = seq
        place = f"run {run}, event {seq}: " if run and seq else f"run {run}: " if run else ""
        super().__init__(f"{place}{message}")


class UnknownEvent(Damaged):
    """The log holds an event type that this version of Outlast does not know. `kind` is its name."""

    code = "outlast.unknown_event"
    remedy = "Upgrade Outlast: a newer version wrote the event."

    def __init__(self, kind: str, *, run: str = "", seq: int = 0) -> None:
        self.kind = kind
        super().__init__(
            f"unknown event type {kind!r}; it was written by a newer version of Outlast: upgrade to read this run",
            run=run,
            seq=seq,
        )


class ServerError(OutlastError):
    """The server refused the request, or failed."""

    code = "outlast.server_failed"
    remedy = "Read the message, and the log of the server."


class ServerAway(ServerError, ConnectionError):
    """No server answers at the address."""

    code = "outlast.server_not_running"
    remedy = "Start it with `outlast serve`, or correct the address."


class NotPermitted(ServerError):
    """The request has no valid token, or its role does not have the permission."""

    code = "outlast.not_permitted"
    remedy = "Sign in with `outlast login`, set `OUTLAST_TOKEN`, or use a token of another role."


class ServerMismatch(ServerError):
    """The address is not that of an Outlast server, or its version differs too much from this one."""

    code = "outlast.server_mismatch"
    remedy = "Check the address; install the same version of Outlast on both sides."


class StoreError(OutlastError):
    """The store failed."""

    code = "outlast.store_failed"
    remedy = "Read the message; check the server or the disk of the store."


class StoreFull(StoreError):
    """The disk of the store is full. Nothing was written."""

    code = "outlast.store_full"
    remedy = "Free some space: appends continue without a restart."


class StoreReadOnly(StoreError):
    """The store is read-only. Nothing was written."""

    code = "outlast.store_read_only"
    remedy = "Grant write access to the store, or open another one."


class StoreBusy(StoreError):
    """Other processes held the store for longer than the busy timeout. Nothing was written."""

    code = "outlast.store_busy"
    remedy = "Try again. Find the process that holds the store for so long."


class StoreUnusable(StoreError):
    """The file or address is not an Outlast store, or another version of Outlast wrote it."""

    code = "outlast.store_unusable"
    remedy = "Check the address; upgrade Outlast if a newer version wrote the store."


class OutcomeUnknown(StoreError):
    """The store failed during a write. The events may or may not be stored."""

    code = "outlast.outcome_unknown"
    remedy = "Read the run before you repeat the request."


# --- codes

RUN_ENDED = "outlast.run_ended"
NODE_ABANDONED = "outlast.node_abandoned"
WORKER_RESTARTED = "outlast.worker_restarted"
NODE_INTERRUPTED = "outlast.node_interrupted"
CRASH_LIMIT = "outlast.crash_limit"
TAKEOVER_FAILED = "outlast.takeover_failed"


class Code(NamedTuple):
    """What a code means and what to do. `error` is its class; a code that only logs hold has none."""

    cause: str
    remedy: str
    error: type[OutlastError] | None = None


def _tree(root: type[OutlastError]) -> Iterator[type[OutlastError]]:
    yield root
    for each in root.__subclasses__():
        yield from _tree(each)


def _code_of(error: type[OutlastError]) -> Code:
    cause = " ".join((error.__doc__ or "").split("\n\n")[0].split())
    return Code(cause, error.remedy, error)


CODES: dict[str, Code] = {each.code: _code_of(each) for each in _tree(OutlastError)} | {
    RUN_ENDED: Code(
        "The run ended while the node was in progress.",
        "Nothing to do: if the run is resumed, the node runs again.",
    ),
    NODE_ABANDONED: Code(
        "The workflow cancelled the node, or left the scope that waited for it.",
        "Nothing to do, unless the workflow should have waited.",
    ),
    WORKER_RESTARTED: Code(
        'The worker stopped while the run was in progress, and the run has `on_restart="hold"`.',
        "Resume the run.",
    ),
    NODE_INTERRUPTED: Code(
        "A node with `repeatable=False` was interrupted: it may or may not have had its effect.",
        "Check whether the effect happened. Then resume the run to execute the node again, or cancel the run.",
    ),
    CRASH_LIMIT: Code(
        "A node was interrupted repeatedly because its worker or its helper process ended.",
        "Find out why, for example too little memory. Then resume the run.",
    ),
    TAKEOVER_FAILED: Code(
        "A worker failed several times to continue the run.",
        "Read the log of the worker, then resume the run.",
    ),
}
"""Every code that a log can hold for an error of Outlast. Codes never change; an error of user code is stored as its class,
"module:Name"."""


def code_of(cls: type) -> str:
    """The code of an error class of Outlast; empty for any other class, a user's subclass included."""
    return next((code for code, each in CODES.items() if each.error is cls), "")
