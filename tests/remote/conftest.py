"""A server in this process and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import served

from support import server_thread
from support.server_thread import ServerThread

assert served, "its workflows are known"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerThread]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("OUTLAST_TOKEN", raising=False)
    with server_thread.served(tmp_path / "runs.db", worker=True) as server:
        yield server
