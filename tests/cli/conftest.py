"""A SQLite file with one run of each kind, and a shell to look at it with."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

from outlast.cli.app import app
from outlast.stores.sqlite import SqliteStore

BESIDE = Path(__file__).parent.with_name("client") / "made_runs.py"


def _made_runs() -> ModuleType:
    """The same runs as the desk's tests: tests are no package."""
    spec = importlib.util.spec_from_file_location("made_runs", BESIDE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Shell:
    """Commands typed in a folder of its own, with a store in `runs.db`."""

    def __init__(self, folder: Path, runs: dict[str, str]) -> None:
        self.folder = folder
        self.store = folder / "runs.db"
        self.runs = runs

    def __call__(self, *arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(app, list(arguments), env=environment or None, prog_name="outlast")

    def damage(self, sql: str, *values: Any) -> None:
        """Write to the file behind Outlast's back."""
        connection = apsw.Connection(str(self.store))
        connection.execute(sql, values)
        assert connection.changes(), "nothing was damaged"
        connection.close()


async def _fill(path: Path, make: Callable[[Any], Any], key: bytes = b"") -> dict[str, str]:
    store = SqliteStore(path)
    maker = _made_runs().Maker(store, key=key)
    await make(maker)
    await maker.finish()
    await store.close()
    return dict(maker.runs)


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Written once, copied for every test."""
    path = tmp_path_factory.mktemp("original") / "runs.db"
    return path, asyncio.run(_fill(path, _made_runs().make_all))


@pytest.fixture
def shell(original: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    path, runs = original
    shutil.copy(path, tmp_path / "runs.db")
    monkeypatch.setenv("OUTLAST_STORE", str(tmp_path / "runs.db"))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, runs)


@pytest.fixture
def fill() -> Callable[..., dict[str, str]]:
    """Make a store of one's own: `fill(path, make)` with a coroutine function that is given the maker."""
    return lambda path, make, key=b"": asyncio.run(_fill(path, make, key))


@pytest.fixture
def all_runs() -> Callable[[Any], Any]:
    make: Callable[[Any], Any] = _made_runs().make_all
    return make
