"""`outlast export`: whole runs as lines of JSON."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.history.record import follows, genesis
from outlast.testing.recorded_runs import remembered


@pytest.fixture
def run(shell: Any) -> str:
    return next(iter(shell.runs.values()))


def test_it_writes_every_record_as_it_is_stored(shell: Any, run: str) -> None:
    answer = shell("export", run)
    assert answer.exit_code == 0, answer.output
    (log,) = remembered(answer.stdout.splitlines()).logs.values()
    previous = genesis(run)
    for record in log:
        assert follows(record, previous)
        previous = record.digest


def test_several_runs_may_share_a_file_that_is_not_there_yet(shell: Any) -> None:
    some = list(shell.runs.values())[:3]
    assert shell("export", *some, "--to", "runs.jsonl").exit_code == 0
    written = Path("runs.jsonl").read_text()
    assert {json.loads(line)["run"] for line in written.splitlines()} == set(some)
    again = shell("export", some[0], "--to", "runs.jsonl")
    assert (again.exit_code, "could not write to" in again.stderr) == (2, True)
    assert Path("runs.jsonl").read_text() == written


def test_a_run_that_is_not_there_leaves_no_file(shell: Any, run: str) -> None:
    answer = shell("export", run, "nobody", "--to", "runs.jsonl")
    assert answer.exit_code == 2
    assert "there is no run nobody" in answer.stderr
    assert not Path("runs.jsonl").exists()


class Full:
    """A file on a disk that is full after so many bytes, which it says when they are flushed."""

    def __init__(self, file: Any, room: int) -> None:
        self._file = file
        self._room = room

    def write(self, line: bytes) -> None:
        self._room -= len(line)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.write(line)

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        self._file.close()
        self.flush()


@pytest.mark.parametrize("room", [0, 300, 10**9])
def test_a_disk_that_is_full_is_told_and_leaves_no_file(
    shell: Any, run: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        file = opened(path, mode, *rest, **more)
        return Full(file, room) if "x" in mode else file

    monkeypatch.setattr(Path, "open", full)
    answer = shell("export", run, "--to", "runs.jsonl")
    assert answer.exit_code == 3
    assert "could not write to 'runs.jsonl': No space left on device; the partial file was removed" in " ".join(
        answer.stderr.split()
    )
    assert not list(Path().glob("*runs.jsonl*"))


def test_a_log_that_does_not_read_leaves_no_file(shell: Any, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> Any:
        yield b"{}"
        raise Damaged("it does not read", run=RunId(run), seq=1)

    monkeypatch.setattr("outlast.cli.export.exported", broken)
    assert shell("export", run, "--to", "runs.jsonl").exit_code == 1
    assert not list(Path().glob("*runs.jsonl*"))


def test_a_file_that_somebody_else_has_made_meanwhile_is_not_replaced(
    shell: Any, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_: Any) -> Any:
        Path("runs.jsonl").write_text("theirs")
        yield b"{}"

    monkeypatch.setattr("outlast.cli.export.exported", slow)
    assert shell("export", run, "--to", "runs.jsonl").exit_code == 2
    assert Path("runs.jsonl").read_text() == "theirs"
