"""An append as an object, and several of them as one.

A line of JSON says everything the append was asked to do, so that whoever finds it can finish what its writer may not
have; after the line come the bytes of its events, exactly. A merged segment is a line with the sizes, and then the
objects as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from outlast.errors import Damaged
from outlast.history.ids import AppendId, RunId, WorkerId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, Head


class _Line(Struct, frozen=True, omit_defaults=True):
    """What stands before the events. Of the head, only what does not follow from the record."""

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
    marks: dict[str, str] = {}


class Landed(Struct, frozen=True, gc=False):
    """An append that is in the log, and the marks that were put for it."""

    append: Append
    marks: dict[str, str]
    size: int = 0

    @property
    def record(self) -> Record:
        return self.append.record


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode
_sizes = msgspec.json.Decoder(list[int]).decode
_STRANGE = (msgspec.DecodeError, UnicodeDecodeError, ValueError)


def sealed(append: Append, marks: dict[str, str]) -> bytes:
    """The object of an append."""
    record, head = append.record, append.head
    line = _Line(
        run=record.run,
        first=record.first,
        count=record.count,
        branch=record.branch,
        epoch=record.epoch,
        kind=record.kind,
        id=record.id,
        time=record.time,
        digest=record.digest,
        size=len(record.body),
        head_epoch=head.epoch,
        branch_first=head.branch_first,
        closed=head.closed,
        ready=head.ready,
        summary=append.summary,
        opens=append.opens,
        closes=append.closes,
        claim=append.claim,
        release=append.release,
        marks=marks,
    )
    return b"%b\n%b" % (_encode(line), record.body)


def opened(run: RunId, first: int, sealed: bytes) -> Landed:
    """The append in an object that should hold the one of that run and place; `Damaged` if it does not."""
    head, _, body = sealed.partition(b"\n")
    try:
        line = _decode(head)
    except _STRANGE as error:
        raise Damaged(f"the object is not an append: {error}", run=run, seq=first) from error
    if (line.run, line.first, line.size) != (run, first, len(body)):
        raise Damaged("the object holds another append than its name says, or not all of it", run=run, seq=first)
    record = Record(
        run, first, line.count, line.branch, line.epoch, line.kind, AppendId(line.id), line.time, body, line.digest
    )
    after = Head(
        run, record.last, line.digest, line.head_epoch, line.branch, line.branch_first, line.closed, line.ready
    )
    append = Append(record, after, line.summary, line.opens, line.closes, (), line.claim, line.release)
    return Landed(append, line.marks, len(sealed))


# --- segments


def merged(objects: Sequence[bytes]) -> bytes:
    """Several objects, in order, as one."""
    return b"\n".join([_encode([len(each) for each in objects]), b"".join(objects)])


def parted(run: RunId, first: int, segment: bytes) -> list[Landed]:
    """The appends in a segment that begins with event `first`."""
    head, _, rest = segment.partition(b"\n")
    try:
        sizes = _sizes(head)
    except _STRANGE as error:
        raise Damaged(f"the segment does not read: {error}", run=run, seq=first) from error
    if sum(sizes) != len(rest):
        raise Damaged("the segment is not whole", run=run, seq=first)
    found: list[Landed] = []
    start = 0
    for size in sizes:
        found.append(opened(run, first, rest[start : start + size]))
        start, first = start + size, found[-1].record.last + 1
    return found
