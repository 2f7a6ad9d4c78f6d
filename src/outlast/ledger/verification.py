"""Verification of a stored log: all invariants, its head and its summary, also if rows are damaged.

Other code stops at damage; verification continues. It reports each row that the store cannot read with its position, and
checks the rest. It checks the log up to the head that it read first, so concurrent appends are not violations.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from msgspec import Struct

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.history.lineage import Interval
from outlast.history.record import Record, follows
from outlast.ledger.reading import fold_within, lineage_of, missing, records
from outlast.lifecycle.diagnosis.derived_rows import differences
from outlast.lifecycle.invariants import Violation, violations
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import Derived, Head, Store

STRANGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error)
"""Errors that a damaged row may raise in code that does not check for damage."""


class Verification(Struct, frozen=True):
    """The result of `verify` for one run; `digest` is from its head, `status` from its summary."""

    run: RunId
    events: int
    appends: int
    branches: int
    status: RunStatus | None
    digest: str
    violations: tuple[Violation, ...] = ()

    @property
    def is_sound(self) -> bool:
        return not self.violations


async def verify(store: Store, run: RunId, key: bytes = b"") -> Verification:
    """Check V1 to V12 over the whole log, its head and its summary; damage is reported, not raised."""
    try:
        return await _verify(store, run, key)
    except (Damaged, *STRANGE) as error:
        return _unreadable(run, f"cannot be read: {error!r}")


async def _verify(store: Store, run: RunId, key: bytes) -> Verification:
    stored = await store.derived(run)
    head, summary = stored.head, stored.summary
    found = [Violation(0, "V10", fault) for fault in stored.faults]
    if head is None:
        if summary is None and not found:
            raise await missing(store, run)
        return _unreadable(run, *(stored.faults or ["the run has a summary but no head: its log cannot be reached"]))
    if summary is None and not found:
        found.append(Violation(0, "V10", "the run has no summary"))
    log, unread = await _log(store, run, head.version)
    found += [*unread, *_head_differences(head, log), *await _after_head(store, head)]
    found += await asyncio.to_thread(_violations, run, log, summary, key)
    if not found:  # otherwise there is no state to compare with
        intervals = await lineage_of(store, head)
        found += await asyncio.to_thread(_derived_rows, stored, head, log, intervals)
    return Verification(
        run=run,
        events=sum(record.count for record in log),
        appends=len(log),
        branches=1 + max((record.branch for record in log), default=head.branch),
        status=summary.status if summary else None,
        digest=head.digest.hex(),
        violations=tuple(sorted(set(found))),
    )


def _unreadable(run: RunId, *why: str) -> Verification:
    return Verification(run, 0, 0, 0, None, "", tuple(Violation(0, "V1", each) for each in why))


async def _log(store: Store, run: RunId, last: int) -> tuple[list[Record], list[Violation]]:
    """All readable records up to `last`, and violations for the others."""
    try:
        return [record async for record in records(store, run, 1, last)], []
    except (Damaged, *STRANGE):
        log, found, seq = list[Record](), list[Violation](), 1
    while seq <= last:
        try:
            page = await store.read(run, seq, seq, 1) or await store.read(run, seq, last, 1)
        except (Damaged, *STRANGE) as error:
            found.append(Violation(seq, "V1", f"cannot be read: {error!r}"))
            seq += 1
            continue
        if not page:
            break
        log += page
        seq = max(page[-1].last, seq) + 1
    return log, found


async def _after_head(store: Store, head: Head) -> list[Violation]:
    """Records after the head's version, unless the head has moved meanwhile."""
    place = head.version + 1
    try:
        further = await store.read(head.run, place, None, 1)
    except (Damaged, *STRANGE) as error:
        return [Violation(place, "V1", f"cannot be read: {error!r}")]
    again = await store.head(head.run) if further else None
    if not further or (again is not None and again.version >= further[-1].last):
        return []
    return [Violation(place, "V1", f"the head ends at event {head.version}, but the log has later events")]


def _head_differences(head: Head, log: Sequence[Record]) -> list[Violation]:
    """The differences between the head and the last record; only the version if that differs."""
    if not log or log[-1].last != head.version:
        end = log[-1].last if log else 0
        return [Violation(end + 1, "V1", f"the head ends at event {head.version}, but the log ends at event {end}")]
    last = log[-1]
    opened = next(record.first for record in log if record.branch == last.branch)
    compared = (
        ("V1", "digest", head.digest.hex(), last.digest.hex()),
        ("V11", "epoch", head.epoch, max(record.epoch for record in log)),
        ("V8", "branch", head.branch, last.branch),
        ("V8", "first event of the branch", head.branch_first, opened),
    )
    return [
        Violation(last.last, invariant, f"the head has {name} {stored}, the log {true}")
        for invariant, name, stored, true in compared
        if stored != true
    ]


def _derived_rows(stored: Derived, head: Head, log: Sequence[Record], intervals: Sequence[Interval]) -> list[Violation]:
    """The differences between the head's flag and the stored waits, and the fold."""
    state = State()
    for first, last in intervals:
        for record in log:
            if record.first <= last and record.last >= first:
                fold_within(state, record, first, last)
    return [
        Violation(head.version, "V10", each) for each in differences(state, is_closed=head.closed, waits=stored.waits)
    ]


def _violations(run: RunId, log: Sequence[Record], summary: RunSummary | None, key: bytes) -> list[Violation]:
    """The violations; a record that cannot be checked at all is reported and left out."""
    try:
        return violations(run, log, summary, key=key)
    except STRANGE:
        legible, found = list[Record](), list[Violation]()
    for record in log:
        try:
            follows(record, record.digest, key)
            record.events()
        except Damaged:
            legible.append(record)  # `violations` reports this damage itself
        except STRANGE as error:
            found.append(Violation(record.first, "V1", f"cannot be read: {error!r}"))
        else:
            legible.append(record)
    return found + violations(run, legible, summary, key=key)
