"""Tests of the collection of blobs (S13)."""

from __future__ import annotations

import asyncio

from outlast.history.ids import RunId
from outlast.store import LANDED, Store
from outlast.testing.contract.doors import Contract
from outlast.testing.contract.samples import A, B, begin, follow, land, tombstone

SECOND = 1_000_000
RACES = 20


class CollectionContract(Contract):
    """Tests of the blobs that appends name, and of their collection."""

    async def test_a_blob_that_no_kept_run_names_is_collected(self, store: Store, other: Store) -> None:
        """S13"""
        named, loose = (await store.blobs.put(b"named")).hash, (await store.blobs.put(b"loose")).hash
        await land(store, begin(A, blobs=[named, named]))
        await self._ticks(store)
        assert await other.collect(await other.now()) == [loose]
        assert (await store.blobs.has(named), await store.blobs.has(loose)) == (True, False)
        assert await other.collect(await other.now()) == []

    async def test_the_blobs_of_a_deleted_run_are_collected(self, store: Store, other: Store) -> None:
        """S13: but those that another run names too"""
        one, two, both, later = [(await store.blobs.put(name)).hash for name in (b"one", b"two", b"both", b"later")]
        head = await land(store, begin(A, blobs=[one, both]))
        await land(store, follow(head, blobs=[later]))
        await land(store, begin(B, blobs=[both, two]))
        await self._ticks(store)
        assert await store.collect(await store.now()) == []
        assert await store.delete(tombstone(A), 2)
        while await store.purge():
            pass
        assert sorted(await other.collect(await other.now())) == sorted([one, later])
        assert [await store.blobs.has(name) for name in (one, later, both, two)] == [False, False, True, True]

    async def test_a_young_blob_is_not_collected(self, store: Store, other: Store) -> None:
        """S13"""
        young = (await store.blobs.put(b"young")).hash
        assert await other.collect(await other.now() - 60 * SECOND) == []
        assert await store.blobs.has(young)

    async def test_a_blob_that_is_put_again_is_young_again(self, store: Store, other: Store) -> None:
        """S13"""
        old, again = (await store.blobs.put(b"old")).hash, (await store.blobs.put(b"again")).hash
        await self._ticks(store)
        now = await store.now()
        await self._ticks(store)
        assert (await other.blobs.put(b"again")).hash == again
        assert await store.collect(now) == [old]
        assert (await other.blobs.has(old), await other.blobs.has(again)) == (False, True)

    async def test_blobs_are_collected_in_bounded_steps(self, store: Store) -> None:
        """S13"""
        names = {(await store.blobs.put(str(number).encode())).hash for number in range(7)}
        await self._ticks(store)
        now, found = await store.now(), list[str]()
        for expected in (3, 3, 1, 0):
            step = await store.collect(now, limit=3)
            assert len(step) == expected
            found += step
        assert (set(found), len(found)) == (names, 7)

    async def test_a_lost_append_names_no_blobs(self, store: Store) -> None:
        """S1, S13"""
        name = (await store.blobs.put(b"named by a loser")).hash
        await land(store, begin(A))
        assert await store.append([begin(A, blobs=[name])]) != [LANDED]
        await self._ticks(store)
        assert await store.collect(await store.now()) == [name]

    async def test_a_blob_that_is_put_while_others_are_collected_is_kept(self, store: Store, other: Store) -> None:
        """S13"""
        contents = [str(number).encode() for number in range(RACES)]
        for content in contents:
            await store.blobs.put(content)
        await self._ticks(store)
        now = await store.now()
        await self._ticks(store)

        async def use(content: bytes, number: int) -> None:
            name = (await other.blobs.put(content)).hash
            await land(other, begin(RunId(f"r{number}"), blobs=[name]))

        async def collect() -> None:
            while await store.collect(now, limit=3):
                await asyncio.sleep(0)

        await asyncio.gather(collect(), *(use(content, number) for number, content in enumerate(contents)))
        for content in contents:
            assert [chunk async for chunk in store.blobs.open(await store.blobs.put(content))] == [content]
        await self._ticks(store)
        assert await store.collect(await store.now()) == []

    async def _ticks(self, store: Store) -> None:
        """Wait until the clock that dates blobs has advanced."""
        until = await store.now() + int(self.put_time_unit * SECOND)
        while await store.now() <= until:
            await asyncio.sleep(self.put_time_unit / 4)
