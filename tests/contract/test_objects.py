"""The object store keeps the contract: in a folder, and on a real S3 server."""

from pathlib import Path

from outlast.compose import open_store
from outlast.store import Store
from outlast.testing.contract import JournalContract, StoreContract
from outlast.testing.servers import s3


class TestFolder(StoreContract):
    async def open_store(self, where: Path) -> Store:
        return open_store(f"file://{where}/bucket")


class TestFolderWithRelaxedDurability(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return open_store(f"file://{where}/bucket", durability="relaxed")


class TestS3(StoreContract):
    async def open_store(self, where: Path) -> Store:
        return open_store(s3.shared().address(f"contract/{where.name}"))
