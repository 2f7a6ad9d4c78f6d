"""V1 to V12 over a whole log: every violation, not just the first.

The rules about what may follow what live in the fold; here the fold is run over every branch's lineage and asked to go on
after each objection, and what only a whole log can show is checked beside it: the chain, the epochs, the branches, the
receipts, the summary. `verify` shows the answer to people; every test ends with it.

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


class Violation(Struct, frozen=True, order=True):
    """One broken invariant: where, which, and in what way."""

    seq: int
    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant} at event {self.seq}: {self.message}"


def violations(
    run: RunId, records: Sequence[Record], summary: RunSummary | None = None, *, key: bytes = b""
) -> list[Violation]:
    """Every breach of V1 to V12 in a log; an empty list means the log is sound. With no summary, V10 is not judged."""
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
            found.append(Violation(record.first, "V1", f"event {expected} was expected, a gap or an overlap"))
        elif not follows(record, previous, key):
            found.append(Violation(record.first, "V1", "the digest is not that of the stored bytes and the one before"))
        expected, previous = record.first + record.count, record.digest
    return found


def _decoded(records: Sequence[Record]) -> tuple[list[Entry], list[Violation]]:
    log: list[Entry] = []
    found: list[Violation] = []
    for record in records:
        try:
            stored = entries(record)
        except Damaged as damage:
            found.append(Violation(damage.seq or record.first, "V1", f"does not decode: {damage}"))
            continue
        if len(stored) != record.count:
            found.append(
                Violation(record.first, "V1", f"the record says {record.count} events and holds {len(stored)}")
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
                Violation(entry.seq, "V8", f"written to branch {entry.branch} while {max(branches)} is current")
            )
    starts = {record.first for record in records}
    found += [
        Violation(branch.first, "V8", f"branch {branch.id} opens in the middle of an append")
        for branch in branches.values()
        if branch.id and branch.first not in starts
    ]
    return branches, found


def branch_violations(event: e.BranchOpened, seq: int, branches: dict[int, Branch]) -> list[str]:
    """What is wrong with a branch that opens at `seq` beside these (V8); the ledger asks too, before it writes one."""
    wrong: list[str] = []
    newest = branches[max(branches)]
    if event.branch != newest.id + 1:
        wrong.append(f"branch {event.branch} opens after branch {newest.id}")
    if event.previous_first != newest.first:
        wrong.append(f"branch {newest.id} opened at {newest.first}, branch {event.branch} says {event.previous_first}")
    if not BEFORE_FIRST <= event.cutoff < seq:
        return [*wrong, f"branch {event.branch} is cut at event {event.cutoff}, which is not before it"]
    parent = holder(branches.values(), event.cutoff)
    if event.parent != parent.id:
        wrong.append(f"the parent of branch {event.branch} is {event.parent}, event {event.cutoff} is on {parent.id}")
    if event.parent_first != parent.first:
        wrong.append(f"branch {parent.id} opened at {parent.first}, branch {event.branch} says {event.parent_first}")
    return wrong


def _epochs(records: Sequence[Record], log: Sequence[Entry]) -> list[Violation]:
    found: list[Violation] = []
    stored = _by_record(records, log)
    epoch = 0
    takeovers = {record.first for record in records if record.kind is Kind.TAKEOVER}
    found += [
        Violation(entry.seq, "V11", "RunTakenOver is said by a takeover, as its first word")
        for entry in log
        if isinstance(entry.event, e.RunTakenOver) and entry.seq not in takeovers
    ]
    for record in records:
        if record.kind in (Kind.GUEST, Kind.CONTROL):
            found += _beyond_its_kind(record, stored.get(record.first, []))
            continue
        if record.kind is Kind.TAKEOVER and record.epoch <= epoch:
            found.append(Violation(record.first, "V11", f"a takeover under epoch {record.epoch}, after epoch {epoch}"))
        elif record.epoch < epoch:
            found.append(Violation(record.first, "V11", f"epoch {record.epoch} after epoch {epoch}"))
        elif record.epoch > epoch and record.first > 1:
            opening = stored[record.first][0].event if stored.get(record.first) else None
            named = opening.epoch if isinstance(opening, e.RunTakenOver) else None
            if record.kind is not Kind.TAKEOVER or named != record.epoch:
                found.append(Violation(record.first, "V11", f"epoch {record.epoch} begins without RunTakenOver"))
        epoch = max(epoch, record.epoch)
    return found


def _by_record(records: Sequence[Record], log: Sequence[Entry]) -> dict[int, list[Entry]]:
    """The events of each record that is judged here by what it says: guests' and those that begin an epoch."""
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


