"""Slots and deletions in a bucket: a process dies at any request, or stands still between two of them.

A slot never stays with a run that has ended, and no run gets one that is taken (S11). A deleted run is in no list, and
nothing of it remains but its tombstone (S12). A blob that an event names is never collected (S13)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from obstore.store import MemoryStore

from outlast.clock import since_boot
from outlast.errors import NotFound
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import LANDED, Append, Head, Line, Lost, RunFilter, Slot, Store
from outlast.stores.objects import ObjectStore, blobs, candidates, deletion, slots
from outlast.stores.objects.blobs import Collection
from outlast.stores.objects.bucket import Bucket
from outlast.stores.objects.keys import collected, record
from outlast.stores.objects.opening import bucket_over
from outlast.testing.contract.samples import ANN, BEN, CAT, A, B, begin, begin_ready, follow, land, summary, tombstone

SLOTS = [Slot("claimed"), Slot("run", until="run")]
REQUESTS = ("create", "update", "put", "get", "delete", "written", "folders")
DONE = {"closed": True, "release": True, "frees": True}


class Died(Exception):
    """The process is gone."""


class Watched:
    """A bucket that calls `before` and `after` with the number, the kind and the name of each request."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.count = 0
        self.before: Callable[[int, str, Any], Awaitable[None]] | None = None
        self.after: Callable[[int, str, Any], Awaitable[None]] | None = None

    def __getattr__(self, kind: str) -> Any:
        found = getattr(self._bucket, kind)
        if kind not in REQUESTS:
            return found

        async def request(name: Any, *rest: Any) -> Any:
            self.count += 1
            number = self.count
            if self.before is not None:
                await self.before(number, kind, name)
            answer = await found(name, *rest)
            if self.after is not None:
                await self.after(number, kind, name)
            return answer

        return request


def watched(objects: MemoryStore) -> tuple[ObjectStore, Any]:
    bucket: Any = Watched(bucket_over(objects, "memory"))
    return ObjectStore(bucket), bucket


def opened(objects: MemoryStore, skew: int = 0) -> ObjectStore:
    store = ObjectStore(bucket_over(objects, "memory"))
    store.skew = skew
    return store


@pytest.fixture(autouse=True)
def _nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "UNDECIDED_S", 0)
    monkeypatch.setattr(deletion, "FENCED_S", 0)
    for name in ("TRUSTED_S", "WAIT_S"):
        monkeypatch.setattr(blobs, name, 0)


# --- scenes


async def nothing(_: Store) -> None:
    return None


async def held(store: Store) -> Head:
    await store.enrol(ANN, 30)
    return await land(store, begin(A, summary=summary(A), claim=ANN))


async def holding(store: Store) -> Head:
    head = await held(store)
    assert await store.take(A, 1, SLOTS) == ()
    return head


async def ready(store: Store) -> None:
    await store.enrol(BEN, 30)
    await land(store, begin_ready(A, summary=summary(A, queue="q")))


async def create(store: Store, _: None) -> None:
    await store.enrol(ANN, 30)
    await land(store, begin(A, summary=summary(A), claim=ANN, takes=SLOTS))


async def interrupted(store: Store) -> Head:
    head = await holding(store)
    store.skew += 60_000_000
    await store.enrol(BEN, 30)
    return head


async def take_over(store: Store, head: Head) -> None:
    (claim,) = await store.claim(BEN)
    assert await store.take(A, claim.epoch, SLOTS) == ()
    await land(store, follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch))


async def ended(store: Store) -> Head:
    ref = await store.blobs.put(b"large")
    head = await held(store)
    head = await land(store, follow(head, blobs=[ref.hash], opens=[Wait("timer", "t", due=5)], takes=SLOTS))
    await store.keep([Line(A, "n", 1, 5, "info", "", "text")])
    await store.note({A: b"10%"})
    done = summary(A, 3, status=RunStatus.COMPLETED)
    return await land(store, follow(head, closed=True, release=True, summary=done))


async def deleted(store: Store) -> Head:
    head = await ended(store)
    assert await store.delete(tombstone(A), head.version)
    return head


