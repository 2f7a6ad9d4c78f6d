"""WHERE IT IS KEPT: the cupboard's contract.

Six narrow protocols and the plain records they exchange. A store keeps bytes, versions, summaries, waits, claims, blobs
and lines; it never decodes an event, never folds, never decides. Whoever passes `outlast.testing.contract` is a store.

What every store promises:

S1  An append lands whole or not at all: record, head, summary, waits and claim together. (An object store may let all but
    the record follow; it then recognises what is behind by its version.)
S2  It lands only at the version it expects and, if it carries an epoch, under the run's own epoch or, as a takeover,
    under a greater one. So two writers can never both win, with or without a claim.
S3  When `append` has answered, what landed survives the death of every process, and a power cut where the store is durable.
S4  A batch of appends shares one flush; an append that loses does not harm its neighbours.
S5  An error that leaves the outcome open is `OutcomeUnknown`; every other `StoreError` means nothing was written.
S6  At most one worker holds a claim; every claim has a greater epoch than all before it; time is the store's own clock.
S7  A list is never cut short in silence: it comes in pages, with a cursor to the next.
S8  Every unfinished run is ready, claimed, or waiting for something the store can name.
S9  Lines lie beside the log and are no facts: the last of them may be lost in a crash. Those that are kept are whole and
    in order, the newest of each attempt, and which were dropped can be told.
S10 A document is written only over the version that the writer names, so of two writers of one version one wins. When the
    write has answered, the document is durable and every later read at any connection finds it or a newer one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from msgspec import Struct

from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Record
from outlast.lifecycle.state import Wait, WaitKind
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary

# --- the journal: append records and heads -----------------------------------------------------------------------------


class Head(Struct, frozen=True, gc=False):
    """The narrow record at the end of a log. It changes with every append, and nothing about it is searched.

    `branch_first` is where the current branch opened; `closed` means the run is over and takes receipts only; `ready`
    means that it wants an owner. A guest's append sets `ready` as it says; an owner's leaves it as it was, unless it
    releases the run: an owner that lost its claim without knowing must not hide the run from others."""

    run: RunId
    version: int
    digest: bytes
    epoch: int = 0
    branch: int = 0
    branch_first: int = 1
    closed: bool = False
    ready: bool = False


class Append(Struct, frozen=True, gc=False):
    """What the ledger asks a store to do, all or nothing. It expects version `record.first - 1`.

    `head` is the head once this has landed. `summary` is given when it changed. `closes` and then `opens` are the waits and
    loose ends that end and begin. Those in `needs` have to be there, or it is lost: so that a guest, who does not fold, can
    neither answer twice nor answer what was never asked. `claim` (only with the first append of a run) gives the run to a
    worker, `release` takes it from whoever claimed it under the record's epoch."""

    record: Record
    head: Head
    summary: RunSummary | None = None
    opens: tuple[Wait, ...] = ()
    closes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    claim: WorkerId | None = None
    release: bool = False


class Landed(Struct, frozen=True):
    """The append is durable."""


class Lost(Struct, frozen=True):
    """The append is not in the log, or is there already. `tail` holds the records from the expected place on (not
    necessarily all of them): the first one tells whether this very append had landed before."""

    why: Literal["version", "epoch", "wait"]
    head: Head | None
    tail: tuple[Record, ...] = ()


Outcome: TypeAlias = Landed | Lost
LANDED = Landed()


class Journal(Protocol):
    """Append records, and the head of each run."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        """Do each append or none of it, in order, in one flush; one outcome each (S1 to S5)."""
        ...

    async def head(self, run: RunId) -> Head | None:
        """The end of a run's log, or None if there is no such run."""
        ...

    async def runs(self, *, unfinished: bool = False, after: str = "", limit: int = 1000) -> tuple[list[RunId], str]:
        """A page of all runs, or of those whose head says that they are not over, in any order, and the cursor to the next,
        empty at the end."""
        ...

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        """The records that hold events `first` to `last`, at most `limit`, in order. Fewer than `limit` means no more."""
        ...


