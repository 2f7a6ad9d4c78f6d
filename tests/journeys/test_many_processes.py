"""Real processes on one SQLite file or one server: they race for runs, are killed, frozen past their claims and replaced.

Every run still comes to its end, every log is sound, and nothing happened twice (S1 to S8, W1 to W3).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from msgspec import Struct

from outlast.compose import open_store
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Kind, Record, entries
from outlast.ledger import Ledger
from outlast.lifecycle.invariants import violations
from outlast.lifecycle.status import RunStatus
from outlast.store import RunFilter, Store

CREW = Path(__file__).with_name("crew.py")
TTL = 0.8
"""Seconds a worker lives without a sign of life: short, so that a frozen one is soon given up."""
PATIENCE = 900.0
"""Seconds until a test whose processes do not come to their end is given up; no result depends on it."""


class Plan(Struct, frozen=True):
    """How many, and what is done to them."""

    workers: int
    runs: int
    kills: int
    freezes: int
    seed: int
    guests: int = 2


class Member:
    """A process of ours and what it said."""

    def __init__(self, role: str, process: asyncio.subprocess.Process) -> None:
        self.role = role
        self.process = process
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.report: dict[str, int] | None = None
        self.was_killed = False

    async def kill(self) -> None:
        self.was_killed = True
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


class Race:
    """Starts the processes, hears what they say, does things to them at planned moments, and counts."""

    def __init__(self, path: Path | str, plan: Plan) -> None:
        self.path = path
        self.plan = plan
        self.rng = Random(plan.seed)
        self.members: list[Member] = []
        self.workers: set[str] = set()
        self.said: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.moved = asyncio.Event()
        self._readers: list[asyncio.Task[None]] = []
        self._errors: list[str] = []

    async def start(self, role: str) -> Member:
        arguments = [str(TTL), "24"] if role == "worker" else [str(self.rng.randrange(1000))]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(CREW),
            role,
            str(self.path),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        member = Member(role, process)
        self.members.append(member)
        self._readers.append(asyncio.create_task(self._hear(member)))
        return member

    async def _hear(self, member: Member) -> None:
        assert member.process.stdout is not None
        while line := await member.process.stdout.readline():
            if not line.endswith(b"\n"):
                break  # the last word of one that was killed
            self._note(member, json.loads(line))
            self.moved.set()
        if not member.ready.done():
            member.ready.cancel()
        await member.process.wait()

    def _note(self, member: Member, words: dict[str, Any]) -> None:
        self.said.update(words.keys())
        if "ready" in words:
            member.ready.set_result(words["ready"])
            if member.role == "worker":
                self.workers.add(words["ready"])
        elif "report" in words:
            member.report = words["report"]
        elif "error" in words:
            self._errors.append(words["error"])

    @property
    def progress(self) -> int:
        """How often a run came to a wait or to its end: at least twice each, but for the words of those who were killed."""
        return self.said["waits"] + self.said["completed"]

    async def moves(self) -> None:
        """Until someone said something, or a while has passed."""
        try:
            async with asyncio.timeout(0.2):
                await self.moved.wait()
        except TimeoutError:
            pass
        self.moved.clear()
        assert not self._errors, "".join(self._errors)

    # --- what is done to them

    def deeds(self) -> list[str]:
        """What is done to them, in this order; each in the midst of its own share of the runs."""
        deeds = ["kill"] * self.plan.kills + ["freeze"] * self.plan.freezes
        self.rng.shuffle(deeds)
        return deeds

    async def do(self, deed: str) -> None:
        if deed == "kill":
            await self.kill("guest" if self.rng.random() < 0.25 else "worker")
        else:
            await self.freeze()

    def living(self, role: str) -> list[Member]:
        return [member for member in self.members if member.role == role and not member.was_killed]

    async def kill(self, role: str) -> None:
        """End one where it stands, and start another in its place."""
        victim = self.rng.choice(self.living(role))
        await victim.ready
        await victim.kill()
        self.done[f"{role}s killed"] += 1
        await (await self.start(role)).ready

    async def freeze(self) -> None:
        """Stop a worker that holds runs until others hold them, then let it continue. Its lock is removed first: while it
        is held, nobody takes the runs."""
        for _ in range(10):
            busy = [member for member in self.living("worker") if self._held_by(await member.ready)]
            if not busy:
                await self.moves()
                continue
            victim = self.rng.choice(busy)
            _stop(victim.process.pid)
            Path(f"{self.path}.workers", f"{await victim.ready}.lock").unlink(missing_ok=True)
            if self._can_others_write():
                await self._until_robbed(await victim.ready)
                victim.process.send_signal(signal.SIGCONT)
                return
            victim.process.send_signal(signal.SIGCONT)
            await self.moves()

    async def _until_robbed(self, worker: str) -> None:
        held = self._held_by(worker)
        while self._held_by(worker):
            await self.moves()
        self.done["workers frozen"] += 1
        self.done["runs taken from the frozen"] += held

    def _can_others_write(self) -> bool:
        """False if it was stopped inside a transaction: then all the others wait for it, and nobody takes anything over."""
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(200)
        try:
            connection.execute("begin immediate; rollback")
        except apsw.BusyError:
            self.done["frozen for a moment inside a transaction"] += 1
            return False
        else:
            return True
        finally:
            connection.close()

    def _held_by(self, worker: str) -> int:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return int(connection.execute("select count(*) from head where worker = ?", (worker,)).get)
        finally:
            connection.close()

    # --- the end

    async def stop(self) -> None:
        for member in self.members:
            if not member.was_killed:
                assert member.process.stdin is not None
                member.process.stdin.write(b"stop\n")
                await member.process.stdin.drain()
        await asyncio.gather(*self._readers)
        assert not self._errors, "".join(self._errors)
        for member in self.members:
            if not member.was_killed:
                assert member.process.returncode == 0
                assert member.report is not None

    def end_all(self) -> None:
        """Whatever happened, no process of ours outlives the test."""
        for member in self.members:
            if member.process.returncode is None:
                member.process.kill()

    def total(self, word: str) -> int:
        return sum(member.report.get(word, 0) for member in self.members if member.report)


def _stop(pid: int) -> None:
    """Freeze a child, and return when all of it stands still."""
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)


@asynccontextmanager
async def _racing(path: Path | str, plan: Plan) -> AsyncIterator[Race]:
    race = Race(path, plan)
    try:
        async with asyncio.timeout(PATIENCE):
            yield race
    finally:
        race.end_all()
        await asyncio.gather(*race._readers, return_exceptions=True)


async def _create(ledger: Ledger, first: int, count: int) -> list[RunId]:
    runs = [RunId(f"run-{number:04}") for number in range(first, first + count)]
    await asyncio.gather(*(ledger.create_ready(run, e.RunCreated(workflow="story")) for run in runs))
    return runs


async def _completed(store: Store, count: int) -> int:
    return len((await store.search(RunFilter(statuses=(RunStatus.COMPLETED,), limit=count + 1))).items)


async def _race(path: Path | str, plan: Plan) -> None:
    began = time.perf_counter()
    store = open_store(path)
    ledger = Ledger(store)
    runs: list[RunId] = []
    async with _racing(path, plan) as race:
        for role in ["worker"] * plan.workers + ["guest"] * plan.guests:
            await race.start(role)
        deeds = race.deeds()
        for place, deed in enumerate(deeds):
            share = plan.runs * (place + 1) // len(deeds) - len(runs)
            moment = race.progress + race.rng.randint(1, share // 2)
            runs += await _create(ledger, len(runs), share)
            while race.progress < moment:
                await race.moves()
            await race.do(deed)
        while await _completed(store, plan.runs) < plan.runs:
            await race.moves()
        raced = time.perf_counter() - began
        await race.stop()
    counts: Counter[str] = Counter()
    for run in runs:
        log = await store.read(run)
        assert violations(run, log, await store.summary(run)) == []
        counts += _judge(run, log, race.workers)
    await ledger.close()
    await store.close()
    assert counts["runs completed"] == plan.runs
    _print(plan, race, counts, raced)
    if plan.freezes > 1 and race.done["runs taken from the frozen"]:  # one worker may have been frozen between two runs
        assert race.said["fenced"] > 0, "a worker woke up and was not fenced off"


def _judge(run: RunId, log: list[Record], workers: set[str]) -> Counter[str]:
    """What the invariants do not say by themselves: who owned which epoch, and that nothing was done twice."""
    assert len(log) < 1000
    told = [entry.event for record in log for entry in entries(record)]
    owners: dict[int, str] = {}
    for event in told:
        if isinstance(event, e.RunTakenOver):
            assert event.worker in workers
            assert event.epoch > max(owners, default=0), f"epoch {event.epoch} of {run} does not rise"
            owners[event.epoch] = event.worker
    for record in log:
        assert record.kind in (Kind.GUEST, Kind.CONTROL) or record.epoch in owners
    once = Counter(_name(event) for event in told if _name(event))
    assert once == dict.fromkeys([*(f"n{number} completed" for number in range(6)), "answered", "consumed", "over"], 1)
    return Counter(
        {
            "runs completed": 1,
            "appends": len(log),
            "takeovers": len(owners),
            "takeovers of the dead or expired": sum(
                isinstance(event, e.RunTakenOver) and event.cause != "claimed" for event in told
            ),
            "nodes interrupted": sum(isinstance(event, e.NodeScheduled) and event.cause == "crash" for event in told),
        }
    )


def _name(event: e.AnyEvent) -> str:
    match event:
        case e.NodeCompleted():
            return f"{event.node} completed"
        case e.InteractionAnswered():
            return "answered"
        case e.SignalConsumed():
            return "consumed"
        case e.RunCompleted():
            return "over"
        case _:
            return ""


def _print(plan: Plan, race: Race, counts: Counter[str], seconds: float) -> None:
    guests = {"answers and signals came late": race.total("late"), "runs found themselves fenced": race.said["fenced"]}
    numbers = {**counts, **race.done, **guests}
    print(f"\n{plan.workers} workers, {plan.guests} guests, seed {plan.seed}: {seconds:.1f} s")
    print("  " + ", ".join(f"{number} {name}" for name, number in numbers.items()))


def test_two_processes_that_are_killed_and_frozen_complete_every_run(tmp_path: Path) -> None:
    plan = Plan(workers=2, runs=80, kills=2, freezes=1, seed=1)
    asyncio.run(_race(tmp_path / "runs.db", plan))


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("workers", [2, 4])
def test_many_processes_complete_a_thousand_runs(workers: int, seed: int, tmp_path: Path) -> None:
    plan = Plan(workers=workers, runs=1000, kills=12, freezes=5, seed=seed)
    asyncio.run(_race(tmp_path / "runs.db", plan))


def test_processes_on_a_server_that_are_killed_complete_every_run(postgres_url: str) -> None:
    """Nobody can prove that they are dead: their claims run out."""
    asyncio.run(_race(postgres_url, Plan(workers=2, runs=40, kills=2, freezes=0, seed=1)))


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("workers", [2, 4])
def test_many_processes_on_a_server_complete_a_thousand_runs(workers: int, seed: int, postgres_url: str) -> None:
    plan = Plan(workers=workers, runs=1000, kills=12, freezes=0, seed=seed)
    asyncio.run(_race(postgres_url, plan))
