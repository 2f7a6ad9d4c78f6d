"""Where a branch lies in the log is found with few reads, however many branches there are."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from outlast.client import Engine
from outlast.errors import NotFound
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.history.lineage import holder, lineage
from outlast.ledger import Ledger
from outlast.ledger.reading import branches_around, branches_of, end_of_branch, head_at, head_of, lineage_of
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.stores.memory import MemoryStore

RUN, WORKER = RunId("run-1"), WorkerId("worker-1")


class Counting(MemoryStore):
    reads = 0

    async def read(self, *args: Any, **kwargs: Any) -> Any:
        self.reads += 1
        return await super().read(*args, **kwargs)


async def branched(store: MemoryStore, cutoffs: list[float]) -> Ledger:
    """A run with a branch for each cutoff, given as a share of the log before it."""
    ledger = Ledger(store)
    await store.enrol(WORKER, 60)
    writer = await ledger.create(RUN, [e.RunCreated(workflow="w"), e.RunStarted()], WORKER)
    for number, share in enumerate(cutoffs):
        for key in range(number % 4 + 1):
            pair = [e.SignalReceived(signal=f"{number}.{key}{part}", name="go") for part in "ab"]
            await ledger.deliver(RUN, pair)
        await writer.catch_up()
        await writer.open_branch(BranchPlan(cutoff=int(share * writer.head.version)))
    await writer.release_when_read()
    return ledger


@pytest.mark.parametrize("seed", range(5))
def test_every_event_and_every_branch_is_found_where_it_is(seed: int) -> None:
    chance = random.Random(seed)

    async def found() -> None:
        store = MemoryStore()
        await branched(store, [chance.random() for _ in range(30)])
        head = await head_of(store, RUN)
        branches = await branches_of(store, head)
        for seq in range(head.version + 1):
            there = await head_at(store, head, seq)
            held = holder(branches.values(), seq)
            assert (there.version, there.branch, there.branch_first) == (seq, held.id, held.first)
            around = await branches_around(store, head, seq)
            assert holder(around.values(), seq) == held
            assert lineage(around, held.id, seq) == lineage(branches, held.id, seq) == await lineage_of(store, there)
            assert max(around) == head.branch
        for number in branches:
            following = branches.get(number + 1)
            end = await end_of_branch(store, head, number)
            assert (end.branch, end.version) == (number, following.first - 1 if following else head.version)
        for number in (-1, head.branch + 1):
            with pytest.raises(NotFound, match="has no branch"):
                await end_of_branch(store, head, number)

    asyncio.run(found())


@pytest.mark.parametrize("target", [2, 40])
def test_a_jump_does_not_read_one_record_for_each_branch(target: int) -> None:
    """To an event that all branches share, and to one on a branch that was left."""

    async def reads(branches: int) -> int:
        store = Counting()
        ledger = await branched(store, [0.0] * 20 + [2 / 40] * branches)
        engine = Engine(ledger)
        store.reads = 0
        await engine.jump(RUN, target)
        return store.reads

    assert asyncio.run(reads(200)) <= asyncio.run(reads(20)) + 8
