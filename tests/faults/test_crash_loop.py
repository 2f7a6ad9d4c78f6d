"""Die at every store call, in every way, go on in a new process: P1, P2, P3, P5 and all invariants hold."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from outlast.errors import OutlastError
from outlast.history.events import NodeStarted
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.invariants import violations
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.store import LANDED, Append, Landed, Lost, Outcome, Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.postgres import PostgresStore
from outlast.testing.faults import WAYS, Died, Fault, faulty, hide_locks
from outlast.testing.plugin import SURVIVED
from outlast.testing.store_factory import LateCalls
from support.opened_stores import FACTORIES, OBJECTS, StoreFactory
from support.sampling import sample
from support.scripted import (
    Ask,
    Await,
    Call,
    Do,
    GoBack,
    PauseOnce,
    Script,
    Send,
    Sleep,
    Together,
    World,
    live,
    state_now,
)
from support.servers.postgres_admin import empty_store

SCRIPTS: dict[str, Script] = {
    "three nodes": [Do("a"), Do("b"), Do("c")],
    "retries": [Do("a", fails=2), Do("b")],
    "parallel": [Together(("a", "b", "c")), Do("d")],
    "people": [Do("a"), Ask("q"), Do("b"), Ask("r")],
    "signals and time": [Await("go"), Do("a"), Sleep("t"), Do("b")],
    "children and messages": [Send("m"), Call("child-1"), Do("a")],
    "pause": [Do("a"), PauseOnce("p"), Do("b")],
    "branches": [Do("a"), Do("b"), Ask("q"), GoBack("b", 1), Do("c"), GoBack("a", 2), Do("d")],
}

RUN = RunId("run-1")


SAMPLE = {"sqlite": 12, "objects": 8, "s3": 3}
"""Points of a script that are tried where not all of them are."""


async def uninterrupted(factory: StoreFactory, script: Script) -> tuple[State, World, int]:
    world = World()
    store, faults = faulty(await factory())
    assert await live(store, RUN, script, world)
    state = await state_now(store, RUN)
    calls = faults.calls
    await store.close()
    return state, world, calls


async def interrupted(factory: StoreFactory, script: Script, fault: Fault) -> tuple[State, World, int]:
    """Run with one fault; then fault-free processes until the run is over. Returns how many processes it took."""
    world = World()
    inner = await factory()
    store, faults = faulty(inner, fault)
    try:
        is_over = await live(store, RUN, script, world)
    except (Died, OutlastError):
        is_over = False
    for process in itertools.count(2):
        if is_over:
            break
        assert process < 6, f"{fault} keeps the run from its end"
        await faults.deliver_held_back("slow")
        hide_locks(inner)  # its process is gone
        successor = await factory()
        successor.skew = process * 60_000_000
        try:
            is_over = await live(cast("Store", LateCalls(successor, faults, nothing_landed)), RUN, script, world)
        except OutlastError:
            is_over = False
        await successor.close()
    check = await factory()
    state = await state_now(check, RUN)
    await judge(check, world)
    await inner.close()
    await check.close()
    return state, world, process


def nothing_landed(answers: list[Any]) -> None:
    """P3, of what a dead owner's call was answered after the takeover."""
    for answer in answers:
        appended = isinstance(answer, list) and answer and isinstance(answer[0], Landed | Lost)
        assert not appended or LANDED not in answer, "an owner wrote after it was taken over"


async def judge(store: Store, world: World) -> None:
    """Nothing acknowledged is lost, nothing is there twice, no old epoch wrote, all invariants hold."""
    records = await store.read(RUN, limit=100_000)
    starts = {record.first for record in records}
    assert {first for _, first in world.acknowledged} <= starts, "an acknowledged append is lost"
    assert len({record.id for record in records}) == len(records), "an append is there twice"
    assert violations(RUN, records, await store.summary(RUN)) == []
    started = Counter(
        (RUN, record.branch, event.node)
        for record in records
        for event in record.events()
        if isinstance(event, NodeStarted)
    )
    assert world.executed <= started, "a node ran without its start being recorded"


