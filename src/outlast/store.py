"""The store contract: protocols for storage, and the records that they exchange.

A store keeps bytes, versions, summaries, waits, claims, blobs, lines and documents. It never decodes an event, folds a log
or makes a decision. A class that passes `outlast.testing.contract` is a store.

Every store promises:

S1  An append is atomic: record, head, summary, waits and claim are written together or not at all. (An object store may
    write everything but the record later; it then recognises a stale object by its version.)
S2  An append succeeds only at the version that it expects. An owner's append also needs the run's epoch, a takeover a
    greater one. So two writers can never both win, with or without a claim.
S3  When `append` returns, the events survive the death of every process, and a power cut if the store is durable.
S4  A batch of appends shares one flush. An append that loses does not affect the others.
S5  An error that leaves the outcome open is `OutcomeUnknown`. After every other `StoreError`, nothing is written.
S6  At most one worker holds a claim. Each claim of a run has a greater epoch than all before it. Time is the store's clock.
S7  No list is truncated silently: each result has a cursor to the next one.
S8  Every unfinished run is ready, claimed, or waiting for something that the store can name.
S9  Lines are stored beside the log and are not facts: a crash may lose the last of them. The stored lines are complete, in
    order and the newest of each attempt, and their places show how many were dropped.
S10 A document is written only over the version that the writer names, so of two writers of one version one wins. When the
    write returns, the document is durable, and every later read on any connection finds it or a newer one.
S11 A slot never has more holders than the limit that the last taker named. Several slots are taken together or not at all,
    and no two takers block each other for ever. A slot of a claim ends with the claim, a slot of a run when the run is
    over: in the same step, or, on objects, before anybody is refused because of it.
S12 A deleted run is in no list, from the first step of the deletion on. Its tombstone keeps the id from being used again.
    No step of the deletion takes longer than a bounded number of rows, and a crash between two steps loses nothing of a
    kept run.
S13 A blob that the log of a kept run names is never collected, nor one that was put within the time of grace.
S14 A process whose contract has another version than the store does not write: it raises `StoreUnusable` when it opens the
    store, and when it enrols, renews, claims or deletes after the version has changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from outlast.history.events import AttributeValue
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary

# --- slots: limits on what runs use at the same time -------------------------------------------------------------------


class Slot(Struct, frozen=True, gc=False):
    """A place among at most `limit` holders of a name. `until` is its lifetime: the claim under which it was taken, or the
    run."""

    name: str
    limit: int = 1
    until: Literal["claim", "run"] = "claim"


class SlotHolder(Struct, frozen=True, gc=False):
    """A run that holds a slot. `epoch` is that of the claim under which it was taken."""

    name: str
    run: RunId
    epoch: int
    until: Literal["claim", "run"] = "claim"


class Slots(Protocol):
    """Named counters with a limit (S11). An append or a claim can take slots too; all three count the same holders.

    A slot of a claim ends when the claim is released, when the worker retires, and when a takeover with a greater epoch is
    in the log: not earlier, because until then the old owner may append. For the same reason a release or a retirement ends
    no slot while an interruption by another worker is open. A slot of a run ends with an append that `frees`
    it."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        """Take all these slots for a run whose current claim has this epoch, or none. Return the holders of the full ones;
        nothing: all are taken. A slot that the run holds already stays its own, with this epoch. `NotAllowed` if the claim
        is not current."""

    async def give(self, run: RunId, epoch: int, names: Collection[str]) -> None:
        """End these slots of the run, unless they were taken under a greater epoch."""

    async def slot_holders(self, name: str = "", *, after: str = "", limit: int = 1000) -> list[SlotHolder]:
        """List the holders of one slot or of all, by name and run. The cursor is a name, a newline and a run. Fewer than
        `limit`: no more."""


# --- the journal: append records and heads -----------------------------------------------------------------------------


class Head(Struct, frozen=True, gc=False):
    """The narrow record at the end of a log. It changes with every append; no search uses it.

    `branch_first` is the seq at which the current branch opened. `closed` means that the run has ended and accepts only
    receipts. `ready` means that the run needs an owner. A guest's append sets `ready`. An owner's append changes it only
    when it releases the run: an owner that lost its claim unnoticed must not hide the run from others."""

    run: RunId
    version: int
    digest: bytes
    epoch: int = 0
    branch: int = 0
    branch_first: int = 1
    closed: bool = False
    ready: bool = False


class Append(Struct, frozen=True, gc=False):
    """One atomic change of a run. It expects version `record.first - 1`.

    `head` is the new head. `summary` is set when it changes. The store deletes the waits and loose ends in `closes`, then
    adds those in `opens`. If one in `needs` is absent, the append is lost: so a guest, which does not fold the log, can
    neither answer a question twice nor answer one that was never asked. `claim` (only with the first append of a run)
    gives the run to a worker. `release` ends the claim with the record's epoch.

    `takes` are slots that the run must get for the append to land; `frees` ends its slots with the lifetime of the run.
    `blobs` are the hashes of the blobs that the events name: they are kept as long as the run (S13)."""

    record: Record
    head: Head
    summary: RunSummary | None = None
    opens: tuple[Wait, ...] = ()
    closes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    claim: WorkerId | None = None
    release: bool = False
    takes: tuple[Slot, ...] = ()
    frees: bool = False
    blobs: tuple[str, ...] = ()


class Landed(Struct, frozen=True):
    """The append is durable."""


class Lost(Struct, frozen=True):
    """The append was refused; it may be in the log already. `tail` holds records from the expected seq on, not necessarily
    all of them: the first one shows whether this same append had landed before. `full` are the holders of the slots that it
    did not get. A run that was deleted has no head: an append to it, or of a new run with its id, is lost because of
    `deleted`."""

    why: Literal["version", "epoch", "wait", "slot", "deleted"]
    head: Head | None
    tail: tuple[Record, ...] = ()
    full: tuple[SlotHolder, ...] = ()


Outcome: TypeAlias = Landed | Lost
LANDED = Landed()


class Journal(Protocol):
    """Append records, and the head of each run."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        """Write each append completely or not at all, in order, with one flush. Return one outcome each (S1 to S5)."""

    async def head(self, run: RunId) -> Head | None:
        """Return the head of a run, or None if the run does not exist."""

    async def runs(self, *, unfinished: bool = False, after: str = "", limit: int = 1000) -> tuple[list[RunId], str]:
        """List runs in any order: all, or those whose head is not closed. Return them and the cursor to the next ones,
        which is empty at the end."""

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        """Return the records that hold events `first` to `last`, at most `limit`, in order. Fewer than `limit`: no more."""


# --- the catalog: summaries --------------------------------------------------------------------------------------------


class AttributeFilter(Struct, frozen=True):
    """A condition on a search attribute. It compares values of one type: numbers with numbers, text with text. A run
    without the attribute, or with a value of another type, does not match."""

    name: str
    operator: Literal["=", "<", "<=", ">", ">="]
    value: AttributeValue


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs to list, newest first. Times are microseconds. An empty field does not filter. `text` matches anywhere in
    id, workflow, title, tags and reason, ignoring case; `prefix` matches the beginning of the id. `roots` leaves out the
    children of other runs. `held` is a flag of failed runs. `order` names an attribute: only runs that have it are listed,
    by its value (false before true, numbers, text, times; then by id), or from the greatest down if it begins with `-`."""

    statuses: tuple[RunStatus, ...] = ()
    workflow: str = ""
    tags: tuple[str, ...] = ()
    parent: str = ""
    roots: bool = False
    text: str = ""
    created_from: int | None = None
    created_until: int | None = None
    prefix: str = ""
    queue: str = ""
    held: bool | None = None
    attributes: tuple[AttributeFilter, ...] = ()
    order: str = ""
    after: str = ""
    limit: int = 100


