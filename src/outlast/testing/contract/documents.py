"""Tests of documents: small named values with compare-and-set (S10)."""

from __future__ import annotations

import asyncio

import pytest

from outlast.errors import InvalidInput
from outlast.store import Document, Store
from outlast.testing.contract.doors import Contract, Doors

RIVALS = 4


def written(name: str, version: str, body: bytes = b"value") -> Document:
    return Document(name, version, body)


class DocumentsContract(Contract):
    """Tests of `outlast.store.Documents`."""

    async def test_a_document_is_visible_to_other_connections_and_after_reopening(
        self, doors: Doors, store: Store, other: Store
    ) -> None:
        """S10"""
        document = written("tokens/a.b_c-1", "v1", bytes(range(256)))
        assert await store.document(document.name) is None
        assert await store.put_document(document)
        assert await other.document(document.name) == document
        store = await doors.reopen(store)
        assert await store.document(document.name) == document
        assert await store.document("tokens/other") is None

    async def test_a_document_is_replaced_only_at_the_expected_version(self, store: Store, other: Store) -> None:
        """S10"""
        assert await store.put_document(written("a", "v1"))
        assert not await other.put_document(written("a", "v2")), "the document exists"
        assert not await other.put_document(written("a", "v2"), replaces="v0")
        assert not await other.put_document(written("b", "v2"), replaces="v1"), "the document does not exist"
        assert await other.put_document(written("a", "v2", b"new"), replaces="v1")
        assert not await store.put_document(written("a", "v3"), replaces="v1")
        assert await store.document("a") == written("a", "v2", b"new")
        assert await store.document("b") is None

    async def test_a_repeated_write_of_a_document_is_recognised(self, store: Store) -> None:
        """S10: the answer to the first write may be lost"""
        for _ in range(2):
            assert await store.put_document(written("a", "v1"))
        for _ in range(2):
            assert await store.put_document(written("a", "v2"), replaces="v1")
        for _ in range(2):
            assert await store.remove_document("a", "v2")

    async def test_a_document_is_removed_only_at_the_expected_version(self, store: Store, other: Store) -> None:
        """S10"""
        assert await store.put_document(written("a", "v1"))
        assert not await other.remove_document("a", "v0")
        assert await other.document("a") == written("a", "v1")
        assert await other.remove_document("a", "v1")
        assert await store.document("a") is None
        assert await store.documents() == []
        assert not await store.put_document(written("a", "v2"), replaces="v1"), "the document does not exist"
        assert await store.put_document(written("a", "v3")), "the name is free again"
        assert await other.document("a") == written("a", "v3")

    async def test_one_of_several_writers_of_a_version_wins(self, doors: Doors) -> None:
        """S10"""
        stores = [await doors.open() for _ in range(RIVALS)]
        last = ""
        for turn in range(3):
            rivals = [written("a", f"v{turn}-{number}", str(number).encode()) for number in range(RIVALS)]
            won = await asyncio.gather(
                *(store.put_document(each, replaces=last) for store, each in zip(stores, rivals, strict=True))
            )
            assert won.count(True) == 1
            winner = rivals[won.index(True)]
            assert [await store.document("a") for store in stores] == [winner] * RIVALS
            last = winner.version

    async def test_documents_are_listed_by_name_prefix_and_limit(self, store: Store) -> None:
        """S7"""
        names = ["session/1", "session/10", "session/2", "sessions", "setting/a", "token/b/c"]
        for name in reversed(names):
            assert await store.put_document(written(name, "v-" + name.replace("/", "-"), name.encode()))
        assert [each.name for each in await store.documents()] == names
        assert [each.name for each in await store.documents("session/")] == names[:3]
        assert [each.name for each in await store.documents("s", after="session/2")] == names[3:5]
        assert [each.name for each in await store.documents("session", limit=2)] == names[:2]
        assert [each.body for each in await store.documents("token/")] == [b"token/b/c"]
        assert await store.documents("none/") == []

    async def test_an_invalid_document_name_is_refused(self, store: Store) -> None:
        """S10"""
        for name in ("", "/", "a/", "/a", "a//b", "../a", "a/..", "A", "a b", "ä", "a,b", "a" * 201, "a\n"):
            with pytest.raises(InvalidInput):
                await store.put_document(written(name, "v1"))
        with pytest.raises(InvalidInput):
            await store.documents(limit=0)
        assert await store.documents() == []
