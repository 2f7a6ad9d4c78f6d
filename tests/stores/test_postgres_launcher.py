"""The server that tests bring along leaves nothing behind, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.servers.postgres import postgres_server

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
STARTED = """
import time
from support.servers.postgres import postgres_server
with postgres_server() as server:
    print(server._pid(), server._folder, flush=True)
    time.sleep(600)
"""


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone_soon(pid: int) -> bool:
    give_up = time.monotonic() + 30
    while is_there(pid) and time.monotonic() < give_up:
        time.sleep(0.02)
    return not is_there(pid)


def test_a_server_goes_when_its_tests_are_over() -> None:
    with postgres_server() as server:
        pid, folder = server._pid(), server._folder
        assert is_there(pid)
    assert gone_soon(pid)
    assert not folder.exists()


def test_a_server_goes_when_its_tests_are_killed() -> None:
    tests = subprocess.Popen([sys.executable, "-c", STARTED], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert tests.stdout is not None
    pid, _, folder = tests.stdout.readline().strip().partition(" ")
    tests.send_signal(signal.SIGKILL)
    tests.wait()
    tests.stdout.close()
    assert gone_soon(int(pid))
    temporary = next(path for path in (Path(folder), *Path(folder).parents) if path.name.startswith("outlast-pg-"))
    subprocess.run(["rm", "-rf", str(temporary)], check=True)