Scene = tuple[Callable[[Store], Awaitable[Any]], Callable[[Store, Any], Awaitable[Any]]]
OF_SLOTS: dict[str, Scene] = {
    "create": (nothing, create),
    "take": (held, lambda store, _: store.take(A, 1, SLOTS)),
    "take again": (holding, lambda store, _: store.take(A, 1, SLOTS)),
    "give": (holding, lambda store, _: store.give(A, 1, ["claimed", "run"])),
    "append": (held, lambda store, head: land(store, follow(head, takes=SLOTS))),
    "end": (holding, lambda store, head: land(store, follow(head, **DONE))),
    "release": (holding, lambda store, head: store.release(A, ANN, head.version)),
    "retire": (holding, lambda store, _: store.retire(ANN)),
    "claim": (ready, lambda store, _: store.claim(BEN, slots={"q": SLOTS})),
    "take over": (interrupted, take_over),
    "delete": (interrupted, lambda store, head: store.delete(tombstone(A), head.version)),
}
OF_DELETIONS: dict[str, Scene] = {
    "delete": (ended, lambda store, head: store.delete(tombstone(A), head.version)),
    "delete an absent run": (nothing, lambda store, _: store.delete(tombstone(A), 0)),
    "purge": (deleted, lambda store, _: store.purge()),
}


async def play(scene: Scene, number: int, *, after: bool, judge: Callable[[MemoryStore, int], Awaitable[None]]) -> bool:
    """Return whether the process died at this request."""
    objects = MemoryStore()
    store = opened(objects)
    head = await scene[0](store)
    dying, bucket = watched(objects)
    dying.skew = store.skew

    async def die(at: int, *_: Any) -> None:
        if at >= number:
            raise Died

    setattr(bucket, "after" if after else "before", die)
    is_dead = False
    try:
        await scene[1](dying, head)
    except Died:
        is_dead = True
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await judge(objects, store.skew)
    return is_dead


async def played_at_every_request(scene: Scene, judge: Callable[[MemoryStore, int], Awaitable[None]]) -> int:
    points = 0
    for after in (False, True):
        for number in itertools.count(1):
            if not await play(scene, number, after=after, judge=judge):
                break
            points += 1
    return points


# --- slots


async def slots_must_end_with_their_run(objects: MemoryStore, skew: int) -> None:
    store = opened(objects, skew + 120_000_000)
    await store.enrol(CAT, 30)
    head = await store.head(A)
    if head is not None and not head.closed:
        claims = await store.claim(CAT, runs=[A])
        assert bool(claims) is (await store.head(A) is not None), "the claim finishes the deletion"
        for claim in claims:
            await land(store, follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch, closed=True, frees=True))
    fresh = opened(objects, store.skew)
    await land(fresh, begin(B, claim=CAT, takes=SLOTS))
    assert [(each.name, each.run) for each in await fresh.slot_holders()] == [("claimed", B), ("run", B)]


@pytest.mark.parametrize("name", OF_SLOTS)
def test_no_slot_is_leaked_at_whichever_request_a_process_dies(name: str) -> None:
    """S11"""
    assert asyncio.run(played_at_every_request(OF_SLOTS[name], slots_must_end_with_their_run)) >= 6


@pytest.mark.parametrize("is_given_back", [False, True])
def test_an_append_that_stood_still_takes_its_slots_again(is_given_back: bool) -> None:
    """S11: another run has taken them meanwhile, and perhaps given them back"""

    async def stand_still() -> None:
        objects = MemoryStore()
        slow, bucket = watched(objects)
        other = opened(objects)
        await other.enrol(BEN, 30)
        heads: list[Head] = []

        async def overtake(_: int, kind: str, name: str) -> None:
            if kind == "create" and name == record(A, 1) and not heads:
                heads.append(await land(other, begin(B, claim=BEN, takes=SLOTS)))
                if is_given_back:
                    heads.append(await land(other, follow(heads[0], **DONE)))

        bucket.before = overtake
        (outcome,) = await slow.append([begin(A, summary=summary(A), claim=ANN, takes=SLOTS)])
        holders = {(each.name, each.run) for each in await other.slot_holders()}
        if is_given_back:
            assert outcome is LANDED
            assert holders == {(slot.name, A) for slot in SLOTS}
        else:
            assert isinstance(outcome, Lost)
            assert (outcome.why, {each.run for each in outcome.full}) == ("slot", {B})
            assert holders == {(slot.name, B) for slot in SLOTS}
            assert await other.head(A) is None
            assert await other.runs() == ([B], "")
        again = begin(A, summary=summary(A), claim=ANN)
        assert ((await other.append([again])) == [LANDED]) is not is_given_back, "the empty object is no append"
        assert len(await other.read(A)) == 1

    asyncio.run(stand_still())


