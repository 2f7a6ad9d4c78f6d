"""What a worker and a sweeper say on stderr when their store does not answer, and when they take runs over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.compose import open_store
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from support import commands
from support.servers.postgres import PostgresServer, postgres_server

PATIENCE = 600
FLOWS = """
import time
import outlast as ol

@ol.node
def hang() -> int:
    open("begun", "w").close()
    while True:
        time.sleep(0.02)

@ol.node(repeatable=False)
def pay() -> int:
    open("paying", "w").close()
    while True:
        time.sleep(0.02)

@ol.workflow
async def hanging() -> int:
    return await hang()

@ol.workflow
async def paying() -> int:
    return await pay()

@ol.workflow
async def asking() -> bool:
    return await ol.approve("Ship the lamp?")
"""


class Program:
    """A command of outlast whose stderr is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[str] = []

    def until(self, text: str) -> str:
        """The first line from here on that contains the text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.seen.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not among the lines:\n{''.join(self.seen)}")


@contextmanager
def program(folder: Path, *arguments: str, **variables: str) -> Iterator[Program]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    with commands.Popen(
        [sys.executable, "-m", "outlast", *arguments],
        cwd=folder,
        env=kept | {"COLUMNS": "400"} | variables,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        impatience = threading.Timer(PATIENCE, process.kill)
        impatience.start()
        try:
            yield Program(process)
        finally:
            impatience.cancel()
            process.kill()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "outlast.toml").touch()
    (tmp_path / "flows.py").write_text(FLOWS)
    return tmp_path


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


def down(server: PostgresServer) -> Callable[[], None]:
    """The server is taken down; what is returned brings it back."""
    server.stop(immediately=True)
    return server.start


def frozen(server: PostgresServer) -> Callable[[], None]:
    """The processes of the server stop, first the one that starts the others; what is returned lets them go on."""
    parent = server._pid()
    os.kill(parent, signal.SIGSTOP)
    while "\nState:\tT" not in Path(f"/proc/{parent}/status").read_text():
        time.sleep(0.001)
    pids = [parent, *children(parent)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)

    def go_on() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    return go_on


def children(parent: int) -> list[int]:
    found = [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [int(pid) for pid in found if parent_of(pid) == parent]


def parent_of(pid: str) -> int:
    try:
        return int(Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
@pytest.mark.parametrize("outage", [down, frozen])
def test_a_worker_and_a_sweeper_say_that_their_server_does_not_answer_and_that_it_answers_again(
    project: Path, server: PostgresServer, outage: Callable[[PostgresServer], Callable[[], None]]
) -> None:
    with (
        program(project, "worker", "--app", "flows", "--store", server.url) as worker,
        program(project, "sweeper", "--interval", "0.5", "--store", server.url) as sweeper,
    ):
        worker.until("executes")
        sweeper.until("0 unfinished runs")
        bring_back = outage(server)
        try:
            for each in (worker, sweeper):
                assert "postgresql://" in each.until("has not answered for")
        finally:
            bring_back()
        for each in (worker, sweeper):
            each.until("answers again after")


def create(address: str, *workflows: str) -> None:
    """A run of each, ready for a worker, named like its workflow."""

    async def created() -> None:
        store = open_store(address)
        ledger = Ledger(store)
        for name in workflows:
            await ledger.create_ready(RunId(name), e.RunCreated(workflow=name, entry=f"flows:{name}"))
        await ledger.close()
        await store.close()

    asyncio.run(created())


def is_waiting(address: str) -> bool:
    """Whether the question was asked."""

    async def look() -> bool:
        store = open_store(address)
        found, _ = await store.waits(kind="interaction")
        await store.close()
        return bool(found)

    return asyncio.run(look())


def test_a_worker_that_starts_says_what_it_took_over_what_it_held_and_which_questions_are_open(project: Path) -> None:
    store = str(project / "runs.db")
    create(store, "hanging", "paying", "asking")
    with program(project, "worker", "--app", "flows", "--store", store) as killed:
        killed.until("executes")
        assert killed.until("Recovery complete").startswith("Recovery complete: 0 resumed, 0 held")
        while not ((project / "begun").exists() and (project / "paying").exists() and is_waiting(store)):
            assert killed.process.poll() is None
        killed.process.kill()
        killed.process.wait()
    with program(project, "worker", "--app", "flows", "--store", store) as worker:
        assert worker.until("Recovery complete").strip().endswith("1 resumed, 1 held, 1 questions restored.")
    said = "".join(worker.seen)
    assert "run hanging was interrupted (worker " in said
    assert " died) and is resumed" in said
    assert " died) and is held: node pay was interrupted and must not be repeated before a person decides" in said
    assert "run asking asks: Ship the lamp?" in said
