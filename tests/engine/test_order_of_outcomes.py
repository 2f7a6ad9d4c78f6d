"""Outcomes are delivered to workflow code in the order of the log: an answer that stands before a timer wins, one that comes
after it is refused, whoever is awake (P1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import outlast as ol
from outlast.errors import RunGone
from outlast.functions import registry
from outlast.functions.dry_replay import dry_run
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.ledger.verification import verify
from outlast.store import Append, Outcome, Store
from outlast.testing.processes import engine_over
from outlast.testing.store_factory import MemoryStoreFactory, StoreFactory
from support.store_factories import SqliteStoreFactory

SOON = 10.0
SHORT = 0.05
YES = msgspec.Raw(b"true")
Act = Callable[[], Awaitable[None]]


class Sequenced:
    """A store that acts right before or right after the first owner's append with an event of type `at`."""

    def __init__(self, store: Store, at: type[e.Event], when: str, act: Act) -> None:
        self.__dict__.update(_store=store, _at=at, _when=when, _act=act, acted=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        here = not self.acted and any(
            isinstance(event, self._at) for each in batch if each.record.epoch for event in each.record.events()
        )
        if here:
            self.__dict__["acted"] = 1
        if here and self._when == "before":
            await self._act()
        outcomes: list[Outcome] = await self._store.append(batch)
        if here and self._when == "after":
            await self._act()
        return outcomes


@pytest.fixture(params=[MemoryStoreFactory, SqliteStoreFactory])
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    factory: StoreFactory = request.param(tmp_path)
    factory.reset()
    known = dict(registry._workflows)
    registry._workflows.clear()
    yield factory
    registry._workflows.clear()
    registry._workflows.update(known)


@asynccontextmanager
async def opened(factory: StoreFactory) -> AsyncIterator[Store]:
    store = factory.open()
    try:
        yield store
    finally:
        await store.close()


def answering(store: Store, run: str, refused: list[str], interaction: str = "approve") -> Act:
    """Another process answers."""

    async def act() -> None:
        other = Ledger(store)
        try:
            await other.deliver(RunId(run), [e.InteractionAnswered(interaction=interaction, answer=YES)])
        except RunGone as error:
            refused.append(str(error))
        finally:
            await other.close()

    return act


def stopped_clock() -> Callable[[], int]:
    now = system_clock()
    return lambda: now


async def replays(store: Store, run: str) -> bool:
    return (await verify(store, RunId(run))).is_sound and (await dry_run(store, RunId(run))).agrees


async def raced() -> bool:
    won = await ol.race(ol.approve("Pay?"), ol.sleep(SHORT))
    return won.index == 0


async def waited_for() -> bool:
    try:
        return await asyncio.wait_for(ol.approve("Pay?"), SHORT)
    except TimeoutError:
        return False


async def timed() -> bool:
    try:
        async with asyncio.timeout(SHORT):
            return await ol.approve("Pay?")
    except TimeoutError:
        return False


async def first_completed() -> bool:
    """The loser is not given up."""
    answer = asyncio.ensure_future(ol.approve("Pay?"))
    done, _ = await asyncio.wait({answer, asyncio.ensure_future(ol.sleep(SHORT))}, return_when="FIRST_COMPLETED")
    return answer in done


FORMS = [raced, waited_for, timed, first_completed]


@pytest.mark.parametrize("form", FORMS)
async def test_an_answer_that_stands_before_the_timer_wins(factory: StoreFactory, form: Any) -> None:
    workflow = ol.workflow(form)
    refused: list[str] = []
    async with opened(factory) as store:
        sequenced: Any = Sequenced(store, e.TimerFired, "before", answering(store, "one", refused))
        async with engine_over(sequenced) as engine:
            handle = await engine.start(workflow.options(id="one"))
            assert await asyncio.wait_for(handle.result(), SOON) is True
        assert sequenced.acted
        assert refused == []
        assert await replays(store, "one")


@pytest.mark.parametrize("form", FORMS)
async def test_an_answer_that_comes_after_the_timer_is_refused(factory: StoreFactory, form: Any) -> None:
    workflow = ol.workflow(form)
    refused: list[str] = []
    async with opened(factory) as store:
        sequenced: Any = Sequenced(store, e.TimerFired, "after", answering(store, "one", refused))
        async with engine_over(sequenced) as engine:
            handle = await engine.start(workflow.options(id="one"))
            assert await asyncio.wait_for(handle.result(), SOON) is False
        assert len(refused) == 1
        assert await replays(store, "one")


@pytest.mark.parametrize("at", [e.RunTakenOver, e.TimerFired])
@pytest.mark.parametrize("form", FORMS)
async def test_after_a_takeover_the_answer_that_stands_before_the_timer_wins(
    factory: StoreFactory, form: Any, at: type[e.Event]
) -> None:
    """It lands before or after the takeover, long after the time is up."""
    workflow = ol.workflow(form)
    refused: list[str] = []
    async with opened(factory) as store:
        async with engine_over(store, clock=stopped_clock()) as engine:  # the timer is not due while it is open
            await engine.start(workflow.options(id="one"))
        await asyncio.sleep(2 * SHORT)
        sequenced: Any = Sequenced(store, at, "before", answering(store, "one", refused))
        async with engine_over(sequenced) as engine:
            assert await asyncio.wait_for((await engine.handle("one")).result(), SOON) is True
        assert sequenced.acted
        assert refused == []
        assert await replays(store, "one")


@pytest.mark.parametrize("form", FORMS)
async def test_after_a_takeover_an_answer_that_comes_after_the_timer_is_refused(
    factory: StoreFactory, form: Any
) -> None:
    workflow = ol.workflow(form)
    refused: list[str] = []
    async with opened(factory) as store:
        async with engine_over(store, clock=stopped_clock()) as engine:  # the timer is not due while it is open
            await engine.start(workflow.options(id="one"))
        await asyncio.sleep(2 * SHORT)
        sequenced: Any = Sequenced(store, e.TimerFired, "after", answering(store, "one", refused))
        async with engine_over(sequenced) as engine:
            assert await asyncio.wait_for((await engine.handle("one")).result(), SOON) is False
        assert len(refused) == 1
        assert await replays(store, "one")


async def test_a_node_that_runs_meanwhile_runs_on_and_is_not_done_again(factory: StoreFactory) -> None:
    """P2: what the code is told again is told to another copy of it."""
    answered, begun = asyncio.Event(), 0

    @ol.node(repeatable=False)
    async def beside() -> str:
        nonlocal begun
        begun += 1
        await answered.wait()
        return "done"

    @ol.node
    async def following(won: bool) -> bool:
        answered.set()
        return won

    @ol.workflow
    async def both() -> list[object]:
        async def asking() -> bool:
            won = await ol.race(ol.approve("Pay?"), ol.sleep(SHORT))
            return await following(won.index == 0)

        return list(await ol.gather(beside(), asking()))

    refused: list[str] = []
    async with opened(factory) as store:
        sequenced: Any = Sequenced(store, e.TimerFired, "before", answering(store, "one", refused, "1/approve"))
        async with engine_over(sequenced) as engine:
            handle = await engine.start(both.options(id="one"))
            assert await asyncio.wait_for(handle.result(), SOON) == ["done", True]
        assert sequenced.acted
        assert (begun, refused) == (1, [])
        assert await replays(store, "one")


async def test_a_node_that_the_code_gave_up_too_early_is_neither_stopped_nor_done_again(factory: StoreFactory) -> None:
    """P2: what code was told of a timer has been taken back, and with it what it gave up because of that."""
    begun, stopped = 0, 0
    answered = asyncio.Event()

    @ol.node(repeatable=False)
    async def slow() -> str:
        nonlocal begun, stopped
        begun += 1
        try:
            await answered.wait()
        except asyncio.CancelledError:
            stopped += 1
            raise
        return "done"

    @ol.node
    async def free() -> None:
        answered.set()

    @ol.workflow
    async def first_answer_then_node() -> str:
        work = asyncio.ensure_future(slow())
        won = await ol.race(ol.approve("Go on?"), ol.sleep(SHORT))
        if won.index == 1:
            work.cancel()
            return "late"
        await free()
        return await work

    refused: list[str] = []
    async with opened(factory) as store:
        sequenced: Any = Sequenced(store, e.TimerFired, "before", answering(store, "one", refused))
        async with engine_over(sequenced) as engine:
            handle = await engine.start(first_answer_then_node.options(id="one"))
            assert await asyncio.wait_for(handle.result(), SOON) == "done"
        assert (begun, stopped, refused) == (1, 0, [])
        assert await replays(store, "one")


async def test_a_result_that_comes_with_an_answer_before_it_is_kept_and_delivered_after_it(
    factory: StoreFactory,
) -> None:
    """P1, P2"""
    begun = 0

    @ol.node(repeatable=False)
    async def paying() -> str:
        nonlocal begun
        begun += 1
        await asyncio.sleep(0)
        return "paid"

    @ol.workflow
    async def in_order() -> list[str]:
        came: list[str] = []

        async def one(name: str, call: Any) -> None:
            await call
            came.append(name)

        await ol.gather(one("answer", ol.approve("Pay?")), one("payment", paying()))
        return came

    refused: list[str] = []
    async with opened(factory) as store:
        sequenced: Any = Sequenced(store, e.NodeCompleted, "before", answering(store, "one", refused))
        async with engine_over(sequenced) as engine:
            handle = await engine.start(in_order.options(id="one"))
            assert await asyncio.wait_for(handle.result(), SOON) == ["answer", "payment"]
        assert (begun, refused) == (1, [])
        assert await replays(store, "one")


async def test_a_checkpoint_and_a_retry_that_were_to_be_written_with_a_timer_are_not_lost(
    factory: StoreFactory,
) -> None:
    """P1"""
    kept: list[Any] = []
    asked = asyncio.Event()

    @ol.node(retry=ol.Retry(max_attempts=2, delay=0.01))
    async def flaky() -> str:
        await asked.wait()
        if ol.context().attempt == 1:
            raise ConnectionError("not yet")
        return "done"

    @ol.node
    async def keeping() -> str:
        await asked.wait()
        await ol.checkpoint("half-way")
        kept.append("half-way")
        return "kept"

    @ol.workflow
    async def all_at_once() -> list[Any]:
        async def asking() -> bool:
            won = await ol.race(ol.approve("Pay?"), ol.sleep(SHORT))
            return won.index == 0

        return list(await ol.gather(flaky(), keeping(), asking()))

    refused: list[str] = []
    async with opened(factory) as store:
        act = answering(store, "one", refused, "1/approve")

        async def act_and_free() -> None:
            asked.set()
            for _ in range(20):
                await asyncio.sleep(0)
            await act()

        sequenced: Any = Sequenced(store, e.TimerFired, "before", act_and_free)
        async with engine_over(sequenced) as engine:
            handle = await engine.start(all_at_once.options(id="one"))
            assert await asyncio.wait_for(handle.result(), SOON) == ["done", "kept", True]
        assert (kept, refused) == (["half-way"], [])
        assert await replays(store, "one")


async def test_the_end_of_a_child_that_stands_before_the_timer_wins(factory: StoreFactory) -> None:
    @ol.workflow
    async def child() -> str:
        await ol.approve("Well?")
        return "ended"

    @ol.workflow
    async def parent() -> str:
        try:
            return await asyncio.wait_for(child(), SHORT)
        except TimeoutError:
            return "late"

    async with opened(factory) as store:

        async def end_of_child() -> None:
            other = Ledger(store)
            (name,) = [wait.wait.id for wait in (await store.waits(kind="child"))[0]]
            ended = e.ChildEnded(child=RunId(name), output=msgspec.Raw(b'"ended"'))
            await other.deliver(RunId("one"), [ended])
            await other.close()

        sequenced: Any = Sequenced(store, e.TimerFired, "before", end_of_child)
        async with engine_over(sequenced) as engine:
            handle = await engine.start(parent.options(id="one"))
            assert await asyncio.wait_for(handle.result(), SOON) == "ended"
        assert await replays(store, "one")
