"""A claim in an SQLite file costs in proportion to the runs that it returns and the keys that have runs, not to the runs
that it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import Slot
from outlast.stores.sqlite import SqliteStore
from outlast.stores.sqlite.turns import MARKED_TOGETHER
from outlast.testing.contract.samples import ANN, BEN, begin, begin_ready, follow, land, summary

FEW, MANY = 30, 1500
PAST = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def use(path: Path, act: Callable[[SqliteStore], Awaitable[Any]]) -> Any:
    async def used() -> Any:
        store = SqliteStore(path, durability="relaxed")
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(used())


def few_and_many(folder: Path, cost: Callable[[SqliteStore, int], Awaitable[Any]]) -> tuple[Any, Any]:
    """What something costs in a store with few runs and in one with many."""
    few, many = (use(folder / f"{number}.db", partial(cost, number=number)) for number in (FEW, MANY))
    return few, many


async def steps(store: SqliteStore, act: Callable[[], Awaitable[Any]]) -> int:
    """The instructions that SQLite carries out for a call, on all connections of the store."""
    total = 0

    def profile(event: Any) -> None:
        nonlocal total
        total += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    connections = (store._db._write, store._db.read, store._db._search)
    for connection in connections:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
    try:
        await act()
    finally:
        for connection in connections:
            connection.trace_v2(0, None)
    return total


def ready(name: str, **parts: Any) -> Any:
    run = RunId(name)
    return begin_ready(run, summary=summary(run, **parts))


async def many_ready(store: SqliteStore, number: int, **parts: Any) -> None:
    await store.append([ready(f"many-{i:05}", workflow="many", **parts) for i in range(number)])


async def paused(store: SqliteStore, number: int) -> None:
    """Runs with a timer that is due and which nobody may claim for it."""
    timers = [Wait("timer", "t", due=PAST)]
    await store.append(
        [
            begin(RunId(f"paused-{i:05}"), summary=summary(RunId(f"paused-{i:05}"), status=status), opens=timers)
            for i in range(number)
            for status in [(RunStatus.PAUSED, RunStatus.FAILED)[i % 2]]
        ]
    )


async def held(store: SqliteStore, number: int) -> None:
    """Runs of a living worker, which have a timer that is due."""
    await store.enrol(ANN, 60)
    timers = [Wait("timer", "t", due=PAST)]
    names = [RunId(f"held-{i:05}") for i in range(number)]
    await store.append([begin(run, summary=summary(run, workflow="few"), opens=timers, claim=ANN) for run in names])


async def interrupted(store: SqliteStore, number: int) -> None:
    """Runs of a dead worker that are of another workflow."""
    names = [RunId(f"dead-{i:05}") for i in range(number)]
    await store.append([begin(run, summary=summary(run, workflow="many"), claim=ANN) for run in names])


@pytest.mark.parametrize("left", [many_ready, paused, held, interrupted])
def test_a_claim_does_not_cost_more_the_more_runs_it_leaves(left: Any, tmp_path: Path) -> None:
    async def cost(store: SqliteStore, number: int) -> tuple[int, int]:
        await store.enrol(BEN, 60)
        await left(store, number)
        idle = await steps(store, lambda: store.claim(BEN, workflows=["few", "none"], limit=9))
        await store.append([ready("one", workflow="few"), ready("two", workflow="few")])
        granted = []

        async def claim() -> None:
            granted.extend(await store.claim(BEN, workflows=["few", "none"], limit=9))

        taken = await steps(store, claim)
        assert [claim.run for claim in granted] == ["one", "two"]
        return idle, taken

    (few_idle, few_taken), (many_idle, many_taken) = few_and_many(tmp_path, cost)
    assert few_taken > few_idle > 0
    assert many_idle <= few_idle + 50
    assert many_taken <= few_taken + 200


def test_claims_of_runs_that_were_all_created_at_once_cost_the_same(tmp_path: Path) -> None:
    async def cost(store: SqliteStore, number: int) -> int:
        await many_ready(store, number)
        return await steps(store, lambda: store.claim(BEN, workflows=["many"], limit=9))

    few, many = few_and_many(tmp_path, cost)
    assert many < 1.2 * few


def test_a_full_queue_costs_the_same_however_many_runs_wait_in_it(tmp_path: Path) -> None:
    """S11: and the holder of the slot is found among them."""
    slots = {"q": [Slot("ovens", 1, "run")]}

    async def cost(store: SqliteStore, number: int) -> int:
        await store.enrol(BEN, 60)
        await many_ready(store, number, queue="q")
        (claim,) = await store.claim(BEN, workflows=["many"], slots=slots, limit=9)
        taken = await steps(store, lambda: store.claim(BEN, workflows=["many"], slots=slots, limit=9))
        assert await store.release(claim.run, BEN, 1, ready=True)
        (again,) = await store.claim(BEN, workflows=["many"], slots=slots, limit=9)
        assert again.run == claim.run
        return taken

    few, many = few_and_many(tmp_path, cost)
    assert many <= few + 50


def test_an_idle_worker_takes_no_write_lock(path: Path) -> None:
    async def scene(store: SqliteStore) -> None:
        await store.enrol(BEN, 60)
        await many_ready(store, 3, queue="q")
        await paused(store, 3)
        slots = {"q": [Slot("ovens", 1)]}
        (claim,) = await store.claim(BEN, slots=slots, limit=9)
        other = apsw.Connection(str(path))
        other.execute("begin immediate")
        assert await store.claim(BEN, workflows=["none"]) == []
        assert await store.claim(BEN, slots=slots) == [], "the only slot is taken"
        other.execute("rollback")
        other.close()
        assert [holder.run for holder in await store.slot_holders()] == [claim.run]

    use(path, scene)


def test_more_due_runs_than_are_marked_at_once_are_all_claimed(path: Path) -> None:
    async def scene(store: SqliteStore) -> None:
        await store.enrol(BEN, 60)
        timers = [Wait("timer", "t", due=PAST)]
        names = [RunId(f"due-{i:05}") for i in range(2 * MARKED_TOGETHER + 1)]
        await store.append(
            [begin(run, kind=Kind.GUEST, epoch=0, ready=False, summary=summary(run), opens=timers) for run in names]
        )
        assert {claim.run for claim in await store.claim(BEN, limit=5000)} == set(names)

    use(path, scene)


def test_a_run_is_due_again_by_the_timer_that_it_has_then(path: Path) -> None:
    """The time in the head follows the timers and the status."""

    async def scene(store: SqliteStore) -> None:
        await store.enrol(BEN, 60)
        run, first, later = RunId("run"), Wait("timer", "a", due=PAST), Wait("timer", "b", due=1 << 60)
        parts: dict[str, Any] = {"kind": Kind.GUEST, "epoch": 0, "ready": False}
        head = await land(store, begin(run, summary=summary(run), opens=[first, later], **parts))
        assert (await store.derived(run)).faults == ()
        head = await land(store, follow(head, closes=[first.name], **parts))
        assert await store.claim(BEN) == [], "the other timer is not due"
        head = await land(store, follow(head, opens=[first], summary=summary(run, 3, status=RunStatus.PAUSED), **parts))
        assert await store.claim(BEN) == [], "the run is paused"
        await land(store, follow(head, summary=summary(run, 4), **parts))
        assert (await store.derived(run)).faults == ()
        assert [claim.run for claim in await store.claim(BEN)] == [run]

    use(path, scene)


def test_runs_that_are_released_at_once_share_a_transaction(path: Path) -> None:
    async def scene(store: SqliteStore) -> None:
        await store.enrol(BEN, 60)
        names = [RunId(f"run-{i:03}") for i in range(100)]
        await store.append([begin(run, claim=BEN) for run in names])
        commits: list[None] = []
        store._db._write.set_commit_hook(lambda: bool(commits.append(None)))
        assert all(await asyncio.gather(*(store.release(run, BEN, 1) for run in names)))
        assert len(commits) == 1
        assert await store.holdings(BEN) == []

    use(path, scene)


def test_a_write_that_fails_does_not_fail_those_that_share_its_transaction(path: Path) -> None:
    async def scene(store: SqliteStore) -> None:
        def fail(_: apsw.Connection) -> None:
            raise ValueError

        def enrol(db: apsw.Connection) -> None:
            db.execute("insert into worker values ('w', 1, 1, '')")

        failed, enrolled = await asyncio.gather(
            store._db.transact_together(fail), store._db.transact_together(enrol), return_exceptions=True
        )
        assert isinstance(failed, ValueError)
        assert enrolled is None
        assert [each.worker for each in await store.workers()] == ["w"]

    use(path, scene)
