"""Store factories for SQLite, object stores and PostgreSQL, for tests in which processes die."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

from outlast.address import bucket_at
from outlast.store import Store
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.bucket import Bucket, Listed
from outlast.stores.objects.opening import bucket_over, open_bucket
from outlast.stores.sqlite import SqliteStore
from outlast.testing.faults import hide_locks
from outlast.testing.store_factory import StoreFactory
from outlast.testing.time_skipping import TimeSkippingLoop
from support.servers import s3


class SqliteStoreFactory(StoreFactory):
    """Durability is relaxed: a killed process loses nothing that the system has buffered. Power cuts are tested
    elsewhere."""

    number = 0

    def reset(self) -> None:
        shutil.rmtree(self.folder / str(self.number), ignore_errors=True)
        self.number += 1
        (self.folder / str(self.number)).mkdir(parents=True)

    def open(self) -> Store:
        return SqliteStore(self.folder / str(self.number) / "runs.db", durability="relaxed", commit="inline")

    async def after_death(self, store: Store, *, is_reachable: bool) -> None:
        if is_reachable:
            hide_locks(store)  # the system has released them
        else:
            await store.close()


class ObjectStoreFactory(StoreFactory):
    """Objects in memory, behind the adapter for servers. The death of a process is not announced: its successor waits
    until the claim expires."""

    def reset(self) -> None:
        from obstore.store import MemoryStore as Objects

        self.objects = Objects()

    def open(self) -> Store:
        return ObjectStore(WatchedBucket(bucket_over(self.objects, "memory")))

    async def after_death(self, store: Store, *, is_reachable: bool) -> None:
        """Nothing: no connection is open between two requests."""


class S3StoreFactory(ObjectStoreFactory):
    """Objects on a real server."""

    def reset(self) -> None:
        self.prefix = f"factories/{os.urandom(8).hex()}"

    def open(self) -> Store:
        at = bucket_at(s3.shared().address(self.prefix))
        assert at is not None
        return ObjectStore(WatchedBucket(open_bucket(at)))


class WatchedBucket:
    """Reports requests in flight to a time-skipping loop, so that the clock does not skip their answers."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._bucket, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def watched(*arguments: Any) -> Any:
            with _at_work():
                return await found(*arguments)

        return watched

    async def listing(self, folder: str, after: str = "") -> AsyncIterator[Listed]:
        with _at_work():
            found = [each async for each in self._bucket.listing(folder, after)]
        for each in found:
            yield each

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        with _at_work():
            found = [each async for each in self._bucket.stream(name)]
        for each in found:
            yield each


def _at_work() -> AbstractContextManager[None]:
    loop = asyncio.get_running_loop()
    return loop.at_work() if isinstance(loop, TimeSkippingLoop) else nullcontext()


class PostgresStoreFactory(StoreFactory):
    """The schema in a URL. As with SQLite, there are no power cuts."""

    def __init__(self, url: str) -> None:
        super().__init__(Path())
        self._url = url

    def reset(self) -> None:
        self._administer("empty_store")

    def open(self) -> Store:
        from outlast.stores.postgres import PostgresStore

        store, loop = PostgresStore(self._url, durability="relaxed"), asyncio.get_running_loop()
        if isinstance(loop, TimeSkippingLoop):
            loop.servers.append(lambda: store.in_flight)
        return cast("Store", store)

    async def after_death(self, store: Store, *, is_reachable: bool) -> None:
        if not is_reachable:
            await store.close()
            await asyncio.to_thread(self._administer, "bury_workers")

    def _administer(self, action: str) -> None:
        """Run on another loop, where the clock is real."""
        from support.servers import postgres_admin

        asyncio.run(getattr(postgres_admin, action)(self._url))
