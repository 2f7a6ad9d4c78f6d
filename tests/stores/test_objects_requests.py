"""What is asked of a server, and how often: cost follows the work (P10, O4)."""

from __future__ import annotations

import asyncio
import os

import msgspec
import pytest
from msgspec.structs import replace
from obstore.store import MemoryStore

import outlast as ol
from outlast.compose import open_store
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import LANDED, Append, RunFilter, Slot, Store
from outlast.stores.objects import ObjectStore, reading
from outlast.stores.objects.bucket import Requests
from outlast.stores.objects.journal import LAG
from outlast.stores.objects.opening import bucket_over
from outlast.testing.contract.samples import ANN, BEN, A, begin, begin_ready, follow, land, summary
from outlast.testing.processes import engine_over
from support.servers import s3

NODES = 64


def opened(objects: MemoryStore) -> ObjectStore:
    return ObjectStore(bucket_over(objects, "memory"))


@pytest.fixture
def objects() -> MemoryStore:
    return MemoryStore()


class Spent:
    """The requests that a store makes while this is entered."""

    def __init__(self, store: Store) -> None:
        assert isinstance(store, ObjectStore)
        self._store = store
        self.requests = Requests()

    def __enter__(self) -> Spent:
        self._before = msgspec.structs.asdict(self._store.requests)
        return self

    def __exit__(self, *_: object) -> None:
        after = msgspec.structs.asdict(self._store.requests)
        self.requests = Requests(**{kind: after[kind] - self._before[kind] for kind in after})


def test_an_append_that_changes_nothing_but_the_log_is_one_request(objects: MemoryStore) -> None:
    """P10"""

    async def play() -> None:
        store = opened(objects)
        await store.enrol(ANN, 60)
        end = store.subscribe(lambda _: None)  # as an engine does: it then knows that nobody else listens
        head = await land(store, begin(A, summary=summary(A), claim=ANN))
        await asyncio.sleep(0.3)
        for _ in range(LAG - 1):
            with Spent(store) as spent:
                head = await land(store, follow(head))
            assert (spent.requests.create, spent.requests.update, spent.requests.delete) == (1, 0, 0)
        with Spent(store) as spent:
            await land(store, follow(head))
        assert (spent.requests.create, spent.requests.update) == (1, 1), "and now and then the index"
        end()
        await store.close()

    asyncio.run(play())


@ol.node
async def count_on(number: int) -> int:
    return number + 1


@ol.workflow
async def counting(nodes: int) -> int:
    number = 0
    for _ in range(nodes):
        number = await count_on(number)
    return number


@pytest.mark.parametrize("kind", ["memory", "server"])
def test_a_node_costs_about_one_request(kind: str) -> None:
    """P10: what a long run writes more than a short one, by node"""

    async def writes(nodes: int, run: str) -> int:
        address = s3.shared().address(f"requests/{os.urandom(8).hex()}")
        store = opened(MemoryStore()) if kind == "memory" else open_store(address)
        assert isinstance(store, ObjectStore)
        async with engine_over(store) as engine:
            handle = await engine.start(counting.options(id=run), nodes)
            assert await handle.result() == nodes
        requests = store.requests
        await store.close()
        return requests.create + requests.update + requests.put + requests.delete

    async def play() -> float:
        return (await writes(4 + NODES, "long") - await writes(4, "short")) / NODES

    per_node = asyncio.run(play())
    print(f"\n{kind}: {per_node:.2f} writing requests per node")
    assert 1 <= per_node < 1.25


def test_a_long_log_is_read_with_few_requests(objects: MemoryStore) -> None:
    """P10"""

    async def play() -> None:
        store = opened(objects)
        head = await land(store, begin(A))
        made = [await store.read(A)]
        for _ in range(500):
            append = follow(head)
            head = await land(store, append)
            made[0].append(append.record)
        await store.close()
        fresh = opened(objects)
        with Spent(fresh) as spent:
            assert await fresh.read(A) == made[0]
        assert spent.requests.all < 80
        with Spent(fresh) as spent:
            assert await fresh.read(A, 200, 210) == made[0][199:210]
        assert spent.requests.all < 6
        await fresh.close()

    asyncio.run(play())


