"""The sweeper says of every unfinished run how it stands, and hands over once what nobody advances (S6, S8)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TypeAlias

import pytest
from obstore.store import MemoryStore as Objects

from outlast.compose import open_store
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind, Record, chained, entries, genesis
from outlast.ledger import Ledger, RunWriter
from outlast.ledger.verification import verify
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import summarise
from outlast.services.sweeper import Report, Sweeper
from outlast.store import Append, Head, RunFilter, Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.opening import bucket_over
from outlast.stores.sqlite import SqliteStore
from support import commands
from support.servers.postgres_admin import carry_out

LIVE, LOST = WorkerId("worker-that-lives"), WorkerId("worker-that-is-lost")
LATER = 1000_000_000
"""Microseconds: longer than any claim, and than what counts as stale."""
KINDS = ("memory", "sqlite", "postgres", "objects")


Address: TypeAlias = str | Memory | Objects


def store_at(address: Address) -> Store:
    if isinstance(address, Memory):
        return MemoryStore(address)
    return ObjectStore(bucket_over(address, "memory")) if isinstance(address, Objects) else open_store(address)


@asynccontextmanager
async def opened(address: Address) -> AsyncIterator[Ledger]:
    """A ledger over a store of its own; those in memory share what is kept there, as others share a file."""
    store = store_at(address)
    ledger = Ledger(store)
    try:
        yield ledger
    finally:
        await ledger.close()
        await store.close()


class Scene:
    """Makes runs. In the end, `pass_time` lets the store's clock jump, and only `LIVE` has renewed."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.store = ledger.store

    async def begin(self) -> None:
        await self.store.enrol(LIVE, 30)
        await self.let_die(LOST)

    async def let_die(self, worker: WorkerId) -> None:
        """A worker whose process ended without a word."""
        process = self.store.reopen()
        await process.enrol(worker, 30)
        await process.close()

    async def pass_time(self, by: int = LATER) -> None:
        self.store.skew += by
        await self.store.enrol(LIVE, 30)

    async def running(self, name: str, worker: WorkerId) -> RunWriter:
        events = [e.RunCreated(workflow="w"), e.RunStarted(), e.NodeScheduled(node="n"), e.NodeStarted(node="n")]
        return await self.ledger.create(RunId(name), events, worker)

    async def healthy(self, name: str = "healthy") -> None:
        await self.running(name, LIVE)

    async def ready(self, name: str = "ready") -> None:
        await self.ledger.create_ready(RunId(name), e.RunCreated(workflow="w"))

    async def waiting(self, name: str = "waiting") -> None:
        events = [e.RunCreated(workflow="w"), e.RunStarted(), e.TimerSet(timer="t", due=1 << 52)]
        writer = await self.ledger.create(RunId(name), events, LIVE)
        await writer.release()

    async def no_task(self, name: str = "no task") -> None:
        """Given back, though a node is under way, and nobody was told."""
        writer = await self.running(name.replace(" ", "-"), LIVE)
        await writer.release()

    async def claim_expired(self, name: str = "claim expired") -> None:
        await self.running(name.replace(" ", "-"), LOST)

    async def task_ended(self, name: str = "task ended") -> None:
        """Its log is closed, and its summary was never written."""
        writer = await self.running(name.replace(" ", "-"), LIVE)
        await self._write(writer, encode([e.NodeCompleted(node="n"), e.RunCompleted()]), 2, closed=True)
        await self.store.release(writer.run, LIVE, writer.head.version + 2)

    async def unreadable(self, name: str = "unreadable") -> None:
        writer = await self.running(name, LOST)
        await self._write(writer, b"these are no events", 1, closed=False)

    async def _write(self, writer: RunWriter, body: bytes, count: int, *, closed: bool) -> None:
        head, now = writer.head, self.ledger.clock()
        id, first = self.ledger.new_append_id(), head.version + 1
        digest = chained(head.digest, first, count, 0, head.epoch, Kind.OWNER, now, id, body, b"")
        record = Record(writer.run, first, count, 0, head.epoch, Kind.OWNER, id, now, body, digest)
        await self.store.append([Append(record, Head(writer.run, record.last, digest, head.epoch, closed=closed))])

    async def all(self) -> None:
        await self.begin()
        for make in (self.healthy, self.ready, self.waiting, self.no_task, self.claim_expired, self.task_ended):
            await make()
        await self.unreadable()
        await self.pass_time()


