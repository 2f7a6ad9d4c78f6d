"""The sheet of a run: what its log comes to up to a version, and who holds it.

An append is durable when its own object is; the sheet follows. It is the head, the summary and the waits as of
`head.version`, and is brought up to date by folding in the appends after that (`turned`): the same whoever does it, for
an append's object carries everything the append was asked to do. What no log holds, who claimed the run and under which
epoch, is kept in the sheet alone, and changed by compare-and-set.

Marks are how a run is found without looking at all of them. Which ones there should be follows from the sheet (`wanted`).
A mark is put before whatever makes it right, and named by a nonce, which the sheet then lists; so a mark may be there
without being right, never the other way round, and whoever removes one removes that one and not its successor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import Damaged
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, Head
from outlast.stores.objects import keys


class Held(Struct, frozen=True):
    """Who holds a run, since which epoch."""

    worker: WorkerId
    epoch: int


class Sheet(Struct, frozen=True, omit_defaults=True):
    """See above. `granted` is the greatest epoch that was ever given away; `interrupted` the worker whose runs were taken
    from it, remembered until a takeover of epoch `since` or later has landed. `nonce` tells one writing from another."""

    head: Head
    summary: RunSummary | None = None
    waits: dict[str, Wait] = {}
    held: Held | None = None
    granted: int = 0
    interrupted: str = ""
    since: int = 0
    marks: dict[str, str] = {}
    nonce: str = ""


def turned(old: Sheet | None, append: Append, marks: Mapping[str, str]) -> Sheet:
    """The sheet once the append has landed, for which these marks were put."""
    record = append.record
    if old is None:
        held = None if append.claim is None else Held(append.claim, record.epoch)
        waits = {wait.name: wait for wait in append.opens}
        granted = append.head.epoch
        return Sheet(append.head, append.summary, waits, held, granted, marks=dict(marks))
    held = old.held
    if append.release and held is not None and held.epoch == record.epoch:
        held = None
    is_over = record.kind is Kind.TAKEOVER and record.epoch >= old.since
    return Sheet(
        head=_moved(old.head, append),
        summary=append.summary if append.summary is not None else old.summary,
        waits=_waits(old.waits, append),
        held=held,
        granted=max(old.granted, append.head.epoch),
        interrupted="" if is_over else old.interrupted,
        since=old.since,
        marks={**old.marks, **marks} if marks else old.marks,
        nonce=old.nonce,
    )


def _moved(old: Head, append: Append) -> Head:
    """Only guests and those who give the run back say whether it is ready."""
    keeps = append.record.kind in (Kind.OWNER, Kind.TAKEOVER) and not append.release
    return replace(append.head, ready=old.ready) if keeps and append.head.ready != old.ready else append.head


def _waits(old: dict[str, Wait], append: Append) -> dict[str, Wait]:
    if not append.opens and not append.closes:
        return old
    waits = {name: wait for name, wait in old.items() if name not in append.closes}
    return waits | {wait.name: wait for wait in append.opens}


# --- marks

SHELVES = {RunStatus.COMPLETED: "completed", RunStatus.FAILED: "failed", RunStatus.CANCELLED: "cancelled"}
OPEN_SHELF = "open"


def shelf_of(status: RunStatus) -> str:
    """Finished runs lie apart, by how they ended, so that lists of the others cost nothing for them."""
    return SHELVES.get(status, OPEN_SHELF)


def wanted(sheet: Sheet) -> set[str]:
    """The places at which a mark has to be. A run that is held is found by its holder, ready or not."""
    places = {keys.waiting_for(wait.kind) for wait in sheet.waits.values()}
    places |= {keys.due_at(wait.due) for wait in sheet.waits.values() if wait.due is not None}
    if sheet.held is not None:
        places.add(keys.claimed_by(sheet.held.worker))
    elif sheet.head.ready and not sheet.head.closed:
        places.add(keys.READY)
    if sheet.summary is not None:
        places.add(keys.on_shelf(shelf_of(sheet.summary.status), sheet.summary.created))
        if not sheet.head.closed:  # a run that is held is not over
            places.add(keys.on_shelf(OPEN_SHELF, sheet.summary.created))
    return places


def fresh() -> str:
    """A nonce."""
    return os.urandom(6).hex()


# --- as bytes

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Sheet).decode


def sheet_bytes(sheet: Sheet) -> bytes:
    return _encode(sheet)


def sheet_of(run: RunId, body: bytes) -> Sheet:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"the sheet does not read: {error}", run=run) from error


def record_matches(one: Record, other: Record) -> bool:
    """Whether both are the same append, sent twice."""
    return one.first == other.first and one.id == other.id
