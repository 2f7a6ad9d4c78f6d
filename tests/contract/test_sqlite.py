"""The SQLite store keeps the contract, and its journal keeps it in every way of committing."""

from pathlib import Path

from outlast.history.ids import WorkerId
from outlast.store import Store
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract import JournalContract, StoreContract


class WithoutLocks(SqliteStore):
    """As on a file system that has no locks: only their time says whether workers live, as the contract wants to see it.
    What the locks prove is in `tests/stores`."""

    def _acquire_lock(self, worker: WorkerId) -> None:
        pass


class TestSqliteStore(StoreContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db")


class TestRelaxedDurability(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db", durability="relaxed")


class TestCommitOnTheWriterThread(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db", commit="thread")


class TestCommitOnTheLoop(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db", commit="inline")
