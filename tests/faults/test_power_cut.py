"""S3: what was acknowledged survives a power cut, whatever the disk was doing when it came.

A round is a machine, or several one after the other, on one disk. It appends alone, in groups and beside guests, while the
WAL is checkpointed beneath it, until its power is cut in the midst of some operation. What the disk then holds is opened
with the ordinary file system and compared with what the machines had been told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from msgspec import Raw

from outlast.errors import StoreError
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind, Record
from outlast.ledger import Ledger, RunWriter
from outlast.lifecycle.invariants import violations
from outlast.stores.sqlite import SqliteStore, database
from support.disk import Disk

ROUNDS = 70
CONTROL_ROUNDS = 30
OPENING = 60
"""About as many operations as it takes to make a store: some power cuts come then, most come later."""
LIFE = 600
"""About as many as a machine does if it is left alone."""

Durability = Literal["full", "relaxed"]

# the checkpointer of a machine without power may end as it likes
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL", logger="outlast"):
        yield


class Witness:
    """What the machines tried to append, what they were told had landed, and the epochs they were granted."""

    def __init__(self) -> None:
        self.tried: set[tuple[RunId, bytes]] = set()
        self.acknowledged: dict[tuple[RunId, int], bytes] = {}
        self.epochs: dict[RunId, int] = {}
        self.runs: list[RunId] = []
        self.cuts = 0
        self.unasked_survivors = 0
        self.lost = 0

    async def append(self, writer: RunWriter, events: list[e.AnyEvent]) -> None:
        body = encode(events)
        self.tried.add((writer.run, body))
        first = await writer.append(events)
        self.acknowledged[writer.run, first] = body

    async def deliver(self, ledger: Ledger, run: RunId, event: e.AnyEvent) -> None:
        body = encode([event])
        self.tried.add((run, body))
        self.acknowledged[run, await ledger.deliver(run, [event])] = body

    async def create(self, ledger: Ledger, worker: WorkerId, name: str) -> RunWriter:
        run = RunId(name)
        events: list[e.AnyEvent] = [e.RunCreated(workflow="w", tags=("a", "b")), e.RunStarted()]
        self.runs.append(run)
        self.tried.add((run, encode(events)))
        writer = await ledger.create(run, events, worker)
        self.acknowledged[run, 1] = encode(events)
        self.epochs[run] = 1
        return writer


class Machine:
    """A process that appends until its power is cut."""

    def __init__(self, number: int, store: SqliteStore, rng: Random, witness: Witness) -> None:
        self.number = number
        self.store = store
        self.ledger = Ledger(store)
        self.worker = self.ledger.new_worker_id()
        self.rng = rng
        self.witness = witness

    async def live(self) -> None:
        await self.store.enrol(self.worker, 60)
        pens = [await self._take_over(run) for run in self.witness.runs if await self.store.head(run)]
        for place in range(2):
            name = f"run-{self.number}-{place}"
            pens.append(await self.witness.create(self.ledger, self.worker, name))
        await self._alone(pens[-1])
        pens += await asyncio.gather(
            *(self.witness.create(self.ledger, self.worker, f"run-{self.number}-{place}") for place in range(2, 10))
        )
        guests = [self._guest(writer.run) for writer in pens]
        await _all_or_error([*(self._story(writer) for writer in pens), *guests])

    async def _take_over(self, run: RunId) -> RunWriter:
        (claim,) = await self.store.claim(self.worker, runs=[run])
        assert claim.epoch > self.witness.epochs.get(run, 0), "an epoch was granted twice (S6)"
        self.witness.epochs[run] = claim.epoch
        writer = await self.ledger.take_over(claim)
        (landed,) = await self.store.read(run, writer.head.version, limit=1)
        self.witness.tried.add((run, landed.body))
        self.witness.acknowledged[run, landed.first] = landed.body
        return writer

    async def _alone(self, writer: RunWriter) -> None:
        for place in range(15):
            await self.witness.append(writer, self._node(f"alone-{place}"))

    async def _story(self, writer: RunWriter) -> None:
        for place in range(6):
            await self.witness.append(writer, self._node(f"{self.number}-{place}"))
        question = f"q-{self.number}"
        await self.witness.append(writer, [e.InteractionRequested(interaction=question, prompt="go on?")])
        answered = e.InteractionAnswered(interaction=question, answer=Raw(b"true"))
        await self.witness.deliver(self.ledger, writer.run, answered)
        await self.witness.append(writer, self._node(f"{self.number}-answered"))
        await writer.release(ready=True)

    async def _guest(self, run: RunId) -> None:
        for place in range(5):
            signal = e.SignalReceived(signal=f"s-{self.number}-{place}", name="s", data=self._payload())
            await self.witness.deliver(self.ledger, run, signal)

    def _node(self, name: str) -> list[e.AnyEvent]:
        node = f"{self.number}:{name}"
        done = e.NodeCompleted(node=node, output=self._payload())
        return [e.NodeScheduled(node=node), e.NodeStarted(node=node), done]

    def _payload(self) -> Raw:
        size = self.rng.choice((0, 10, 100, 500, 6000))
        return Raw(b'"' + self.rng.randbytes(size // 2).hex().encode() + b'"')


async def _all_or_error(work: list[Awaitable[None]]) -> None:
    """Wait for all of it, then raise one of the errors, the most surprising first."""
    errors = [found for found in await asyncio.gather(*work, return_exceptions=True) if found is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, StoreError)):
        raise error


async def _run_machine(number: int, path: Path, rng: Random, witness: Witness, durability: Durability) -> None:
    disk = Disk()
    is_late = rng.random() < 0.85
    disk.cut_power_at(rng.randint(OPENING, LIFE) if is_late else rng.randint(1, OPENING), rng)
    store: SqliteStore | None = None
    try:
        store = SqliteStore(path, vfs=disk.name, durability=durability, commit=rng.choice(("inline", "thread")))
        await Machine(number, store, rng, witness).live()
    except StoreError:
        assert disk.is_dead
    witness.cuts += disk.is_dead
    disk.cut_power(rng)
    if store is not None:
        await store.close()
    disk.close()


async def _examine(path: Path, witness: Witness) -> None:
    """What the disk holds is sound, and holds all that was acknowledged; what it lacks is counted."""
    store = SqliteStore(path)
    for run in witness.runs:
        log = await store.read(run)
        if log:
            assert violations(run, log, await store.summary(run)) == []
            head = await store.head(run)
            assert head is not None
            assert (head.version, head.digest) == (log[-1].last, log[-1].digest)
        _compare(run, log, witness)
    await store.close()


def _compare(run: RunId, log: list[Record], witness: Witness) -> None:
    there = {record.first: record.body for record in log}
    told = {first: body for (of, first), body in witness.acknowledged.items() if of == run}
    for first, body in told.items():
        if there.get(first) != body:
            witness.lost += 1
    for record in log:
        if record.first not in told:
            assert (run, record.body) in witness.tried or record.kind is Kind.TAKEOVER, "nobody asked for this"
            witness.unasked_survivors += 1


async def _go_on(path: Path, witness: Witness) -> None:
    """After all power cuts, every run goes on to its end."""
    store = SqliteStore(path, durability="relaxed")  # its power is not cut: the real disk need not be waited for
    machine = Machine(99, store, Random(0), witness)
    await store.enrol(machine.worker, 60)
    for run in witness.runs:
        if await store.head(run) is not None:
            writer = await machine._take_over(run)
            await machine.witness.append(writer, machine._node("last"))
            await writer.append([e.RunCompleted()], release=True)
            assert violations(run, await store.read(run), await store.summary(run)) == []
    await store.close()


async def _round(seed: int, folder: Path, durability: Durability) -> Witness:
    rng = Random(seed)
    witness = Witness()
    path = folder / f"{seed}.db"
    for number in range(rng.choice((1, 1, 2, 3))):
        await _run_machine(number, path, rng, witness, durability)
        if durability == "relaxed":
            break
    await _examine(path, witness)
    if durability == "full":
        assert witness.lost == 0, f"round {seed} lost {witness.lost} acknowledged appends"
        await _go_on(path, witness)
    return witness


def _rounds(count: int, folder: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch) -> list[Witness]:
    began = time.perf_counter()
    seen: list[Witness] = []
    for seed in range(count):
        pages = Random(seed).choice((8, 30, 100)) if durability == "full" else database.CHECKPOINT_PAGES
        monkeypatch.setattr(database, "CHECKPOINT_PAGES", pages)
        seen.append(asyncio.run(_round(seed, folder, durability)))
    acknowledged = sum(len(witness.acknowledged) for witness in seen)
    survived = sum(witness.unasked_survivors for witness in seen)
    print(
        f"\n{durability}: {count} rounds, {sum(witness.cuts for witness in seen)} cuts in mid-operation, "
        f"{acknowledged} acknowledged appends, {sum(witness.lost for witness in seen)} of them lost, "
        f"{survived} unacknowledged ones survived, {time.perf_counter() - began:.1f} s"
    )
    return seen


def test_what_was_acknowledged_survives_a_power_cut_at_any_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = _rounds(ROUNDS, tmp_path, "full", monkeypatch)
    assert sum(witness.cuts for witness in seen) > ROUNDS / 2
    assert sum(len(witness.acknowledged) for witness in seen) > 30 * ROUNDS


@pytest.mark.parametrize("seed", range(2))
def test_a_store_whose_making_was_cut_short_at_any_operation_can_be_opened(seed: int, tmp_path: Path) -> None:
    async def make(operation: int) -> bool:
        """Whether the power was cut before the store was made."""
        disk = Disk()
        rng = Random(seed * 1000 + operation)
        disk.cut_power_at(operation, rng)
        path = tmp_path / f"{operation}.db"
        store: SqliteStore | None = None
        try:
            store = SqliteStore(path, vfs=disk.name)
        except StoreError:
            assert disk.is_dead
        is_early = disk.is_dead
        disk.cut_power(rng)
        if store is not None:
            await store.close()
        disk.close()
        again = SqliteStore(path)
        await again.enrol(WorkerId("w"), 1)
        await again.close()
        return is_early

    operation = 1
    while asyncio.run(make(operation)):
        operation += 1
    assert operation > 20


def test_relaxed_durability_loses_acknowledged_appends_so_the_test_above_can_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = _rounds(CONTROL_ROUNDS, tmp_path, "relaxed", monkeypatch)
    assert sum(witness.lost > 0 for witness in seen) > CONTROL_ROUNDS / 4