# --- the catalog: summaries --------------------------------------------------------------------------------------------


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs to list, newest first. Times are microseconds; what is empty does not filter; `text` is found anywhere
    in id, workflow, title, tags and reason, in any case."""

    statuses: tuple[RunStatus, ...] = ()
    workflow: str = ""
    tags: tuple[str, ...] = ()
    parent: str = ""
    exclusive: str = ""
    text: str = ""
    created_from: int | None = None
    created_until: int | None = None
    after: str = ""
    limit: int = 100


class Listed(Struct, frozen=True):
    """A run in a list: its summary, and the scratch its owner last left (progress), which is no fact."""

    summary: RunSummary
    scratch: bytes = b""


def unreadable(run: str, created: int, status: str = "", workflow: str = "") -> RunSummary:
    """What lists show for a run whose summary does not read: what else is known of it, and why there is no more."""
    known = RunStatus(status) if status in tuple(RunStatus) else RunStatus.FAILED
    why = "the record of this run in the catalogue does not read: `outlast doctor` writes it again from the log"
    return RunSummary(RunId(run), 0, known, workflow, created=created, reason=why)


class Page(Struct, frozen=True):
    """Some of the runs. To iterate over a page gives their summaries; `items` has their progress too. `next` continues the
    list (as `RunFilter.after`) and is empty at its end."""

    items: tuple[Listed, ...]
    next: str = ""

    def __iter__(self) -> Iterator[RunSummary]:
        return (listed.summary for listed in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> RunSummary:
        return self.items[place].summary


class Derived(Struct, frozen=True):
    """What a store keeps of one run besides its log, as of one moment. What does not read is left out and named in `faults`;
    so is what differs from the record that it was made from (an index column)."""

    head: Head | None
    summary: RunSummary | None = None
    waits: dict[str, Wait] = {}
    faults: tuple[str, ...] = ()


class Catalog(Protocol):
    """The small cached records of all runs, to be searched."""

    async def derived(self, run: RunId) -> Derived:
        """Head, summary and waits of a run in one read. Damaged rows are reported, not raised."""
        ...

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        """Replace the summary and the waits of a run, and whether its head says that it is over, by these, which follow from
        its log, if the log still ends at `summary.at`. The rest of the head stays as it is."""
        ...

    async def summary(self, run: RunId) -> RunSummary | None:
        """The stored summary; it may be behind the log, and says so by `at`."""
        ...

    async def search(self, query: RunFilter) -> Page:
        """One page of the runs that match."""
        ...

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        """Replace a stale summary if the stored one is still of version `seen`; never by an older one."""
        ...

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        """Keep the latest scratch of some runs. It may be lost, and is never a fact."""
        ...


# --- claims: who may advance a run -------------------------------------------------------------------------------------


class Claim(Struct, frozen=True):
    """The right to take a run over. It begins to count when RunTakenOver with this epoch has landed.

    `previous` is the worker that was interrupted: the last owner, if it had not released the run. It is empty if it had, and
    if it is the claimant itself. `cause` says how we know."""

    run: RunId
    worker: WorkerId
    epoch: int
    previous: str = ""
    cause: Literal["claimed", "expired", "dead"] = "claimed"


class Holding(Struct, frozen=True):
    """Who holds a run, and whether the holder still counts as alive; `seen` is when it last enrolled or renewed."""

    run: RunId
    worker: WorkerId
    expires: int
    is_live: bool
    seen: int = 0


class Enrolled(Struct, frozen=True):
    """A worker that the store knows: whether it counts as alive, when it last enrolled or renewed, which workflows it knew
    when it enrolled."""

    worker: WorkerId
    is_live: bool
    expires: int
    seen: int
    workflows: tuple[str, ...] = ()


class Claims(Protocol):
    """Workers and the runs they hold. A worker lives until a time by the store's clock and renews for all its runs."""

    async def enrol(self, worker: WorkerId, ttl: float, workflows: Collection[str] = ()) -> None:
        """A new incarnation of a worker, alive for `ttl` seconds, which knows these workflows."""
        ...

    async def workers(self) -> list[Enrolled]:
        """All workers that have enrolled and not retired. A dead worker that holds nothing is forgotten after a day."""
        ...

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        """Live on for `ttl` seconds from now; False if the worker is no longer known and must stop."""
        ...

    async def retire(self, worker: WorkerId) -> None:
        """The worker leaves; what it still holds becomes ready."""
        ...

    async def claim(
        self,
        worker: WorkerId,
        *,
        runs: Sequence[RunId] | None = None,
        workflows: Collection[str] | None = None,
        limit: int = 1,
    ) -> list[Claim]:
        """Claim up to `limit` runs that nobody else alive holds, in one atomic step: the named `runs`, whatever their state,
        or those that are ready or were interrupted, of these `workflows` (None: of any). A worker that names a run it holds
        itself gets it again under a new epoch: so a claim whose answer was lost is not lost."""
        ...

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        """Give a run back if its log is still at `version`: else something arrived and False says to look at it. With
        `ready`, another worker should go on with it."""
        ...

    async def holding(self, run: RunId) -> Holding | None:
        """Who holds the run now."""
        ...

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        """What a worker holds, or all of them, in the order of run ids after `after`; fewer than `limit` means no more. A
        worker compares it with what it knows to hold, and claims by name what it had forgotten."""
        ...


# --- wake-ups: what makes a run worth looking at -----------------------------------------------------------------------


class Due(Struct, frozen=True):
    """A wait of a run. `fault` says that its row does not read; then `wait` is what its name and its time tell."""

    run: RunId
    wait: Wait
    fault: str = ""


def unreadable_wait(run: str, name: str, due: int | None) -> Due:
    """What lists show for a wait whose row does not read."""
    kind, _, id = name.partition(":")
    known = kind if kind in get_args(WaitKind) else "trigger"
    return Due(RunId(run), Wait(known, id, due=due), f"the row of the wait {name!r} does not read")  # type: ignore[arg-type]


