"""The SQLite store keeps the contract, and its journal keeps it in every way of committing."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from outlast.store import Store
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract import JournalContract, StoreContract


class WithoutLocks(SqliteStore):
    """As on a file system that has no locks: only their time says whether workers live, as the contract wants to see it.
    What the locks prove is in `tests/stores`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.locks.hide()


class TestSqliteStore(StoreContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db")

    async def rewrite_version(self, where: Path, version: int) -> None:
        with closing(
            apsw.Connection(str(where / "runs.db"))
        ) as connection:  # two SQLite libraries undo each other's locks
            connection.pragma("user_version", version)


class TestRelaxedDurability(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db", durability="relaxed")


class TestCommitOnTheWriterThread(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db", commit="thread")


class TestCommitOnTheLoop(JournalContract):
    async def open_store(self, where: Path) -> Store:
        return WithoutLocks(where / "runs.db", commit="inline")