@pytest.mark.parametrize("damage", ["gone", "damaged", "overlapping"])
def test_segments_only_make_reading_quicker(damage: str, objects: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """O1: what an append wrote is read though the segments are gone, do not read or overlap"""
    monkeypatch.setattr(reading, "MERGED", 5)

    async def play() -> None:
        store, other = opened(objects), opened(objects)
        head = await land(store, begin(A, count=2))
        for number in range(33):
            door = other if damage == "overlapping" and number % 7 < 3 else store
            head = await land(door, follow(head, count=1 + number % 3))
        await store.close()
        await other.close()
        segments = sorted(meta["path"] for page in objects.list(f"merged/{A}") for meta in page)
        assert len(segments) > 3
        for segment in segments[1:3]:
            if damage == "gone":
                objects.delete(segment)
            elif damage == "damaged":
                objects.put(segment, bytes(objects.get(segment).bytes())[:-5])
        fresh = opened(objects)
        log = await fresh.read(A)
        assert [record.first for record in log] == [1, *(record.last + 1 for record in log[:-1])]
        assert log[-1].digest == head.digest
        for first in range(1, head.version + 2):
            expected = [record for record in log if record.last >= first]
            assert await fresh.read(A, first) == expected
            assert await fresh.read(A, first, limit=3) == expected[:3]
        await fresh.close()

    asyncio.run(play())


def test_looking_for_work_costs_nothing_for_runs_that_are_over(objects: MemoryStore) -> None:
    """P10, O4"""

    async def play() -> None:
        store = opened(objects)
        await store.enrol(ANN, 60)
        done = [RunId(f"done-{number}") for number in range(60)]
        over = [begin(run, summary=summary(run, status=RunStatus.COMPLETED), closed=True) for run in done]
        assert await store.append(over) == [LANDED] * len(over)
        await land(store, begin(A, summary=summary(A), kind=Kind.GUEST, epoch=0, ready=True))
        with Spent(store) as spent:
            assert [claim.run for claim in await store.claim(ANN, workflows=["w"])] == [A]
            await store.due()
            await store.next_due()
        assert spent.requests.all < 14
        with Spent(store) as spent:
            page = await store.search(RunFilter(statuses=(RunStatus.RUNNING, RunStatus.WAITING)))
        assert [item.summary.run for item in page.items] == [A]
        assert spent.requests.all <= 4
        with Spent(store) as spent:
            assert len((await store.search(RunFilter(limit=10))).items) == 10
        assert spent.requests.all < 30, "a page costs what is on it"
        await store.close()

    asyncio.run(play())


def test_a_claim_costs_what_it_claims(objects: MemoryStore) -> None:
    """P10: not the runs that it leaves, be they ready, interrupted, due, or of a full queue"""

    async def play() -> None:
        store = opened(objects)
        await store.enrol(ANN, 60)
        timer = Wait("timer", "t", due=5)
        others: list[Append] = []
        for number in range(60):
            run = RunId(f"other-{number}")
            other = summary(run, workflow="other", queue="q", fairness_key=f"k{number % 3}")
            others += [begin_ready(run, summary=other)]
            others += [begin(RunId(f"held-{number}"), summary=replace(other, run=RunId(f"held-{number}")), claim=ANN)]
            others += [begin(RunId(f"due-{number}"), summary=replace(other, run=RunId(f"due-{number}")), opens=[timer])]
        assert await store.append(others) == [LANDED] * len(others)
        await land(store, begin_ready(A))
        store.skew += 61_000_000
        await store.enrol(BEN, 60)
        with Spent(store) as spent:
            assert await store.claim(BEN, workflows=["none"], limit=9) == []
        assert spent.requests.all <= 6
        with Spent(store) as spent:
            assert [claim.run for claim in await store.claim(BEN, workflows=["w"], limit=9)] == [A]
        assert spent.requests.all <= 16
        slots = {"q": [Slot("q", 1)]}
        assert len(await store.claim(BEN, workflows=["other"], slots=slots)) == 1
        with Spent(store) as spent:
            assert await store.claim(BEN, workflows=["other"], slots=slots, limit=9) == []
        assert spent.requests.all <= 24
        await store.close()

    asyncio.run(play())


def test_a_lone_worker_does_not_publish_its_changes(objects: MemoryStore) -> None:
    """P10"""

    async def play() -> None:
        store = opened(objects)
        end = store.subscribe(lambda _: None)
        await asyncio.sleep(0.3)
        with Spent(store) as spent:
            head = await land(store, begin(A))
            for _ in range(5):
                head = await land(store, follow(head))
            await asyncio.sleep(0.5)
        assert spent.requests.put == 0
        other = opened(objects)
        heard = asyncio.Event()
        end_other = other.subscribe(lambda runs: heard.set() if A in runs else None)
        await asyncio.wait_for(heard.wait(), 5)
        end_other()
        end()
        await other.close()
        await store.close()

    asyncio.run(play())
