"""The object store keeps the contract: in memory, and on a real S3 server."""

from pathlib import Path
from typing import ClassVar

from obstore.store import MemoryStore

from outlast.compose import open_store
from outlast.store import Store
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.opening import bucket_over
from outlast.testing.contract import StoreContract
from support.servers import s3


class TestInMemory(StoreContract):
    kept: ClassVar[dict[Path, MemoryStore]] = {}

    async def open_store(self, where: Path) -> Store:
        return ObjectStore(bucket_over(self.kept.setdefault(where, MemoryStore()), "memory"))


class TestS3(StoreContract):
    async def open_store(self, where: Path) -> Store:
        return open_store(s3.shared().address(f"contract/{where.name}"))
