"""The sheet of a run: what its log comes to up to a version, and who holds it.

An append is durable when its own object is; the sheet follows. It is the head, the summary and the waits as of
`head.version`, and is brought up to date by folding in the appends after that (`after_append`): the same whoever does
it, for
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


class Holder(Struct, frozen=True):
    """Who holds a run, since which epoch."""

    worker: WorkerId
    epoch: int


class RunIndex(Struct, frozen=True, omit_defaults=True):
    """See above. `granted` is the greatest epoch that was ever given away; `interrupted` the worker whose runs were taken
    from it, remembered until a takeover of epoch `since` or later has landed. `nonce` tells one writing from another."""

    head: Head
    summary: RunSummary | None = None
    waits: dict[str, Wait] = {}
    held: Holder | None = None
    granted: int = 0
    interrupted: str = ""
    since: int = 0
    marks: dict[str, str] = {}
    nonce: str = ""


def after_append(old: RunIndex | None, append: Append, marks: Mapping[str, str]) -> RunIndex:
    """The sheet once the append has landed, for which these marks were put."""
    record = append.record
    if old is None:
        held = None if append.claim is None else Holder(append.claim, record.epoch)
        waits = {wait.name: wait for wait in append.opens}
        granted = append.head.epoch
        return RunIndex(append.head, append.summary, waits, held, granted, marks=dict(marks))
    held = old.held
    if append.release and held is not None and held.epoch == record.epoch:
        held = None
    is_over = record.kind is Kind.TAKEOVER and record.epoch >= old.since
    return RunIndex(
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

STATUS_FOLDERS = {RunStatus.COMPLETED: "completed", RunStatus.FAILED: "failed", RunStatus.CANCELLED: "cancelled"}
UNFINISHED_FOLDER = "open"


def status_folder(status: RunStatus) -> str:
    """Finished runs lie apart, by how they ended, so that lists of the others cost nothing for them."""
    return STATUS_FOLDERS.get(status, UNFINISHED_FOLDER)


def wanted(run_index: RunIndex) -> set[str]:
    """The places at which a mark has to be. A run that is held is found by its holder, ready or not."""
    places = {keys.waiting_for(wait.kind) for wait in run_index.waits.values()}
    places |= {keys.due_at(wait.due) for wait in run_index.waits.values() if wait.due is not None}
    if run_index.held is not None:
        places.add(keys.claimed_by(run_index.held.worker))
    elif run_index.head.ready and not run_index.head.closed:
        places.add(keys.READY)
    if run_index.summary is not None:
        places.add(keys.in_status_folder(status_folder(run_index.summary.status), run_index.summary.created))
        if not run_index.head.closed:  # a run that is held is not over
            places.add(keys.in_status_folder(UNFINISHED_FOLDER, run_index.summary.created))
    return places


def fresh() -> str:
    """A nonce."""
    return os.urandom(6).hex()


# --- as bytes

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunIndex).decode


def encode_run_index(run_index: RunIndex) -> bytes:
    return _encode(run_index)


def decode_run_index(run: RunId, body: bytes) -> RunIndex:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"the sheet does not read: {error}", run=run) from error


def record_matches(one: Record, other: Record) -> bool:
    """Whether both are the same append, sent twice."""
    return one.first == other.first and one.id == other.id
