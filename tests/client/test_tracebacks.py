"""The traceback that Python prints of a run that failed shows the user's code alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
import outlast as ol

@ol.node(run_in="thread")
def broken() -> None:
    helper()

def helper() -> None:
    raise ValueError("no")

@ol.workflow
async def flow() -> None:
    await broken()

async def awaited() -> None:
    async with ol.open("memory:") as engine:
        handle = await engine.start(flow)
        await handle.result()

def blocking() -> None:
    with ol.open("memory:") as engine:
        engine.result(engine.start(flow).run)

"""


@pytest.mark.parametrize("way", ["ol.run(flow)", "asyncio.run(awaited())", "blocking()"])
def test_a_traceback_of_a_failed_node_names_no_file_of_outlast(tmp_path: Path, way: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + way)
    done = subprocess.run([sys.executable, program.name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    files = re.findall(r'File "(.*?)", line \d+, in (.*)', done.stderr)
    own = [name for file, name in files if file == str(program)]
    assert done.returncode == 1
    assert own[0] == "<module>"
    assert own[-3:] == ["flow", "broken", "helper"]
    assert [file for file, _ in files if "outlast" in file] == []
    assert done.stderr.rstrip().endswith("ValueError: no")


def test_an_error_that_is_not_of_a_run_is_printed_as_always(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "try:\n    ol.run(flow)\nexcept ValueError:\n    pass\nol.run(5)")
    done = subprocess.run([sys.executable, program.name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "compose.py" in done.stderr
    assert "5 is not a workflow" in done.stderr
