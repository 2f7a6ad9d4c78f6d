"""The contract catches stores that break it: each of these lies in one way, and a named test finds it out.

The lies are told over a real store, through its public methods only, so the same lie can be told over any of them. The
same runner finds nothing wrong with an honest store.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from outlast.errors import NotAllowed, StoreUnusable
from outlast.history.ids import RunId, WorkerId, content_hash
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import (
    LANDED,
    LINES_PER_ATTEMPT,
    Append,
    AttributeFilter,
    BlobRef,
    Claim,
    Document,
    Due,
    Head,
    Line,
    Listed,
    Lost,
    Notify,
    Outcome,
    Page,
    RunFilter,
    Slot,
    SlotHolder,
    Store,
    Tombstone,
)
from outlast.stores.memory import Memory, MemoryBlobs, MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract import StoreContract
from outlast.testing.faults import hide_locks

replace = msgspec.structs.replace

# --- lies about where an append lands (S2)


class IgnoresTheVersion:
    """What comes too late is put at the end, as if it had been meant for there."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return [await self._append_anywhere(append) for append in batch]

    async def _append_anywhere(self, append: Append) -> Outcome:
        (outcome,) = await super().append([append])
        if not isinstance(outcome, Lost) or outcome.why != "version" or outcome.head is None:
            return outcome
        first = outcome.head.version + 1
        record = replace(append.record, first=first)
        head = replace(append.head, version=record.last)
        return (await super().append([replace(append, record=record, head=head)]))[0]


class LooksThenWrites(IgnoresTheVersion):
    """The version is checked, and the write is another step."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        heads = [await self.head(append.record.run) for append in batch]
        await asyncio.sleep(0)
        outcomes: list[Outcome] = []
        for append, head in zip(batch, heads, strict=True):
            if head is not None and head.version == append.record.first - 1:
                outcomes.append(await self._append_anywhere(append))
            else:
                outcomes += await super(IgnoresTheVersion, self).append([append])
        return outcomes


class ForgetsTheEpoch:
    """Whoever knows the version may write."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append(
            [replace(append, record=replace(append.record, kind=Kind.GUEST)) for append in batch]
        )


class TakesOverUnderTheSameEpoch:
    """A takeover is let in under the epoch it should be above."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = []
        for append in batch:
            head = await self.head(append.record.run)
            record = append.record
            if head is not None and record.kind is Kind.TAKEOVER and record.epoch == head.epoch:
                append = replace(append, record=replace(record, kind=Kind.OWNER))
            outcomes += await super().append([append])
        return outcomes


class IgnoresNeeds:
    """An answer is taken whether or not there is a question."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(append, needs=()) for append in batch])


class KeepsTheTailToItself:
    """Who loses is not told to what."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(batch)
        return [replace(each, tail=()) if isinstance(each, Lost) else each for each in outcomes]


# --- half an append, half a batch (S1, S4)


class ForgetsTheSummary:
    """The head moves, the summary does not."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(append, summary=None) for append in batch])


class ForgetsTheWaits:
    """The head moves, but what the run waits for is not there."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(append, opens=()) for append in batch])


class ForgetsTheClaim:
    """The run is created, but belongs to nobody."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(append, claim=None) for append in batch])


class StopsAtTheFirstLoser:
    """What stands behind a loser in a batch is dropped."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for append in batch:
            if outcomes and outcomes[-1] is not LANDED:
                outcomes.append(Lost("version", None))
            else:
                outcomes += await super().append([append])
        return outcomes


class DropsAllForOneLoser:
    """A batch with a loser in it is refused as a whole."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        for append in batch:
            head = await self.head(append.record.run)
            if len(batch) > 1 and (head.version if head else 0) != append.record.first - 1:
                return [Lost("version", head) for _ in batch]
        return await super().append(batch)