# --- deletion


async def a_deleted_run_must_be_gone(objects: MemoryStore, skew: int) -> None:
    for look in (
        lambda store: store.search(RunFilter()),
        lambda store: store.runs(),
        lambda store: store.waits(),
        lambda store: store.due(),
        lambda store: store.tombstones(),
    ):
        await look(opened(objects, skew))
    store = opened(objects, skew)
    head, found = await store.head(A), await store.tombstone(A)
    page, (runs, _) = await store.search(RunFilter()), await store.runs()
    assert (found is None) == (head is not None) or (found, head) == (None, None)
    assert [each.run for each in page] == runs == ([A] if head is not None else [])
    if found is None:
        assert len(await store.read(A)) == (0 if head is None else 3)
        assert await store.delete(tombstone(A), 0 if head is None else head.version)
    assert await store.tombstones() == [tombstone(A)]
    assert (await store.waits(), await store.due(), await store.slot_holders()) == (([], ""), [], [])
    assert (await store.read(A), await store.lines(A), await store.summary(A)) == ([], [], None)
    (outcome,) = await store.append([begin(A)])
    assert isinstance(outcome, Lost)
    assert outcome.why == "deleted"
    while await store.purge(2):
        pass
    hashes = [name.rpartition("/")[2] for name in objects_of(objects, "blobs")]
    assert await store.collect(await store.now() + 5_000_000) == hashes
    left = {name for name in objects_of(objects, "") if "run-a" in name or name.startswith(("uses", "blobs"))}
    assert left == {f"index/{A}", record(A, 1), f"tombstones/{A}"}
    (outcome,) = await opened(objects).append([begin(A)])
    assert isinstance(outcome, Lost)
    assert outcome.why == "deleted"


def objects_of(objects: MemoryStore, folder: str) -> list[str]:
    return [meta["path"] for page in objects.list(folder or None) for meta in page]


@pytest.mark.parametrize("name", OF_DELETIONS)
def test_no_deletion_is_half_done_at_whichever_request_a_process_dies(name: str) -> None:
    """S12, S13"""
    assert asyncio.run(played_at_every_request(OF_DELETIONS[name], a_deleted_run_must_be_gone)) >= 6


def test_an_owner_that_stood_still_does_not_append_to_a_deleted_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, S12: the object that would have refused its append is gone"""
    monkeypatch.setattr("outlast.stores.objects.journal.VERIFIED_S", 0)

    async def stand_still() -> None:
        objects = MemoryStore()
        slow, _ = watched(objects)
        head = await held(slow)
        other = opened(objects, 60_000_000)
        await land(other, follow(head, kind=Kind.GUEST))
        assert await other.delete(tombstone(A), 2)
        while await other.purge():
            pass
        stale: Append = follow(head)
        (outcome,) = await slow.append([stale])
        assert isinstance(outcome, Lost)
        assert outcome.why == "deleted"
        assert await other.read(A) == []

    asyncio.run(stand_still())


def test_an_owner_on_a_machine_that_slept_does_not_append_to_a_deleted_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, S12: it reads the run again, although few seconds have passed while it was awake"""

    async def sleep() -> None:
        objects = MemoryStore()
        slow, _ = watched(objects)
        head = await held(slow)
        other = opened(objects, 60_000_000)
        await land(other, follow(head, kind=Kind.GUEST))
        assert await other.delete(tombstone(A), 2)
        while await other.purge():
            pass
        woken = since_boot() + 3600
        monkeypatch.setattr("outlast.stores.objects.journal.since_boot", lambda: woken)
        (outcome,) = await slow.append([follow(head)])
        assert isinstance(outcome, Lost)
        assert outcome.why == "deleted"

    asyncio.run(sleep())


