"""`outlast export`: whole runs as lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outlast.history.record import follows, genesis
from outlast.testing.recorded import remembered


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
