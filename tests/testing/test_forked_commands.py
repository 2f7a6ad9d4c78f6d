"""A program that is forked from a warm process behaves as one that is started: streams, folder, variables, signals, exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from support import commands

TELLING = """
import os, sys
print(sys.argv, os.getcwd(), os.environ["X"], sys.path[0], __name__, sys.stdin.read())
sys.exit(3)
"""
SLEEPING = "import os, time; print('up', os.getpid(), flush=True); time.sleep(60)"
SHELL = """
python sleeping.py > said &
until grep -q up said; do sleep 0.01; done
kill -9 $!
wait $!
echo $?
python -c 'exit(5)'
"""
both = pytest.mark.parametrize("how", [subprocess, commands], ids=["started", "forked"])


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "telling.py").write_text(TELLING)
    (tmp_path / "sleeping.py").write_text(SLEEPING)
    return tmp_path


def test_a_forked_program_is_forked() -> None:
    parent = [sys.executable, "-c", "import os; print(os.getppid())"]
    assert int(commands.run(parent, capture_output=True, text=True).stdout) != os.getpid()
    assert int(subprocess.run(parent, capture_output=True, text=True).stdout) == os.getpid()


@pytest.mark.parametrize("program", [["telling.py", "a b"], ["-c", TELLING, "a b"]], ids=["script", "code"])
def test_it_sees_what_a_started_one_sees(program: list[str], scripts: Path) -> None:
    told = [
        how.run(
            [sys.executable, *program],
            input="ü",
            cwd=scripts,
            env={**os.environ, "X": "1"},
            capture_output=True,
            text=True,
        )
        for how in (subprocess, commands)
    ]
    assert told[0].stdout
    assert [(each.returncode, each.stdout, each.stderr) for each in told] == [(3, told[0].stdout, "")] * 2


@both
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -2), (signal.SIGKILL, -9), (signal.SIGTERM, -15)])
def test_signals_end_it(how: ModuleType, number: int, code: int, scripts: Path) -> None:
    with how.Popen(
        [sys.executable, "sleeping.py"], cwd=scripts, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout.readline().startswith(b"up")
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(30) == code


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="nothing tells whether a process is there")
def test_what_a_shell_starts_ends_with_the_shells_process(scripts: Path) -> None:
    """`kill -9 $!` ends the program itself, and `$?` is its code."""
    variables, passed = commands.programs(scripts / "programs")
    ran = subprocess.run(
        ["bash", "-c", SHELL],
        cwd=scripts,
        env={**os.environ, **variables},
        pass_fds=passed,
        capture_output=True,
        text=True,
    )
    assert (ran.stdout, ran.returncode) == ("137\n", 5)
    pid = int((scripts / "said").read_text().split()[1])
    give_up = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < give_up, "it outlived the process that the shell has killed"
        time.sleep(0.01)
