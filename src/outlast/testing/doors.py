"""Stores that one process after the other opens, for tests in which processes die."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

from outlast.address import bucket_at
from outlast.history.record import Kind
from outlast.store import LANDED, Append, Outcome, Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.bucket import Bucket, Listed
from outlast.stores.objects.opening import bucket_over, open_bucket
from outlast.stores.sqlite import SqliteStore
from outlast.testing.faults import Faults, hide_locks
from outlast.testing.servers import s3
from outlast.testing.time_skipping import LeapingLoop

TURNS = 3
"""How often the loop turns before and after an append in memory."""


class Door:
    """One store, opened by one process after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def anew(self) -> None:
        """Empty it."""
        raise NotImplementedError

    def open(self) -> Store:
        raise NotImplementedError

    async def bury(self, store: Store, *, is_reachable: bool) -> None:
        """The process is dead, and that is known. What it had open is closed, unless calls of it are still on their way."""
        raise NotImplementedError


class Unhurried(MemoryStore):
    """The loop turns a few times while it writes, as with a server far away: much may happen amid an append."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        outcomes = await super().append(batch)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return outcomes


class MemoryDoor(Door):
    def anew(self) -> None:
        self.memory = Memory()

    def open(self) -> Store:
        return Unhurried(self.memory)

    async def bury(self, store: Store, *, is_reachable: bool) -> None:  # noqa: ARG002
        self.memory.listeners.clear()
        self.memory.workers.clear()


class SqliteDoor(Door):
    """A process's death does not lose what the system has: a power cut is another matter, and so durability is relaxed."""

    number = 0

    def anew(self) -> None:
        shutil.rmtree(self.folder / str(self.number), ignore_errors=True)
        self.number += 1
        (self.folder / str(self.number)).mkdir(parents=True)

    def open(self) -> Store:
        return SqliteStore(self.folder / str(self.number) / "runs.db", durability="relaxed", commit="inline")

    async def bury(self, store: Store, *, is_reachable: bool) -> None:
        if is_reachable:
            hide_locks(store)  # the system has freed them
        else:
            await store.close()


class ObjectsDoor(Door):
    """Objects in memory, behind the adapter that speaks to servers. That a process is dead is known to nobody: its
    successor waits until its time has run out."""

    def anew(self) -> None:
        from obstore.store import MemoryStore as Objects

        self.objects = Objects()

    def open(self) -> Store:
        return ObjectStore(WatchedBucket(bucket_over(self.objects, "memory")))

    async def bury(self, store: Store, *, is_reachable: bool) -> None:
        """Nothing is open between two requests, and whoever is dead says no goodbye."""


class S3Door(ObjectsDoor):
    """Objects on a real server."""

    def anew(self) -> None:
        self.prefix = f"doors/{os.urandom(8).hex()}"

    def open(self) -> Store:
        at = bucket_at(s3.shared().address(self.prefix))
        assert at is not None
        return ObjectStore(WatchedBucket(open_bucket(at)))


class WatchedBucket:
    """Lets a leaping loop know that a request is under way, so that time does not leap over its answer."""

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
    return loop.at_work() if isinstance(loop, LeapingLoop) else nullcontext()


class PostgresDoor(Door):
    """The schema that a URL names. As with SQLite, no power is cut here."""

    def __init__(self, url: str) -> None:
        super().__init__(Path())
        self._url = url

    def anew(self) -> None:
        self._carry_out("empty_store")

    def open(self) -> Store:
        from outlast.stores.postgres import PostgresStore

        store, loop = PostgresStore(self._url, durability="relaxed"), asyncio.get_running_loop()
        if isinstance(loop, LeapingLoop):
            loop.servers.append(lambda: store.in_flight)
        return cast("Store", store)

    async def bury(self, store: Store, *, is_reachable: bool) -> None:
        if not is_reachable:
            await store.close()
            await asyncio.to_thread(self._carry_out, "bury_workers")

    def _carry_out(self, deed: str) -> None:
        """On a loop of its own, where time does not leap."""
        from outlast.testing.servers import postgres_admin

        asyncio.run(getattr(postgres_admin, deed)(self._url))


class LateArrivals:
    """Lets the dead process's last call arrive right after its successor's takeover has landed; `judge` is shown the answers
    that nobody waits for."""

    def __init__(self, store: Store, faults: Faults, judge: Callable[[list[Any]], None] = lambda _: None) -> None:
        self.__dict__.update(_store=store, _faults=faults, _judge=judge)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes: list[Outcome] = await self._store.append(batch)
        if batch[0].record.kind is Kind.TAKEOVER and outcomes[0] is LANDED:
            self._judge(await self._faults.deliver_held_back("late"))
        return outcomes
