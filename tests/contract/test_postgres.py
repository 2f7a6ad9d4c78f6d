"""The PostgreSQL store keeps the contract on a real server, and also as it talks to one behind PgBouncer."""

from pathlib import Path

import pytest

from outlast.store import Store
from outlast.stores.postgres import PostgresStore
from outlast.testing.contract import (
    ClaimsContract,
    JournalContract,
    StoreContract,
    WakeupsContract,
)


class OnPostgres:
    url: str

    @pytest.fixture(autouse=True)
    def _on_server(self, postgres_url: str) -> None:
        self.url = postgres_url


class TestPostgresStore(OnPostgres, StoreContract):
    async def open_store(self, where: Path) -> Store:
        store = PostgresStore(self.url)
        await store.open()
        return store


class TestBehindPgBouncer(OnPostgres, WakeupsContract, ClaimsContract):
    async def open_store(self, where: Path) -> Store:
        store = PostgresStore(f"{self.url}&pgbouncer=1")
        await store.open()
        return store


class TestRelaxedDurability(OnPostgres, JournalContract):
    async def open_store(self, where: Path) -> Store:
        return PostgresStore(self.url, durability="relaxed")