async def contents(store: Store, runs: list[str]) -> list[object]:
    """All that a sweep might have changed of these runs."""
    return [
        (await store.head(RunId(run)), await store.summary(RunId(run)), await store.holding(RunId(run))) for run in runs
    ]


async def takeovers(store: Store, run: str) -> list[int]:
    """The epochs of those who owned a run, after whoever began it."""
    log = await store.read(RunId(run))
    told = [entry.event for record in log for entry in entries(record)]
    return [event.epoch for event in told if isinstance(event, e.RunTakenOver)]


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return {"memory": Memory(), "sqlite": str(tmp_path / "runs.db"), "objects": Objects()}[request.param]


def play(address: Address, act: Callable[[Scene], Awaitable[None]]) -> None:
    async def played() -> None:
        async with asyncio.timeout(60), opened(address) as ledger:
            await act(Scene(ledger))

    asyncio.run(played())


def reasons(report: Report) -> dict[str, str]:
    return {seen.run: seen.reason for seen in report.runs}


def must_add_up(report: Report) -> None:
    assert report.healthy + report.waiting + report.recovered + report.stalled == report.scanned
    assert sum(report.reasons.values()) == report.scanned


STALLED = {"no-task": "no task", "claim-expired": "claim expired", "task-ended": "task ended"}


def test_every_run_is_told_how_it_stands_and_the_stalled_are_handed_over(address: Address) -> None:
    async def scene(made: Scene) -> None:
        await made.all()
        report = await Sweeper(made.ledger).sweep()
        must_add_up(report)
        assert report.scanned == 7
        assert report.reasons == dict.fromkeys([*STALLED.values(), "healthy", "ready", "waiting", "unreadable"], 1)
        assert reasons(report) == STALLED | {"ready": "ready", "unreadable": "unreadable"}
        assert (report.healthy, report.waiting, report.recovered, report.stalled) == (2, 1, 3, 1)
        for run in ("no-task", "claim-expired"):
            head = await made.store.head(RunId(run))
            assert head is not None
            assert (head.ready, await made.store.holding(RunId(run))) == (True, None)
            assert await takeovers(made.store, run) == [2]
            assert (await verify(made.store, RunId(run))).is_sound
        summary = await made.store.summary(RunId("task-ended"))
        assert summary is not None
        assert summary.status is RunStatus.COMPLETED
        assert await takeovers(made.store, "task-ended") == []

    play(address, scene)


def test_a_second_sweep_finds_nothing(address: Address) -> None:
    async def scene(made: Scene) -> None:
        await made.all()
        await Sweeper(made.ledger).sweep()
        report = await Sweeper(made.ledger).sweep()
        must_add_up(report)
        assert report.recovered == 0
        assert report.reasons == {"healthy": 1, "waiting": 1, "ready": 3, "unreadable": 1}

    play(address, scene)


def test_a_dry_run_tells_the_same_and_changes_nothing(address: Address) -> None:
    async def scene(made: Scene) -> None:
        await made.all()
        runs = ["healthy", "ready", "waiting", "no-task", "claim-expired", "task-ended", "unreadable"]
        before = await contents(made.store, runs)
        report = await Sweeper(made.ledger).sweep(dry_run=True)
        must_add_up(report)
        assert reasons(report) == STALLED | {"ready": "ready", "unreadable": "unreadable"}
        assert (report.recovered, report.stalled) == (0, 4)
        assert await contents(made.store, runs) == before

    play(address, scene)


