"""mypy and pyright understand calls, results and handles, and find mistakes in them: each reads `right.py` and `wrong.py`,
where a type that is not the one asserted, a mistake that is not found and an ignore that is not needed are errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = ("right.py", "wrong.py")


def _checked(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", FILES)
def test_mypy_understands_workflows(file: str, tmp_path: Path) -> None:
    _checked(sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--strict", str(HERE / file))


@pytest.mark.release
@pytest.mark.skipif(shutil.which("node") is None, reason="pyright runs on Node")
@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_pyright_understands_workflows(python: str) -> None:
    _checked(
        sys.executable, "-m", "pyright", "-p", str(HERE), "--pythonpath", sys.executable, "--pythonversion", python
    )
