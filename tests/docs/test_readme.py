"""What the README tells a newcomer to type works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def commands() -> list[list[str]]:
    """The commands of the console blocks, with the interpreter and paths of this checkout; `make` is tested by itself."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    typed = [shlex.split(line) for line in lines if not line.startswith("make ")]
    known = {".venv/bin/python": [sys.executable], ".venv/bin/outlast": [sys.executable, "-m", "outlast"]}
    return [[*known[words[0]], *(_here(word) for word in words[1:])] for words in typed]


def _here(word: str) -> str:
    return str(ROOT / word) if word.startswith("examples/") else word


def test_the_readme_takes_a_newcomer_from_an_example_to_a_proved_log(tmp_path: Path) -> None:
    told = [
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
        for command in commands()
    ]
    example, listed, events, verified = told
    assert "is completed" in example
    assert "order-1" in listed
    assert "RunTakenOver" in events
    assert verified.startswith("ok")


def test_every_example_is_named_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in (ROOT / "examples").glob("*.py") if path.name not in readme] == []
