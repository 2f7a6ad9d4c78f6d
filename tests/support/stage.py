"""A stage for workflows: engines over one SQLite file, that can be abandoned in mid-work and followed by others.

Tests here may be coroutines; each has a loop of its own and a patience after which it has failed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
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
            if vars(runner)["_interrupt_count"]:  # a person's
                raise
            ended_by = repr(error)
    assert not ended_by, f"the loop of the engine was ended by {ended_by}"
    return True


class Stage:
    """One file, and the engines opened over it."""

    def __init__(self, folder: Path, faults: list[tuple[Any, Faults]]) -> None:
        self.file = folder / "runs.db"
        self._made = faults
        self._open: dict[int, tuple[Any, Any, Faults]] = {}

    async def engine(self, **options: Any) -> ol.Engine:
        """An engine that works until it is closed, crashes, or the test ends."""
        opening = ol.open(self.file, **options)
        client = await opening.__aenter__()
        store, faults = self._made[-1]
        self._open[id(client)] = (opening, store, faults)
        return client

    async def close(self, client: ol.Engine) -> None:
        """Close it in good order."""
        opening, _, _ = self._open.pop(id(client))
        await opening.__aexit__(None, None, None)

    async def crash(self, client: ol.Engine) -> None:
        """From now on nothing it does reaches the store, as if its process were dead; then it is cleared away."""
        opening, store, faults = self._open.pop(id(client))
        faults.is_dead = True
        with suppress(Died):
            await opening.__aexit__(None, None, None)
        await store.close()

    async def clear(self) -> None:
        for opening, store, faults in list(self._open.values()):
            if faults.is_dead:
                with suppress(Died):
                    await opening.__aexit__(None, None, None)
                await store.close()
            else:
                await opening.__aexit__(None, None, None)
        self._open.clear()

    def faults(self, client: ol.Engine) -> Faults:
        """The counter of an engine's calls to the store."""
        return self._open[id(client)][2]

    @staticmethod
    def forget(*names: str) -> dict[str, Any]:
        """Let the process know no workflow any more, or not these; returns what it knew."""
        known = dict(registry._workflows)
        for name in names or known:
            registry._workflows.pop(name, None)
        return known

    @staticmethod
    def know(known: dict[str, Any]) -> None:
        """Let the process know these workflows and no others."""
        registry._workflows.clear()
        registry._workflows.update(known)

    # --- looking

    @staticmethod
    async def events(client: Any, run: str) -> list[e.AnyEvent]:
        return [entry.event async for entry in client.events(run)]

    @staticmethod
    async def until(client: Any, run: str, is_it: type | Callable[[Any], bool], *, after: int = 0) -> Entry:
        """The first event after `after` that is of a type, or that fits."""
        async with aclosing(client.watch(run, after=after)) as entries:
            entry: Entry
            async for entry in entries:
                if isinstance(entry.event, is_it) if isinstance(is_it, type) else is_it(entry.event):
                    return entry
        raise AssertionError(f"run {run} ended without it")

    @staticmethod
    async def is_sound(client: Any, run: str) -> bool:
        """Whether the log proves itself."""
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
    """The process knows no workflows but those that a test defines."""
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
