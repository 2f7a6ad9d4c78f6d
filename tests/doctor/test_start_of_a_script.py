"""A plain script that takes runs over logs what a worker prints at its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import logging, os, sys, time
import outlast as ol

@ol.node
def first() -> int:
    if not os.path.exists("again"):
        open("again", "w").close()
        os._exit(9)
    return 1

@ol.node(repeatable=False)
def once() -> int:
    return first.fn()

@ol.workflow
def resumed() -> int:
    return first().wait()

@ol.workflow
def held() -> int:
    return once().wait()

if __name__ == "__main__":
    if "log" in sys.argv:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    with ol.open("runs.db") as engine:
        if os.path.exists("again"):
            time.sleep(1)
        else:
            engine.start({"resumed": resumed, "held": held}[sys.argv[1]].options(id="it")).result()
"""


@pytest.mark.parametrize("which", ["resumed", "held"])
@pytest.mark.parametrize("is_configured", [True, False])
def test_a_script_logs_what_it_recovered_and_prints_only_what_is_held(
    tmp_path: Path, which: str, is_configured: bool
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}

    def script(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "script.py", which, *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    assert script().returncode == 9
    done = script("log") if is_configured else script()
    assert done.returncode == 0, done.stderr
    if is_configured:
        assert "run it was interrupted (worker " in done.stderr
        assert f"is {which}" in done.stderr
        counts = "1 resumed, 0 held" if which == "resumed" else "0 resumed, 1 held"
        assert f"outlast.services Recovery complete: {counts}, 0 questions restored." in done.stderr
    elif which == "held":
        assert "and is held" in done.stderr
        assert "Recovery complete" not in done.stderr
    else:
        assert done.stderr == ""
