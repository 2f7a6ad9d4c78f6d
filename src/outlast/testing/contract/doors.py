"""How a test comes by the stores it looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from outlast.store import Store

PATIENCE = 60.0
"""Seconds after which a test of a store that hangs is given up."""

OpenStore: TypeAlias = Callable[[Path], Awaitable[Store]]


class Doors:
    """The doors one test opens to the same data, each as if by a process of its own."""

    def __init__(self, open_store: OpenStore, where: Path) -> None:
        self._open_store = open_store
        self.where = where
        self._open: list[Store] = []
        self._skew = 0

    async def open(self) -> Store:
        store = await self._open_store(self.where)
        store.skew = self._skew
        self._open.append(store)
        return store

    async def reopen(self, store: Store) -> Store:
        """Close this door, then open another to the same data."""
        await self.close(store)
        return await self.open()

    async def close(self, store: Store) -> None:
        self._open = [each for each in self._open if each is not store]
        await store.close()

    async def close_all(self) -> None:
        while self._open:
            await self._open.pop().close()

    def let_pass(self, seconds: float) -> None:
        """Time goes by for the store, not for us."""
        self._skew += int(seconds * 1_000_000)
        for store in self._open:
            store.skew = self._skew


class Contract:
    """The root of every part of the suite."""

    async def open_store(self, where: Path) -> Store:
        """A door to the data kept at `where`, which is a folder; nothing is there at first."""
        raise NotImplementedError("say how your store is opened")


Part = TypeVar("Part", bound=Contract)


def with_doors(test: Callable[[Part, Doors], Coroutine[Any, Any, None]]) -> Callable[[Part, Path], None]:
    """Make a plain test of one that is written as a coroutine and opens doors."""

    def played(self: Part, tmp_path: Path) -> None:
        asyncio.run(_play(lambda doors: test(self, doors), Doors(self.open_store, tmp_path)))

    # Not functools.wraps: pytest would look through it and ask for a fixture named `doors`.
    played.__name__, played.__qualname__ = test.__name__, test.__qualname__
    played.__doc__, played.__module__ = test.__doc__, test.__module__
    return played


async def _play(test: Callable[[Doors], Coroutine[Any, Any, None]], doors: Doors) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await test(doors)
    finally:
        await doors.close_all()
