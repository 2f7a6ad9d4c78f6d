"""Opens stores for tests in which one process after the other uses the same data."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from obstore.store import MemoryStore as ObjectsInMemory

from outlast.compose import open_store
from outlast.store import Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.opening import bucket_over
from outlast.stores.sqlite import SqliteStore
from support.servers import s3

StoreFactory: TypeAlias = Callable[[], Awaitable[Store]]


def memory_factory(_: Path) -> StoreFactory:
    memory = Memory()

    async def open_door() -> Store:
        return MemoryStore(memory)

    return open_door


def sqlite_factory(folder: Path) -> StoreFactory:
    async def open_door() -> Store:
        # A process's death does not lose what the system has; the power cut has its own tests, with full durability.
        return SqliteStore(folder / "runs.db", durability="relaxed")

    return open_door


def objects_factory(_: Path) -> StoreFactory:
    objects = ObjectsInMemory()

    async def open_door() -> Store:
        return ObjectStore(bucket_over(objects, "memory"))

    return open_door


def s3_factory(_: Path) -> StoreFactory:
    address = s3.shared().address(f"loop/{os.urandom(8).hex()}")

    async def open_door() -> Store:
        return open_store(address)

    return open_door


FACTORIES = {"memory": memory_factory, "sqlite": sqlite_factory}
OBJECTS = {"objects": objects_factory, "s3": s3_factory}
