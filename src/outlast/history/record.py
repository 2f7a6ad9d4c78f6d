"""The append record: the unit of storage, and the chain of digests over it.

One append is one record: a row, or an object. Its events are numbered from `first`; nothing inside the body repeats the
number, so a record that lost a race is renumbered and chained anew without touching its bytes.

The digest proves damage. With a key (a keyed BLAKE2b) it also proves tampering to whoever holds the key; without one, a
person who can write to the store can write a new chain.
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
    """Who wrote an append, and what it makes the owner do."""

    GUEST = 0
    """Data for the run, from someone who does not own it: taken in by the owner, who goes on."""
    OWNER = 1
    """The run's own story, under the epoch of its claim."""
    TAKEOVER = 2
    """The first append of a new owner: from here on the older epochs are fenced off."""
    CONTROL = 3
    """A request by someone who does not own the run: it makes the owner decide again."""


class Record(Struct, frozen=True, gc=False):
    """One append as it is stored. `epoch` is 0 for guests; `time` is for people, `first` is the order."""

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
        """What it says, in order from seq `first`."""
        return decode(self.body, run=self.run, first=self.first)


class Entry(Struct, frozen=True, gc=False):
    """One event at its place in the log."""

    seq: int
    branch: int
    time: int
    event: AnyEvent


def entries(record: Record) -> list[Entry]:
    """The events of a record, each with its place."""
    return [Entry(seq, record.branch, record.time, event) for seq, event in enumerate(record.events(), record.first)]


def genesis(run: RunId, key: bytes = b"") -> bytes:
    """What the first append of a run is chained to: a record moved to another run does not fit there."""
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
    """The digest of an append that follows the one whose digest is `previous`."""
    header = _HEADER.pack(first, count, branch, epoch, kind, time, id)
    return hashlib.blake2b(previous + header + body, digest_size=DIGEST_SIZE, key=key).digest()


def follows(record: Record, previous: bytes, key: bytes = b"") -> bool:
    """Whether the record's digest is the one its bytes and `previous` give. Numbers that no record can have do not."""
    id = record.id
    if len(id) != ID_SIZE:
        return False
    numbers = record.first, record.count, record.branch, record.epoch, record.kind, record.time
    try:
        return record.digest == chained(previous, *numbers, id, record.body, key)
    except OutOfRange:
        return False