@pytest.mark.parametrize("hold", [False, True])
def test_a_dry_run_says_what_the_sweep_then_does(address: Address, hold: bool) -> None:
    async def scene(made: Scene) -> None:
        await made.all()
        events = [e.RunCreated(workflow="w"), e.RunStarted()]
        events += [e.NodeScheduled(node="pay"), e.NodeStarted(node="pay", repeatable=False)]
        await made.ledger.create(RunId("paying"), events, LOST)
        await made.pass_time()
        expected = await Sweeper(made.ledger, hold=hold).sweep(dry_run=True)
        done = await Sweeper(made.ledger, hold=hold).sweep()
        outcomes = {seen.run: seen.outcome for seen in done.runs}
        assert {seen.run: seen.outcome for seen in expected.runs} == outcomes
        assert outcomes == {
            "no-task": "handed over",
            "claim-expired": "held" if hold else "handed over",
            "paying": "held",
            "task-ended": "finished",
            "ready": "",
            "unreadable": "",
        }

    play(address, scene)


@pytest.mark.parametrize("hold", [False, True])
def test_a_dry_run_says_what_becomes_of_a_run_whose_claim_is_lost(
    hold: bool, tmp_path: Path, postgres_url: str
) -> None:
    async def scene(made: Scene) -> None:
        await made.begin()
        writer = await made.running("lost", LIVE)
        if isinstance(made.store, MemoryStore):
            del made.store.memory.claims[writer.run]
        elif isinstance(made.store, SqliteStore):
            with closing(sqlite3.connect(made.store.path, isolation_level=None)) as db:
                db.execute("update head set worker = ''")
        else:
            await carry_out(postgres_url, "delete from {s}.claim")
        await made.pass_time()
        (expected,) = (await Sweeper(made.ledger, hold=hold).sweep(dry_run=True)).runs
        (done,) = (await Sweeper(made.ledger, hold=hold).sweep()).runs
        assert (expected.reason, expected.outcome) == (done.reason, done.outcome)
        assert (done.reason, done.outcome) == ("no task", "held" if hold else "handed over")

    for address in (Memory(), str(tmp_path / "runs.db"), postgres_url):
        play(address, scene)


def test_what_is_waited_for_is_named(address: Address) -> None:
    async def scene(made: Scene) -> None:
        await made.begin()
        await made.waiting()
        seen = await Sweeper(made.ledger)._assess((await made.store.search(RunFilter())).items[0].summary.run, None, 0)
        assert (seen[0].reason, seen[0].detail) == ("waiting", "for timer t")

    play(address, scene)


def test_a_healthy_run_is_left_alone_however_old_it_is(address: Address) -> None:
    async def scene(made: Scene) -> None:
        await made.begin()
        await made.healthy()
        await made.waiting()
        before = await contents(made.store, ["healthy", "waiting"])
        for _ in range(3):
            await made.pass_time(30 * 86_400_000_000)
            report = await Sweeper(made.ledger, stale_after=0).sweep()
            assert (report.healthy, report.waiting, report.recovered) == (1, 1, 0)
        after = await contents(made.store, ["healthy", "waiting"])
        assert [each[:2] for each in after] == [each[:2] for each in before]  # type: ignore[index]

    play(address, scene)


@pytest.mark.parametrize(("seconds", "found"), [(600, 0), (625, 0), (635, 1)])
def test_a_claim_counts_when_it_has_been_expired_for_long_enough_by_the_clock_of_the_store(
    seconds: int, found: int, tmp_path: Path
) -> None:
    """The claim lasts 30 s, and may be expired for 600."""

    async def scene(made: Scene) -> None:
        await made.begin()
        await made.claim_expired()
        await made.pass_time(seconds * 1_000_000)
        report = await Sweeper(made.ledger, stale_after=600).sweep()
        assert (report.recovered, report.healthy) == (found, 1 - found)

    play(str(tmp_path / "runs.db"), scene)
    play(Memory(), scene)


def test_many_sweepers_at_once_hand_each_run_over_once(address: Address) -> None:
    """Each has a store of its own, as in a process of its own."""

    async def scene(made: Scene) -> None:
        await made.begin()
        names = [f"{kind}-{number}" for kind in ("lost", "idle") for number in range(12)]
        for name in names:
            await (made.claim_expired(name) if name.startswith("lost") else made.no_task(name))
        await made.pass_time()
        async with AsyncExitStack() as stack:
            others = [await stack.enter_async_context(opened(address)) for _ in range(4)]
            for other in others:
                other.store.skew = made.store.skew
            reports = await asyncio.gather(*(Sweeper(other).sweep() for other in others))
        for report in reports:
            must_add_up(report)
            assert report.scanned == len(names)
        recovered = [seen.key for report in reports for seen in report.runs if seen.is_recovered]
        assert sorted(recovered) == sorted(set(recovered))
        assert sum(report.recovered for report in reports) == len(names)
        for name in names:
            assert len(await takeovers(made.store, name)) == 1, name
            head = await made.store.head(RunId(name))
            assert head is not None
            assert head.ready, f"nobody would go on with {name}"

    play(address, scene)


