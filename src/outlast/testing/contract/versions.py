"""Tests of the version of the contract that a store carries (S14)."""

from __future__ import annotations

import pytest

from outlast.errors import StoreUnusable
from outlast.store import Store
from outlast.stores.shared import VERSION
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.samples import ANN, BEN, A, B, begin, begin_ready, land, summary, tombstone


class VersionsContract(Contract):
    """Tests of a store whose version another process changes."""

    version = VERSION
    """The version of the store."""

    async def test_a_process_of_another_version_does_not_claim_or_delete(self, doors: Doors) -> None:
        """S14"""
        for version in (self.version + 1, self.version - 1):
            store = await self._prepared(doors)
            head = await store.head(B)
            await self.rewrite_version(doors.where, version)
            with pytest.raises(StoreUnusable):
                await store.enrol(BEN, 30)
            with pytest.raises(StoreUnusable):
                await store.renew(ANN, 30)
            for runs in (None, [A, B]):
                with pytest.raises(StoreUnusable):
                    await store.claim(ANN, runs=runs, limit=9)
            with pytest.raises(StoreUnusable):
                await store.delete(tombstone(B), 1)
            await self.rewrite_version(doors.where, self.version)
            assert await store.holding(A) is None
            assert (await store.head(B), await store.tombstone(B)) == (head, None)
            assert [each.worker for each in await store.workers()] == [ANN]

    async def test_a_store_of_another_version_is_refused_when_it_is_opened(self, doors: Doors) -> None:
        """S14"""
        for version in (self.version + 1, self.version - 1):
            store = await self._prepared(doors)
            await doors.close(store)
            await self.rewrite_version(doors.where, version)
            with pytest.raises(StoreUnusable, match=str(version)):
                await (await doors.open()).enrol(BEN, 30)
            await self.rewrite_version(doors.where, self.version)

    async def _prepared(self, doors: Doors) -> Store:
        store = await doors.open()
        if await store.head(A) is None:
            await land(store, begin_ready(A))
            await land(store, begin(B, summary=summary(B), closed=True))
        await store.enrol(ANN, 30)
        return store
