"""Buckets: of several that write under a condition one does, in memory as on a server; and the clock of a server."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest
from obstore.store import MemoryStore

from outlast.address import bucket_at
from outlast.history.ids import RunId
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.bucket import Bucket, Taken, is_name
from outlast.stores.objects.clock import Clock, nearest
from outlast.stores.objects.keys import (
    Mark,
    by_class,
    due_at,
    due_by_class,
    due_class_of,
    in_status_folder,
    mark,
    number,
    number_of,
    plain,
)
from outlast.stores.objects.opening import bucket_over, open_bucket
from outlast.stores.objects.remote import RemoteBucket
from outlast.testing.contract.samples import A, summary
from support.servers import s3


@pytest.fixture(params=["memory", "seaweed", "ministack"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    if request.param == "memory":
        return bucket_over(MemoryStore(), "memory")
    at = bucket_at(s3.shared(request.param).address(f"bucket/{os.urandom(8).hex()}"))
    assert at is not None
    return open_bucket(at)


def test_a_bucket_keeps_its_conditions(bucket: Bucket) -> None:
    """B1, B2"""

    async def play() -> None:
        tag = await bucket.create("a/b", b"one")
        with pytest.raises(Taken):
            await bucket.create("a/b", b"two")
        newer = await bucket.update("a/b", b"two", tag)
        for stale in (tag, ("nonsense", "")):
            with pytest.raises(Taken):
                await bucket.update("a/b", b"three", stale)
        with pytest.raises(Taken):
            await bucket.update("not/there", b"x", newer)
        found = await bucket.get("a/b")
        assert found is not None
        assert (found.body, found.tag) == (b"two", newer)
        assert await bucket.get("a") is None
        assert await bucket.get("a/b/c") is None
        await bucket.delete(["a/b", "never/there"])
        assert await bucket.get("a/b") is None
        await bucket.create("a/b", b"again")

    asyncio.run(play())


def test_a_bucket_lists_what_is_below_a_folder_in_order(bucket: Bucket) -> None:
    async def play() -> None:
        names = ["l/a,1", "l/a.x,1", "l/b/c", "l/b/d", "l/B,1", "lx/a"]
        for name in names:
            await bucket.put(name, b"12")
        found = [each async for each in bucket.listing("l")]
        assert [each.name for each in found] == sorted(name for name in names if name.startswith("l/"))
        assert {each.size for each in found} == {2}
        assert abs(found[0].time / 1e6 - time.time()) < 60
        after = [each.name async for each in bucket.listing("l", after="l/a.x,1")]
        assert after == ["l/b/c", "l/b/d"]
        assert list(await bucket.folders("l")) == ["b"]
        assert [each async for each in bucket.listing("nothing")] == []

    asyncio.run(play())


def test_a_list_goes_on_after_a_name_though_the_server_begins_at_the_beginning() -> None:
    """S7: as the emulator of Azure does, which does not know where a list is to begin."""

    class Forgetful(MemoryStore):  # type: ignore[misc]  # a class of the driver's, made to be used and not to be extended
        def list(self, prefix: str | None = None, *, offset: str | None = None, **how: Any) -> Any:  # type: ignore[override]
            return super().list(prefix, offset=None, **how)

    async def play() -> None:
        bucket = RemoteBucket(Forgetful())
        for name in ("f/1", "f/2", "f/3"):
            await bucket.create(name, b"x")
        assert [each.name async for each in bucket.listing("f", "f/1")] == ["f/2", "f/3"]

    asyncio.run(play())


def test_of_many_that_create_or_update_one_object_one_does(bucket: Bucket) -> None:
    """B2"""

    async def tried(attempt: Any) -> int:
        try:
            await attempt
            return 1
        except Taken:
            return 0

    async def play() -> None:
        for name in "ab":
            won = await asyncio.gather(*(tried(bucket.create(name, b"%d" % each)) for each in range(4)))
            assert sum(won) == 1
            found = await bucket.get(name)
            assert found is not None
            won = await asyncio.gather(*(tried(bucket.update(name, b"u%d" % each, found.tag)) for each in range(4)))
            assert sum(won) == 1

    asyncio.run(play())


# --- names


def test_names_that_lead_astray_name_nothing(bucket: Bucket) -> None:
    """P11: ids come from people, and out of logs"""

    async def play() -> None:
        store = ObjectStore(bucket)
        for run in ("../treasure", "../../treasure", "a/../b", "/etc/passwd", "a//b", "", ".", "a\x00b", "☃"):
            assert await store.head(RunId(run)) is None
            assert await store.read(RunId(run)) == []
            assert await store.lines(RunId(run)) == []
            assert await bucket.get(f"index/{run}") is None
            assert [each async for each in bucket.listing(f"log/{run}")] == []
        await store.close()

    asyncio.run(play())


def test_the_parts_of_a_mark_are_found_in_its_name() -> None:
    placed = summary(A, queue="q, 1", workflow="w/x", fairness_key="k" * 300, priority=-7, created=5)
    due = due_by_class(12, placed)
    by_classes = (by_class("ready", placed), by_class("claims/w-1", None), due)
    for place in (*by_classes, "waiting/timer/", due_at(12), in_status_folder("open", 7)):
        for run in ("a", "a.b:c@d=e+f-g_h", "9" * 200):
            found = mark(Mark(place, run, "0123456789ab").name)
            assert found == (place, run, "0123456789ab")
    assert number_of(mark(Mark(due_at(12), "r", "f").name)) == 12
    assert due_class_of(mark(Mark(due, "r", "f").name))[0] == 12


def test_no_part_of_a_name_is_longer_than_servers_take() -> None:
    """P11: and a greater priority comes first"""
    long = summary(A, queue="q" * 400, workflow="w" * 400, fairness_key="k" * 400)
    for place in (by_class("claims/" + plain("w" * 400), long), due_by_class(12, long)):
        name = Mark(place, "r" * 200, "0123456789ab").name
        assert is_name(name)
        assert max(map(len, name.split("/"))) <= 255
    ranks = [by_class("ready", summary(A, priority=priority)) for priority in (10**9, 1, 0, -1, -(10**9))]
    assert ranks == sorted(ranks)


def test_numbers_in_names_sort_as_numbers_do() -> None:
    values = [0, 1, 9, 10, 1 << 40, 10**16]
    assert [number(value) for value in values] == sorted(number(value) for value in values)
    assert in_status_folder("open", 9) < in_status_folder("open", 8), "the newest first"


def test_ids_of_workers_that_cannot_be_names_are_replaced() -> None:
    assert plain("0190-ab.c") == "0190-ab.c"
    assert len({plain(id) for id in ("a/b", "a b", "../x", "a,b", "")}) == 5
    assert all("/" not in plain(id) and "," not in plain(id) for id in ("a/b", "../x", "a,b"))


# --- the clock


class FarAway:
    """A bucket whose clock is `ahead` by so many seconds, and shows whole ones."""

    def __init__(self, ahead: float) -> None:
        self.ahead, self.asked = ahead, 0
        self._written = 0

    async def put(self, name: str, body: bytes) -> tuple[str, str]:
        self.asked += 1
        self._written = int(time.time() + self.ahead) * 1_000_000
        return "", ""

    async def written(self, name: str) -> int:
        return self._written


@pytest.mark.parametrize("ahead", [0, 0.4, -0.4, 3, -3, 3600, -86400])
def test_the_clock_is_that_of_the_server(ahead: float) -> None:
    """O5, S6: to a second or two"""

    async def play() -> None:
        server = FarAway(ahead)
        clock = Clock(server, readonly=False)  # type: ignore[arg-type]
        for _ in range(5):
            assert abs(await clock.now() / 1e6 - time.time() - ahead) <= 1.1
        assert server.asked == 1, "it is not asked every time"

    asyncio.run(play())


def test_our_own_clock_is_believed_as_far_as_the_server_does_not_contradict_it() -> None:
    assert nearest(-900_000, 100_000) == 0
    assert nearest(2_000_000, 3_000_000) == 2_000_000
    assert nearest(-3_000_000, -2_000_000) == -2_000_000