Notify: TypeAlias = Callable[[frozenset[RunId]], None]


class Wakeups(Protocol):
    """What runs wait for, and the news that something changed."""

    async def wait(self, run: RunId, name: str) -> Wait | None:
        """What a guest needs to know of the wait it wants to end."""
        ...

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        """A page of what is waited for (an inbox, if `kind` is interaction) and the cursor to the next, empty at the end."""
        ...

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        """The waits whose time has come by the store's clock, oldest first; fewer than `limit` means no more. Those of one
        time have an order too, so that a list goes on behind any of its waits, `after`, also if that has ended since."""
        ...

    async def next_due(self) -> int | None:
        """When the next wait is due."""
        ...

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        """Call `notify` with the runs that others changed, soon and at least once; it runs on the event loop of the
        subscriber. What is returned ends it."""
        ...


# --- blobs: large values beside the log --------------------------------------------------------------------------------


class BlobRef(Struct, frozen=True):
    """A blob by what is in it."""

    hash: str
    size: int


class Blobs(Protocol):
    """Large values by content hash: written and flushed before an event names them, streamed both ways."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Keep these bytes; they are durable when this answers. The same bytes are kept once."""
        ...

    def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        """The bytes in chunks; `NotFound` if they are not there, `Damaged` if they are not what the name says."""
        ...

    async def has(self, hash: str) -> bool:
        """Whether it is there."""
        ...

    async def remove(self, hash: str) -> None:
        """Forget it; nothing happens if it is not there."""
        ...


class PendingBlob(Protocol):
    """Bytes that are being written and are no blob yet. One of the two is to be called."""

    async def keep(self) -> BlobRef:
        """Make a blob of them; it is durable when this answers."""
        ...

    def drop(self) -> None:
        """Leave nothing of them behind."""
        ...


@runtime_checkable
class BeginsEarly(Protocol):
    """Blobs that can be written before it is known whether they are to be kept. A store need not offer it."""

    def begin(self, content: bytes) -> PendingBlob:
        """Begin to write, without waiting for it."""
        ...


# --- lines: what attempts said while they ran --------------------------------------------------------------------------

LINES_PER_ATTEMPT = 1000
"""How many lines of an attempt are kept: the newest. Those before them are dropped."""


class Line(Struct, frozen=True, gc=False):
    """Something an attempt said while it ran: a log record, a line of its output. `time` is in microseconds; `text` is
    cut by whoever brings it.

    The store assigns the last two, from 1: `number` counts the lines of the run and is the cursor, `place` counts those of
    the attempt. What is dropped has been counted: an attempt whose first line has place 201 said 200 more before it."""

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
    """What attempts said, bounded, for people to read (S9)."""

    async def keep(self, lines: Sequence[Line]) -> None:
        """Keep the lines of any number of runs, in order, in one transaction; those of a run that is not there are left
        out. They survive the death of the process, but nobody waits for the disk."""
        ...

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        """The lines with a greater number than `after`, at most `limit`, in order: of all nodes and attempts, or of those
        named. Fewer than `limit` means no more."""
        ...


# --- documents: small named values of services --------------------------------------------------------------------------


class Document(Struct, frozen=True, gc=False):
    """A small named value that belongs to no run: a token, a session, a setting of a server.

    `name` has lower-case letters, digits and `._-`, in segments separated by slashes. `version` is chosen by the writer
    and never used twice, so that a write that is sent again is recognised."""

    name: str
    version: str
    body: bytes


class Documents(Protocol):
    """Small values by name, with compare-and-set (S10)."""

    async def document(self, name: str) -> Document | None:
        """The document of that name."""
        ...

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        """Write it over the version `replaces`, or, without, if there is none of that name. False if there is another
        version now; true if this very version is there already."""
        ...

    async def remove_document(self, name: str, version: str) -> bool:
        """Remove it if it is still that version; true also if there is none."""
        ...

    async def documents(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Document]:
        """Those whose names begin with `prefix` and are greater than `after`, by name; fewer than `limit` means no more."""
        ...


class Store(Journal, Catalog, Claims, Wakeups, Lines, Documents, Protocol):
    """A cupboard. `skew` (microseconds) is added to its clock; only tests set it."""

    skew: int

    @property
    def blobs(self) -> Blobs:
        """Large values beside the log."""
        ...

    async def now(self) -> int:
        """The store's own clock, in microseconds since 1970."""
        ...

    def reopen(self) -> Store:
        """Another connection to the same data, for use on another event loop; the caller closes it."""
        ...

    async def close(self) -> None:
        """Let go of files and connections. Claims stay as they are: a worker retires first."""
        ...


def search_text(summary: RunSummary) -> str:
    """What `RunFilter.text` is looked for in."""
    parts = (summary.run, summary.workflow, summary.title, summary.reason, *summary.tags)
    return "\n".join(filter(None, parts)).casefold()