def test_a_sweeper_that_looked_long_ago_does_not_hand_over_what_somebody_has(address: Address) -> None:
    """What it saw is not so any more when it comes to act."""

    async def scene(made: Scene) -> None:
        await made.begin()
        for name in ("gone-on", "given-back", "over"):
            await made.claim_expired(name)
        await made.pass_time()
        late, holdings = Sweeper(made.ledger), await made.store.holdings()
        summaries = [listed.summary for listed in (await made.store.search(RunFilter())).items]
        now = await made.store.now()
        assert (await Sweeper(made.ledger).sweep()).recovered == 3
        for claim in await made.store.claim(LIVE, runs=[RunId("gone-on"), RunId("over")], limit=2):
            writer = await made.ledger.take_over(claim)
            if claim.run == "over":
                again = e.NodeStarted(node="n", attempt=writer.state.nodes["n"].attempt)
                await writer.append([again, e.NodeCompleted(node="n", attempt=again.attempt), e.RunCompleted()])
                await writer.release()
        before = [await takeovers(made.store, each.run) for each in summaries]
        for summary in summaries:
            held = next(each for each in holdings if each.run == summary.run)
            assert not (await late._check_run(summary.run, held, now, dry_run=False)).is_recovered
        assert [await takeovers(made.store, each.run) for each in summaries] == before
        head = await made.store.head(RunId("given-back"))
        assert head is not None
        assert head.ready

    play(address, scene)


def test_an_interruption_counts_for_a_run_that_is_to_hold(tmp_path: Path) -> None:
    async def scene(made: Scene) -> None:
        await made.begin()
        await made.claim_expired()
        await made.pass_time()
        assert (await Sweeper(made.ledger, hold=True).sweep()).recovered == 1
        summary = await made.store.summary(RunId("claim-expired"))
        assert summary is not None
        assert summary.held
        head = await made.store.head(RunId("claim-expired"))
        assert head is not None
        assert not head.ready

    play(str(tmp_path / "runs.db"), scene)


def test_a_run_whose_worker_is_alive_and_does_not_renew_is_reported_and_left(tmp_path: Path) -> None:
    """P6: a process that was stopped holds its lock, and nobody takes the run from it"""

    async def scene(made: Scene) -> None:
        await made.store.enrol(LIVE, 30)
        await made.healthy()
        made.store.skew += LATER
        report = await Sweeper(made.ledger).sweep()
        must_add_up(report)
        (seen,) = report.runs
        assert (seen.reason, report.stalled) == ("not renewed", 1)
        assert f"worker {LIVE} is alive, but its claim expired 970 s ago" in seen.detail
        assert await takeovers(made.store, "healthy") == []

    play(str(tmp_path / "runs.db"), scene)


# --- as a command