def outcome(state: State) -> tuple[RunStatus, bytes, int]:
    return state.status, bytes(state.outline.output), state.outline.branch


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_ends_the_same_wherever_its_process_dies(
    kind: str, name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """P1, P2, P3: in memory every call, every way to fail; a sample on SQLite, where `make faults` tries them all."""
    record_property(SURVIVED, cross(kind, name, tmp_path, SAMPLE.get(kind)))


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_on_objects_ends_the_same_wherever_its_process_dies(kind: str, name: str, tmp_path: Path) -> None:
    """P1, P2, P3: a sample of the points; `make faults` tries them all."""
    cross(kind, name, tmp_path, SAMPLE[kind])


@pytest.mark.soak
@pytest.mark.parametrize("kind", SAMPLE)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_ends_the_same_at_every_point(kind: str, name: str, tmp_path: Path) -> None:
    """P1, P2, P3"""
    cross(kind, name, tmp_path)


def cross(kind: str, name: str, tmp_path: Path, most: int | None = None) -> int:
    """Play a script with each fault, or with so many of them."""

    async def all_points() -> int:
        script, factory = SCRIPTS[name], (FACTORIES | OBJECTS)[kind]
        folder = tmp_path / "whole"
        folder.mkdir()
        expected, world, calls = await uninterrupted(factory(folder), script)
        assert expected.status is RunStatus.COMPLETED
        faults = [Fault(way, call) for way, call in itertools.product(WAYS, range(1, calls + 1))]
        chosen = faults if most is None else sample(faults, most, f"{kind}, {name}")
        for fault in chosen:
            folder = tmp_path / f"{fault.way}-{fault.call}"
            folder.mkdir()
            state, crashed, processes = await interrupted(factory(folder), script, fault)
            assert outcome(state) == outcome(expected), f"{fault} changes the outcome"
            repeated = crashed.executed - world.executed
            assert sum(repeated.values()) <= (processes - 1) * 3, f"{fault} repeats {repeated}"
        return len(chosen)

    points = asyncio.run(all_points())
    print(f"\n{kind}, {name}: {points} crash points")
    return points


async def points_on_a_server(url: str, name: str, most: int) -> int:
    """Some points of a script."""

    async def factory() -> Store:
        return PostgresStore(url, durability="relaxed")

    script = SCRIPTS[name]
    await empty_store(url)
    expected, world, calls = await uninterrupted(factory, script)
    assert expected.status is RunStatus.COMPLETED
    points = list(itertools.product(WAYS, range(1, calls + 1)))
    chosen = sample(points, most, f"postgres, {name}")
    for way, call in chosen:
        fault = Fault(way, call)
        await empty_store(url)
        state, crashed, processes = await interrupted(factory, script, fault)
        assert outcome(state) == outcome(expected), f"{fault} changes the outcome"
        repeated = crashed.executed - world.executed
        assert sum(repeated.values()) <= (processes - 1) * 3, f"{fault} repeats {repeated}"
    print(f"\npostgres, {name}: {len(chosen)} crash points")
    return len(chosen)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_on_a_server_ends_the_same_wherever_its_process_dies(name: str, postgres_url: str) -> None:
    """P1, P2, P3: a sample of the points; `make faults` tries them all."""
    assert asyncio.run(points_on_a_server(postgres_url, name, 4))


@pytest.mark.soak
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_on_a_server_ends_the_same_whatever_happens_to_any_call(name: str, postgres_url: str) -> None:
    """P1, P2, P3: every call, every way to fail."""
    assert asyncio.run(points_on_a_server(postgres_url, name, 10_000))


def test_the_loop_notices_a_store_that_answers_without_keeping(tmp_path: Path) -> None:
    """The oracle can fail: P1."""

    class Forgetful(MemoryStore):
        async def append(self, batch: Sequence[Append]) -> list[Outcome]:
            log = self.memory.logs.get(RUN, [])
            outcomes = await super().append(batch)
            if len(log) == 4:
                self.memory.logs[RUN] = log[:3]
            return outcomes

    memory = Memory()

    async def factory() -> Store:
        return Forgetful(memory)

    with pytest.raises((AssertionError, OutlastError)):
        asyncio.run(interrupted(factory, SCRIPTS["three nodes"], Fault("die_after", 9)))


def test_the_loop_notices_a_store_that_forgets_the_epoch(tmp_path: Path) -> None:
    """The oracle can fail: P3."""

    class Unfenced(MemoryStore):
        async def append(self, batch: Sequence[Append]) -> list[Outcome]:
            moved = []
            for each in batch:
                head = self.memory.heads.get(each.record.run)
                if head is not None and each.record.kind is Kind.OWNER and head.version >= each.record.first:
                    first = head.version + 1
                    record = structs.replace(each.record, first=first)
                    each = structs.replace(
                        each, record=record, head=structs.replace(each.head, version=first + record.count - 1)
                    )
                    self.memory.heads[each.record.run] = structs.replace(head, epoch=each.record.epoch)
                moved.append(each)
            return await super().append(moved)

    memory = Memory()

    async def factory() -> Store:
        return Unfenced(memory)

    async def any_point() -> None:
        for call in range(1, 14):
            memory.__init__()  # type: ignore[misc]
            await interrupted(factory, SCRIPTS["three nodes"], Fault("late", call))

    with pytest.raises((AssertionError, OutlastError)):
        asyncio.run(any_point())
