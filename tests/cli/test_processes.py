"""The command as a real process: pipes that break, signals, encodings, and what an import costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from outlast import __version__
from outlast.history import events as e

OUTLAST = [sys.executable, "-m", "outlast"]
PATIENCE = 30


def outlast(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OUTLAST, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )


def test_python_m_outlast_is_the_command(shell: Any) -> None:
    assert outlast("--version").stdout == f"outlast {__version__}\n"
    listed = outlast("ps", "-o", "ids")
    assert (listed.returncode, listed.stdout.split()) == (0, list(reversed(shell.runs.values())))
    assert outlast("ps", "--store", "nowhere.db").returncode == 3


def test_the_script_is_the_same_command(shell: Any) -> None:
    script = Path(sys.executable).with_name("outlast")
    ran = subprocess.run([script, "verify", "--all"], capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 6)


def test_a_terminal_that_lacks_characters_does_not_stop_a_command(shell: Any) -> None:
    ran = outlast("ps", PYTHONIOENCODING="ascii")
    assert ran.returncode == 0, ran.stderr
    assert "\\u201cPublish 12 pages?\\u201d" in ran.stdout
    document = outlast("ps", "-o", "json", PYTHONIOENCODING="ascii").stdout
    assert "Monday’s digest" in document


async def _long(maker: Any) -> None:
    writer = await maker.begin("long", run="long")
    for number in range(200):
        names = [f"{number}-{each}" for each in range(30)]
        await writer.append([e.NodeScheduled(node=name) for name in names])


@pytest.mark.parametrize("output", ["text", "json", "ids"])
def test_a_reader_that_goes_away_is_no_error(output: str, fill: Any, tmp_path: Path) -> None:
    fill(tmp_path / "long.db", _long)
    command = [*OUTLAST, "events", "long", "-o", output, "--store", str(tmp_path / "long.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nothing tells whether the process has come to rest")
def test_ctrl_c_while_a_command_works_ends_it_with_130(shell: Any) -> None:
    """The key comes from a pipe that nobody writes to: once it is open for reading, the command is at work."""
    pipe = shell.folder / "key"
    os.mkfifo(pipe)
    command = [*OUTLAST, "verify", "--all", "--key-file", str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            writer = _opened_for(process.pid, pipe)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
            os.close(writer)
        finally:
            process.kill()
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err


def _opened_for(reader: int, pipe: Path) -> int:
    """The writing end, once the reader has opened its own and sleeps in the read."""
    give_up = time.monotonic() + PATIENCE
    writer = None
    while writer is None or Path(f"/proc/{reader}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < give_up
        with suppress(OSError):  # nobody reads yet
            writer = writer or os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    return writer


def test_importing_outlast_is_light() -> None:
    heavy = ("typer", "rich", "apsw", "asyncio", "msgspec", "outlast.cli", "outlast.stores", "sqlite3", "click")
    code = f"import sys, outlast; print(*[name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.stdout.strip(), ran.stderr) == ("", "")


def test_the_desk_and_the_builder_bring_no_driver_and_no_window() -> None:
    heavy = ("typer", "rich", "apsw", "sqlite3", "outlast.cli", "outlast.stores")
    code = f"import sys, outlast.compose; print(*[name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.stdout.strip(), ran.stderr) == ("", "")


def test_the_window_is_built_only_when_a_command_is_given() -> None:
    code = "import sys, outlast.cli; print(*[name for name in ('typer', 'rich', 'apsw') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.stdout.strip(), ran.stderr) == ("", "")
