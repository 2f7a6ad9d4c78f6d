"""Leases of services: of several processes one does a job, and another one soon after its death."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest
from obstore.store import MemoryStore as Objects

from outlast.ledger import Ledger
from outlast.services.leases import FOLDER, acquire, lease_of, resign
from outlast.services.sweeper import Report, Sweeper
from outlast.store import Document, Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.opening import bucket_over
from outlast.stores.postgres import PostgresStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract import Contract, Doors

JOB = "sweeper"


class LeasesContract(Contract):
    async def test_one_of_several_processes_gets_the_lease(self, doors: Doors) -> None:
        stores = [await doors.open() for _ in range(4)]
        for _ in range(3):
            got = await asyncio.gather(*(acquire(each, JOB, f"p{at}", 30) for at, each in enumerate(stores)))
            assert got.count(True) == 1
            holder = f"p{got.index(True)}"
            for each in stores:
                lease = await lease_of(each, JOB)
                assert lease is not None
                assert lease.holder == holder
            await resign(stores[0], JOB, "somebody else")
            assert await lease_of(stores[0], JOB) is not None
            await resign(stores[0], JOB, holder)
            assert await lease_of(stores[1], JOB) is None

    async def test_a_lease_is_extended_by_its_holder_and_ends_by_the_stores_clock(
        self, doors: Doors, store: Store, other: Store
    ) -> None:
        assert await acquire(store, JOB, "one", 30)
        for _ in range(3):
            doors.let_pass(20)
            assert not await acquire(other, JOB, "two", 30)
            assert await acquire(store, JOB, "one", 30)
        doors.let_pass(31)
        assert await lease_of(store, JOB) is None
        assert await acquire(other, JOB, "two", 30)
        assert not await acquire(store, JOB, "one", 30)
        await resign(store, JOB, "one")
        lease = await lease_of(store, JOB)
        assert lease is not None
        assert lease.holder == "two"
        assert abs(lease.until - await store.now() - 30_000_000) < 15_000_000

    async def test_services_have_their_own_leases(self, store: Store, other: Store) -> None:
        assert await acquire(store, "sweeper", "one", 30)
        assert await acquire(other, "pruner", "two", 30)
        await resign(store, "pruner", "one")
        assert await lease_of(store, "pruner") is not None
        assert await lease_of(store, "scheduler") is None
        await resign(store, "scheduler", "one")

    async def test_a_lease_that_cannot_be_read_is_replaced(self, store: Store) -> None:
        assert await store.put_document(Document(FOLDER + JOB, "v1", b"\xff"))
        assert await lease_of(store, JOB) is None
        assert await acquire(store, JOB, "one", 30)

    async def test_of_several_processes_one_sweeps(self, doors: Doors) -> None:
        """The others go on when it ends: after its resignation, or after its death"""
        stores = [await doors.open() for _ in range(3)]
        sweepers = [CountingSweeper(Ledger(each), interval=0.01) for each in stores]
        tasks = [asyncio.create_task(each.run()) for each in sweepers]
        first = await one_of(sweepers)
        tasks[first].cancel()
        await asyncio.gather(tasks[first], return_exceptions=True)
        rest = [each for at, each in enumerate(sweepers) if at != first]
        before = [each.sweeps for each in rest]
        assert min(before) == 0
        await one_of(rest)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await lease_of(stores[0], JOB) is None
        assert await acquire(stores[0], JOB, "a process that dies", 30)
        doors.let_pass(31)
        last = CountingSweeper(Ledger(stores[1]), interval=0.01)
        task = asyncio.create_task(last.run())
        await one_of([last])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class CountingSweeper(Sweeper):
    sweeps = 0

    async def sweep(self, *, dry_run: bool = False) -> Report:
        self.sweeps += 1
        return await super().sweep(dry_run=dry_run)


async def one_of(sweepers: list[CountingSweeper]) -> int:
    """Wait until one of the sweepers has swept several times. Return its place in the list."""
    while max(each.sweeps for each in sweepers) < 3:
        await asyncio.sleep(0.005)
    return max(range(len(sweepers)), key=lambda at: sweepers[at].sweeps)


class TestMemory(LeasesContract):
    kept: ClassVar[dict[Path, Memory]] = {}

    async def open_store(self, where: Path) -> Store:
        return MemoryStore(self.kept.setdefault(where, Memory()))


class TestSqlite(LeasesContract):
    async def open_store(self, where: Path) -> Store:
        return SqliteStore(where / "runs.db")


class TestPostgres(LeasesContract):
    url: str

    @pytest.fixture(autouse=True)
    def _on_server(self, postgres_url: str) -> None:
        self.url = postgres_url

    async def open_store(self, where: Path) -> Store:
        return PostgresStore(self.url)


class TestObjects(LeasesContract):
    kept: ClassVar[dict[Path, Objects]] = {}

    async def open_store(self, where: Path) -> Store:
        return ObjectStore(bucket_over(self.kept.setdefault(where, Objects()), "memory"))
