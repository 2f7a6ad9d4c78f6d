"""The index of a run: values derived from its log at a version, and its holder.

An append is durable when its own object is; the index follows. It has the head, the summary and the waits at
`head.version`. A reader adds the later appends (`after_append`); every reader gets the same result, because the object of an
append has all its fields. The holder of the run and the epoch of its claim are stored only in the index and change by
compare-and-set.

Marks make runs searchable. The index determines which ones must exist (`wanted`). A mark is put before the change that
requires it and named by a nonce, which the index then lists. So there may be a mark too many, never one too few, and a
delete removes exactly this mark, not its successor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from outlast.errors import Damaged
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, Head, Tombstone
from outlast.stores.objects import keys
from outlast.stores.shared import head_after, is_due, may_be_due


class Holder(Struct, frozen=True):
    """The worker that holds a run, and the epoch of its claim."""

    worker: WorkerId
    epoch: int


class HeldSlot(Struct, frozen=True):
    """A slot that the run holds: the epoch of the claim under which it was taken, and its lifetime."""

    epoch: int
    until: Literal["claim", "run"] = "claim"


class Deletion(Struct, frozen=True):
    """A deletion of the run: in its index when it is begun, and at the end of its log when the run is deleted."""

    tombstone: Tombstone
    nonce: str


class RunIndex(Struct, frozen=True, omit_defaults=True):
    """The index of a run. `granted` is the greatest epoch of any claim. `interrupted` is the worker that lost the run, until
    a takeover with epoch `since` or later is in the log. `slots` lists the slots that the run holds or is about to take.
    `deletion` has begun if no append is in the log after `head`. `nonce` distinguishes two writes."""

    head: Head
    summary: RunSummary | None = None
    waits: dict[str, Wait] = {}
    held: Holder | None = None
    granted: int = 0
    interrupted: str = ""
    since: int = 0
    slots: dict[str, HeldSlot] = {}
    deletion: Deletion | None = None
    marks: dict[str, str] = {}
    nonce: str = ""


def after_append(old: RunIndex | None, append: Append, marks: Mapping[str, str]) -> RunIndex:
    """Return the index after an append for which these marks were put."""
    record = append.record
    if old is None:
        held = None if append.claim is None else Holder(append.claim, record.epoch)
        waits = {wait.name: wait for wait in append.opens}
        granted = append.head.epoch
        slots = _slots({}, append)
        return RunIndex(append.head, append.summary, waits, held, granted, slots=slots, marks=dict(marks))
    held = old.held
    if append.release and held is not None and held.epoch == record.epoch:
        held = None
    is_over = append.release or (record.kind is Kind.TAKEOVER and record.epoch >= old.since)
    return RunIndex(
        head=head_after(old.head, append),
        summary=append.summary if append.summary is not None else old.summary,
        waits=_waits(old.waits, append),
        held=held,
        granted=max(old.granted, append.head.epoch),
        interrupted="" if is_over else old.interrupted,
        since=old.since,
        slots=_slots(old.slots, append),
        marks={**old.marks, **marks} if marks else old.marks,
        nonce=old.nonce,
    )


def _waits(old: dict[str, Wait], append: Append) -> dict[str, Wait]:
    if not append.opens and not append.closes:
        return old
    waits = {name: wait for name, wait in old.items() if name not in append.closes}
    return waits | {wait.name: wait for wait in append.opens}


def _slots(old: dict[str, HeldSlot], append: Append) -> dict[str, HeldSlot]:
    """Return the slots after an append. A run that begins and ends in one append frees the slots that it takes."""
    epoch = append.record.epoch
    last = epoch if append.release else epoch - 1 if append.record.kind is Kind.TAKEOVER else -1
    slots = {name: held for name, held in old.items() if held.until == "run" or held.epoch > last}
    slots |= {slot.name: HeldSlot(epoch, slot.until) for slot in append.takes}
    return {name: held for name, held in slots.items() if held.until == "claim"} if append.frees else slots


def without_slots_of_claims(slots: dict[str, HeldSlot], epoch: int) -> dict[str, HeldSlot]:
    """Return the slots without those of claims up to this epoch."""
    return {name: held for name, held in slots.items() if held.until == "run" or held.epoch > epoch}


def may_start(run_index: RunIndex, now: int) -> bool:
    """Return whether a run that nobody holds needs an owner: it is ready, or one of its timers is due."""
    if run_index.held is not None or run_index.head.closed:
        return False
    return run_index.head.ready or any(is_due(wait, now) for wait in _timers(run_index))


def _timers(run_index: RunIndex) -> Iterator[Wait]:
    """Yield the timers that make the run due."""
    if run_index.summary is not None and may_be_due(run_index.summary):
        yield from (wait for wait in run_index.waits.values() if wait.kind == "timer" and wait.due is not None)


# --- marks

STATUS_FOLDERS = {RunStatus.COMPLETED: "completed", RunStatus.FAILED: "failed", RunStatus.CANCELLED: "cancelled"}
UNFINISHED_FOLDER = "open"


def status_folder(status: RunStatus) -> str:
    """Return the folder of a status. Finished runs have their own, so they do not slow lists of unfinished runs."""
    return STATUS_FOLDERS.get(status, UNFINISHED_FOLDER)


def wanted(run_index: RunIndex) -> set[str]:
    """Return the places of the required marks. Claims find a run by one of three: under its holder, ready or not; ready; or
    by its first timer."""
    summary, is_closed = run_index.summary, run_index.head.closed
    places = {keys.waiting_for(wait.kind) for wait in run_index.waits.values()}
    places |= {keys.due_at(wait.due) for wait in run_index.waits.values() if wait.due is not None}
    if run_index.held is not None:
        places.add(keys.by_class(keys.claims_of(run_index.held.worker), summary))
    elif run_index.head.ready and not is_closed:
        places.add(keys.by_class(keys.READY, summary))
    elif not is_closed and (times := [wait.due for wait in _timers(run_index) if wait.due is not None]):
        places.add(keys.due_by_class(min(times), summary))
    if run_index.deletion is not None:
        places.add(keys.DELETING)
    if summary is not None:
        places.add(keys.in_status_folder(status_folder(summary.status), summary.created))
        if not is_closed:  # a held run may continue
            places.add(keys.in_status_folder(UNFINISHED_FOLDER, summary.created))
    return places


def fresh() -> str:
    """Return a new nonce."""
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
        raise Damaged(f"the index of the run cannot be decoded: {error}", run=run) from error


def record_matches(one: Record, other: Record) -> bool:
    """Return whether both are the same append."""
    return one.first == other.first and one.id == other.id
