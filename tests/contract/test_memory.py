"""The store in memory keeps the contract, as far as its `Memory` lives (S3)."""

from pathlib import Path
from typing import ClassVar

from outlast.store import Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.testing.contract import StoreContract


class TestMemoryStore(StoreContract):
    kept: ClassVar[dict[Path, Memory]] = {}

    async def open_store(self, where: Path) -> Store:
        return MemoryStore(self.kept.setdefault(where, Memory()))

    async def rewrite_version(self, where: Path, version: int) -> None:
        self.kept[where].version = version
