"""A log said again in another store, byte for byte: the digests prove it, so nothing has to be believed.

A log arrives record by record and can be left half-way: what is there is a beginning of it, and whoever comes next goes on.
Until the last record is there, no list shows the run and no worker takes it.
"""

from __future__ import annotations

from outlast.errors import AlreadyExists, Conflict, Damaged
from outlast.history.ids import RunId
from outlast.history.record import Record, follows, genesis
from outlast.ledger.reading import head_of, lineage_of, records, state_of
from outlast.lifecycle.summary import summarise
from outlast.store import LANDED, Append, Head, Store


async def copy_log(source: Store, target: Store, run: RunId, key: bytes = b"") -> int:
    """Bring the log of a run to another store, up to where it ends now; returns how many events were missing there."""
    head = await head_of(source, run)
    there = await target.head(run)
    done = there.version if there is not None else 0
    if there is not None and not await _is_same(source, target, there, head):
        raise AlreadyExists(
            f"run {run} has gone on in both stores since it was copied"
            if await _begins_alike(source, target, run)
            else f"there is another run {run} in the store it is copied to"
        )
    if done >= head.version:
        return 0  # it is there already, and may have gone on
    previous, epoch, first = genesis(run, key), 0, 1
    if there is not None:
        previous, epoch, first = there.digest, there.epoch, there.branch_first
    branch = there.branch if there is not None else 0
    async for record in records(source, run, done + 1, head.version):
        if not follows(record, previous, key):
            raise Damaged("the digest is not that of the stored bytes and the one before", run=run, seq=record.first)
        first = record.first if record.branch != branch else first
        previous, epoch, branch = record.digest, max(epoch, record.epoch), record.branch
        arrived = Head(run, record.last, record.digest, epoch, branch, first)
        await _append(
            target, await _last(source, record, head) if record.last == head.version else Append(record, arrived)
        )
    return head.version - done


async def _is_same(source: Store, target: Store, there: Head, head: Head) -> bool:
    """Whether one of the two logs is a beginning of the other."""
    upto = min(there.version, head.version)
    ours, theirs = await source.read(head.run, upto, upto, 1), await target.read(head.run, upto, upto, 1)
    return bool(ours) and [each.digest for each in ours] == [each.digest for each in theirs]


async def _begins_alike(source: Store, target: Store, run: RunId) -> bool:
    ours, theirs = await source.read(run, 1, 1, 1), await target.read(run, 1, 1, 1)
    return [each.digest for each in ours] == [each.digest for each in theirs]


async def _last(source: Store, record: Record, head: Head) -> Append:
    """The last record brings what lists show and what the run waits for."""
    state = await state_of(source, head.run, await lineage_of(source, head))
    arrived = Head(head.run, head.version, head.digest, head.epoch, head.branch, head.branch_first, head.closed)
    opens = (*state.waits.values(), *state.loose.values())
    return Append(record, arrived, summarise(head.run, state), opens)


async def _append(target: Store, append: Append) -> None:
    (outcome,) = await target.append([append])
    if outcome is not LANDED:
        there = await target.head(append.record.run)
        if there is None or there.version < append.record.last:
            raise Conflict(f"run {append.record.run} is being written to where it is copied to")
