"""Builds appends as the ledger would, and collects all records of a run for comparison."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count as counter
from typing import Any, TypeVar

from msgspec import Struct

from outlast.history.ids import AppendId, RunId, WorkerId
from outlast.history.record import Kind, Record, chained, genesis
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import LANDED, Append, Due, Head, Holding, RunFilter, Slot, SlotHolder, Store, Tombstone

BEGINNING = 1_700_000_000_000_000
"""The creation time of the sample runs, in microseconds."""

ENDLESS = 10_000
"""More entries than any list of a test."""

A, B, C = RunId("run-a"), RunId("run-b"), RunId("run-c")
ANN, BEN, CAT = WorkerId("ann"), WorkerId("ben"), WorkerId("cat")

T = TypeVar("T")
_appends = counter(1)
_everything = RunFilter(limit=1000)


def begin(run: RunId, *, epoch: int = 1, kind: Kind = Kind.OWNER, **parts: Any) -> Append:
    """Return the first append of a run, by default of its owner."""
    return follow(Head(run, 0, genesis(run)), epoch=epoch, kind=kind, **parts)


def begin_ready(run: RunId, **parts: Any) -> Append:
    """Return the first append of a ready run without an owner."""
    return begin(run, kind=Kind.GUEST, epoch=0, ready=True, **{"summary": summary(run), **parts})


def follow(
    old: Head,
    *,
    kind: Kind = Kind.OWNER,
    epoch: int | None = None,
    count: int = 1,
    body: bytes | None = None,
    branch: int | None = None,
    closed: bool = False,
    ready: bool | None = None,
    summary: RunSummary | None = None,
    opens: Sequence[Wait] = (),
    closes: Sequence[str] = (),
    needs: Sequence[str] = (),
    claim: WorkerId | None = None,
    release: bool = False,
    takes: Sequence[Slot] = (),
    frees: bool = False,
    blobs: Sequence[str] = (),
) -> Append:
    """Return the append after `old`: with its epoch for an owner, the next one for a takeover, none for guests."""
    is_guest = kind in (Kind.GUEST, Kind.CONTROL)
    if epoch is None:
        epoch = 0 if is_guest else old.epoch + (kind is Kind.TAKEOVER)
    first, number = old.version + 1, next(_appends)
    on = old.branch if branch is None else branch
    content = events(count) if body is None else body
    id, time = AppendId(number.to_bytes(16, "big")), BEGINNING + number
    digest = chained(old.digest, first, count, on, epoch, kind, time, id, content)
    record = Record(old.run, first, count, on, epoch, kind, id, time, content, digest)
    head = Head(
        old.run,
        record.last,
        digest,
        old.epoch if is_guest else epoch,
        on,
        old.branch_first if on == old.branch else first,
        closed,
        is_guest and not closed if ready is None else ready,
    )
    changes = summary, tuple(opens), tuple(closes), tuple(needs), claim, release, tuple(takes), frees, tuple(blobs)
    return Append(record, head, *changes)


def answer(old: Head, name: str) -> Append:
    """Return an append of a guest that needs and ends the wait `name`."""
    return follow(old, kind=Kind.GUEST, needs=[name], closes=[name])


def events(count: int) -> bytes:
    """Return a body of `count` events."""
    return b"[" + b",".join([b'{"type":"NodeStarted","node":"n"}'] * count) + b"]"


def summary(run: RunId, at: int = 1, **parts: Any) -> RunSummary:
    """Return a summary of a run."""
    return RunSummary(
        **{"run": run, "at": at, "status": RunStatus.RUNNING, "workflow": "w", "created": BEGINNING, **parts}
    )


def tombstone(run: RunId, **parts: Any) -> Tombstone:
    """Return a tombstone of a run."""
    return Tombstone(
        **{
            "run": run,
            "workflow": "w",
            "status": RunStatus.COMPLETED,
            "created": BEGINNING,
            "deleted": BEGINNING + 1,
            **parts,
        }
    )


async def land(store: Store, append: Append) -> Head:
    """Append one append, which must succeed. Return its head."""
    assert await store.append([append]) == [LANDED]
    return append.head


async def chain(store: Store, run: RunId, *counts: int) -> list[Record]:
    """Append consecutive records with so many events each. Return them."""
    head, made = Head(run, 0, genesis(run), 1), []
    for count in counts:
        append = follow(head, count=count)
        head = await land(store, append)
        made.append(append.record)
    return made


class Trace(Struct, frozen=True):
    """All records of a run in a store."""

    head: Head | None
    log: tuple[Record, ...]
    summary: RunSummary | None
    is_listed: bool
    waits: tuple[Wait, ...]
    holding: Holding | None
    slots: tuple[SlotHolder, ...] = ()


NO_TRACE = Trace(None, (), None, False, (), None)


async def trace(store: Store, run: RunId) -> Trace:
    """Read all records of a run."""
    listed = await store.search(_everything)
    waits = [due.wait for due in await all_waits(store) if due.run == run]
    return Trace(
        await store.head(run),
        tuple(await store.read(run)),
        await store.summary(run),
        any(item.summary.run == run for item in listed.items),
        tuple(sorted(waits, key=lambda wait: wait.name)),
        await store.holding(run),
        tuple(held for held in await store.slot_holders() if held.run == run),
    )


async def in_pages(read: Callable[[Any], Awaitable[list[T]]], limit: int) -> list[T]:
    """Read pages of a list until one is short. `read` gets the last entry of the page before, None at first."""
    found = page = await read(None)
    while len(page) >= limit:
        page = await read(page[-1])
        found = [*found, *page]
        assert len(found) < ENDLESS, "the list has too many pages"
    return found


async def all_waits(store: Store, *, kind: str = "", limit: int = 100) -> list[Due]:
    """List all waits, in pages."""
    found, after = await store.waits(kind=kind, limit=limit)
    while after:
        more, after = await store.waits(kind=kind, after=after, limit=limit)
        found = [*found, *more]
        assert len(found) < ENDLESS, "the list has too many pages"
    return found
