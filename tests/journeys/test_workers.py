"""`outlast worker` as real processes on real stores: they share the work, take over from the dead, and leave in good order
(P1, P2, P3)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.client import Engine
from outlast.compose import open_store
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.verification import verify
from outlast.lifecycle.status import RunStatus
from outlast.store import RunFilter
from support import commands

PATIENCE = 60
FLOWS = """
import asyncio, os, time
from pathlib import Path
import outlast as ol

def mark(text):
    notes = os.open("notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(notes, f"{text}\\n".encode())
    os.close(notes)

@ol.node
async def step(number: int) -> int:
    mark(f"{ol.idempotency_key()}")
    await asyncio.sleep(0.005)
    return number

@ol.node
async def gate(name: str) -> str:
    mark(f"at {name}")
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    mark(f"through {name}")
    return name

@ol.node
async def careful() -> int:
    done = ol.last_checkpoint(0)
    mark(f"from {done}")
    for number in range(done, 1000):
        await asyncio.sleep(0.05)
        await ol.checkpoint(number + 1)
        if Path("open").exists():
            break
    return 1

@ol.node
def stuck() -> int:
    mark("stuck")
    time.sleep(300)
    return 1

@ol.workflow
async def chores(count: int) -> int:
    return sum([await step(number) for number in range(count)])

@ol.workflow
async def errand(count: int) -> int:
    return await step(count)

@ol.workflow
async def gated(name: str) -> str:
    return f"{await gate(name)} {await step(1)}"

@ol.workflow
async def caring() -> int:
    return await careful()

@ol.workflow
async def hanging() -> int:
    return await stuck()
"""


class Fleet:
    """A project, a store, and the workers that advance its runs."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        (folder / "outlast.toml").touch()
        (folder / "flows.py").write_text(FLOWS)
        (folder / "others.py").write_text(
            "import outlast as ol\n@ol.workflow\nasync def stranger() -> int:\n    return 1\n"
        )
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        self.environment = kept | {"COLUMNS": "200"}

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return commands.run(
            [sys.executable, "-m", "outlast", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    @contextmanager
    def worker(self, *arguments: str, claim: float = 30, app: str = "flows") -> Iterator[subprocess.Popen[str]]:
        """A worker at work; it does not outlive the test."""
        with commands.Popen(
            [sys.executable, "-m", "outlast", "worker", "--app", app, "--store", self.store, *arguments],
            cwd=self.folder,
            env=self.environment | {"OUTLAST_CLAIM": str(claim)},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stderr is not None
                line = process.stderr.readline()
                assert " executes " in line, line + process.stderr.read()
                yield process
            finally:
                process.kill()

    def notes(self) -> list[str]:
        notes = self.folder / "notes"
        return notes.read_text().splitlines() if notes.exists() else []

    def until(self, is_so: Callable[[], Any]) -> Any:
        give_up = time.monotonic() + PATIENCE
        while not (found := is_so()):
            assert time.monotonic() < give_up, "it never came"
            time.sleep(0.02)
        return found

    # --- what the log says

    def start(self, workflow: str, *runs: str, params: str = "{}") -> None:
        from msgspec import Raw

        async def started() -> None:
            store = open_store(self.store)
            ledger = Ledger(store)
            created = e.RunCreated(workflow=workflow, params=Raw(params.encode()), entry=f"flows:{workflow}")
            await asyncio.gather(*(ledger.create_ready(RunId(run), created) for run in runs))
            await ledger.close()
            await store.close()

        asyncio.run(started())

    def ask(self, act: Callable[[Engine], Any]) -> Any:
        async def asked() -> Any:
            store = open_store(self.store)
            ledger = Ledger(store)
            desk = Engine(ledger)
            try:
                return await act(desk)
            finally:
                await desk._leave()
                await ledger.close()
                await store.close()

        return asyncio.run(asked())

    def is_completed(self, *runs: str) -> bool:
        async def look(desk: Engine) -> bool:
            found = [(await desk.get(RunId(run))).status for run in runs]
            return all(status is RunStatus.COMPLETED for status in found)

        return bool(self.ask(look))

    def must_be_sound(self, *runs: str) -> None:
        async def look(desk: Engine) -> None:
            for run in runs:
                proof = await verify(desk._store, RunId(run))
                assert proof.is_sound, proof.violations

        self.ask(look)

    def stands(self, run: str) -> tuple[bool, bool, RunStatus]:
        """Whether it is ready, whether somebody holds it, and its status."""

        async def look(desk: Engine) -> tuple[bool, bool, RunStatus]:
            head = await desk._store.head(RunId(run))
            assert head is not None
            held = await desk._store.holding(RunId(run))
            return head.ready, held is not None, (await desk.get(RunId(run))).status

        found: tuple[bool, bool, RunStatus] = self.ask(look)
        return found


@pytest.fixture
def local(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, str(tmp_path / "runs.db"))


@pytest.fixture(params=["sqlite", "postgres", "s3"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Fleet:
    if request.param == "postgres":
        return Fleet(tmp_path, request.getfixturevalue("postgres_url"))
    if request.param == "s3":
        from support.servers import s3

        return Fleet(tmp_path, s3.shared().address(f"workers/{tmp_path.name}"))
    return Fleet(tmp_path, str(tmp_path / "runs.db"))


def test_what_a_killed_worker_held_goes_on_within_a_claim_and_a_drained_one_gives_its_runs_back(fleet: Fleet) -> None:
    """One journey on each store: two workers share what there is; one is killed, one is told to leave."""
    claim = 10 if fleet.store.startswith("s3:") else 3
    fleet.start("gated", "held", params='{"name": "held"}')
    with fleet.worker("--concurrency", "5", claim=claim) as first:
        fleet.until(lambda: "at held" in fleet.notes())
        shown = json.loads(fleet.command("workers", "--store", fleet.store, "-o", "json").stdout)
        assert [(each["live"], each["runs"]) for each in shown["workers"] if each["runs"]] == [(True, ["held"])]
        with fleet.worker("--concurrency", "5", "--grace", "0.3", claim=claim) as second:
            os.kill(first.pid, signal.SIGKILL)
            died = time.monotonic()
            fleet.until(lambda: fleet.notes().count("at held") == 2)
            taken = time.monotonic() - died
            assert taken < claim + 4, f"taken over after {taken:.1f} s: the claim lasted {claim}, a look takes a second"
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE) == 0
    assert fleet.stands("held") == (True, False, RunStatus.RUNNING)
    (fleet.folder / "open").touch()
    names = [f"chore-{number}" for number in range(10)]
    fleet.start("chores", *names, params='{"count": 3}')
    with fleet.worker("--concurrency", "4") as third, fleet.worker("--concurrency", "4"):
        fleet.until(lambda: fleet.is_completed("held", *names))
        third.send_signal(signal.SIGTERM)
        assert third.wait(PATIENCE) == 0
    fleet.must_be_sound("held", *names)
    steps = [line for line in fleet.notes() if "/" in line]
    assert len(steps) == len(set(steps)) == 31, "no completed node was done again"


def test_a_draining_worker_lets_nodes_end_and_begins_no_others(local: Fleet) -> None:
    local.start("gated", "one", params='{"name": "one"}')
    with local.worker("--grace", "30") as worker:
        local.until(lambda: "at one" in local.notes())
        worker.send_signal(signal.SIGTERM)
        assert worker.stderr is not None
        assert any("stopping" in line for line in worker.stderr), "it says that it leaves"
        local.start("errand", "new", params='{"count": 1}')
        (local.folder / "open").touch()
        assert worker.wait(PATIENCE) == 0
    assert local.notes() == ["at one", "through one"], "the next node and the next run were left to others"
    assert local.stands("one") == (True, False, RunStatus.RUNNING)
    assert local.stands("new") == (True, False, RunStatus.CREATED)
    with local.worker():
        local.until(lambda: local.is_completed("one", "new"))
    assert local.notes().count("at one") == 1, "it had completed"


def test_a_node_that_is_at_a_checkpoint_ends_there_and_goes_on_from_it(local: Fleet) -> None:
    local.start("caring", "one")
    with local.worker("--grace", str(10 * PATIENCE)) as worker:
        local.until(lambda: "from 0" in local.notes())
        time.sleep(0.3)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0, "it did not wait for the grace time"
    (local.folder / "open").touch()
    with local.worker():
        local.until(lambda: local.is_completed("one"))
    assert local.notes()[0] == "from 0"
    assert int(local.notes()[1].split()[1]) > 0


def test_a_thread_that_does_not_end_does_not_keep_the_worker(local: Fleet) -> None:
    local.start("hanging", "one")
    with local.worker("--grace", "0.5") as worker:
        local.until(lambda: "stuck" in local.notes())
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    assert local.stands("one")[:2] == (True, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_leaves_at_once(number: signal.Signals, local: Fleet) -> None:
    local.start("gated", "one", params='{"name": "one"}')
    with local.worker("--grace", str(10 * PATIENCE)) as worker:
        local.until(lambda: "at one" in local.notes())
        worker.send_signal(number)
        assert worker.stderr is not None
        assert any("stopping" in line for line in worker.stderr), "it says that it leaves"
        worker.send_signal(number)
        assert worker.wait(PATIENCE) == 128 + number
    (local.folder / "open").touch()
    with local.worker():
        local.until(lambda: local.is_completed("one"))


def test_a_worker_takes_only_what_its_code_knows(local: Fleet) -> None:
    local.start("chores", "known", params='{"count": 1}')
    local.start("stranger", "unknown")
    with local.worker():
        local.until(lambda: local.is_completed("known"))
        time.sleep(1.2)
        assert local.stands("unknown") == (True, False, RunStatus.CREATED)
        with local.worker(app="others"):
            local.until(lambda: local.is_completed("unknown"))


@pytest.mark.parametrize("many", [1000, pytest.param(5000, marks=pytest.mark.soak)])
def test_many_runs_of_one_workflow_do_not_keep_another_waiting(many: int, local: Fleet) -> None:
    local.start("chores", *(f"many-{number:04}" for number in range(many)), params='{"count": 3}')
    local.start("errand", "zzz-1", "zzz-2", params='{"count": 1}')
    with local.worker("--concurrency", "4"):
        local.until(lambda: local.is_completed("zzz-1", "zzz-2"))

        async def done(desk: Engine) -> int:
            return len((await desk._store.search(RunFilter(statuses=(RunStatus.COMPLETED,), limit=many + 2))).items)

        assert local.ask(done) < many / 5


def test_the_list_of_workers_tells_who_holds_what_and_who_is_gone(local: Fleet) -> None:
    nobody = local.command("workers", "--store", local.store)
    assert nobody.returncode == 3, "there is no store yet"
    local.start("gated", "one", "two", params='{"name": "x"}')
    assert "the store has no workers" in local.command("workers", "--store", local.store).stderr
    with local.worker() as worker:
        local.until(lambda: local.notes().count("at x") == 2)
        shown = local.command("workers", "--store", local.store).stdout
        _, status, _, _, _, runs, *_ = shown.splitlines()[1].split()
        assert (status, runs) == ("alive", "2")
        worker.kill()
        worker.wait()
        assert "gone" in local.command("workers", "--store", local.store).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "the worker has no workflow: name a module or file with workflows with --app"),
        (("--app", "nowhere"), 2, "no module named nowhere;"),
        (("--app", "flows", "--concurrency", "0"), 2, "concurrency"),
        (("--app", "flows", "--store", "postgresql://127.0.0.1:1/x"), 3, "could not reach postgresql://127.0.0.1:1/x"),
    ],
)
def test_a_worker_that_cannot_work_says_why(arguments: tuple[str, ...], code: int, said: str, local: Fleet) -> None:
    ran = local.command("worker", *arguments)
    assert ran.returncode == code
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
