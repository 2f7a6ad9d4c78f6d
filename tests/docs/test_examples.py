"""Every example runs as it stands, ends by itself, and is listed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import commands

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 600
"""Seconds until a program that does not end is given up."""
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_and_says_something(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / name)]
    done = commands.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    said = [line for line in done.stderr.splitlines() if not (name == "one_run.py" and "was taken over" in line)]
    assert (done.returncode, said) == (0, [])
    assert done.stdout.strip()
    proved = commands.run(
        [sys.executable, "-m", "outlast", "verify", "--all"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert proved.returncode == 0, proved.stdout


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in listed] == []
