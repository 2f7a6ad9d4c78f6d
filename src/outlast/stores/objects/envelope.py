"""Encodes an append as an object, and several of these objects as a segment.

The first line is JSON with all fields of the append, so that any reader can complete the derived objects. The exact bytes of
the events follow. An object at the end of a log can also be the end of a deleted run, or empty: then it holds the place of
an append that must be checked again before it lands (`slots.py`). A segment is a JSON line with the sizes of its objects,
followed by the unchanged objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec
from msgspec import Struct

from outlast.errors import Damaged
from outlast.history.ids import AppendId, RunId, WorkerId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, Head, Slot
from outlast.stores.objects.run_index import Deletion


class _Line(Struct, frozen=True, omit_defaults=True):
    """The JSON before the events. It omits fields of the head that follow from the record."""

    run: RunId
    first: int
    count: int
    branch: int
    epoch: int
    kind: Kind
    id: bytes
    time: int
    digest: bytes
    size: int
    head_epoch: int
    branch_first: int
    closed: bool = False
    ready: bool = False
    summary: RunSummary | None = None
    opens: tuple[Wait, ...] = ()
    closes: tuple[str, ...] = ()
    claim: WorkerId | None = None
    release: bool = False
    takes: tuple[Slot, ...] = ()
    frees: bool = False
    blobs: tuple[str, ...] = ()
    marks: dict[str, str] = {}


class Landed(Struct, frozen=True, gc=False):
    """An append in the log, with the marks that were put for it."""

    append: Append
    marks: dict[str, str]
    size: int = 0

    @property
    def record(self) -> Record:
        return self.append.record


_RECORD = attrgetter("run", "first", "count", "branch", "epoch", "kind", "id", "time", "digest")
_APPEND = attrgetter("summary", "opens", "closes", "claim", "release", "takes", "frees", "blobs")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode
_decode_deletion = msgspec.json.Decoder(Deletion).decode
_sizes = msgspec.json.Decoder(list[int]).decode
_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, ValueError)


def sealed(append: Append, marks: dict[str, str]) -> bytes:
    """Encode an append as an object."""
    record, head = append.record, append.head
    of_head = len(record.body), head.epoch, head.branch_first, head.closed, head.ready
    fields = (*_RECORD(record), *of_head, *_APPEND(append), marks)
    line = _Line(*fields)
    return b"%b\n%b" % (_encode(line), record.body)


def sealed_deletion(deletion: Deletion) -> bytes:
    return _encode(deletion)


def opened_deletion(sealed: bytes) -> Deletion | None:
    """Decode the end of the log of a deleted run; None if the object is an append."""
    return _decode_deletion(sealed) if sealed.startswith(b'{"tombstone":') else None


def opened(run: RunId, first: int, sealed: bytes) -> Landed:
    """Decode the append of this run and seq from an object; raise `Damaged` if it has another one."""
    head, _, body = sealed.partition(b"\n")
    try:
        line = _decode(head)
    except _ERRORS as error:
        raise Damaged(f"the object is not an append: {error}", run=run, seq=first) from error
    if (line.run, line.first, line.size) != (run, first, len(body)):
        raise Damaged("the object has another append than its name, or is incomplete", run=run, seq=first)
    record = Record(
        run, first, line.count, line.branch, line.epoch, line.kind, AppendId(line.id), line.time, body, line.digest
    )
    after = Head(
        run, record.last, line.digest, line.head_epoch, line.branch, line.branch_first, line.closed, line.ready
    )
    rest = line.claim, line.release, line.takes, line.frees, line.blobs
    append = Append(record, after, line.summary, line.opens, line.closes, (), *rest)
    return Landed(append, line.marks, len(sealed))


# --- segments


def merged(objects: Sequence[bytes]) -> bytes:
    """Encode several objects, in order, as a segment."""
    return b"\n".join([_encode([len(each) for each in objects]), b"".join(objects)])


def split_segment(run: RunId, first: int, segment: bytes) -> list[Landed]:
    """Decode the appends of a segment that begins with event `first`."""
    head, _, rest = segment.partition(b"\n")
    try:
        sizes = _sizes(head)
    except _ERRORS as error:
        raise Damaged(f"the segment cannot be decoded: {error}", run=run, seq=first) from error
    if sum(sizes) != len(rest):
        raise Damaged("the segment is incomplete", run=run, seq=first)
    found: list[Landed] = []
    start = 0
    for size in sizes:
        found.append(opened(run, first, rest[start : start + size]))
        start, first = start + size, found[-1].record.last + 1
    return found