def _beyond_its_kind(record: Record, stored: Sequence[Entry]) -> list[Violation]:
    if record.epoch:
        return [Violation(record.first, "V11", f"a guest writes under epoch {record.epoch}")]
    allowed: tuple[type[e.Event], ...] = CONTROL if record.kind is Kind.CONTROL else (*GUEST_DATA, e.RunCreated)
    return [
        Violation(entry.seq, "V11", f"{type(entry.event).__name__} is not for a guest to say")
        for entry in stored[: record.count]
        if not isinstance(entry.event, allowed)
    ]


def _receipts(log: Sequence[Entry]) -> list[Violation]:
    """A receipt has its antecedent anywhere before it (that it comes once per lineage, the fold sees); one that a new branch
    takes over names the place of the original."""
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
                    found.append(Violation(entry.seq, "V7", f"no receipt for {name} stands at event {event.adopted}"))
                continue
            originals[entry.seq] = name
            if name not in owed:
                found.append(Violation(entry.seq, "V7", f"a receipt for {name}, which is nowhere in the log"))
    return found


def _requests(records: Sequence[Record], log: Sequence[Entry]) -> list[Violation]:
    """A refusal names an open request, and the append that opens a branch settles them all. That no run ends while one is
    open, the fold sees."""
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
            found.append(Violation(entry.seq, "V12", f"no open request stands at event {event.request}"))
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
            Violation(summary.at, "V10", f"the summary is of event {summary.at}, the log ends at {log[-1].seq}")
        )
    return found


def _lineage(
    run: RunId,
    branch: Branch,
    branches: dict[int, Branch],
    end: int,
    log: Sequence[Entry],
    summary: RunSummary | None,
) -> list[Violation]:
    """Fold one branch's lineage, objecting only on its own interval: what it shares was judged on its parent."""
    try:
        intervals = lineage(branches, branch.id, end)
    except (Illegal, NotFound) as objection:
        return [Violation(branch.first, "V8", str(objection))]
    found: list[Violation] = []
    state = State()
    for entry in _within(log, intervals):
        try:
            apply(state, entry.event, entry.seq, entry.time)
        except Illegal as objection:
            if entry.seq >= branch.first:
                found.append(Violation(entry.seq, objection.invariant, objection.reason))
        if summary is not None and entry.seq == summary.at and entry.seq >= branch.first:
            found += _summary_differences(summary, summarise(run, state))
    return found


def _within(log: Sequence[Entry], intervals: Sequence[Interval]) -> Iterator[Entry]:
    """The events of the log that lie in these intervals; what is missing from the log was reported as a gap."""
    for first, last in intervals:
        place = bisect_left(log, first, key=lambda entry: entry.seq)
        while place < len(log) and log[place].seq <= last:
            yield log[place]
            place += 1


def _summary_differences(stored: RunSummary, true: RunSummary) -> list[Violation]:
    return [
        Violation(stored.at, "V10", f"the summary says {name} {_shown(stored, name)}, the log {_shown(true, name)}")
        for name in RunSummary.__struct_fields__
        if getattr(stored, name) != getattr(true, name)
    ]


def _shown(summary: RunSummary, name: str) -> str:
    value = getattr(summary, name)
    return str(value) if isinstance(value, RunStatus) else repr(value)