class Listed(Struct, frozen=True):
    """A run in a list: its summary and its owner's last scratch (progress), which is not a fact."""

    summary: RunSummary
    scratch: bytes = b""


def unreadable(run: str, created: int, status: str = "", workflow: str = "") -> RunSummary:
    """Return a placeholder for a run whose summary cannot be decoded, with the known columns and the reason."""
    known = RunStatus(status) if status in tuple(RunStatus) else RunStatus.FAILED
    why = "the catalogue record of this run cannot be decoded: `outlast doctor` rebuilds it from the log"
    return RunSummary(RunId(run), 0, known, workflow, created=created, reason=why)


class Page(Struct, frozen=True):
    """Part of a list of runs. Iteration yields their summaries; `items` has their progress too. `next` continues the list
    (as `RunFilter.after`) and is empty at its end."""

    items: tuple[Listed, ...]
    next: str = ""

    def __iter__(self) -> Iterator[RunSummary]:
        return (listed.summary for listed in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> RunSummary:
        return self.items[place].summary


class Derived(Struct, frozen=True):
    """The stored records of one run besides its log, read in one snapshot. `faults` names the rows that cannot be decoded,
    which are omitted, and the columns that differ from the record they were made from. `interrupted` says that a worker has
    owned the run and not released it: a claim of a run without an owner then reports an interruption."""

    head: Head | None
    summary: RunSummary | None = None
    waits: dict[str, Wait] = {}
    faults: tuple[str, ...] = ()
    interrupted: bool = False


class Catalog(Protocol):
    """The small cached records of all runs, searchable."""

    async def derived(self, run: RunId) -> Derived:
        """Return head, summary and waits of a run from one read. Damaged rows are reported, not raised."""

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        """Replace the summary, the waits and the head's `closed` flag of a run by values computed from its log, if the log
        still ends at `summary.at`. The rest of the head does not change."""

    async def summary(self, run: RunId) -> RunSummary | None:
        """Return the stored summary. It may be older than the log; `at` is its version."""

    async def search(self, query: RunFilter) -> Page:
        """Return the runs that match, up to `query.limit`."""

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        """Replace a stale summary if the stored one still has version `seen`; never by an older one."""

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        """Store the latest scratch of some runs. It may be lost and is never a fact."""


# --- claims: who may advance a run -------------------------------------------------------------------------------------


class Claim(Struct, frozen=True):
    """The right to take over a run. It becomes effective when RunTakenOver with this epoch is in the log.

    `previous` is the interrupted worker: the last owner, if it did not release the run. It is empty if it did, and if it is
    the claimant itself. `cause` is the evidence for the interruption, `seen` when the previous worker last enrolled or
    renewed, 0 if that is unknown."""

    run: RunId
    worker: WorkerId
    epoch: int
    previous: str = ""
    cause: Literal["claimed", "expired", "dead"] = "claimed"
    seen: int = 0


class Holding(Struct, frozen=True):
    """The worker that holds a run, and whether it counts as alive. `seen` is when it last enrolled or renewed."""

    run: RunId
    worker: WorkerId
    expires: int
    is_live: bool
    seen: int = 0


class WorkerInfo(Struct, frozen=True, omit_defaults=True):
    """What a worker says of itself when it enrols. `queues` are those it serves, None if it serves all; `started` is when
    it began and `skew` how far its clock is ahead of the store's, in microseconds. Stores keep this as JSON and use none
    of it."""

    workflows: tuple[str, ...] = ()
    queues: tuple[str, ...] | None = None
    host: str = ""
    pid: int = 0
    started: int = 0
    skew: int = 0


NO_INFO = WorkerInfo()


class Enrolled(Struct, frozen=True):
    """A worker that the store knows: whether it counts as alive, when it enrolled, when it last enrolled or renewed, and
    what it said of itself."""

    worker: WorkerId
    is_live: bool
    expires: int
    seen: int
    info: WorkerInfo = NO_INFO


Runs: TypeAlias = Sequence[RunId] | None
Names: TypeAlias = Collection[str] | None
SlotsOf: TypeAlias = Mapping[str, Sequence[Slot]]
"""The slots that a run of a queue needs while it is claimed, by the name of the queue."""


class Claims(Protocol):
    """Workers and the runs they hold. A worker's lease ends at a time by the store's clock; one renewal covers all its
    runs."""

    async def enrol(self, worker: WorkerId, ttl: float, info: WorkerInfo = NO_INFO) -> None:
        """Register a worker for `ttl` seconds, or replace what it said of itself."""

    async def workers(self) -> list[Enrolled]:
        """List all workers that enrolled and did not retire. A dead worker without runs is deleted after a day."""

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        """Extend the lease to `ttl` seconds from now. False: the store does not know the worker, which must stop."""

    async def retire(self, worker: WorkerId) -> None:
        """Remove the worker. The runs it still holds become ready."""

    async def claim(
        self,
        worker: WorkerId,
        *,
        runs: Runs = None,
        workflows: Names = None,
        queues: Names = None,
        slots: SlotsOf | None = None,
        limit: int = 1,
    ) -> list[Claim]:
        """Claim up to `limit` runs that no other live worker holds, atomically: the named `runs` in any state, or those of
        `workflows` and `queues` (None: of any) that are interrupted, ready, or due. A run is due if it is running, waiting
        or compensating, nobody holds it, and one of its timers is due by the store's clock. A worker that names a run it
        already holds gets a claim with a new epoch: so a claim survives the loss of its answer.

        Interrupted runs come first, then those of the greatest `priority`. Among equals the turn passes from workflow to
        workflow, and within a workflow from one `fairness_key` to the next, also from call to call: a key with thousands
        of runs does not delay the others. Within a key the oldest run is first. A claim that names no runs also takes the
        `slots` of the run's queue; a run that does not get them is left, and does not count.

        The cost grows with the runs that it returns and the keys that have runs, not with the runs that it leaves."""

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        """Release a run if its log is still at `version`. False: events arrived since, which the owner must read first.
        `ready` asks another worker to continue the run."""

    async def holding(self, run: RunId) -> Holding | None:
        """Return the current holder of the run."""

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        """List what one worker or all workers hold, by run id after `after`. Fewer than `limit`: no more. A worker compares
        the list with the runs that it knows to hold, and claims missing ones by name."""


# --- wake-ups: waits and notifications ---------------------------------------------------------------------------------


class Due(Struct, frozen=True):
    """A wait of a run. `fault` is set if its row cannot be decoded; then `wait` is made from its name and its time."""

    run: RunId
    wait: Wait
    fault: str = ""


Notify: TypeAlias = Callable[[frozenset[RunId]], None]


class Wakeups(Protocol):
    """The waits of all runs, and notifications of changes."""

    async def wait(self, run: RunId, name: str) -> Wait | None:
        """Return one wait of a run: a guest reads it before it ends it."""

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        """List waits (an inbox, if `kind` is interaction). Return them and the cursor to the next ones, empty at the
        end."""

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        """List the waits that are due by the store's clock, oldest first. Fewer than `limit`: no more. Waits that are due
        at the same time have an order too, so a list can continue after any wait, even one that has ended since."""

    async def next_due(self, after: int = 0) -> int | None:
        """Return the time of the next wait that is due later than `after`. Waits of paused runs stay due."""

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        """Call `notify` with the runs that other connections changed, soon and at least once, on the subscriber's event
        loop. The returned function ends the subscription."""


# --- deletion ----------------------------------------------------------------------------------------------------------


class Tombstone(Struct, frozen=True, omit_defaults=True):
    """What remains of a deleted run. `key` is its idempotency key; times are microseconds."""

    run: RunId
    workflow: str
    status: RunStatus
    created: int
    deleted: int
    key: str = ""
    by: str = ""
    reason: str = ""


class Deletion(Protocol):
    """The deletion of runs in bounded steps (S12, S13)."""

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        """Replace a run by its tombstone if its log is still at `version` and no live worker holds it. Its claim, waits,
        slots and summary end in the same step. True also if the run has this tombstone already. With version 0, a run that
        does not exist gets a tombstone: a copy of a store has those of the original."""

    async def purge(self, limit: int = 1000) -> bool:
        """Remove at most `limit` of the rows that deleted runs left: records, lines, progress, uses of blobs. Return
        whether more can be removed now. Any process may call it, also several at once."""

    async def tombstone(self, run: RunId) -> Tombstone | None:
        """Return the tombstone of a deleted run."""

    async def tombstones(self, *, after: str = "", limit: int = 1000) -> list[Tombstone]:
        """List tombstones by run id, after `after`. Fewer than `limit`: no more."""

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        """Remove up to `limit` blobs that no append of a kept run named and that were last put before this time of the
        store's clock. Return their hashes. A blob that is put meanwhile is kept."""


# --- blobs: large values beside the log --------------------------------------------------------------------------------


class BlobRef(Struct, frozen=True):
    """A blob, named by the hash of its content."""

    hash: str
    size: int


class Blobs(Protocol):
    """Large values by content hash: written and flushed before an event names them, streamed both ways."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Store these bytes; they are durable on return. Equal bytes are stored once."""

    def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks. Raise `NotFound` if it is absent, `Damaged` if the bytes do not match the hash."""

    async def has(self, hash: str) -> bool:
        """Return whether the blob is stored."""

    async def remove(self, hash: str) -> None:
        """Delete the blob if it is stored."""


class PendingBlob(Protocol):
    """Bytes being written that are not a blob yet. The caller must call `keep` or `drop`."""

    async def keep(self) -> BlobRef:
        """Make the bytes a blob; it is durable on return."""

    def drop(self) -> None:
        """Delete the bytes."""


@runtime_checkable
class BeginsEarly(Protocol):
    """Optional: blobs whose writing can begin before the caller has decided to keep them."""

    def begin(self, content: bytes) -> PendingBlob:
        """Begin to write the bytes and return at once."""


# --- lines: log records and output of attempts -------------------------------------------------------------------------

LINES_PER_ATTEMPT = 1000
"""Lines stored per attempt: the newest. Older ones are dropped."""


class Line(Struct, frozen=True, gc=False):
    """A log record or a line of output of an attempt. `time` is in microseconds. The caller limits the length of `text`.

    The store assigns the last two fields, from 1: `number` counts the lines of the run and is the cursor, `place` counts
    those of the attempt. Dropped lines count too: if an attempt's first line has place 201, 200 were dropped."""

    run: RunId
    node: str
    attempt: int
    time: int
    level: str
    logger: str
    text: str
    number: int = 0
    place: int = 0


class Lines(Protocol):
    """A bounded number of lines for each attempt (S9)."""

    async def keep(self, lines: Sequence[Line]) -> None:
        """Store lines of any number of runs, in order, in one transaction, without those of unknown runs. They survive the
        death of the process; the call does not wait for the disk."""

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        """Return the lines with a number greater than `after`, at most `limit`, in order, of all nodes and attempts or of
        one. Fewer than `limit`: no more."""


# --- documents: small named values of services --------------------------------------------------------------------------


class Document(Struct, frozen=True, gc=False):
    """A small named value that belongs to no run: a token, a session, a setting of a server.

    `name` has lower-case letters, digits and `._-`, in segments separated by slashes. The writer chooses `version` and
    never uses one twice, so that the store recognises a repeated write."""

    name: str
    version: str
    body: bytes


class Documents(Protocol):
    """Small values by name, with compare-and-set (S10)."""

    async def document(self, name: str) -> Document | None:
        """Return the document with this name."""

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        """Replace the version `replaces`, or create the document if `replaces` is empty. True also if this same version is
        stored already; False if another one is."""

    async def remove_document(self, name: str, version: str) -> bool:
        """Remove this version of the document. True also if the document is absent; False if it has another version."""

    async def documents(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Document]:
        """List documents by name: those with this prefix, after `after`. Fewer than `limit`: no more."""


class Store(Journal, Catalog, Claims, Slots, Wakeups, Deletion, Lines, Documents, Protocol):
    """A store. `skew` (microseconds) is added to its clock; only tests set it."""

    skew: int

    @property
    def blobs(self) -> Blobs:
        """Large values beside the log."""

    async def now(self) -> int:
        """Return the time of the store's clock, in microseconds since 1970."""

    def reopen(self) -> Store:
        """Return another connection to the same data, for use on another event loop. The caller closes it."""

    async def close(self) -> None:
        """Close files and connections. Claims do not change: a worker retires first."""


def search_text(summary: RunSummary) -> str:
    """Return the text that `RunFilter.text` searches."""
    parts = (summary.run, summary.workflow, summary.title, summary.reason, *summary.tags)
    return "\n".join(filter(None, parts)).casefold()
