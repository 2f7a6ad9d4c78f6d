"""Stores that one process after the other opens, for tests in which processes die."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outlast.history.record import Kind
from outlast.store import LANDED, Append, Outcome, Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.testing.faults import Faults

TURNS = 3
"""Turns of the event loop before and after an append in memory."""


class StoreFactory:
    """Makes one store and opens it for one process after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reset(self) -> None:
        """Replace the store by an empty one."""
        raise NotImplementedError

    def open(self) -> Store:
        raise NotImplementedError

    async def after_death(self, store: Store, *, is_reachable: bool) -> None:
        """Announce the death of a process. Its store is closed, unless calls of it are still in flight
        (`is_reachable`)."""
        raise NotImplementedError


class SlowMemoryStore(MemoryStore):
    """The event loop turns a few times during each append, as with a remote server: other tasks run in between."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        outcomes = await super().append(batch)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return outcomes


class MemoryStoreFactory(StoreFactory):
    def reset(self) -> None:
        self.memory = Memory()

    def open(self) -> Store:
        return SlowMemoryStore(self.memory)

    async def after_death(self, store: Store, *, is_reachable: bool) -> None:  # noqa: ARG002
        self.memory.listeners.clear()
        self.memory.workers.clear()


class LateCalls:
    """Delivers the last call of a dead process right after the takeover of its successor was appended."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self.__dict__.update(_store=store, _faults=faults)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes: list[Outcome] = await self._store.append(batch)
        if batch[0].record.kind is Kind.TAKEOVER and outcomes[0] is LANDED:
            await self._faults.deliver_held_back("late")
        return outcomes
