"""Opens stores for tests."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from outlast.store import Store

TIMEOUT_S = 60.0
"""Timeout of one test in seconds."""

OpenStore: TypeAlias = Callable[[Path], Awaitable[Store]]


class Doors:
    """The connections of one test to the same data, each like that of a separate process."""

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
        """Close a connection, then open another one to the same data."""
        await self.close(store)
        return await self.open()

    async def close(self, store: Store) -> None:
        self._open = [each for each in self._open if each is not store]
        await store.close()

    async def close_all(self) -> None:
        while self._open:
            await self._open.pop().close()

    def let_pass(self, seconds: float) -> None:
        """Advance the clock of all stores."""
        self._skew += int(seconds * 1_000_000)
        for store in self._open:
            store.skew = self._skew


class Contract:
    """The base class of all parts of the suite. pytest runs each `async def test_…` of a subclass as a plain test: its
    argument `doors` is the `Doors` of the test, every other one a connection. `put_time_unit` is the resolution, in seconds,
    of the time at which a blob was put."""

    put_time_unit = 0.02

    def __init_subclass__(cls) -> None:
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(test):
                setattr(cls, name, _plain(test))

    async def open_store(self, where: Path) -> Store:
        """Open a connection to the data in the folder `where`, which is empty at first."""
        raise NotImplementedError("implement `open_store` to open your store")

    async def rewrite_version(self, where: Path, version: int) -> None:
        """Write another version of the store format into the data in the folder `where`."""
        raise NotImplementedError("implement `rewrite_version`: write the version where your store reads it")


def _plain(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[Contract, Path], None]:
    """Convert a test coroutine into a plain test."""

    def run(self: Contract, tmp_path: Path) -> None:
        asyncio.run(_run(partial(test, self), Doors(self.open_store, tmp_path)))

    # Not functools.wraps: pytest would then inspect `test` and require a fixture named `doors`.
    run.__name__, run.__qualname__ = test.__name__, test.__qualname__
    run.__doc__, run.__module__ = test.__doc__, test.__module__
    return run


async def _run(test: Callable[..., Coroutine[Any, Any, None]], doors: Doors) -> None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            names = inspect.signature(test).parameters
            await test(**{name: doors if name == "doors" else await doors.open() for name in names})
    finally:
        await doors.close_all()