class WritesTheSummaryFirst:
    """A loser's summary is there before anyone asks whether it lost."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        for append in batch:
            if append.summary is not None:
                stored = await self.summary(append.record.run)
                await self.correct(append.summary, stored.at if stored else 0)
        return await super().append(batch)


class ReleasesForAnyone:
    """Last words give the claim back, whoever holds it now."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(batch)
        for append, outcome in zip(batch, outcomes, strict=True):
            holding = await self.holding(append.record.run)
            if append.release and outcome is LANDED and holding is not None:
                await self.release(append.record.run, holding.worker, append.head.version)
        return outcomes


# --- what was acknowledged, and what is read (S3)


class AnswersTooEarly:
    """An owner's append is acknowledged while it is in this door's memory, and written when the door is next used."""

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self._unwritten: list[Append] = []
        self._known: dict[RunId, Head] = {}

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        if all(self._would_land(append) for append in batch):
            self._unwritten += batch
            outcomes: list[Outcome] = [LANDED] * len(batch)
        else:
            await self._write()
            outcomes = await super().append(batch)
        self._known |= {a.record.run: a.head for a, outcome in zip(batch, outcomes, strict=True) if outcome is LANDED}
        return outcomes

    def _would_land(self, append: Append) -> bool:
        head, record = self._known.get(append.record.run), append.record
        return head is not None and (record.kind, record.first, record.epoch) == (
            Kind.OWNER,
            head.version + 1,
            head.epoch,
        )

    async def _write(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        await super().append(unwritten)

    async def head(self, run: RunId) -> Head | None:
        await self._write()
        return await super().head(run)

    async def read(self, *range: Any, **limits: Any) -> list[Record]:
        await self._write()
        return await super().read(*range, **limits)


class TidiesBodies:
    """Bodies are kept as JSON, not as bytes."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(append, record=_tidy(append.record)) for append in batch])


class BeginsAtTheNextRecord:
    """A range that begins inside a record misses that record."""

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        found = await super().read(run, first, last, limit)
        return [record for record in found if record.first >= first]


class KeepsBlobsToItself:
    """Blobs are in the memory of one process."""

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self.blobs = MemoryBlobs(Memory(), lambda: 0)


# --- lists (S7)


class RepeatsARun:
    """Each page begins with the run the one before ended with."""

    _last: tuple[Listed, ...] = ()

    async def search(self, query: RunFilter) -> Page:
        page = await super().search(query)
        shown = (*self._last, *page.items) if query.after else page.items
        self._last = page.items[-1:]
        return Page(shown, page.next)


class LosesRunsOfTheSameMoment:
    """The cursor of a list is a time and nothing else."""

    async def search(self, query: RunFilter) -> Page:
        page = await super().search(query)
        return Page(page.items, f"{page.items[-1].summary.created}:" if page.next else "")


class CutsListsShort:
    """There is a first page, and no word of a second."""

    async def search(self, query: RunFilter) -> Page:
        return Page((await super().search(query)).items)

    async def waits(self, **asked: Any) -> tuple[list[Due], str]:
        return (await super().waits(**asked))[0], ""


class ListsOldestFirst:
    """A page is turned around."""

    async def search(self, query: RunFilter) -> Page:
        page = await super().search(query)
        return Page(page.items[::-1], page.next)


class CorrectsBlindly:
    """A correction does not look at what it replaces."""

    async def correct(self, summary: Any, seen: int) -> bool:
        stored = await self.summary(summary.run)
        return await super().correct(summary, stored.at if stored else 0)


# --- claims and wake-ups (S6, S8)


class HandsOutAnEpochTwice:
    """A door remembers the epoch it gave a run, and gives it again."""

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self._given: dict[RunId, int] = {}

    async def claim(self, worker: WorkerId, **wanted: Any) -> list[Claim]:
        claims = await super().claim(worker, **wanted)
        return [replace(claim, epoch=self._given.setdefault(claim.run, claim.epoch)) for claim in claims]


class LetsTwoHold:
    """Who names a run gets it, however alive its holder is."""

    async def claim(
        self, worker: WorkerId, *, runs: Sequence[RunId] | None = None, limit: int = 1, **wanted: Any
    ) -> list[Claim]:
        for run in runs or ():
            holding, head = await self.holding(run), await self.head(run)
            if holding is not None and head is not None:
                await self.release(run, holding.worker, head.version)
        return await super().claim(worker, runs=runs, limit=limit, **wanted)


class LooksThenClaims:
    """What is ready is looked up, and claiming it is another step."""

    async def claim(
        self, worker: WorkerId, *, runs: Sequence[RunId] | None = None, limit: int = 1, **wanted: Any
    ) -> list[Claim]:
        if runs is not None or wanted:
            return await super().claim(worker, runs=runs, limit=limit, **wanted)
        listed = [item.summary.run for item in (await self.search(RunFilter(limit=100))).items]
        free = [run for run in listed if await self.holding(run) is None and (await self.head(run)).ready]
        await asyncio.sleep(0)
        claims: list[Claim] = []
        for run in free[:limit]:
            holding = await self.holding(run)
            if holding is not None:
                await self.release(run, holding.worker, (await self.head(run)).version)
            claims += await super().claim(worker, runs=[run])
        return claims


class ClaimsEverything:
    """A worker that asks for some workflows gets runs of all."""

    async def claim(self, worker: WorkerId, *, workflows: Collection[str] | None = None, **wanted: Any) -> list[Claim]:
        return await super().claim(worker, **wanted)


class GoesByAnotherClock:
    """Time is what this process says, not what the store's clock says."""

    @property
    def skew(self) -> int:
        return 0

    @skew.setter
    def skew(self, skew: int) -> None:
        pass


class ReleasesWithoutLooking:
    """A run is given back though something arrived."""

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        head = await self.head(run)
        return await super().release(run, worker, head.version if head else version, ready=ready)


class ForgetsReadiness:
    """A run that was given back for others to go on with is not offered to them."""

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        return await super().release(run, worker, version)


class NeverDue:
    """Times of waits are kept and not looked at."""

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        return []


class NeverMovesOn:
    """The list of what is due always begins at its beginning."""

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        return await super().due(limit)


class MovesOnByTheTimeAlone:
    """A list of what is due leaves out what is due at the same time as the end of the page before."""

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        every = await super().due(1 << 20)
        return [due for due in every if after is None or due.wait.due > after.wait.due][:limit]


class MixesUpRuns:
    """A wait is found by its name in any run."""

    async def wait(self, run: RunId, name: str) -> Wait | None:
        found, _ = await self.waits()
        return next((due.wait for due in found if due.wait.name == name), None)


class SaysNothing:
    """News of other doors never comes."""

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        return lambda: None


# --- lines (S9)


class KeepsTheOldestLines:
    """An attempt that has said enough is not listened to."""

    async def keep(self, lines: Sequence[Line]) -> None:
        told: dict[tuple[RunId, str, int], list[Line]] = {}
        for line in lines:
            told.setdefault((line.run, line.node, line.attempt), []).append(line)
        for (run, node, attempt), said in told.items():
            room = LINES_PER_ATTEMPT - len(await self.lines(run, node=node, attempt=attempt))
            await super().keep(said[:room])


class HidesTheGap:
    """Lines are counted as they are read."""

    async def lines(self, run: RunId, **asked: Any) -> list[Line]:
        found = await super().lines(run, **asked)
        return [replace(line, place=place) for place, line in enumerate(found, start=1)]


class CutsLinesShort:
    """A page of lines is never large, however many were asked for."""

    async def lines(self, run: RunId, *, limit: int = 1000, **asked: Any) -> list[Line]:
        return await super().lines(run, limit=min(limit, 20), **asked)


class MixesUpAttempts:
    """A node's lines are those of all its attempts."""

    async def lines(self, run: RunId, *, attempt: int | None = None, **asked: Any) -> list[Line]:
        return await super().lines(run, **asked)


class OverwritesDocuments:
    """The last writer wins."""

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        there = await self.document(document.name)
        return await super().put_document(document, replaces=there.version if there else "")


class ComparesThenWrites:
    """The version is compared before the write, in a step of its own."""

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        there = await self.document(document.name)
        if (there.version if there else "") != replaces:
            return there.version == document.version if there else False
        await asyncio.sleep(0.01)
        now = await self.document(document.name)
        return await super().put_document(document, replaces=now.version if now else "")


class ForgetsItsOwnWrite:
    """A write that is sent again loses against itself."""

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        there = await self.document(document.name)
        return (there.version if there else "") == replaces and await super().put_document(document, replaces=replaces)


class KeepsLinesToItself:
    """Lines are in the memory of one process."""

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self._own = MemoryStore()

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        await self._own.append(batch)
        return await super().append(batch)

    async def keep(self, lines: Sequence[Line]) -> None:
        await self._own.keep(lines)

    async def lines(self, run: RunId, **asked: Any) -> list[Line]:
        return await self._own.lines(run, **asked)


# --- queues, due runs, priority and fairness (S6, S8)


class ClaimsFromEveryQueue:
    """A worker that names some queues gets runs of all."""

    async def claim(self, worker: WorkerId, *, queues: Collection[str] | None = None, **wanted: Any) -> list[Claim]:
        return await super().claim(worker, **wanted)


class LeavesDueRuns:
    """Only ready and interrupted runs are claimed."""

    async def claim(self, worker: WorkerId, **wanted: Any) -> list[Claim]:
        kept = []
        for claim in await super().claim(worker, **wanted):
            head = await self.head(claim.run)
            if wanted.get("runs") is not None or claim.previous or head.ready:
                kept.append(claim)
            else:
                await self.release(claim.run, worker, head.version)
        return kept


class ClaimsWhateverIsDue:
    """A run is claimed when a timer is due, although it is paused."""

    async def claim(self, worker: WorkerId, **wanted: Any) -> list[Claim]:
        claims = await super().claim(worker, **wanted)
        if wanted.get("runs") is None:
            claims += await super().claim(worker, runs=[due.run for due in await self.due()], limit=9)
        return claims


class IgnoresPriorities:
    """All runs have the same priority."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([_summarised(each, priority=0) for each in batch])


class ServesTheOldestFirst:
    """All runs of a workflow have the same fairness key."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([_summarised(each, fairness_key="") for each in batch])


class BeginsAtTheSameWorkflow:
    """Every call serves the first workflow first."""

    async def claim(self, worker: WorkerId, *, limit: int = 1, **wanted: Any) -> list[Claim]:
        if wanted:
            return await super().claim(worker, limit=limit, **wanted)
        listed = sorted(await self.search(RunFilter(limit=1000)), key=lambda each: (each.workflow, each.created))
        free = [each.run for each in listed if (await self.head(each.run)).ready and not await self.holding(each.run)]
        return await super().claim(worker, runs=free, limit=limit)


# --- slots (S11)


class CountsThenTakes:
    """The holders of a slot are counted, and taking it is another step."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        for slot in slots:
            others = tuple(each for each in await self.slot_holders(slot.name) if each.run != run)
            if len(others) >= slot.limit:
                return others
        await asyncio.sleep(0)
        return await super().take(run, epoch, [replace(slot, limit=1 << 20) for slot in slots])


class TakesOneSlotAfterTheOther:
    """Who gets the first slot and not the second keeps the first."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        for slot in slots:
            if full := await super().take(run, epoch, [slot]):
                return full
        return ()


class TakesForAnyone:
    """A worker whose claim is not current is told that it has its slots."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        try:
            return await super().take(run, epoch, slots)
        except NotAllowed:
            return ()


class GivesForAnyone:
    """Whoever asks late ends the slots of the next owner."""

    async def give(self, run: RunId, epoch: int, names: Collection[str]) -> None:
        await super().give(run, 1 << 40, names)


class LeaksTheSlotsOfClaims:
    """A slot stays with the run after its claim."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        return await super().take(run, epoch, [replace(slot, until="run") for slot in slots])


class EndsTheSlotsOfRunsEarly:
    """A slot of a run ends with the claim."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        return await super().take(run, epoch, [replace(slot, until="claim") for slot in slots])


class EndsSlotsBeforeTheTakeover:
    """The slots of an interrupted owner end when another worker claims the run."""

    async def claim(self, worker: WorkerId, **wanted: Any) -> list[Claim]:
        claims = await super().claim(worker, **wanted)
        for claim in claims:
            names = [each.name for each in await self.slot_holders() if each.run == claim.run]
            if wanted.get("runs") is not None:
                await self.give(claim.run, claim.epoch, names)
        return claims


class ClaimsWithoutSlots:
    """A claim takes no slots."""

    async def claim(self, worker: WorkerId, *, slots: Any = None, **wanted: Any) -> list[Claim]:
        return await super().claim(worker, **wanted)


class AppendsWithoutSlots:
    """An append takes no slots."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(each, takes=()) for each in batch])


class NeverFrees:
    """The slots of a run outlive it."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(each, frees=False) for each in batch])


# --- attributes (S7)


class IgnoresAttributes:
    """A condition on an attribute is not looked at."""

    async def search(self, query: RunFilter) -> Page:
        return await super().search(replace(query, attributes=()))


class ComparesAcrossTypes:
    """True is 1."""

    async def search(self, query: RunFilter) -> Page:
        return await super().search(replace(query, attributes=tuple(map(_as_number, query.attributes))))


class OrdersByTime:
    """A list in the order of an attribute is in the order of time."""

    async def search(self, query: RunFilter) -> Page:
        return await super().search(replace(query, order=""))


class FindsThePrefixAnywhere:
    """The beginning of an id is found in its middle too."""

    async def search(self, query: RunFilter) -> Page:
        return await super().search(replace(query, prefix="", text=query.text or query.prefix))


class ShowsEveryFailedRunAsHeld:
    """Held runs are those that failed."""

    async def search(self, query: RunFilter) -> Page:
        statuses = (RunStatus.FAILED,) if query.held else query.statuses
        return await super().search(replace(query, held=None, statuses=statuses))


# --- deletion and collection (S12, S13)


class DeletesAtAnyVersion:
    """A run is deleted although events arrived."""

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        head = await self.head(tombstone.run)
        return await super().delete(tombstone, head.version if head else version)


class LooksThenDeletes(DeletesAtAnyVersion):
    """The version is compared before the deletion, in another step."""

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        head = await self.head(tombstone.run)
        await asyncio.sleep(0)
        return head is not None and head.version == version and await super().delete(tombstone, version)


class DeletesWhatIsHeld:
    """A live worker loses the run."""

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        if holding := await self.holding(tombstone.run):
            await self.release(tombstone.run, holding.worker, version)
        return await super().delete(tombstone, version)


class DeletesLater:
    """A deleted run stays in the lists until its rows are removed."""

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self._deleted: list[tuple[Tombstone, int]] = []

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        head = await self.head(tombstone.run)
        self._deleted.append((tombstone, version))
        return head is not None and head.version == version

    async def purge(self, limit: int = 1000) -> bool:
        while self._deleted:
            await super().delete(*self._deleted.pop())
        return await super().purge(limit)


class LosesTombstones:
    """Nobody learns that a run was deleted."""

    async def tombstone(self, run: RunId) -> Tombstone | None:
        return None


class AcceptsAppendsToDeletedRuns:
    """An append to a deleted run is acknowledged."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(batch)
        return [LANDED if isinstance(each, Lost) and each.why == "deleted" else each for each in outcomes]


class ForgetsItsOwnDeletion:
    """A deletion that is sent again fails."""

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        return await self.tombstone(tombstone.run) is None and await super().delete(tombstone, version)


class PurgesAllAtOnce:
    """One step removes everything."""

    async def purge(self, limit: int = 1000) -> bool:
        while await super().purge(1 << 20):
            pass
        return False


class PurgesNothing:
    """The rows of deleted runs stay."""

    async def purge(self, limit: int = 1000) -> bool:
        return False


class ForgetsUses:
    """The blobs that an append names are not remembered."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(each, blobs=()) for each in batch])


class CollectsYoungBlobs:
    """A blob may be collected as soon as it is put."""

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        return await super().collect(1 << 60, limit)


class PutsOnce:
    """A blob that is stored already keeps its time."""

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        blobs, put = self.blobs, self.blobs.put

        async def put_if_absent(content: bytes) -> BlobRef:
            name = content_hash(content)
            return BlobRef(name, len(content)) if await blobs.has(name) else await put(content)

        blobs.put = put_if_absent


class CollectsNothing:
    """Blobs that nobody names stay."""

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        return []


# --- the version (S14)


class ClaimsUnderAnyVersion:
    """A process that a newer store refuses finds nothing to do."""

    async def claim(self, worker: WorkerId, **wanted: Any) -> list[Claim]:
        try:
            return await super().claim(worker, **wanted)
        except StoreUnusable:
            return []


def _summarised(append: Append, **parts: Any) -> Append:
    return append if append.summary is None else replace(append, summary=replace(append.summary, **parts))


def _as_number(condition: AttributeFilter) -> AttributeFilter:
    return replace(condition, value=int(condition.value)) if isinstance(condition.value, bool) else condition


LIES: Mapping[type, str] = {
    ClaimsFromEveryQueue: "test_a_worker_claims_only_the_queues_it_names",
    LeavesDueRuns: "test_a_run_is_claimed_when_one_of_its_timers_is_due",
    ClaimsWhateverIsDue: "test_a_run_in_another_state_is_not_due",
    IgnoresPriorities: "test_interrupted_runs_come_first_and_then_the_greatest_priority",
    ServesTheOldestFirst: "test_a_key_with_many_runs_does_not_delay_another_one",
    BeginsAtTheSameWorkflow: "test_the_turn_passes_between_workflows_and_keys_from_call_to_call",
    CountsThenTakes: "test_takers_on_several_connections_never_exceed_the_limit",
    TakesOneSlotAfterTheOther: "test_several_slots_are_taken_together_or_not_at_all",
    TakesForAnyone: "test_only_the_current_claim_takes_slots",
    GivesForAnyone: "test_a_slot_is_given_only_under_its_epoch_or_a_greater_one",
    LeaksTheSlotsOfClaims: "test_a_slot_of_a_claim_ends_with_the_release",
    EndsTheSlotsOfRunsEarly: "test_a_slot_of_a_run_lasts_until_an_append_frees_it",
    EndsSlotsBeforeTheTakeover: "test_a_slot_of_a_claim_lasts_until_a_takeover_is_in_the_log",
    ClaimsWithoutSlots: "test_a_claim_takes_the_slots_of_the_queue",
    AppendsWithoutSlots: "test_an_append_takes_its_slots_or_is_lost",
    NeverFrees: "test_a_slot_of_a_run_lasts_until_an_append_frees_it",
    IgnoresAttributes: "test_all_filters_must_match",
    ComparesAcrossTypes: "test_attributes_are_compared_within_their_type",
    OrdersByTime: "test_runs_are_listed_in_the_order_of_an_attribute",
    FindsThePrefixAnywhere: "test_runs_are_found_by_the_beginning_of_their_id",
    ShowsEveryFailedRunAsHeld: "test_runs_are_found_by_queue_and_by_the_held_flag",
    DeletesAtAnyVersion: "test_a_run_is_deleted_only_at_the_expected_version",
    LooksThenDeletes: "test_one_of_a_deletion_and_an_append_wins",
    DeletesWhatIsHeld: "test_a_run_that_a_live_worker_holds_is_not_deleted",
    DeletesLater: "test_a_deleted_run_is_in_no_list",
    LosesTombstones: "test_every_field_of_a_tombstone_is_stored",
    AcceptsAppendsToDeletedRuns: "test_a_deleted_run_accepts_no_append",
    ForgetsItsOwnDeletion: "test_a_repeated_deletion_is_recognised",
    PurgesAllAtOnce: "test_a_deleted_run_is_removed_in_bounded_steps",
    PurgesNothing: "test_a_deleted_run_is_removed_in_bounded_steps",
    ForgetsUses: "test_a_blob_that_no_kept_run_names_is_collected",
    CollectsYoungBlobs: "test_a_young_blob_is_not_collected",
    PutsOnce: "test_a_blob_that_is_put_again_is_young_again",
    CollectsNothing: "test_the_blobs_of_a_deleted_run_are_collected",
    ClaimsUnderAnyVersion: "test_a_process_of_another_version_does_not_claim_or_delete",
    IgnoresTheVersion: "test_an_append_behind_the_log_is_lost_with_the_tail_of_the_log",
    LooksThenWrites: "test_one_of_two_concurrent_appends_at_a_version_wins",
    ForgetsTheEpoch: "test_an_append_of_an_owner_with_another_epoch_is_lost",
    TakesOverUnderTheSameEpoch: "test_a_takeover_needs_a_strictly_greater_epoch",
    IgnoresNeeds: "test_an_append_that_needs_an_absent_wait_is_lost",
    KeepsTheTailToItself: "test_a_repeated_append_is_recognised_and_stored_once",
    ForgetsTheSummary: "test_record_head_summary_waits_and_claim_are_written_together",
    ForgetsTheWaits: "test_record_head_summary_waits_and_claim_are_written_together",
    ForgetsTheClaim: "test_record_head_summary_waits_and_claim_are_written_together",
    StopsAtTheFirstLoser: "test_a_lost_append_in_a_batch_does_not_affect_the_others",
    DropsAllForOneLoser: "test_the_first_append_of_a_batch_succeeds_if_all_others_are_lost",
    WritesTheSummaryFirst: "test_a_lost_append_changes_nothing",
    ReleasesForAnyone: "test_an_append_releases_only_the_claim_with_its_own_epoch",
    AnswersTooEarly: "test_an_append_is_visible_to_another_connection_at_once",
    TidiesBodies: "test_bodies_of_any_bytes_are_stored_exactly",
    BeginsAtTheNextRecord: "test_a_range_returns_every_record_that_overlaps_it",
    KeepsBlobsToItself: "test_a_blob_is_visible_to_other_connections_and_after_reopening",
    RepeatsARun: "test_pages_contain_every_run_once_and_the_newest_first",
    LosesRunsOfTheSameMoment: "test_pages_contain_every_run_of_the_same_time_once",
    CutsListsShort: "test_pages_contain_every_run_once_and_the_newest_first",
    ListsOldestFirst: "test_pages_contain_every_run_once_and_the_newest_first",
    CorrectsBlindly: "test_a_stale_summary_is_corrected_only_at_the_expected_version",
    HandsOutAnEpochTwice: "test_every_claim_has_a_greater_epoch_than_all_before_it",
    LetsTwoHold: "test_a_run_that_a_live_worker_holds_is_not_claimed_by_another",
    LooksThenClaims: "test_workers_on_two_connections_never_claim_the_same_run",
    ClaimsEverything: "test_a_worker_claims_only_the_workflows_it_names",
    GoesByAnotherClock: "test_a_claim_lasts_as_long_as_its_worker_by_the_stores_clock",
    ReleasesWithoutLooking: "test_a_run_is_released_only_at_the_expected_version",
    ForgetsReadiness: "test_a_released_run_is_ready_only_if_requested",
    NeverDue: "test_waits_are_due_by_the_stores_clock_oldest_first",
    NeverMovesOn: "test_pages_contain_every_due_wait_once",
    MovesOnByTheTimeAlone: "test_pages_contain_every_due_wait_once",
    MixesUpRuns: "test_two_runs_can_have_waits_of_the_same_name",
    SaysNothing: "test_an_append_on_another_connection_is_reported_soon",
    KeepsTheOldestLines: "test_the_newest_lines_of_an_attempt_are_stored_and_show_the_gap",
    HidesTheGap: "test_the_newest_lines_of_an_attempt_are_stored_and_show_the_gap",
    CutsLinesShort: "test_pages_contain_every_line_once",
    MixesUpAttempts: "test_lines_are_found_by_node_and_attempt",
    OverwritesDocuments: "test_a_document_is_replaced_only_at_the_expected_version",
    ComparesThenWrites: "test_one_of_several_writers_of_a_version_wins",
    ForgetsItsOwnWrite: "test_a_repeated_write_of_a_document_is_recognised",
    KeepsLinesToItself: "test_lines_are_visible_to_other_connections_and_after_reopening",
}
CONTRACT = sorted(name for name in dir(StoreContract) if name.startswith("test_"))


def failures(store: type, where: Path, only: Collection[str] = CONTRACT) -> dict[str, BaseException]:
    """The tests of the contract that the store fails, and how. `store` is a kind of MemoryStore or SqliteStore."""
    memories: dict[Path, Memory] = {}

    class Suite(StoreContract):
        async def open_store(self, where: Path) -> Store:
            if issubclass(store, MemoryStore):
                return store(memories.setdefault(where, Memory()))
            opened: Store = store(where / "runs.db")
            hide_locks(opened)
            return opened

        async def rewrite_version(self, where: Path, version: int) -> None:
            if issubclass(store, MemoryStore):
                memories[where].version = version
            else:
                with closing(apsw.Connection(str(where / "runs.db"))) as connection:
                    connection.pragma("user_version", version)

    failed: dict[str, BaseException] = {}
    for name in only:
        place = where / name
        place.mkdir()
        try:
            getattr(Suite(), name)(place)
        except (Exception, pytest.fail.Exception) as failure:
            failed[name] = failure
    return failed


def telling(lie: type, store: type) -> type:
    return type(lie.__name__, (lie, store), {})


def _tidy(record: Record) -> Record:
    try:
        return replace(record, body=msgspec.json.format(record.body, indent=-1))
    except msgspec.DecodeError:
        return record


def test_the_honest_store_passes_by_the_same_runner(tmp_path: Path) -> None:
    """S1 to S14"""
    assert failures(MemoryStore, tmp_path) == {}
    assert len(CONTRACT) > 150


@pytest.mark.parametrize("lie", LIES)
def test_the_contract_catches_a_store_in_memory_that(lie: type, tmp_path: Path) -> None:
    """S1 to S14"""
    assert LIES[lie] in failures(telling(lie, MemoryStore), tmp_path, [LIES[lie]])


@pytest.mark.parametrize("lie", LIES)
def test_the_contract_catches_a_store_in_sqlite_that(lie: type, tmp_path: Path) -> None:
    """S1 to S14"""
    honest, lying = tmp_path / "honest", tmp_path / "lying"
    honest.mkdir()
    lying.mkdir()
    assert failures(SqliteStore, honest, [LIES[lie]]) == {}
    assert LIES[lie] in failures(telling(lie, SqliteStore), lying, [LIES[lie]])


def test_a_store_that_answers_too_early_is_also_caught_by_opening_it_again(tmp_path: Path) -> None:
    """S3"""
    reopening = "test_an_append_is_visible_after_reopening"
    for store in (MemoryStore, SqliteStore):
        where = tmp_path / store.__name__
        where.mkdir()
        assert reopening in failures(telling(AnswersTooEarly, store), where, [reopening])


def test_every_test_of_the_contract_cites_the_promise_it_protects() -> None:
    """S1 to S14"""
    cited = {name: re.match(r"S\d+(, S\d+)*(:|$)", getattr(StoreContract, name).__doc__ or "") for name in CONTRACT}
    assert [name for name, citation in cited.items() if citation is None] == []
    promises = {promise for citation in cited.values() if citation for promise in re.findall(r"S\d+", citation[0])}
    assert promises == {f"S{number}" for number in range(1, 15)}
