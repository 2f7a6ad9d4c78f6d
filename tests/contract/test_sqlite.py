"""The SQLite store keeps the contract, and its journal keeps it in every way of committing."""

from pathlib import Path

from outlast.store import Store
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract import JournalContract, StoreContract


class TestSqliteStore(StoreContract):
    async def open_store(self, where: Path) -> Store:
        return SqliteStore(where / "runs.db")


class TestRelaxedDurability(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return SqliteStore(where / "runs.db", durability="relaxed")


class TestCommitOnTheWriterThread(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return SqliteStore(where / "runs.db", commit="thread")


class TestCommitOnTheLoop(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return SqliteStore(where / "runs.db", commit="inline")
