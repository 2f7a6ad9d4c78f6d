"""An engine without a worker over one run of each kind, in memory and on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from outlast.client import Engine
from outlast.history.ids import RunId
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore
from support import made_runs


class House:
    """A store with runs, and an engine without a worker over it."""

    def __init__(self, store: Any) -> None:
        self.made = made_runs
        self.store = store
        self.maker = self.made.ExecutorFactory(store)
        self.desk = Engine(self.maker.ledger)

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
    """Run a coroutine function over a new store with runs."""
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "runs.db")
    return lambda scene: asyncio.run(_play(store, scene))


@pytest.fixture
def play_in_memory() -> Callable[[Scene], None]:
    """The same, in memory only."""
    return lambda scene: asyncio.run(_play(MemoryStore(), scene))
