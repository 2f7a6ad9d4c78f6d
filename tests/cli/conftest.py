"""A SQLite file with one run of each kind, and a shell to look at it with."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

from outlast.cli.app import app
from outlast.stores.sqlite import SqliteStore
from support import commands, made_runs
from support.server_thread import ServerThread, served

PATIENCE = 120
"""Seconds after which what is waited for will not come."""


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
    maker = made_runs.ExecutorFactory(store, key=key)
    await make(maker)
    await maker.finish()
    await store.close()
    return dict(maker.runs)


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Written once, copied for every test."""
    path = tmp_path_factory.mktemp("original") / "runs.db"
    return path, asyncio.run(_fill(path, made_runs.make_all))


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
def server(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerThread]:
    """A server over the same store, which changes nothing by itself. No command uses it unless it is named."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shell.folder / "config"))
    monkeypatch.delenv("OUTLAST_TOKEN", raising=False)
    with served(shell.store, recover=False) as server:
        yield server


@pytest.fixture(params=["store", "server"])
def anywhere(request: pytest.FixtureRequest, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The shell twice: its commands work on the store, or on a server over it."""
    if request.param == "server":
        server = request.getfixturevalue("server")
        monkeypatch.setenv("OUTLAST_URL", server.url)
        monkeypatch.setenv("OUTLAST_TOKEN", server.tokens["admin"])
    return shell


@pytest.fixture
def fill() -> Callable[..., dict[str, str]]:
    """Make a store of one's own: `fill(path, make)` with a coroutine function that is given the maker."""
    return lambda path, make, key=b"": asyncio.run(_fill(path, make, key))


@pytest.fixture
def all_runs() -> Callable[[Any], Any]:
    make: Callable[[Any], Any] = made_runs.make_all
    return make


class Project:
    """A folder with workflows of its own, and the command as real processes in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("OUTLAST_")}
        for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
            self.environment.pop(name, None)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "outlast", *arguments]

    def __call__(
        self, *arguments: str, stdin: str | None = None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return commands.run(
            self.command(*arguments),
            cwd=folder or self.folder,
            env=self.environment,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
        )

    @contextmanager
    def begun(self, *arguments: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """The command under way; it does not outlive the test."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        command = self.command(*arguments)
        # Unbuffered: a line that is read here takes no others with it.
        with commands.Popen(command, bufsize=0, cwd=self.folder, env=self.environment, **streams) as process:
            try:
                yield process
            finally:
                process.kill()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def until(self, is_so: Callable[[], Any]) -> Any:
        """Wait until something is so, and answer what it was."""
        give_up = time.monotonic() + PATIENCE
        while not (found := is_so()):
            assert time.monotonic() < give_up, "it never came"
            time.sleep(0.02)
        return found

    def until_there(self, name: str) -> None:
        """Wait for a file that a node writes."""
        self.until((self.folder / name).exists)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose module `flows` is beside this file."""
    shutil.copy(Path(__file__).with_name("flows.py"), tmp_path / "flows.py")
    (tmp_path / "outlast.toml").touch()
    return Project(tmp_path)
