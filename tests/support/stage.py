"""Engines over one SQLite file that tests can close, kill and replace.

Test functions may be coroutines; each runs in its own event loop and fails after a timeout.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast import compose
from outlast.functions import registry
from outlast.history import events as e
from outlast.history.record import Entry
from outlast.testing.faults import Died, Faults, faulty

PATIENCE = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def whole() -> None:
        stage: Any = arguments.get("stage")
        try:
            async with asyncio.timeout(PATIENCE):
                await pyfuncitem.obj(**arguments)
        finally:
            if stage is not None:
                await stage.clear()

    ended_by = ""
    with asyncio.Runner() as runner:
        try:
            runner.run(whole())
        except (SystemExit, KeyboardInterrupt) as error:
            if vars(runner)["_interrupt_count"]:  # Ctrl-C
                raise
            ended_by = repr(error)
    assert not ended_by, f"the loop of the engine was ended by {ended_by}"
    return True


class Stage:
    """One store file, and the engines opened over it."""

    def __init__(self, folder: Path, faults: list[tuple[Any, Faults]]) -> None:
        self.file = folder / "runs.db"
        self._made = faults
        self._open: dict[int, tuple[Any, Any, Faults]] = {}

    async def engine(self, **options: Any) -> ol.Engine:
        """An engine that runs until it is closed, is killed, or the test ends."""
        opening = ol.open(self.file, **options)
        client = await opening.__aenter__()
        store, faults = self._made[-1]
        self._open[id(client)] = (opening, store, faults)
        return client

    async def close(self, client: ol.Engine) -> None:
        """Close an engine in good order."""
        await self._end(id(client))

    async def crash(self, client: ol.Engine) -> None:
        """Kill an engine: none of its later calls reaches the store, as if its process were dead. Then end its
        tasks."""
        self.faults(client).is_dead = True
        await self._end(id(client))

    async def clear(self) -> None:
        for name in list(self._open):
            await self._end(name)

    async def _end(self, name: int) -> None:
        opening, store, faults = self._open.pop(name)
        try:
            await opening.__aexit__(None, None, None)
        except Died:
            if not faults.is_dead:
                raise
        if faults.is_dead:
            await store.close()

    def faults(self, client: ol.Engine) -> Faults:
        """The counter of an engine's store calls."""
        return self._open[id(client)][2]

    @staticmethod
    def forget(*names: str) -> dict[str, Any]:
        """Remove these workflows (default: all) from the registry; returns the previous registry."""
        known = dict(registry._workflows)
        for name in names or known:
            registry._workflows.pop(name, None)
        return known

    @staticmethod
    def know(known: dict[str, Any]) -> None:
        """Set the registry to these workflows."""
        registry._workflows.clear()
        registry._workflows.update(known)

    # --- reading

    @staticmethod
    async def events(client: Any, run: str) -> list[e.AnyEvent]:
        return [entry.event async for entry in client.events(run)]

    @staticmethod
    async def until(client: Any, run: str, is_it: type | Callable[[Any], bool], *, after: int = 0) -> Entry:
        """The first event after `after` of this type, or for which the function returns True."""
        async with aclosing(client.watch(run, after=after)) as entries:
            entry: Entry
            async for entry in entries:
                if isinstance(entry.event, is_it) if isinstance(is_it, type) else is_it(entry.event):
                    return entry
        raise AssertionError(f"run {run} ended without it")

    @staticmethod
    async def is_sound(client: Any, run: str) -> bool:
        """Whether `verify` finds no violation."""
        verification = await client.verify(run)
        assert not verification.violations, verification.violations
        return True

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[ol.Engine]:
        client = await self.engine(**options)
        try:
            yield client
        finally:
            if id(client) in self._open:
                await self.close(client)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A `Stage` whose process knows only the workflows that the test defines."""
    made: list[tuple[Any, Faults]] = []
    open_settled = compose.open_settled

    def opened(*args: Any, **named: Any) -> Any:
        store = open_settled(*args, **named)
        wrapped, faults = faulty(store)
        made.append((store, faults))
        return wrapped

    monkeypatch.setattr(compose, "open_settled", opened)
    monkeypatch.chdir(tmp_path)
    known = Stage.forget()
    yield Stage(tmp_path, made)
    Stage.know(known)
