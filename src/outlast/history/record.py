"""The append record: the unit of storage, and the chain of digests over it.

One append is one record: a row, or an object. Its events are numbered from `first`; the body does not contain the number, so
a record that lost a race gets new numbers and a new digest without a change of its bytes.

The digest proves damage. With a key (a keyed BLAKE2b) it also proves tampering to the holder of the key; without a key, an
attacker who can write to the store can write a new chain.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from struct import Struct as Layout
from struct import error as OutOfRange

from msgspec import Struct

from outlast.history.codec import decode
from outlast.history.events import AnyEvent
from outlast.history.ids import AppendId, RunId

DIGEST_SIZE = 16
ID_SIZE = 16
_HEADER = Layout(">QIIQBq16s")


class Kind(IntEnum):
    """The kind of writer of an append, and its effect on the owner."""

    GUEST = 0
    """Data from a writer that does not own the run: the owner reads it and continues."""
    OWNER = 1
    """An append of the owner, under the epoch of its claim."""
    TAKEOVER = 2
    """The first append of a new owner: it fences off all older epochs."""
    CONTROL = 3
    """A request from a writer that does not own the run: the owner decides again."""


class Record(Struct, frozen=True, gc=False):
    """One stored append. `epoch` is 0 for guests. `first` gives the order; `time` is for display."""

    run: RunId
    first: int
    count: int
    branch: int
    epoch: int
    kind: Kind
    id: AppendId
    time: int
    body: bytes
    digest: bytes

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def events(self) -> list[AnyEvent]:
        """Its events, in order from seq `first`."""
        return decode(self.body, run=self.run, first=self.first)


class Entry(Struct, frozen=True, gc=False):
    """One event with its seq."""

    seq: int
    branch: int
    time: int
    event: AnyEvent


def entries(record: Record) -> list[Entry]:
    """The events of a record, each with its seq."""
    return [Entry(seq, record.branch, record.time, event) for seq, event in enumerate(record.events(), record.first)]


def genesis(run: RunId, key: bytes = b"") -> bytes:
    """The digest before the first append of a run. It depends on the run, so a record cannot be moved to another one."""
    return hashlib.blake2b(b"outlast:" + run.encode(), digest_size=DIGEST_SIZE, key=key).digest()


def chained(
    previous: bytes,
    first: int,
    count: int,
    branch: int,
    epoch: int,
    kind: int,
    time: int,
    id: AppendId,
    body: bytes,
    key: bytes = b"",
) -> bytes:
    """The digest of an append that follows the digest `previous`."""
    header = _HEADER.pack(first, count, branch, epoch, kind, time, id)
    return hashlib.blake2b(previous + header + body, digest_size=DIGEST_SIZE, key=key).digest()


def follows(record: Record, previous: bytes, key: bytes = b"") -> bool:
    """Whether the digest of a record matches its bytes and `previous`; False for numbers that no record can have."""
    id = record.id
    if len(id) != ID_SIZE:
        return False
    numbers = record.first, record.count, record.branch, record.epoch, record.kind, record.time
    try:
        return record.digest == chained(previous, *numbers, id, record.body, key)
    except OutOfRange:
        return False
