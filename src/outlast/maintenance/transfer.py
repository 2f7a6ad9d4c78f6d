"""Transfer of runs to another store, where they continue.

A run is copied with the children it waits for, and with the run it continued as; so is a child. A run that is not
over is paused in the source and resumed in the target, so that it continues in one place only. That pause names the
target (`copied_to`): the run is not copied to a third store afterwards. The log is copied byte for byte, with its
blobs and its definition. An interrupted transfer can be repeated: what was copied is not copied again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from outlast.client import Engine, RunFilter
from outlast.engine.completion import child_of, open_children
from outlast.errors import AlreadyExists, Conflict, Damaged, NotAllowed, NotFound
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Record, follows, genesis
from outlast.ledger.blob_names import blobs_of, hashes_in
from outlast.ledger.reading import created_of, ending_of, head_of, lineage_of, missing, records, state_of
from outlast.lifecycle.invariants import WRONG_DIGEST
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.summary import summarise
from outlast.store import LANDED, Append, BlobRef, Head, Lost, Store

PATIENCE, ASK_AGAIN = 60.0, 2.0
"""Seconds that a live worker has to pause a run, and between two requests: the worker may have died."""
SUCCESSION = 5.0
"""Seconds that a live worker has to create the successor of a run that has ended."""


class Moved(Struct, frozen=True):
    """The transfer of one run: the number of events and blobs copied; `how` the run is in the target."""

    run: RunId
    events: int
    blobs: int
    how: Literal["over", "going on", "as it was", "there already", "not copied"]
    why: str = ""


async def copy_runs(
    source: Engine,
    target: Engine,
    stores: tuple[Store, Store],
    runs: list[RunId] | None,
    *,
    place: str,
    key: bytes = b"",
    force: bool = False,
) -> AsyncIterator[Moved]:
    """Copy these runs, or all (`runs=None`), to another store, one after the other, each with the children it waits
    for. With all, a run that cannot be copied is reported and the others are copied. `place` names the target in the
    log. A run that was copied to a third store before is refused, unless with `force`: it would continue in both."""
    done: set[RunId] = set()
    move = _Move(source, target, stores, key, done, place, force)
    if runs is not None:
        for run in runs:
            await move.must_go_alone(run)
            async for moved in move.family(run):
                yield moved
        return
    for run in [summary.run async for summary in source.iter_runs(RunFilter(limit=1000))]:
        try:
            if run in done or await move.is_awaited(run):
                continue  # it is copied with its parent
            async for moved in move.family(run):
                yield moved
        except (NotAllowed, Damaged, Conflict) as error:
            if await stores[0].tombstone(run) is None:  # else it was deleted meanwhile
                yield Moved(run, 0, 0, "not copied", str(error))
    await _copy_tombstones(*stores)


async def _copy_tombstones(here: Store, there: Store) -> None:
    """Keep the ids of deleted runs from being used in the target too. A run that the target has is not deleted there, unless
    its log is a part that can never be completed."""
    after = ""
    while page := await here.tombstones(after=after):
        for tombstone in page:
            if await there.delete(tombstone, 0):
                continue
            stored = await there.derived(tombstone.run)
            if stored.head is not None and stored.summary is None and not stored.faults:
                await there.delete(tombstone, stored.head.version)
        after = page[-1].run


class _Move:
    """A transfer to the store at `place`. `done` are the runs that were copied."""

    def __init__(
        self,
        source: Engine,
        target: Engine,
        stores: tuple[Store, Store],
        key: bytes,
        done: set[RunId],
        place: str,
        force: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._here, self._there = stores
        self._key = key
        self._done = done
        self._place = place
        self._force = force

    async def must_go_alone(self, run: RunId) -> None:
        """Refuse a child whose parent waits for it: both must be copied together."""
        parent = await self._awaiting(run)
        if parent:
            raise NotAllowed(f"the parent of run {run} waits for it: copy run {parent}, which includes run {run}")

    async def is_awaited(self, run: RunId) -> bool:
        return bool(await self._awaiting(run))

    async def _awaiting(self, run: RunId) -> str:
        """The parent that waits for this run, or an empty text."""
        summary = await self._source.get(run)
        is_over = summary.status in TERMINAL and not summary.held
        if not summary.parent or (is_over and await self._continued_as(run) is None):
            return ""
        parent = RunId(summary.parent)
        head = await self._here.head(parent)
        if head is None or head.closed:
            return ""
        first = child_of(await created_of(self._here, run))
        is_open = first in await self._open_children(parent)
        return parent if is_open and await self._leads_to(first, run) else ""

    async def _leads_to(self, first: RunId, run: RunId) -> bool:
        """Whether `run` is the first run or one of its successors."""
        each: RunId | None = first
        while each is not None and each != run:
            each = await self._continued_as(each)
        return each is not None

    async def _continued_as(self, run: RunId) -> RunId | None:
        """The successor of a run, if it has one. It may not have been created yet."""
        head = await self._here.head(run)
        ending = await ending_of(self._here, head) if head is not None and head.closed else None
        return RunId(ending.successor) if isinstance(ending, e.RunContinued) else None

    async def _open_children(self, run: RunId) -> list[RunId]:
        head = await head_of(self._here, run)
        return open_children(await state_of(self._here, run, await lineage_of(self._here, head)))

    async def family(self, run: RunId) -> AsyncIterator[Moved]:
        """Copy a run, its successors and the children it waits for. Children come first, or the resumed parent would
        start them again."""
        for each in reversed(await self._line(run)):
            for child in await self._open_children(each):
                if await self._here.head(child) is not None:
                    async for moved in self.family(child):
                        yield moved
            yield await self._one(each)

    async def _line(self, run: RunId) -> list[RunId]:
        """A run and its successors, each paused or over, up to the first one that was copied."""
        line = list[RunId]()
        following: RunId | None = run
        while following is not None and following not in self._done:
            self._done.add(following)
            line.append(following)
            await self._stand_still(following)
            following = await self._successor(following)
        return line

    async def _successor(self, run: RunId) -> RunId | None:
        """The successor of a run, once it has been created."""
        successor, deadline = await self._continued_as(run), asyncio.get_running_loop().time() + SUCCESSION
        while successor is not None and await self._here.head(successor) is None:
            if asyncio.get_running_loop().time() > deadline:
                raise NotAllowed(
                    f"run {run} continues as run {successor}, which does not exist yet: start a worker on this store, or "
                    f"see `outlast doctor {run}`; then repeat the copy"
                )
            await asyncio.sleep(0.1)
        return successor

    async def _one(self, run: RunId) -> Moved:
        named = await _named_blobs(self._here, run)
        blobs = await _bring(self._here, self._there, named)
        events = await copy_log(self._here, self._there, run, self._key)
        # A blob that the target had and no log named may have been collected meanwhile. Now the copied log names it.
        blobs += await _bring(self._here, self._there, named)
        summary = await self._target.get(run)
        if summary.status is RunStatus.PAUSED and summary.copied_to and not await self._went_on(run):
            if await self._target._branching.undo_pause_before_start(run, by="outlast copy"):
                return Moved(run, events, blobs, "as it was")
            await self._target.resume(run, by="outlast copy", force=True)
            return Moved(run, events, blobs, "going on")
        if not events:
            return Moved(run, 0, blobs, "there already")
        return Moved(run, events, blobs, "over" if summary.status in TERMINAL and not summary.held else "as it was")

    async def _went_on(self, run: RunId) -> bool:
        """Whether the run was resumed in the target and paused there again, for a third store."""
        head = await head_of(self._here, run)
        async for record in records(self._there, run, head.version + 1):
            if any(isinstance(event, e.RunPaused) for event in record.events()):
                return True
        return False

    async def _stand_still(self, run: RunId) -> None:
        """Pause a run that would otherwise continue in both stores. Another transfer, or a person, may pause it
        first; the pause in the log decides where it continues."""
        loop = asyncio.get_running_loop()
        deadline, again = loop.time() + PATIENCE, 0.0
        while (summary := await self._source.get(run)).status not in (*TERMINAL, RunStatus.PAUSED):
            if loop.time() > deadline:
                raise NotAllowed(
                    f"run {run} has not paused within {PATIENCE:g} s: see `outlast doctor {run}`; then repeat the copy"
                )
            if loop.time() >= again:
                again = loop.time() + ASK_AGAIN
                with suppress(NotAllowed, Conflict):  # it has just stopped, or a worker has just claimed it
                    asked = e.PauseRequested(
                        by="outlast copy",
                        reason=f"copied to {self._place}, where it continues",
                        copied_to=self._place,
                    )
                    await self._source._control.pause(run, asked)
                    continue
            await asyncio.sleep(0.1)
        is_elsewhere = summary.status is RunStatus.PAUSED and summary.copied_to not in ("", self._place)
        if is_elsewhere and not self._force:
            raise NotAllowed(
                f"run {run} was copied to {summary.copied_to} and continues there: copy it from that store. "
                "With --force it is copied from here and continues in both stores"
            )


async def _named_blobs(store: Store, run: RunId) -> list[BlobRef]:
    """The blobs that a log names."""
    head, found = await head_of(store, run), dict[str, BlobRef]()
    async for record in records(store, run, 1, head.version):
        found |= {ref.hash: ref for event in record.events() for ref in blobs_of(event)}
    return list(found.values())


async def _bring(here: Store, there: Store, blobs: list[BlobRef]) -> int:
    """Copy the blobs that the target lacks; returns their number."""
    brought = 0
    for ref in blobs:
        if await there.blobs.has(ref.hash) or not await here.blobs.has(ref.hash):
            continue
        arrived = await there.blobs.put(here.blobs.open(ref))
        if arrived.hash != ref.hash:
            raise NotFound(f"the content of blob {ref.hash} does not match its hash")
        brought += 1
    return brought


async def copy_log(source: Store, target: Store, run: RunId, key: bytes = b"") -> int:
    """Copy the log of a run to another store, up to its current end, byte for byte: the digests prove the copy. Returns
    the number of copied events.

    The records are copied one by one. An interrupted copy leaves a prefix of the log, and the next call continues from
    there. Until the last record is copied, no list shows the run and no worker claims it."""
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
            target,
            await _last(source, record, head)
            if record.last == head.version
            else Append(record, arrived, blobs=_hashes(record)),
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
    return Append(record, arrived, summarise(head.run, state), opens, blobs=_hashes(record))


def _hashes(record: Record) -> tuple[str, ...]:
    events = record.events()
    return hashes_in(events, record.body, frozenset(map(type, events)))


async def _append(target: Store, append: Append) -> None:
    (outcome,) = await target.append([append])
    if isinstance(outcome, Lost) and outcome.why == "deleted":
        raise await missing(target, append.record.run)
    if outcome is not LANDED:
        there = await target.head(append.record.run)
        if there is None or there.version < append.record.last:
            raise Conflict(f"run {append.record.run} is being written to in the target store")
