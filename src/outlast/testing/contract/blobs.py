"""Tests of blobs: equal bytes are stored once, streamed in both directions and visible to all connections (S3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from outlast.errors import NotFound
from outlast.store import BlobRef, Blobs, Store
from outlast.testing.contract.doors import Contract, Doors

MEGABYTE = 1 << 20
NO_HASHES = ("", ".", "..", "0", "zz", "☃", "a" * 300)


class BlobsContract(Contract):
    """Tests of `outlast.store.Blobs`."""

    async def test_a_blob_is_read_back_byte_for_byte(self, doors: Doors) -> None:
        """S3"""
        blobs = (await doors.open()).blobs
        for whole in (b"x", bytes(range(256)), b"\x00" * (3 * MEGABYTE + 1)):
            ref = await blobs.put(whole)
            assert ref.size == len(whole)
            assert await content(blobs, ref) == whole

    async def test_an_empty_blob_is_stored(self, doors: Doors) -> None:
        """S3"""
        blobs = (await doors.open()).blobs
        ref = await blobs.put(b"")
        assert (ref.size, await blobs.has(ref.hash)) == (0, True)
        assert await content(blobs, ref) == b""
        assert await blobs.put(chunked([])) == ref

    async def test_chunks_are_stored_as_one_blob(self, doors: Doors) -> None:
        """S3"""
        blobs = (await doors.open()).blobs
        chunks = [b"one", b"", b"two" * MEGABYTE, b"\x00three"]
        ref = await blobs.put(chunked(chunks))
        whole = b"".join(chunks)
        assert ref.size == len(whole)
        assert await content(blobs, ref) == whole

    async def test_equal_bytes_have_one_hash_and_are_stored_once(self, store: Store, other: Store) -> None:
        """S3"""
        ref = await store.blobs.put(b"the same bytes")
        assert await other.blobs.put(chunked([b"the same", b" bytes"])) == ref
        assert (await store.blobs.put(b"other bytes")).hash != ref.hash
        await store.blobs.remove(ref.hash)
        assert not await other.blobs.has(ref.hash)

    async def test_a_blob_is_visible_to_other_connections_and_after_reopening(
        self, doors: Doors, store: Store, other: Store
    ) -> None:
        """S3"""
        ref = await store.blobs.put(b"for all")
        assert await other.blobs.has(ref.hash)
        assert await content(other.blobs, ref) == b"for all"
        await doors.close(other)
        store = await doors.reopen(store)
        assert await content(store.blobs, ref) == b"for all"

    async def test_an_absent_blob_is_not_found(self, store: Store) -> None:
        """S3"""
        ref = await store.blobs.put(b"soon gone")
        await store.blobs.remove(ref.hash)
        await store.blobs.remove(ref.hash)
        assert not await store.blobs.has(ref.hash)
        with pytest.raises(NotFound):
            await content(store.blobs, ref)
        assert await store.blobs.put(b"soon gone") == ref
        assert await content(store.blobs, ref) == b"soon gone"

    async def test_an_invalid_hash_names_no_blob(self, doors: Doors) -> None:
        """S3: a hash from a damaged log may be invalid"""
        blobs = (await doors.open()).blobs
        await blobs.put(b"so that the folder of blobs exists")
        foreign = doors.where / "foreign"
        foreign.write_bytes(b"not a blob")
        for name in (*NO_HASHES, str(foreign), f"..{foreign}", "../foreign", "..//foreign"):
            assert not await blobs.has(name), name
            with pytest.raises(NotFound):
                await content(blobs, BlobRef(name, 1))
        await blobs.remove(f"..{foreign}")
        assert foreign.read_bytes() == b"not a blob"

    async def test_an_error_of_the_source_is_raised_and_changes_nothing(self, doors: Doors) -> None:
        """S5"""
        blobs = (await doors.open()).blobs
        stored = await blobs.put(b"half")

        async def failing() -> AsyncIterator[bytes]:
            yield b"half"
            raise RuntimeError("the source failed")

        with pytest.raises(RuntimeError, match="the source failed"):
            await blobs.put(failing())
        assert await content(blobs, stored) == b"half"


async def chunked(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def content(blobs: Blobs, ref: BlobRef) -> bytes:
    return b"".join([chunk async for chunk in blobs.open(ref)])