# --- blobs


def test_a_blob_is_kept_at_whichever_request_of_its_collection_it_is_put_again() -> None:
    """S13: equal bytes are put, or an event names the blob, while a collector is about to remove it"""

    async def race(number: int, *, names: bool) -> bool:
        objects = MemoryStore()
        collector, bucket = watched(objects)
        other = opened(objects)
        head = await held(other)
        ref = await other.blobs.put(b"large")
        before = await other.now() + 1
        await asyncio.sleep(0.002)
        putting: list[asyncio.Task[Any]] = []

        async def put(at: int, *_: Any) -> None:
            if at == number:
                wanted = other.append([follow(head, blobs=[ref.hash])]) if names else other.blobs.put(b"large")
                putting.append(asyncio.create_task(wanted))
                await asyncio.wait(putting, timeout=0.05)

        bucket.before = put
        removed = await collector.collect(before)
        for task in putting:
            try:
                await task
            except NotFound:
                assert names
                assert removed == [ref.hash]
                return True
        assert await other.blobs.has(ref.hash) is bool(putting)
        return bool(putting)

    for names in (False, True):
        numbers = itertools.count(1)
        while asyncio.run(race(number := next(numbers), names=names)):
            pass
        assert number > 4


def test_a_collector_waits_for_longer_than_writers_trust_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """S13: an append that names the blob does not read its state"""
    monkeypatch.undo()
    monkeypatch.setattr(blobs, "TRUSTED_S", 0.2)
    monkeypatch.setattr(blobs, "WAIT_S", 0.25)

    async def race() -> None:
        objects = MemoryStore()
        writer = opened(objects)
        head = await held(writer)
        ref = await writer.blobs.put(b"large")
        assert await writer._collection.keep(ref.hash)
        collecting = asyncio.create_task(opened(objects).collect(await writer.now() + 5_000_000))
        await asyncio.sleep(0.05)
        assert objects_of(objects, "collected") == [collected(ref.hash)], "the collector has begun"
        await land(writer, follow(head, blobs=[ref.hash]))
        assert not collecting.done()
        assert await collecting == []
        assert await writer.blobs.has(ref.hash)

    asyncio.run(race())


def test_a_collector_that_died_delays_only_its_blob() -> None:
    """S13"""

    async def die() -> None:
        objects = MemoryStore()
        store = opened(objects)
        ref = await store.blobs.put(b"large")
        collection: Any = Collection(bucket_over(objects, "memory"))
        await collection._change(ref.hash, "looking", None)
        await store.blobs.put(b"large")
        assert (await collection._state(ref.hash))[0] == "kept"
        assert await store.collect(await store.now() + 5_000_000) == [ref.hash]
        assert not await store.blobs.has(ref.hash)
        await store.blobs.put(b"large")
        assert await store.blobs.has(ref.hash)
        assert objects_of(objects, "collected") == [collected(ref.hash)]

    asyncio.run(die())


def test_a_released_run_that_kept_its_slot_is_claimed_though_many_marks_are_before_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S8, S11: until it is taken over, no other run of its queue can be claimed"""
    monkeypatch.setattr(candidates, "PAGE", 2)

    async def scene() -> None:
        objects, full = MemoryStore(), {"mail": [Slot("mail", 1)]}
        store = opened(objects)
        await store.enrol(ANN, 30)
        await land(store, begin_ready(A, summary=summary(A, queue="mail")))
        assert [claim.run for claim in await store.claim(ANN, slots=full)] == [A]
        for number in range(6):
            older = summary(RunId(f"older-{number}"), queue="mail", created=number)
            await land(store, begin_ready(older.run, summary=older))
        store = opened(objects, 31_000_000)
        await store.enrol(CAT, 30)
        assert [claim.run for claim in await store.claim(CAT, slots=full)] == [A]
        await store.retire(CAT)
        await store.enrol(BEN, 30)
        assert [claim.run for claim in await store.claim(BEN, slots=full, limit=9)] == [A]

    asyncio.run(scene())
