"""Die at every store call of a process that uses slots, leases, attributes and deletion, and go on in a new process: no slot
leaks, no tombstone is lost, and no list shows a deleted run (S11 to S13)."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest
from msgspec import structs
from obstore.store import MemoryStore as ObjectsInMemory

from outlast.compose import open_store
from outlast.errors import OutlastError
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.services.leases import acquire, lease_of, resign
from outlast.store import LANDED, Append, AttributeFilter, Claim, Head, Line, Lost, Outcome, RunFilter, Slot, Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.objects import ObjectStore, blobs, deletion
from outlast.stores.objects.opening import bucket_over
from outlast.stores.postgres import PostgresStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract.samples import all_waits, begin_ready, follow, summary, tombstone
from outlast.testing.faults import WAYS, Died, Fault, Faults, faulty, hide_locks
from outlast.testing.plugin import SURVIVED
from outlast.testing.store_factory import LateCalls
from support.sampling import sample
from support.servers import s3
from support.servers.postgres_admin import empty_store

RUNS = {RunId(f"run-{number}"): number for number in range(3)}
KEPT = RunId("run-1")
"""The run that is not deleted."""
DELETED = sorted(set(RUNS) - {KEPT})
QUEUE = {"mail": (Slot("machine", 9), Slot("mail", 2))}
OWN = Slot("printer", 1, "run")
LIMITS = {"machine": 9, "mail": 2, "printer": 1}
JOB = "pruner"
TIMER = Wait("timer", "t", due=1)
SAMPLE = {"sqlite": 25, "objects": 15, "s3": 2}
MOST_ROUNDS, MOST_PROCESSES = 30, 6


StoreFactory: TypeAlias = Callable[[], Awaitable[Store]]


def memory_factory(_: Path) -> StoreFactory:
    memory = Memory()

    async def open_door() -> Store:
        return MemoryStore(memory)

    return open_door


def sqlite_factory(folder: Path) -> StoreFactory:
    async def open_door() -> Store:
        # A process's death does not lose what the system has; the power cut has its own tests, with full durability.
        return SqliteStore(folder / "runs.db", durability="relaxed")

    return open_door


def objects_factory(_: Path) -> StoreFactory:
    objects = ObjectsInMemory()

    async def open_door() -> Store:
        return ObjectStore(bucket_over(objects, "memory"))

    return open_door


def s3_factory(_: Path) -> StoreFactory:
    address = s3.shared().address(f"loop/{os.urandom(8).hex()}")

    async def open_door() -> Store:
        return open_store(address)

    return open_door


FACTORIES = {"memory": memory_factory, "sqlite": sqlite_factory}
OBJECTS = {"objects": objects_factory, "s3": s3_factory}


@pytest.fixture(autouse=True)
def _nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects remove the logs and blobs of deleted runs at once: the processes that die here do not stand still for long."""
    monkeypatch.setattr(deletion, "FENCED_S", 0)
    for name in ("TRUSTED_S", "WAIT_S"):
        monkeypatch.setattr(blobs, name, 0)


class Recorder:
    """Passes the calls of one process to the store, and records which run uses the printer. All processes share `using`."""

    def __init__(self, store: Store, using: set[RunId]) -> None:
        self.__dict__.update(_inner=store, _using=using)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes: list[Outcome] = await self._inner.append(batch)
        for each, outcome in zip(batch, outcomes, strict=True):
            if outcome is LANDED and OWN in each.takes:
                self._using.add(each.record.run)
                assert len(self._using) == 1, f"{sorted(self._using)} use one slot"
            if outcome is LANDED and each.frees:
                self._using.discard(each.record.run)
        return outcomes


# --- one process


