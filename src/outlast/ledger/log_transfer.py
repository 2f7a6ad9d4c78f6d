"""Copying a log to another store, byte for byte; the digests prove the copy.

The records are copied one by one. An interrupted copy leaves a prefix of the log, and the next call continues from there.
Until the last record is copied, no list shows the run and no worker claims it.
"""

from __future__ import annotations

from outlast.errors import AlreadyExists, Conflict, Damaged
from outlast.history.ids import RunId
from outlast.history.record import Record, follows, genesis
from outlast.ledger.reading import head_of, lineage_of, records, state_of
from outlast.lifecycle.invariants import WRONG_DIGEST
from outlast.lifecycle.summary import summarise
from outlast.store import LANDED, Append, Head, Store


async def copy_log(source: Store, target: Store, run: RunId, key: bytes = b"") -> int:
    """Copy the log of a run to another store, up to its current end; returns the number of copied events."""
    head = await head_of(source, run)
    there = await target.head(run)
    done = there.version if there is not None else 0
    if there is not None and not await _same_record(source, target, run, min(done, head.version)):
        raise AlreadyExists(
            f"run {run} continued in both stores after it was copied"
            if await _same_record(source, target, run, 1)
            else f"the target store already has another run {run}"
        )
    if done >= head.version:
        return 0  # the copy is complete, and may have continued
    previous, epoch, first = genesis(run, key), 0, 1
    if there is not None:
        previous, epoch, first = there.digest, there.epoch, there.branch_first
    branch = there.branch if there is not None else 0
    async for record in records(source, run, done + 1, head.version):
        if not follows(record, previous, key):
            raise Damaged(WRONG_DIGEST, run=run, seq=record.first)
        first = record.first if record.branch != branch else first
        previous, epoch, branch = record.digest, max(epoch, record.epoch), record.branch
        arrived = Head(run, record.last, record.digest, epoch, branch, first)
        await _append(
            target, await _last(source, record, head) if record.last == head.version else Append(record, arrived)
        )
    return head.version - done


async def _same_record(source: Store, target: Store, run: RunId, seq: int) -> bool:
    """Whether both logs have the same record at `seq`; then they are equal up to there, because the digests chain."""
    ours, theirs = await source.read(run, seq, seq, 1), await target.read(run, seq, seq, 1)
    return bool(ours) and [each.digest for each in ours] == [each.digest for each in theirs]


async def _last(source: Store, record: Record, head: Head) -> Append:
    """The append of the last record, with the summary and the waits of the run."""
    state = await state_of(source, head.run, await lineage_of(source, head))
    arrived = Head(head.run, head.version, head.digest, head.epoch, head.branch, head.branch_first, head.closed)
    opens = (*state.waits.values(), *state.loose.values())
    return Append(record, arrived, summarise(head.run, state), opens)


async def _append(target: Store, append: Append) -> None:
    (outcome,) = await target.append([append])
    if outcome is not LANDED:
        there = await target.head(append.record.run)
        if there is None or there.version < append.record.last:
            raise Conflict(f"run {append.record.run} is being written to in the target store")
