"""Random turns against the plainest way to tell them, and what a thousand branches cost those who read only one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.engine.branch_requests import open_requested_branch
from outlast.errors import NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger import Ledger, RunWriter
from outlast.ledger.reading import head_of, lineage_of, previous_branch, read_events, state_of
from outlast.ledger.verification import verify
from outlast.lifecycle.adoption import adoptable
from outlast.lifecycle.branch_plan import BranchPlan, again, back, instead, request_of, to_place
from outlast.lifecycle.fold import fold
from outlast.lifecycle.state import OPEN, NodeStatus, State
from outlast.stores.memory import MemoryStore
from support.sampling import examples

RUN = RunId("run-1")
NAMES = ("a", "b", "1/a", "1/b", "2/a", "2/b", "3/1/a", "3/2/a", "s/a", "m/1/a", "m/2/a")


def naive(log: list[Entry], branch: int) -> list[Entry]:
    own = [entry for entry in log if entry.branch == branch]
    opening = own[0].event
    if not isinstance(opening, e.BranchOpened):
        return own
    return [entry for entry in naive(log, opening.parent) if entry.seq <= max(opening.cutoff, 1)] + own


async def everything(ledger: Ledger) -> list[Entry]:
    head = await head_of(ledger.store, RUN)
    return [entry async for entry in read_events(ledger.store, RUN, [(1, head.version)])]


async def made() -> tuple[Ledger, RunWriter]:
    ledger = Ledger(MemoryStore())
    return ledger, await ledger.create(RUN, [e.RunCreated(workflow="w"), e.RunStarted()], ledger.new_worker_id())


def some_events(state: State, chance: Random) -> list[e.AnyEvent]:
    """What a run may say next, a few events in one append."""
    said: list[e.AnyEvent] = []
    name = chance.choice(NAMES)
    node = state.nodes.get(name)
    if node is None:
        said = [e.NodeScheduled(node=name), e.NodeStarted(node=name, hash=name, code="c")]
    elif node.status is NodeStatus.SCHEDULED:
        said = [e.NodeStarted(node=name, attempt=node.attempt, hash=name, code="c")]
    elif node.status is NodeStatus.STARTED:
        said = [e.NodeCompleted(node=name, attempt=node.attempt)]
        other = next((each for each in NAMES if state.nodes.get(each) is None), None)
        if other:
            said += [e.NodeScheduled(node=other), e.NodeStarted(node=other, hash=other, code="c")]
    else:
        number = state.outline.seq
        said = [e.InteractionRequested(interaction=f"q{number}"), e.TimerSet(timer=f"t{number}", due=1)]
    return said


def some_turn(log: list[Entry], whole: int, chance: Random) -> BranchPlan:
    place: Callable[[], BranchPlan] = chance.choice(
        [
            lambda: BranchPlan(cutoff=chance.randint(0, whole)),
            lambda: to_place(log, chance.choice(NAMES)),
            lambda: back(log, chance.randint(1, 3)),
            lambda: again(log, chance.choice(NAMES), feedback=e.Value(b"1")),
            lambda: instead(log, chance.choice(NAMES), e.Value(b"2"), by="ann"),
            lambda: to_place(log, "start"),
        ]
    )
    return place()


async def told_at_random(seed: int) -> int:
    chance, turns = Random(seed), 0
    ledger, writer = await made()
    for _ in range(25):
        if chance.random() < 0.3:
            lineage = [x async for x in read_events(ledger.store, RUN, await lineage_of(ledger.store, writer.head))]
            try:
                turn = some_turn(lineage, writer.head.version, chance)
                if chance.random() < 0.3:
                    await ledger.deliver(RUN, [request_of(turn, writer.head.branch + 1)])
                    await writer.catch_up()
                    await open_requested_branch(writer)
                else:
                    await writer.open_branch(turn)
            except NotAllowed:
                continue
            turns += 1
            await _must_be_right(ledger, writer)
        elif writer.state.outline.base == "created":
            await writer.append([e.RunStarted()])
        else:
            await writer.append(some_events(writer.state, chance))
    assert (await verify(ledger.store, RUN)).is_sound
    return turns


async def _must_be_right(ledger: Ledger, writer: RunWriter) -> None:
    """After a turn the pen knows what the naive lineage amounts to, and offers nothing that must be done."""
    log = await everything(ledger)
    lineage = naive(log, writer.head.branch)
    seen = [x.seq async for x in read_events(ledger.store, RUN, await lineage_of(ledger.store, writer.head))]
    assert seen == [x.seq for x in lineage]
    expected = fold(State(), lineage)
    assert writer.state.outline == expected.outline
    for table in ("nodes", "waits", "loose", "interactions", "children", "steps"):
        assert dict(getattr(writer.state, table).items()) == dict(getattr(expected, table).items()), table
    read = await state_of(ledger.store, RUN, await lineage_of(ledger.store, writer.head))
    assert read.outline == expected.outline
    opened, left, _ = await previous_branch(ledger.store, writer.head, b"")
    then = await writer.state_at(opened.cutoff)
    offered = adoptable(opened, then, left)
    assert not set(offered) & set(opened.redo)
    if opened.cause == "recovery":
        return
    for name in offered:
        node = then.nodes.get(name)
        if node is None or node.status not in OPEN:  # it was asked for after the cut: only beside, in a parallel scope
            assert opened.redo
            assert "/" in name, name
            for other in opened.redo:
                assert name.partition("/")[0] != "s"
                assert "/" in other, (name, other)


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 10**9))
def test_random_turns_are_what_the_naive_lineage_says(seed: int) -> None:
    asyncio.run(told_at_random(seed))


@pytest.mark.soak
@settings(max_examples=examples(3000))
@given(seed=st.integers(0, 10**9))
def test_many_random_turns_are_what_the_naive_lineage_says(seed: int) -> None:
    asyncio.run(told_at_random(seed))


# --- a thousand branches -----------------------------------------------------------------------------------------------


class Reads:
    """Counts the records that are read from a store."""

    def __init__(self, store: Any) -> None:
        self._store, self.calls, self.records = store, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, *args: Any) -> Any:
        found = await self._store.read(*args)
        self.calls += 1
        self.records += len(found)
        return found


async def branched(branches: int, deep: bool) -> tuple[Any, int]:
    """A run with so many branches beside each other, or each on the one before; and the records of its lineage."""
    ledger, writer = await made()
    nodes: list[e.AnyEvent] = [e.NodeScheduled(node="a"), e.NodeStarted(node="a")]
    await writer.append(nodes)
    for number in range(branches):
        await writer.open_branch(BranchPlan(cutoff=writer.head.version if deep else 4))
        for _ in range(3):
            await writer.append([e.DecisionRecorded(key=f"k{writer.head.version}")])
        del number
    return ledger.store, len(
        [x async for x in read_events(ledger.store, RUN, await lineage_of(ledger.store, writer.head))]
    )


async def costs(store: Any, what: Callable[[Ledger], Awaitable[Any]]) -> tuple[int, int]:
    reads: Any = Reads(store)
    await what(Ledger(reads))
    return reads.calls, reads.records


@pytest.mark.parametrize("deep", [False, True])
def test_to_read_a_lineage_and_to_take_over_costs_what_the_lineage_is_long_not_the_log(deep: bool) -> None:
    async def read(ledger: Ledger) -> None:
        await state_of(ledger.store, RUN, await lineage_of(ledger.store, await head_of(ledger.store, RUN)))

    async def take_over(ledger: Ledger) -> None:
        worker = ledger.new_worker_id()
        await ledger.store.enrol(worker, 30)
        for holder in [each async for each in _claims(ledger.store)]:
            await ledger.store.retire(holder)
        (claim,) = await ledger.store.claim(worker, runs=[RUN])
        await ledger.take_over(claim)

    async def both() -> None:
        for branches in (10, 200 if deep else 1000):
            store, events = await branched(branches, deep)
            for what in (read, take_over):
                calls, records = await costs(store, what)
                lineage = branches if deep else 1
                assert calls <= 3 * lineage + 5, f"{calls} reads for a lineage of {lineage} branches"
                assert records <= events + 2 * lineage + 5, f"{records} records for {events} events"

    asyncio.run(both())


async def _claims(store: Any) -> Any:
    for worker in list(store.memory.workers) if hasattr(store, "memory") else []:
        yield worker