def swept(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outlast", "sweeper", *arguments]
    return commands.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_processes_that_sweep_at_once_hand_each_run_over_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = str(tmp_path / "runs.db") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    names = [f"lost-{number}" for number in range(60)]

    async def scene(made: Scene) -> None:
        await made.store.enrol(LOST, 0.01)
        for name in names:
            await made.claim_expired(name)

    play(where, scene)
    command = [sys.executable, "-m", "outlast", "sweeper", "--once", "--stale-after", "0", "-o", "json"]
    sweepers = [
        commands.Popen([*command, "--store", where], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    reports = [json.loads(each.communicate(timeout=60)[0]) for each in sweepers]
    assert [each.returncode for each in sweepers] == [0] * 4
    assert sum(report["recovered"] for report in reports) == len(names)

    async def judge(made: Scene) -> None:
        for name in names:
            assert len(await takeovers(made.store, name)) == 1

    play(where, judge)


def test_the_command_tells_and_then_does(tmp_path: Path) -> None:
    where = str(tmp_path / "runs.db")

    async def scene(made: Scene) -> None:
        await made.begin()
        await made.ready()
        await made.no_task()

    play(where, scene)
    told = swept("--store", where, "--once", "--dry-run", "--stale-after", "0")
    assert told.returncode == 0
    assert "no-task  no task: its status is running, but no worker has claimed it; would be handed over" in told.stderr
    assert "2 unfinished runs: 1 healthy, 0 waiting, 0 recovered, 1 stalled" in told.stderr
    young = json.loads(swept("--store", where, "--once", "-o", "json").stdout)
    assert (young["healthy"], young["recovered"]) == (2, 0), "it was given back a moment ago"
    report = json.loads(swept("--store", where, "--once", "--stale-after", "0", "-o", "json").stdout)
    assert (report["scanned"], report["recovered"], report["reasons"]) == (2, 1, {"ready": 1, "no task": 1})
    (done,) = [seen for seen in report["runs"] if seen["is_recovered"]]
    assert (done["run"], done["key"]) == ("no-task", "no-task:orchestrate:2")


def test_the_command_sweeps_again_and_again_until_it_is_told_to_leave(tmp_path: Path) -> None:
    where = str(tmp_path / "runs.db")
    play(where, lambda made: made.ready())
    command = [sys.executable, "-m", "outlast", "sweeper", "--store", where, "--interval", "0.1"]
    with commands.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for _ in range(3):
            assert "1 unfinished run: 1 healthy" in process.stderr.readline()
        process.terminate()
        assert process.wait(60) == 0


def test_the_command_says_when_there_is_no_store(tmp_path: Path) -> None:
    ran = swept("--store", str(tmp_path / "none.db"), "--once", "--dry-run")
    assert ran.returncode == 3
    assert "there is no store at" in ran.stderr
    assert not (tmp_path / "none.db").exists()


# --- how much it costs


@pytest.mark.soak
def test_the_cost_of_a_sweep_follows_what_is_unfinished(tmp_path: Path) -> None:
    unfinished, costs = 5000, {}
    for finished in (20_000, 200_000):
        where = str(tmp_path / f"{finished}.db")
        asyncio.run(_filled(where, finished, unfinished))
        costs[finished] = asyncio.run(_cost(where, unfinished))
    shown = ", ".join(f"{seconds:.2f} s among {finished} finished" for finished, seconds in costs.items())
    print(f"\na sweep of {unfinished} unfinished runs: {shown}")
    assert costs[200_000] < 3 * costs[20_000], "it looks at more than what is unfinished"


async def _filled(where: str, finished: int, unfinished: int) -> None:
    """Finished runs in batches of one append each; among them, evenly, those that are not."""
    store = open_store(where, durability="relaxed")
    ledger, every = Ledger(store), finished // unfinished
    for at in range(0, finished, 1000):
        batch = [_finished(ledger, RunId(f"f-{number:06}")) for number in range(at, min(at + 1000, finished))]
        await store.append(batch)
        count = len(batch) // every
        await asyncio.gather(
            *(ledger.create_ready(RunId(f"u-{at + n:06}"), e.RunCreated(workflow="w")) for n in range(count))
        )
    await ledger.close()
    await store.close()


def _finished(ledger: Ledger, run: RunId) -> Append:
    events: list[e.AnyEvent] = [e.RunCreated(workflow="w"), e.RunStarted(), e.RunCompleted()]
    state, now, id, body = State(), ledger.clock(), ledger.new_append_id(), encode(events)
    for seq, event in enumerate(events, 1):
        apply(state, event, seq, now)
    digest = chained(genesis(run, b""), 1, 3, 0, 1, Kind.OWNER, now, id, body, b"")
    record = Record(run, 1, 3, 0, 1, Kind.OWNER, id, now, body, digest)
    return Append(record, Head(run, 3, digest, 1, closed=True), summarise(run, state))


async def _cost(where: str, unfinished: int) -> float:
    times = []
    async with opened(where) as ledger:
        for _ in range(3):
            began = time.perf_counter()
            report = await Sweeper(ledger).sweep()
            times.append(time.perf_counter() - began)
            assert report.scanned == unfinished
    return min(times)
