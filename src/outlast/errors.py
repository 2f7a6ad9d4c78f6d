"""Every refusal Outlast makes, as one tree.

    OutlastError
    ├── NotAllowed             what was asked cannot be done; nothing was changed
    │   ├── Illegal            the event may not follow what the log holds (names the invariant)
    │   ├── NotFound           no such run, branch, event or blob
    │   ├── AlreadyExists      a run of that id is there already, and is another one
    │   ├── NotAsked           an answer to a question that is not asked, or not yet
    │   ├── RunGone            what it answers is over: finished, withdrawn, or on a dead branch
    │   │   └── AlreadyAnswered    the question has its answer
    │   ├── NotDurable         workflow code asked for what would not happen again in the same way
    │   ├── Unawaited          workflow code made a call and did not await it
    │   ├── NotImportable      the code of a run is not found here
    │   └── InvalidInput       an argument that cannot be meant
    │       └── NotStorable    a value that would not come back as it is (names the part of it)
    ├── Conflict               someone wrote first; read on and decide again
    │   ├── Overtaken          a request or a fact arrived that the decision did not know of
    │   ├── Fenced             the claim on the run is lost; this owner must stop
    │   └── Claimed            another live worker holds the run
    ├── NodeFailure            a node failed with an error that cannot be rebuilt here
    ├── Rejected               raised by an author: the run fails for good, `resume` does not go on with it
    ├── RunHeld                the run waits for a person's decision
    │   └── RunDiverged        the code no longer asks for what the log holds
    ├── RunCancelled           the run was cancelled
    ├── StillRunning           the run had not ended within the timeout (a TimeoutError)
    ├── Damaged                the log does not say what it said when it was written
    │   └── UnknownEvent       an event type this version does not know
    └── StoreError             the cupboard itself failed
        ├── StoreFull          no space left; nothing was written
        ├── StoreReadOnly      it may not be written to; nothing was written
        ├── StoreBusy          others held it for too long; nothing was written
        ├── StoreUnusable      it is not a store of ours, or of a newer version
        └── OutcomeUnknown     the store failed in mid-write; ask before trying again

A message says what was refused, why, and what to do.
"""

from __future__ import annotations


class OutlastError(Exception):
    """The root: `except OutlastError` catches everything Outlast raises on purpose."""


class NotAllowed(OutlastError):
    """The request cannot be done; nothing was changed (P11)."""


class Illegal(NotAllowed):
    """An event that may not follow what the log holds. `invariant` is V1 to V12, `seq` its place."""

    def __init__(self, invariant: str, message: str, *, seq: int = 0) -> None:
        self.invariant = invariant
        self.seq = seq
        self.reason = message
        place = f" at event {seq}" if seq else ""
        super().__init__(f"{invariant}{place}: {message}")


class NotFound(NotAllowed):
    """There is no such run, branch, event or blob."""


class AlreadyExists(NotAllowed):
    """A run of that id exists and was created with other contents."""


class NotAsked(NotAllowed):
    """The run is not over and does not ask this, or does not ask it yet: the same answer may be accepted later."""


class RunGone(NotAllowed):
    """What this answers is over: the run ended, the question was withdrawn or answered, the branch is dead."""


class AlreadyAnswered(RunGone):
    """The question was answered before. To give the same answer again is never necessary."""


class NotDurable(NotAllowed):
    """Workflow code asked for something that would not happen again in the same way after a crash: it belongs in a node."""


class Unawaited(NotAllowed):
    """Workflow code made a call and did not await it: the call was not executed."""


class NotImportable(NotAllowed):
    """The code of a run cannot be imported here; the run is untouched."""


class InvalidInput(NotAllowed):
    """An argument that cannot be meant."""


class NotStorable(InvalidInput):
    """A value, or a part of it that the message names by its path, would not come back as it is; nothing was stored."""


class Conflict(OutlastError):
    """Someone wrote first. Read what they wrote and decide again."""


class Overtaken(Conflict):
    """Facts arrived that this decision did not know of; the state now holds them: decide again."""


class Fenced(Conflict):
    """A newer owner has taken the run over. This one must stop and may not append (P3)."""


class Claimed(Conflict):
    """Another live worker holds the run."""


class NodeFailure(OutlastError):
    """A node failed with an error that cannot be rebuilt here. `kind` is its class as "module:Name", `message` what it
    said, `category` how it is to be treated; its traceback is in the notes."""

    def __init__(self, kind: str, message: str = "", category: str = "permanent") -> None:
        self.kind = kind
        self.category = category
        self.message = message
        super().__init__(f"{kind}: {message}" if message else kind)


class Rejected(OutlastError):
    """Raise it in a workflow or a node where a person or a rule has said no. The node is not tried again, and a run that
    fails of it is not recoverable: `resume` refuses it, only `jump`, `rewind` or `retry NODE` go back.

    Any other error says the same with the attribute `recoverable = False`, or the opposite with `True`."""


class RunHeld(OutlastError):
    """The run has stopped and waits for a person to decide: resume it, retry a node of it, or cancel it."""


class RunDiverged(RunHeld):
    """The workflow's code no longer asks for what its log holds, so the run was held and nothing of it was changed."""


class RunCancelled(OutlastError):
    """The run was cancelled."""


class StillRunning(OutlastError, TimeoutError):
    """The run that was waited for had not ended within the timeout. It goes on; wait again, or cancel it."""


class Damaged(OutlastError):
    """The log does not read as it was written. `run` and `seq` say where (P12)."""

    def __init__(self, message: str, *, run: str = "", seq: int = 0) -> None:
        self.run = run
        self.seq = seq
        place = f"run {run}, event {seq}: " if run and seq else f"run {run}: " if run else ""
        super().__init__(f"{place}{message}")


class UnknownEvent(Damaged):
    """An event type that this version of Outlast does not know; `kind` is its name."""

    def __init__(self, kind: str, *, run: str = "", seq: int = 0) -> None:
        self.kind = kind
        super().__init__(
            f"unknown event type {kind!r}; it was written by a newer version of Outlast: upgrade to read this run",
            run=run,
            seq=seq,
        )


class StoreError(OutlastError):
    """The store itself failed."""


class StoreFull(StoreError):
    """No space is left where the store lives; nothing was written. Free some space: appends go on by themselves."""


class StoreReadOnly(StoreError):
    """The store may not be written to; nothing was written."""


class StoreBusy(StoreError):
    """Other processes held the store for longer than the busy time-out; nothing was written."""


class StoreUnusable(StoreError):
    """The file or address is not a store of ours, or was written by a newer version."""


class OutcomeUnknown(StoreError):
    """The store failed while it was writing: the append may or may not have landed. Ask before trying again."""