class Process:
    """Does what is left to do: creates the runs, works on them under slots, deletes two of them."""

    def __init__(self, store: Store, number: int) -> None:
        self.store = store
        self.worker = WorkerId(f"worker-{number}")

    async def live(self) -> None:
        await self.store.enrol(self.worker, 30)
        is_pruner = await acquire(self.store, JOB, self.worker, 30)
        await self.create()
        await self.work()
        if is_pruner:
            await self.prune()
            await resign(self.store, JOB, self.worker)
        await self.store.retire(self.worker)
        assert is_pruner, "a dead process keeps the lease"

    async def create(self) -> None:
        for run, number in RUNS.items():
            if await self.store.tombstone(run) is None:
                blob = await self.store.blobs.put(content(run))
                outlook = summary(run, queue="mail", attributes={"n": number}, priority=number)
                created = begin_ready(run, summary=outlook, opens=[TIMER], blobs=[blob.hash])
                (outcome,) = await self.store.append([created])
                assert outcome is LANDED or (isinstance(outcome, Lost) and outcome.why in ("version", "deleted"))

    async def work(self) -> None:
        for _ in range(MOST_ROUNDS):
            if await self.is_over():
                return
            owned = [await self.take_over(claim) for claim in await self.claims()]
            for head in reversed(owned):  # a run that was interrupted comes after a new one
                if head is not None:
                    await self.advance(head)
        raise AssertionError("the runs do not end")

    async def is_over(self) -> bool:
        found, _ = await self.store.runs(unfinished=True)
        return not found

    async def claims(self) -> list[Claim]:
        """New claims, or those whose answer was lost."""
        found = await self.store.claim(self.worker, queues=["mail"], slots=QUEUE, limit=2)
        if found:
            return found
        held = [each.run for each in await self.store.holdings(self.worker)]
        again = await self.store.claim(self.worker, runs=held, limit=9) if held else []
        return [claim for claim in again if not await self.store.take(claim.run, claim.epoch, QUEUE["mail"])]

    async def take_over(self, claim: Claim) -> Head | None:
        head = await self.store.head(claim.run)
        assert head is not None
        if head.closed:  # by an append of its old owner that arrived late
            await self.store.release(claim.run, self.worker, head.version)
            return None
        head = await self.land(follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch))
        holders = await self.store.slot_holders("mail")
        assert claim.run in {each.run for each in holders}, "a claimed run has no slot"
        return head

    async def advance(self, head: Head) -> None:
        run = head.run
        done = {record.kind for record in await self.store.read(run)}
        if Kind.OWNER not in done:
            half = summary(run, head.version + 1, queue="mail", attributes={"n": RUNS[run], "half": True})
            step = follow(head, takes=[OWN], summary=half)
            (outcome,) = await self.store.append([step])
            if isinstance(outcome, Lost) and outcome.why == "slot":
                await self.store.release(run, self.worker, head.version, ready=True)
                return
            head = step.head
            await self.store.keep([Line(run, "n", 1, 1, "info", "", "half")])
        over = summary(run, head.version + 1, status=RunStatus.COMPLETED, queue="mail", attributes={"n": RUNS[run]})
        await self.land(follow(head, closed=True, frees=True, release=True, closes=[TIMER.name], summary=over))

    async def land(self, append: Append) -> Head:
        (outcome,) = await self.store.append([append])
        if isinstance(outcome, Lost):
            assert outcome.why == "version"
            assert outcome.tail[0].id == append.record.id, "only the same append can be there already"
        return append.head

    async def prune(self) -> None:
        for run in DELETED:
            head = await self.store.head(run)
            if head is not None:
                assert await self.store.delete(tombstone(run), head.version)
        while await self.store.purge(2):
            pass
        now = await self.store.now()
        while await self.store.collect(now + 5_000_000, limit=1):
            pass


@pytest.fixture(autouse=True)
def _collectors_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """On objects, writers then read the state of a blob each time."""
    for name in ("TRUSTED_S", "WAIT_S"):
        monkeypatch.setattr(blobs, name, 0)


def content(run: RunId) -> bytes:
    return f"the blob of {run}".encode()


# --- checks


async def check(store: Store) -> None:
    """What holds at any time."""
    deleted = {each.run for each in await store.tombstones()}
    runs, _ = await store.runs()
    listed: list[RunSummary] = [*await store.search(RunFilter()), *await store.search(RunFilter(order="n"))]
    waits = [each.run for each in [*await all_waits(store), *await store.due()]]
    held = [each.run for each in await store.holdings()]
    slots = await store.slot_holders()
    shown = {*runs, *(each.run for each in listed), *waits, *held, *(each.run for each in slots)}
    assert not deleted & shown, "a deleted run is in a list"
    for name, limit in LIMITS.items():
        assert sum(each.name == name for each in slots) <= limit
    for each in slots:
        stored = await store.derived(each.run)
        assert stored.head is not None
        if each.until == "claim":
            assert each.run in held or stored.interrupted, f"{each} has no claim"
        else:
            assert not stored.head.closed, f"{each} outlives its run"


async def judge(store: Store) -> None:
    """What holds in the end."""
    await check(store)
    assert await store.slot_holders() == [], "a slot leaked"
    assert await store.holdings() == []
    assert await lease_of(store, JOB) is None
    assert await store.tombstones() == [tombstone(run) for run in DELETED], "a tombstone is lost"
    assert not await store.purge(), "rows of a deleted run are left"
    for run in RUNS:
        is_kept = run == KEPT
        hash = (await MemoryStore().blobs.put(content(run))).hash
        assert await store.blobs.has(hash) is is_kept
        records = await store.read(run)
        assert len({record.id for record in records}) == len(records)
        assert [record.kind for record in records if record.kind is not Kind.TAKEOVER] == (
            [Kind.GUEST, Kind.OWNER, Kind.OWNER] if is_kept else []
        )
        assert len(await store.lines(run)) <= is_kept
    for query in (
        RunFilter(),
        RunFilter(order="-n", queue="mail"),
        RunFilter(attributes=(AttributeFilter("n", "<", 9),), prefix="run", statuses=(RunStatus.COMPLETED,)),
    ):
        assert [each.run for each in await store.search(query)] == [KEPT]
    assert len(await store.search(RunFilter(attributes=(AttributeFilter("half", "=", True),)))) == 0
    (outcome,) = await store.append([begin_ready(DELETED[0])])
    assert isinstance(outcome, Lost)
    assert outcome.why == "deleted"


