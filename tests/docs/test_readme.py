"""What the README tells a newcomer to type works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()

PACE = "asyncio.sleep(0.3)"
HALF_WAY = "& sleep 2; kill -9 $!"
"""What goes by the clock there, and here by the run: it is killed while it packs the sixth parcel, on any machine."""


def by_the_run(text: str) -> str:
    """The README's text with a pace that waits to be killed, and then waits for nothing more."""
    until_killed = "until grep -qs 'packing 5' first.txt; do sleep 0.05; done"
    text = text.replace(PACE, "asyncio.sleep(0 if parcel != 5 or __import__('os').path.exists('killed') else 3600)")
    return text.replace(HALF_WAY, f"> first.txt & {until_killed}; touch killed; kill -9 $!; cat first.txt")


def script() -> str:
    """All that is to be typed, in order, as one script; `make` verbs are tested by themselves. A block of Python with a
    title is a file to be written there."""
    assert PACE in README
    assert HALF_WAY in README
    lines = []
    for language, title, block in re.findall(r"```(\w+)(?: title=\"(.*?)\")?\n(.*?)```", by_the_run(README), re.DOTALL):
        if language == "console":
            typed = [line.removeprefix("$ ") for line in block.splitlines()]
            lines += [line for line in typed if not line.startswith(("make ", "source "))]
        elif title:
            lines.append(f"cat > {title} <<'END'\n{block}END")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    done = subprocess.run(
        ["bash", "-c", script()], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_newcomer_kills_a_workflow_and_it_goes_on_where_it_was(told: str) -> None:
    before_going_back = re.split(r"^ok", told, maxsplit=1, flags=re.MULTILINE)[0]
    packed = [int(each) for each in re.findall(r"packing (\d+)", before_going_back)]
    assert packed == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9], "only what was in flight is done again"


def test_what_happened_is_listed_shown_and_proved(told: str) -> None:
    assert "monday" in told
    assert "RunTakenOver" in told
    assert re.search(r"^ok", told, re.MULTILINE)


def test_every_example_is_named_in_the_readme() -> None:
    assert [path.name for path in (ROOT / "examples").glob("*.py") if path.name not in README] == []
