"""V1 to V12 over a whole log: every violation, not only the first.

The fold owns the rules for the order of events. This module runs the fold over the lineage of every branch and continues
after each violation. It also checks the properties of a whole log: the chain, the epochs, the branches, the receipts and the
summary. `verify` reports the result; every test ends with it.

A log with one branch costs one pass. Each further branch costs a pass over its lineage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from outlast.errors import Damaged, Illegal, NotFound
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.lineage import BEFORE_FIRST, ROOT, Branch, Interval, holder, lineage
from outlast.history.record import Entry, Kind, Record, entries, follows, genesis
from outlast.lifecycle.fold import apply
from outlast.lifecycle.requests import OpenRequest, Request, Requests, left_open, request_violations
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary, summarise
from outlast.lifecycle.transitions import CONTROL, GUEST_DATA

WRONG_DIGEST = "the digest does not match the stored bytes and the previous digest"
RUN_TAKEN_OVER_PLACE = "RunTakenOver must be the first event of a takeover"


class Violation(Struct, frozen=True, order=True):
    """One broken invariant: the event, the number of the invariant, and a description."""

    seq: int
    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant} at event {self.seq}: {self.message}"


def violations(
    run: RunId, records: Sequence[Record], summary: RunSummary | None = None, *, key: bytes = b""
) -> list[Violation]:
    """Every violation of V1 to V12 in a log; an empty list means that the log is sound. V10 needs a summary."""
    found = _chain(run, records, key)
    log, broken = _decoded(records)
    found += broken
    branches, misplaced = _branches(records, log)
    found += misplaced
    found += _epochs(records, log)
    found += _receipts(log)
    found += _requests(records, log)
    found += _lineages(run, log, branches, summary)
    return sorted(set(found))


def _chain(run: RunId, records: Sequence[Record], key: bytes) -> list[Violation]:
    found: list[Violation] = []
    expected, previous = 1, genesis(run, key)
    for record in records:
        if record.run != run:
            found.append(Violation(record.first, "V1", f"the record belongs to run {record.run}"))
        if record.first != expected:
            found.append(Violation(record.first, "V1", f"event {expected} was expected: there is a gap or an overlap"))
        elif not follows(record, previous, key):
            found.append(Violation(record.first, "V1", WRONG_DIGEST))
        expected, previous = record.first + record.count, record.digest
    return found


def _decoded(records: Sequence[Record]) -> tuple[list[Entry], list[Violation]]:
    log: list[Entry] = []
    found: list[Violation] = []
    for record in records:
        try:
            stored = entries(record)
        except Damaged as damage:
            found.append(Violation(damage.seq or record.first, "V1", f"cannot be decoded: {damage}"))
            continue
        if len(stored) != record.count:
            found.append(
                Violation(
                    record.first,
                    "V1",
                    f"the stored record says that it has {record.count} events, but it has {len(stored)}",
                )
            )
        log += stored
    return log, found


def _branches(records: Sequence[Record], log: Sequence[Entry]) -> tuple[dict[int, Branch], list[Violation]]:
    branches = {0: ROOT}
    found: list[Violation] = []
    for entry in log:
        event = entry.event
        if isinstance(event, e.BranchOpened):
            found += [Violation(entry.seq, "V8", text) for text in branch_violations(event, entry.seq, branches)]
            branches[event.branch] = Branch(event.branch, entry.seq, event.parent, event.cutoff)
        if entry.branch != max(branches):
            found.append(
                Violation(entry.seq, "V8", f"appended to branch {entry.branch} while branch {max(branches)} is current")
            )
    starts = {record.first for record in records}
    found += [
        Violation(branch.first, "V8", f"branch {branch.id} opens in the middle of an append")
        for branch in branches.values()
        if branch.id and branch.first not in starts
    ]
    return branches, found


def branch_violations(event: e.BranchOpened, seq: int, branches: dict[int, Branch]) -> list[str]:
    """Violations of V8 by a branch that opens at `seq`; the ledger also checks them before it writes one."""
    wrong: list[str] = []
    newest = branches[max(branches)]
    if event.branch != newest.id + 1:
        wrong.append(f"branch {event.branch} cannot open after branch {newest.id}")
    if event.previous_first != newest.first:
        wrong.append(f"branch {newest.id} opened at {newest.first}, branch {event.branch} has {event.previous_first}")
    if not BEFORE_FIRST <= event.cutoff < seq:
        return [*wrong, f"branch {event.branch} is cut at event {event.cutoff}, which is not before it"]
    parent = holder(branches.values(), event.cutoff)
    if event.parent != parent.id:
        wrong.append(
            f"branch {event.branch} names branch {event.parent} as its parent, but its cutoff, event {event.cutoff}, is on "
            f"branch {parent.id}"
        )
    if event.parent_first != parent.first:
        wrong.append(f"branch {parent.id} opened at {parent.first}, branch {event.branch} has {event.parent_first}")
    return wrong


def _epochs(records: Sequence[Record], log: Sequence[Entry]) -> list[Violation]:
    found: list[Violation] = []
    stored = _by_record(records, log)
    epoch = 0
    takeovers = {record.first for record in records if record.kind is Kind.TAKEOVER}
    found += [
        Violation(entry.seq, "V11", RUN_TAKEN_OVER_PLACE)
        for entry in log
        if isinstance(entry.event, e.RunTakenOver) and entry.seq not in takeovers
    ]
    for record in records:
        if record.kind in (Kind.GUEST, Kind.CONTROL):
            found += _not_for_guests(record, stored.get(record.first, []))
            continue
        if record.kind is Kind.TAKEOVER and record.epoch <= epoch:
            found.append(Violation(record.first, "V11", f"a takeover under epoch {record.epoch} follows epoch {epoch}"))
        elif record.epoch < epoch:
            found.append(Violation(record.first, "V11", f"epoch {record.epoch} follows epoch {epoch}"))
        elif record.epoch > epoch and record.first > 1:
            opening = stored[record.first][0].event if stored.get(record.first) else None
            named = opening.epoch if isinstance(opening, e.RunTakenOver) else None
            if record.kind is not Kind.TAKEOVER or named != record.epoch:
                found.append(Violation(record.first, "V11", f"epoch {record.epoch} begins without RunTakenOver"))
        epoch = max(epoch, record.epoch)
    return found


def _by_record(records: Sequence[Record], log: Sequence[Entry]) -> dict[int, list[Entry]]:
    """The events of each record that a guest wrote or that begins an epoch, by the first seq of the record."""
    wanted = {record.first for record in records if record.kind is not Kind.OWNER}
    stored: dict[int, list[Entry]] = {}
    current: list[Entry] = []
    for entry in log:
        if entry.seq in wanted:
            stored[entry.seq] = current = [entry]
            wanted.discard(entry.seq)
        elif current and entry.seq == current[-1].seq + 1:
            current.append(entry)
    return stored


def _not_for_guests(record: Record, stored: Sequence[Entry]) -> list[Violation]:
    if record.epoch:
        return [Violation(record.first, "V11", f"a guest wrote under epoch {record.epoch}")]
    allowed: tuple[type[e.Event], ...] = CONTROL if record.kind is Kind.CONTROL else (*GUEST_DATA, e.RunCreated)
    return [
        Violation(entry.seq, "V11", f"a guest may not append {type(entry.event).__name__}")
        for entry in stored[: record.count]
        if not isinstance(entry.event, allowed)
    ]


def _receipts(log: Sequence[Entry]) -> list[Violation]:
    """A receipt has its antecedent anywhere before it; one that a new branch adopts names the seq of the original. The fold
    checks that a receipt occurs once on a lineage."""
    found: list[Violation] = []
    owed: set[str] = set()
    originals: dict[int, str] = {}
    for entry in log:
        event = entry.event
        if isinstance(event, e.OutboxEnqueued):
            owed.add(f"message {event.message}")
        elif isinstance(event, e.ChildStarted):
            owed.add(f"child {event.child}")
        elif isinstance(event, e.OutboxSent | e.ChildEnded):
            name = f"message {event.message}" if isinstance(event, e.OutboxSent) else f"child {event.child}"
            if event.adopted:
                if originals.get(event.adopted) != name:
                    found.append(Violation(entry.seq, "V7", f"event {event.adopted} is not a receipt for {name}"))
                continue
            originals[entry.seq] = name
            if name not in owed:
                found.append(Violation(entry.seq, "V7", f"a receipt for {name}, which is not in the log"))
    return found


def _requests(records: Sequence[Record], log: Sequence[Entry]) -> list[Violation]:
    """A refusal names an open request, and the append that opens a branch closes all of them. The fold checks that no run
    ends while a request is open."""
    found: list[Violation] = []
    ends = {record.first: record.last for record in records}
    requests: Requests = ()
    for place, entry in enumerate(log):
        event = entry.event
        if isinstance(event, e.BranchOpened):
            last = ends.get(entry.seq, entry.seq)
            opening = [each.event for each in log[place : place + last - entry.seq + 1]]
            found += [Violation(entry.seq, "V12", text) for text in request_violations(requests, opening, entry.seq)]
        elif isinstance(event, e.RequestRefused) and not any(each.seq == event.request for each in requests):
            found.append(Violation(entry.seq, "V12", f"event {event.request} is not an open request"))
        if isinstance(event, Request):
            requests += (OpenRequest(entry.seq, event),)
        requests = left_open(requests, event)
    return found


def _lineages(
    run: RunId, log: Sequence[Entry], branches: dict[int, Branch], summary: RunSummary | None
) -> list[Violation]:
    found: list[Violation] = []
    if not log:
        return [Violation(0, "V2", "the log is empty")]
    log = sorted(log, key=lambda entry: entry.seq)
    ends = {branch.id: log[-1].seq for branch in branches.values()}
    ordered = sorted(branches.values(), key=lambda branch: branch.first)
    for earlier, later in pairwise(ordered):
        ends[earlier.id] = later.first - 1
    for branch in ordered:
        found += _lineage(run, branch, branches, ends[branch.id], log, summary)
    if summary is not None and not 1 <= summary.at <= log[-1].seq:
        found.append(
            Violation(summary.at, "V10", f"the summary is of event {summary.at}, but the log ends at {log[-1].seq}")
        )
    return found


def _lineage(
    run: RunId, branch: Branch, branches: dict[int, Branch], end: int, log: Sequence[Entry], summary: RunSummary | None
) -> list[Violation]:
    """Fold one branch's lineage and report violations on its own interval: its parent reports those of the shared part."""
    try:
        intervals = lineage(branches, branch.id, end)
    except (Illegal, NotFound) as error:
        return [Violation(branch.first, "V8", str(error))]
    found: list[Violation] = []
    state = State()
    for entry in _within(log, intervals):
        try:
            apply(state, entry.event, entry.seq, entry.time)
        except Illegal as error:
            if entry.seq >= branch.first:
                found.append(Violation(entry.seq, error.invariant, error.reason))
        if summary is not None and entry.seq == summary.at and entry.seq >= branch.first:
            found += _summary_differences(summary, summarise(run, state))
    return found


def _within(log: Sequence[Entry], intervals: Sequence[Interval]) -> Iterator[Entry]:
    """The events of the log in these intervals; missing events are reported as a gap."""
    for first, last in intervals:
        place = bisect_left(log, first, key=lambda entry: entry.seq)
        while place < len(log) and log[place].seq <= last:
            yield log[place]
            place += 1


def _summary_differences(stored: RunSummary, true: RunSummary) -> list[Violation]:
    return [
        Violation(stored.at, "V10", f"the summary has {name} {_shown(stored, name)}, the log {_shown(true, name)}")
        for name in RunSummary.__struct_fields__
        if getattr(stored, name) != getattr(true, name)
    ]


def _shown(summary: RunSummary, name: str) -> str:
    value = getattr(summary, name)
    return str(value) if isinstance(value, RunStatus) else repr(value)
