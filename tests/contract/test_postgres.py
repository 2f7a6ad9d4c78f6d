"""The PostgreSQL store keeps the contract on a real server, and also as it talks to one behind PgBouncer."""

from pathlib import Path

import pytest

from outlast.errors import StoreUnusable
from outlast.store import Store
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.schema import VERSION
from outlast.testing.contract import (
    ClaimsContract,
    JournalContract,
    StoreContract,
    WakeupsContract,
)
from support.servers.postgres_admin import carry_out


class OnPostgres:
    url: str

    @pytest.fixture(autouse=True)
    def _on_server(self, empty_postgres_url: str) -> None:
        self.url = empty_postgres_url


class TestPostgresStore(OnPostgres, StoreContract):
    parts = 2
    version = VERSION

    async def open_store(self, where: Path) -> Store:
        store = PostgresStore(self.url)
        try:
            await store.open()
        except StoreUnusable:
            await store.close()
            raise
        return store

    async def rewrite_version(self, where: Path, version: int) -> None:
        await carry_out(self.url, f"update {{s}}.migration set version = {version}")


class TestBehindPgBouncer(OnPostgres, WakeupsContract, ClaimsContract):
    parts = 2

    async def open_store(self, where: Path) -> Store:
        store = PostgresStore(f"{self.url}&pgbouncer=1")
        await store.open()
        return store


class TestRelaxedDurability(OnPostgres, JournalContract):
    async def open_store(self, where: Path) -> Store:
        return PostgresStore(self.url, durability="relaxed")
