"""Real engines in real processes on one SQLite file: killed, two at once, put to sleep past their claims.

Nothing is lost, no node that completed is done again, and one process at a time advances a run (P1, P2, P3). Whatever a
node does outside, here a line in a file, is compared with what the logs say.

Run as a program, this file is one of those processes:

    python test_engine_kill.py starter STORE RUNS    starts that many runs and waits for all of them
    python test_engine_kill.py worker STORE RUNS     advances what is there until that many runs are over
    python test_engine_kill.py sleeper STORE RUNS    as the starter; its nodes end when it is told "go"
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import outlast as ol
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Kind, Record
from outlast.ledger.verification import verify
from outlast.store import RunFilter
from outlast.stores.sqlite import SqliteStore

NODES = 5
PATIENCE = 60
CLAIM = 1.0
"""Seconds that the claims of a sleeper last."""


# --- the program -------------------------------------------------------------------------------------------------------

gate = asyncio.Event()
"""Open unless the process is a sleeper."""


@ol.node
async def chore(run: int, place: int) -> str:
    """A little work with an effect outside: one line, which says whose attempt it was."""
    notes = os.open(os.environ["CHORE_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(notes, f"{ol.idempotency_key()} {ol.context().attempt} {os.getpid()}\n".encode())
    finally:
        os.close(notes)
    await asyncio.sleep((run * 7 + place * 3) % 10 / 1000)
    await gate.wait()
    return f"{run}.{place}"


@ol.workflow
async def chores(run: int) -> list[str]:
    return [await chore(run, place) for place in range(NODES)]


async def main(role: str, path: str, runs: int) -> None:
    logging.basicConfig(stream=sys.stdout, format="log: %(message)s", level=logging.WARNING)
    claim = CLAIM if role == "sleeper" else 30.0
    async with ol.open(path, claim=claim, concurrency=max(20, runs // 10) if role == "worker" else 2000) as engine:
        print(f"open {os.getpid()}", flush=True)
        if role == "starter":
            gate.set()
        if role == "worker":
            await _until_told()
            while len((await engine.list_runs(RunFilter(statuses=(ol.RunStatus.COMPLETED,), limit=runs))).items) < runs:
                await asyncio.sleep(0.02)
        else:
            handles = await asyncio.gather(*(engine.start(_named(number), number) for number in range(runs)))
            if role == "sleeper":
                await _until_holding(runs)
                await _until_told()
            results = await asyncio.gather(*(handle.result() for handle in handles))
            assert results == [[f"{run}.{place}" for place in range(NODES)] for run in range(runs)]
        print("over", flush=True)


async def _until_holding(runs: int) -> None:
    while len(Path(os.environ["CHORE_NOTES"]).read_text().splitlines()) < runs:
        await asyncio.sleep(0.01)
    print("holding", flush=True)


async def _until_told() -> None:
    """Nodes end from here on."""
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    gate.set()


def _named(number: int) -> ol.Workflow[[int], list[str]]:
    return chores.options(id=f"run-{number:04}")


# --- its masters -------------------------------------------------------------------------------------------------------


class CallBase:
    """One line of the notes: an attempt that was really made."""

    def __init__(self, line: str) -> None:
        token, attempt, self.pid = line.split(" ")
        run, self.node, _ = token.split("/")
        self.run, self.attempt = RunId(run), int(attempt)


@contextmanager
def process(role: str, folder: Path, runs: int) -> Iterator[subprocess.Popen[str]]:
    """A process of ours, which has opened its engine and does not outlive the test."""
    command = [sys.executable, __file__, role, str(folder / "runs.db"), str(runs)]
    environment = os.environ | {"CHORE_NOTES": str(folder / "notes")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() == f"open {started.pid}\n"
            yield started
        finally:
            started.kill()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def said(by: subprocess.Popen[str]) -> list[str]:
    """All that it still says; it has to end well."""
    text, _ = by.communicate(timeout=PATIENCE)
    assert by.returncode == 0, text
    return text.splitlines()


def made(folder: Path) -> list[CallBase]:
    notes = folder / "notes"
    return [CallBase(line) for line in notes.read_text().splitlines()] if notes.exists() else []


async def _until_made(folder: Path, count: int) -> None:
    give_up = time.monotonic() + PATIENCE
    while len(made(folder)) < count:
        assert time.monotonic() < give_up, f"only {len(made(folder))} of {count} attempts were made"
        await asyncio.sleep(0.005)


async def logs(folder: Path, *, proved: bool = True) -> dict[RunId, list[Record]]:
    store = SqliteStore(folder / "runs.db")
    found: dict[RunId, list[Record]] = {}
    page = await store.search(RunFilter(limit=10_000))
    for listed in page.items:
        run = listed.summary.run
        found[run] = await store.read(run)
        if proved:
            proof = await verify(store, run)
            assert proof.is_sound, proof.violations
    await store.close()
    return found


def completed(log: list[Record]) -> dict[str, int]:
    """The nodes that completed, each with the attempt that brought it about."""
    told = [event for record in log for event in record.events()]
    done = [event for event in told if isinstance(event, e.NodeCompleted)]
    assert len({event.node for event in done}) == len(done), "a node completed twice"
    return {event.node: event.attempt for event in done}


def must_be_done_once(found: dict[RunId, list[Record]], seen: list[CallBase]) -> None:
    """Every run is over, and what was done agrees with the logs: no attempt twice, none after its node completed."""
    times = Counter((each.run, each.node, each.attempt) for each in seen)
    assert set(times.values()) == {1}, f"made twice: {[key for key, count in times.items() if count > 1]}"
    for run, log in found.items():
        done = completed(log)
        assert len(done) == NODES
        assert isinstance(log[-1].events()[-1], e.RunCompleted)
        assert all((run, node, attempt) in times for node, attempt in done.items()), "completed without being done"
    for each in seen:
        assert each.attempt <= completed(found[each.run])[each.node], f"{each.run} {each.node} was done again"


# --- the tests ---------------------------------------------------------------------------------------------------------


def test_five_hundred_workflows_survive_kill_nine_and_no_completed_node_is_repeated(tmp_path: Path) -> None:
    """Not a fifth of them in `make test`: so few would be over before the process is killed."""
    runs, began, repeated = 500, time.perf_counter(), 0
    for share in (0.2, 0.6):  # a node that is interrupted five times would be held for a person
        with process("starter", tmp_path, runs) as victim:
            asyncio.run(_until_made(tmp_path, int(runs * NODES * share)))
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
        before = asyncio.run(logs(tmp_path, proved=False))
        done = {(run, node) for run, log in before.items() for node in completed(log)}
        so_far = made(tmp_path)
        in_flight = {(each.run, each.node) for each in so_far} - done
        with process("starter", tmp_path, runs) as successor:
            asyncio.run(_until_made(tmp_path, len(so_far) + 1))
            successor.send_signal(signal.SIGKILL)
            successor.communicate()
        since = {(each.run, each.node) for each in made(tmp_path)[len(so_far) :]}
        assert not since & done, "a completed node was repeated"
        repeated += len(since & in_flight)
    so_far = made(tmp_path)
    before = asyncio.run(logs(tmp_path))
    done = {(run, node) for run, log in before.items() for node in completed(log)}
    with process("starter", tmp_path, runs) as last:
        assert said(last)[-1] == "over"
    found = asyncio.run(logs(tmp_path))
    assert len(found) == runs
    must_be_done_once(found, made(tmp_path))
    assert not {(each.run, each.node) for each in made(tmp_path)[len(so_far) :]} & done, "a completed node was repeated"
    extra = len(made(tmp_path)) - runs * NODES
    print(f"\n{runs} runs, 4 kills, {extra} attempts made again, {time.perf_counter() - began:.1f} s")


@pytest.mark.parametrize("runs", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_two_processes_share_many_runs_and_each_run_has_one_owner_at_a_time(runs: int, tmp_path: Path) -> None:
    began = time.perf_counter()
    asyncio.run(_leave_for_others(tmp_path, runs))
    with process("worker", tmp_path, runs) as one, process("worker", tmp_path, runs) as other:
        for worker in (one, other):
            tell(worker)
        assert said(one)[-1] == "over"
        assert said(other)[-1] == "over"
    found = asyncio.run(logs(tmp_path))
    seen = made(tmp_path)
    assert len(found) == runs
    must_be_done_once(found, seen)
    owners = _owners(found)
    hands: dict[str, set[str]] = defaultdict(set)
    for each in seen:
        hands[owners[each.run][each.node, each.attempt]].add(each.pid)
    assert all(len(pids) == 1 for pids in hands.values()), "a node was done by another process than its run's owner"
    shares = Counter(each.pid for each in seen)
    assert set(shares) == {str(one.pid), str(other.pid)}, "one of them had nothing to do"
    print(f"\n{runs} runs, attempts by process {sorted(shares.values())}, {time.perf_counter() - began:.1f} s")


def _owners(found: dict[RunId, list[Record]]) -> dict[RunId, dict[tuple[str, int], str]]:
    """Who owned the run when each attempt began. Epochs only ever grow: nobody who was followed writes again."""
    owners: dict[RunId, dict[tuple[str, int], str]] = {}
    for run, log in found.items():
        epoch, worker = 0, ""
        owners[run] = {}
        for record in log:
            if record.kind in (Kind.GUEST, Kind.CONTROL):
                continue
            assert record.epoch > epoch if record.kind is Kind.TAKEOVER else record.epoch == epoch, f"{run}: epochs"
            for event in record.events():
                if isinstance(event, e.RunTakenOver):
                    epoch, worker = event.epoch, event.worker
                elif isinstance(event, e.NodeStarted):
                    owners[run][event.node, event.attempt] = worker
    return owners


async def _leave_for_others(folder: Path, runs: int) -> None:
    async with ol.open(folder / "runs.db", worker=False) as desk:
        await asyncio.gather(*(desk.start(_named(number), number) for number in range(runs)))


def test_an_engine_that_slept_through_its_claims_is_fenced_off_and_changes_nothing(tmp_path: Path) -> None:
    """Forced: it is stopped by the system in the midst of its nodes, and wakes when another has finished its runs."""
    runs = 20
    with process("sleeper", tmp_path, runs) as sleeper:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "holding\n"
        for lock in (tmp_path / "runs.db.workers").iterdir():  # as on a file system without locks
            lock.unlink()
        _freeze_outside_transactions(sleeper.pid, tmp_path / "runs.db")
        with process("worker", tmp_path, runs) as taker:
            assert said(taker)[-1] == "over"
        before = asyncio.run(logs(tmp_path))
        os.kill(sleeper.pid, signal.SIGCONT)
        tell(sleeper)
        told = said(sleeper)
    assert told[-1] == "over", "it finds the results that another has brought about"
    fenced = [line for line in told if "fenced off" in line]
    assert len(fenced) == runs, f"each of its appends is refused: {told}"
    assert asyncio.run(logs(tmp_path)) == before, "it changed a log that was not its own any more"
    must_be_done_once(before, made(tmp_path))
    assert all(max(record.epoch for record in log) > 1 for log in before.values()), "nobody took the runs over"


def _freeze_outside_transactions(pid: int, path: Path) -> None:
    """Stop a child where it holds no lock that would keep all others from writing."""
    for _ in range(100):
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(200)
        try:
            connection.execute("begin immediate; rollback")
            return
        except apsw.BusyError:
            os.kill(pid, signal.SIGCONT)
        finally:
            connection.close()
    raise AssertionError("it is always in the midst of a transaction")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
