"""A desk over one run of each kind, on memory and on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from outlast.client import Reader
from outlast.history.ids import RunId
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore
from support import made_runs


class House:
    """A store with runs in it, and the desk over it."""

    def __init__(self, store: Any) -> None:
        self.made = made_runs
        self.store = store
        self.desk = Reader(store)
        self.maker = self.made.ExecutorFactory(store)

    @property
    def runs(self) -> dict[str, RunId]:
        return self.maker.runs


Scene = Callable[[House], Awaitable[None]]


async def _play(store: Any, scene: Scene) -> None:
    house = House(store)
    try:
        await house.made.make_all(house.maker)
        await scene(house)
    finally:
        await house.maker.finish()
        await store.close()


@pytest.fixture(params=["memory", "sqlite"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scene], None]:
    """Play a scene in a house of its own."""
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "runs.db")
    return lambda scene: asyncio.run(_play(store, scene))


@pytest.fixture
def play_in_memory() -> Callable[[Scene], None]:
    """The same where the scene reaches into the store."""
    return lambda scene: asyncio.run(_play(MemoryStore(), scene))
