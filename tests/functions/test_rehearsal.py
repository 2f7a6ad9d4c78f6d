"""A rehearsal says whether today's code would replay a recorded run, where not, and how far a branch may keep the log.

`upto` is held against the plain way to find it: cut at every event, and take the last cut that replays. Where the run is not
over, it is also held against the engine: a branch that is opened there goes on with the new code and is not held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import outlast as ol
from outlast.errors import Damaged
from outlast.functions import registry
from outlast.functions.dry_replay import _difference, _Log, dry_run
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.ledger.reading import created_of, records
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.stores.memory import MemoryStore
from outlast.testing.processes import engine_over

RUN = RunId("run-1")
calls: list[str] = []


@ol.node
async def first(number: int) -> int:
    calls.append("first")
    return number + 1


@ol.node
async def second(number: int) -> int:
    calls.append("second")
    return number * 10


@ol.node
async def huge(number: int) -> str:
    return "x" * 1_100_000


@ol.node
async def failing(number: int) -> int:
    calls.append("failing")
    if ol.context().attempt < 2:
        raise ValueError("not yet")
    return number


def version(fn: Callable[..., Any]) -> ol.Workflow[..., Any]:
    """The function as the workflow `flow`, whichever version of it this is."""
    registry._workflows.pop("flow", None)
    made: ol.Workflow[..., Any] = ol.workflow(name="flow")(fn)
    return made


# --- versions ----------------------------------------------------------------------------------------------------------


async def plain(number: int) -> int:
    number = await first(number)
    number = await second(number)
    await ol.approve("Go on?")
    return await first(number)


async def same_in_other_words(number: int) -> int:
    for node in (first, second):
        number = await node(number)
    await ol.approve("Go on?")
    return await first(number)


async def node_added(number: int) -> int:
    number = await first(number)
    number = await second(await second(number))
    await ol.approve("Go on?")
    return await first(number)


async def node_removed(number: int) -> int:
    number = await second(number)
    await ol.approve("Go on?")
    return await first(number)


async def other_inputs(number: int) -> int:
    number = await first(number)
    number = await second(number + 5)
    await ol.approve("Go on?")
    return await first(number)


async def question_changed(number: int) -> int:
    number = await first(number)
    number = await second(number)
    await ol.approve("Shall it go on?")
    return await first(number)


async def asked_beside(number: int) -> int:
    number = await first(number)
    number, _ = await ol.gather(second(number), first(number))
    await ol.approve("Go on?")
    return await first(number)


async def node_at_the_end(number: int) -> int:
    number = await first(number)
    number = await second(number)
    await ol.approve("Go on?")
    return await second(await first(number))


async def ends_early(number: int) -> int:
    number = await first(number)
    number = await second(number)
    await ol.approve("Go on?")
    return number


async def other_result(number: int) -> int:
    number = await first(number)
    number = await second(number)
    await ol.approve("Go on?")
    return -await first(number)


async def raises(number: int) -> int:
    await first(number)
    raise KeyError("gone")


async def parameter_renamed(count: int) -> int:
    return count


WAITING = {
    "node_added": (node_added, "the log has the question 'Go on?'; the code asked for node 'second#2'"),
    "node_removed": (node_removed, "the log has node 'first'; the code asked for node 'second'"),
    "other_inputs": (other_inputs, "node 'second' with other inputs"),
    "asked_beside": (asked_beside, "before that the code asked for node 'first#2'"),
    "raises": (raises, "the log has node 'second'; the code has ended before that"),
    "parameter_renamed": (parameter_renamed, "the code does not accept the parameters"),
}
ANSWERED = {
    **WAITING,
    "question_changed": (question_changed, "which was answered; the code asks 'Shall it go on?' there"),
}
ENDED = {
    **ANSWERED,
    "node_at_the_end": (node_at_the_end, "the code continues, and asked for node 'second#2'"),
    "ends_early": (ends_early, "the log has node 'first#2'; the code has ended before that"),
    "other_result": (other_result, "with the result 21; the code returns -21"),
}


async def recorded(store: MemoryStore, *, answer: bool) -> None:
    """A run of `plain`, up to its question or to its end."""
    async with engine_over(store) as engine:
        handle = await engine.start(version(plain).options(id=RUN), 1)
        async for _ in handle.watch():
            if await engine.questions(RUN):
                break
        if answer:
            await handle.answer(True)
            await handle.result()


async def plain_upto(store: MemoryStore, workflow: ol.Workflow[..., Any]) -> int:
    """The last event after which a cut replays, by trying all of them."""
    created, whole = await created_of(store, RUN), await _Log.of(store, RUN, None)
    agreed = 0
    for last in range(1, whole.head.version + 1):
        if await _difference(await whole.cut(last), workflow, created) is None:
            agreed = last
    return agreed


async def bodies(store: MemoryStore) -> list[bytes]:
    return [record.body async for record in records(store, RUN)]


# --- what it says ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [False, True])
def test_code_that_asks_for_the_same_agrees_to_the_end(answer: bool) -> None:
    async def whole() -> None:
        store = MemoryStore()
        await recorded(store, answer=answer)
        before, done = await bodies(store), len(calls)
        for fn in (plain, same_in_other_words):
            found = await dry_run(store, RUN, version(fn))
            assert (found.agrees, found.divergence, found.seq) == (True, None, None)
            assert found.upto == found.events == (15 if answer else 9)
        assert (await bodies(store), len(calls)) == (before, done), "it wrote something, or ran a node"

    asyncio.run(whole())


def test_a_question_that_is_still_open_may_be_put_otherwise() -> None:
    async def whole() -> None:
        store = MemoryStore()
        await recorded(store, answer=False)
        assert (await dry_run(store, RUN, version(question_changed))).agrees

    asyncio.run(whole())


@pytest.mark.parametrize(("name", "answer"), [*((name, False) for name in WAITING), *((name, True) for name in ENDED)])
def test_code_that_asks_for_something_else_diverges_there(name: str, answer: bool) -> None:
    fn, said = ENDED[name]

    async def whole() -> None:
        store = MemoryStore()
        await recorded(store, answer=answer)
        before, done = await bodies(store), len(calls)
        workflow = version(fn)
        found = await dry_run(store, RUN, workflow)
        assert found.divergence is not None
        assert said in found.divergence
        assert found.seq is not None
        assert found.upto == 0 or f"event {found.seq} " in found.divergence
        assert found.upto == await plain_upto(store, workflow)
        assert (await bodies(store), len(calls)) == (before, done), "it wrote something, or ran a node"

    asyncio.run(whole())


@pytest.mark.parametrize("name", [name for name in WAITING if name != "parameter_renamed"])
def test_a_branch_that_is_cut_there_goes_on_with_the_new_code(name: str) -> None:
    async def whole() -> None:
        store = MemoryStore()
        await recorded(store, answer=False)
        workflow = version(WAITING[name][0])
        found = await dry_run(store, RUN, workflow)
        ledger, worker = Ledger(store), WorkerId("worker-x")
        await store.enrol(worker, 60)
        (claim,) = await store.claim(worker, runs=[RUN])
        writer = await ledger.take_over(claim)
        await writer.open_branch(BranchPlan(cutoff=found.upto))
        while not await writer.release(ready=True):
            pass
        await ledger.close()
        async with engine_over(store) as engine:
            async for _ in engine.watch(RUN):
                summary = await engine.get(RUN)
                assert not summary.held, summary.reason
                if await engine.questions(RUN):
                    break
            else:
                assert name == "raises"
            assert (await engine.verify(RUN)).is_sound

    asyncio.run(whole())


def test_a_retried_failure_counts_only_until_it_was_reset() -> None:
    """What a replay makes of the failure depends on the reset that came later."""

    async def with_retry(number: int) -> int:
        number = await first(number)
        return await second(await failing(number))

    async def caught(number: int) -> int:
        number = await first(number)
        try:
            number = await failing(number)
        except ValueError:
            number = await first(number)
        return number

    async def whole() -> None:
        store = MemoryStore()
        async with engine_over(store) as engine:
            handle = await engine.start(version(with_retry).options(id=RUN), 1)
            with pytest.raises(ValueError, match="not yet"):
                await handle.result()
            await (await engine.retry(RUN)).result()
        assert (await dry_run(store, RUN, version(with_retry))).agrees
        workflow = version(caught)
        found = await dry_run(store, RUN, workflow)
        assert not found.agrees
        assert found.upto == await plain_upto(store, workflow)

    asyncio.run(whole())


def test_values_beside_the_log_are_read_and_missing_ones_are_named() -> None:
    async def large(number: int) -> int:
        return len(await huge(number))

    async def whole() -> None:
        store = MemoryStore()
        async with engine_over(store) as engine:
            await (await engine.start(version(large).options(id=RUN), 1)).result()
        assert (await dry_run(store, RUN)).agrees
        store.memory.blobs.clear()
        with pytest.raises(ol.NotFound, match=r"blob .* is missing"):
            await dry_run(store, RUN)

    asyncio.run(whole())


def test_a_dead_branch_can_be_rehearsed_by_its_number() -> None:
    async def whole() -> None:
        store = MemoryStore()
        await recorded(store, answer=False)
        ledger, worker = Ledger(store), WorkerId("worker-x")
        await store.enrol(worker, 60)
        (claim,) = await store.claim(worker, runs=[RUN])
        writer = await ledger.take_over(claim)
        await writer.open_branch(BranchPlan(cutoff=2))
        assert (await dry_run(store, RUN, version(other_inputs), branch=1)).agrees
        assert not (await dry_run(store, RUN, version(other_inputs), branch=0)).agrees
        with pytest.raises(ol.NotFound, match="has no branch 7"):
            await dry_run(store, RUN, branch=7)

    asyncio.run(whole())


def test_what_is_no_function_is_refused() -> None:
    async def whole() -> None:
        store = MemoryStore()
        ledger = Ledger(store)
        await ledger.create_ready(RUN, e.RunCreated(workflow="orders", kind="graph"))
        with pytest.raises(ol.NotAllowed, match="is a graph"):
            await dry_run(store, RUN)

    asyncio.run(whole())


def test_a_log_that_lost_its_end_is_damaged_and_no_riddle() -> None:
    """Whoever asks for the result of such a run is told which event is missing."""

    async def whole() -> None:
        store = MemoryStore()
        await recorded(store, answer=True)
        store.memory.logs[RUN].pop()
        async with engine_over(store) as engine:
            with pytest.raises(Damaged, match="missing"):
                await engine.result(RUN)

    asyncio.run(whole())