# --- the loop


async def play(factory: StoreFactory, fault: Fault | None = None) -> int:
    """One process with the fault, then others without one until all is done. Return the calls of the first."""
    using, calls, open_stores = set[RunId](), 0, list[Store]()
    before: Faults | None = None
    for number in range(MOST_PROCESSES):
        inner = await factory()
        inner.skew = number * 60_000_000
        open_stores.append(inner)
        recorder = cast("Store", Recorder(inner, using))
        if before is None:
            store, faults = faulty(recorder, fault)
            before, calls = faults, 0
        else:
            await before.deliver_held_back("slow")
            store, faults = cast("Store", LateCalls(recorder, before)), before
        try:
            await Process(store, number).live()
            is_over = True
        except (Died, OutlastError):
            is_over = False
        calls = calls or faults.calls
        hide_locks(inner)
        await check(inner)
        if is_over:
            break
    else:
        raise AssertionError(f"{fault} keeps the runs from their end")
    last = await factory()
    last.skew = (number + 1) * 60_000_000
    await judge(last)
    for store in (*open_stores, last):
        await store.close()
    return calls


def cross(kind: str, tmp_path: Path, most: int | None = None) -> int:
    """Play with each fault, or with so many of them."""

    async def all_points() -> int:
        def place(name: str) -> StoreFactory:
            (tmp_path / name).mkdir()
            return (FACTORIES | OBJECTS)[kind](tmp_path / name)

        calls = await play(place("whole"))
        points = list(itertools.product(WAYS, range(1, calls + 1)))
        chosen = points if most is None else sample(points, most, f"slots and deletion, {kind}")
        for way, call in chosen:
            try:
                await play(place(f"{way}-{call}"), Fault(way, call))
            except AssertionError as error:
                raise AssertionError(f"{way} at call {call}: {error}") from error
        return len(chosen)

    return asyncio.run(all_points())


@pytest.mark.parametrize("kind", ["memory", *SAMPLE])
def test_nothing_leaks_wherever_a_process_dies(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """S11, S12, S13: in memory every call, every way to fail; samples on the others, where `make faults` tries them all."""
    record_property(SURVIVED, cross(kind, tmp_path, SAMPLE.get(kind)))


@pytest.mark.soak
@pytest.mark.parametrize("kind", SAMPLE)
def test_nothing_leaks_at_any_point(kind: str, tmp_path: Path) -> None:
    """S11, S12, S13"""
    cross(kind, tmp_path, 60 if kind == "s3" else None)


async def points_on_a_server(url: str, most: int) -> None:
    async def factory() -> Store:
        return cast("Store", PostgresStore(url, durability="relaxed"))

    await empty_store(url)
    calls = await play(factory)
    for way, call in sample(list(itertools.product(WAYS, range(1, calls + 1))), most, "slots and deletion, postgres"):
        await empty_store(url)
        await play(factory, Fault(way, call))


def test_nothing_leaks_on_a_server_wherever_a_process_dies(postgres_url: str) -> None:
    """S11, S12, S13: a sample"""
    asyncio.run(points_on_a_server(postgres_url, 4))


@pytest.mark.soak
def test_nothing_leaks_on_a_server_at_any_point(postgres_url: str) -> None:
    """S11, S12, S13"""
    asyncio.run(points_on_a_server(postgres_url, 150))


# --- the loop can fail


class FreesTooEarly(MemoryStore):
    """A slot of a run ends when its claim does."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        takes = [structs.replace(OWN, until="claim")]
        return await super().append([structs.replace(each, takes=takes) if each.takes else each for each in batch])


class DeletesInTwoSteps(MemoryStore):
    """The tombstone is written before the run disappears."""

    is_halfway = False

    async def delete(self, tombstone: Any, version: int) -> bool:
        if not self.is_halfway:
            self.is_halfway = True
            self.memory.tombstones[tombstone.run] = tombstone
            return True
        return await super().delete(tombstone, version)


class LosesTombstones(MemoryStore):
    """The tombstone goes with the last row."""

    async def purge(self, limit: int = 1000) -> bool:
        is_more = await super().purge(limit)
        if not is_more:
            self.memory.tombstones.clear()
        return is_more


class CollectsTooMuch(MemoryStore):
    """A blob is collected although a kept run names it."""

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        self.memory.uses.clear()
        return await super().collect(put_before, limit)


@pytest.mark.parametrize("store", [FreesTooEarly, DeletesInTwoSteps, LosesTombstones, CollectsTooMuch])
def test_the_loop_notices_a_store_that_breaks_its_promise(store: type[MemoryStore]) -> None:
    memory = Memory()

    async def factory() -> Store:
        return store(memory)

    async def any_point() -> None:
        for way, call in itertools.product(WAYS, range(1, 60)):
            memory.__init__()  # type: ignore[misc]
            await play(factory, Fault(way, call))

    with pytest.raises((AssertionError, OutlastError)):
        asyncio.run(any_point())
