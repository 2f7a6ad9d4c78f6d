"""What is said while an append is under way, or with the same one, is neither taken for durable nor said twice (P1, W1)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.engine.batch import without_closed
from outlast.engine.driver import RunDriver
from outlast.functions.dry_replay import dry_run
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.verification import verify
from outlast.lifecycle.state import State
from outlast.store import Append, Outcome, Store
from outlast.stores.memory import MemoryStore
from outlast.testing.processes import engine_over

SOON = 8.0


class Held(MemoryStore):
    """Appends only as often as it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self._permits = asyncio.Semaphore(0)

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        self.asked += 1
        await self._permits.acquire()
        return await super().append(batch)

    def let(self, times: int = 1) -> None:
        for _ in range(times):
            self._permits.release()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not is_so():
            await asyncio.sleep(0)


async def turns(number: int = 30) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def replays(store: Store, run: RunId) -> bool:
    """Whether the log is sound, and all that the code was told stands in it."""
    return (await verify(store, run)).is_sound and (await dry_run(store, run)).agrees


async def test_a_checkpoint_returns_when_the_append_that_says_so_has_landed_and_not_the_one_before() -> None:
    """P1"""
    other, keep, end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    kept: list[str] = []

    @ol.node
    async def beside() -> None:
        await other.wait()

    @ol.node
    async def keeping() -> None:
        await keep.wait()
        await ol.checkpoint("half-way")
        kept.append("half-way")
        await end.wait()

    @ol.workflow
    async def both() -> None:
        await ol.gather(beside(), keeping())

    store = Held()
    store.let(1)
    async with engine_over(store) as engine:
        handle = await engine.start(both)
        before = store.asked
        other.set()
        await until(lambda: store.asked == before + 1)  # that it completed is on its way
        keep.set()
        await turns()
        store.let()
        await until(lambda: store.asked == before + 2)  # the checkpoint is on its way
        await turns()
        assert kept == []
        store.let()
        await until(lambda: kept == ["half-way"])
        end.set()
        store.let(10)
        await asyncio.wait_for(handle.result(), SOON)


async def test_a_node_that_is_given_up_amid_its_checkpoint_takes_nothing_of_others_along() -> None:
    """P1, P2: its checkpoint and another node's result are one append, which goes on though the node is cancelled."""
    go, keep, first, second = (asyncio.Event() for _ in range(4))
    done: list[str] = []

    @ol.node
    async def keeping() -> None:
        await keep.wait()
        await ol.checkpoint("half-way")
        await asyncio.sleep(60)

    @ol.node
    async def waiting_for(name: str) -> str:
        await {"first": first, "second": second, "go": go}[name].wait()
        done.append(name)
        return name

    @ol.workflow
    async def side_by_side() -> list[str]:
        async def one_after_the_other() -> str:
            return await waiting_for("first") + await waiting_for("go")

        beside = asyncio.create_task(one_after_the_other())
        won = await ol.race(keeping(), waiting_for("second"))
        return [str(won.value), await beside]

    store = Held()
    store.let(1)
    async with engine_over(store) as engine:
        handle = await engine.start(side_by_side)
        await turns()
        before = store.asked
        keep.set()
        first.set()
        await until(lambda: store.asked == before + 1)  # the checkpoint is on its way, and that the first has completed
        second.set()
        await turns()
        go.set()
        store.let(10)
        assert await asyncio.wait_for(handle.result(), SOON) == ["second", "firstgo"]
        assert sorted(done) == ["first", "go", "second"]
        assert await replays(store, handle.run)


async def test_the_time_of_a_node_that_is_up_amid_its_checkpoint_takes_nothing_of_others_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P1, P2"""
    keep, first = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    @ol.node(timeout=0.03)
    async def keeping() -> None:
        await keep.wait()
        await ol.checkpoint("half-way")

    @ol.node
    async def waiting(name: str) -> str:
        await first.wait()
        done.append(name)
        return name

    async def one_after_the_other() -> str:
        return await waiting("first") + await waiting("second")

    @ol.workflow
    async def late_and_other() -> list[str]:
        late, other = await ol.gather(keeping(), one_after_the_other(), return_exceptions=True)
        return [type(late).__name__, str(other)]

    store = Held()
    store.let(1)
    async with engine_over(store) as engine:
        handle = await engine.start(late_and_other)
        await turns()
        before = store.asked
        keep.set()
        first.set()
        await until(lambda: store.asked == before + 1)
        await asyncio.sleep(0.05)  # its time is up, and the store has not answered
        store.let(10)
        assert await asyncio.wait_for(handle.result(), SOON) == ["TimeoutError", "firstsecond"]
        assert (done, caplog.records) == (["first", "second"], [])
        assert await replays(store, handle.run)


async def test_a_node_that_has_itself_cancelled_when_it_is_over_loses_no_result() -> None:
    """P1, P2: whoever carries a result to the log may be stopped there; then the run goes on from its log."""

    @ol.node
    async def mischievous() -> str:
        own = asyncio.current_task()
        assert own is not None
        asyncio.get_running_loop().call_later(0.02 if ol.context().attempt == 1 else 60, own.cancel)
        return "done"

    @ol.node
    async def following() -> str:
        return "followed"

    @ol.workflow
    async def careless_pair() -> list[str]:
        return [await mischievous(), await following()]

    store = Held()
    store.let(1)
    async with engine_over(store) as engine:
        handle = await engine.start(careless_pair)
        await asyncio.sleep(0.05)
        store.let(20)
        assert await asyncio.wait_for(handle.result(), SOON) == ["done", "followed"]
        assert await replays(store, handle.run)


async def test_a_retry_that_the_code_gave_up_in_the_same_append_does_not_come_back(stage: Any) -> None:
    """V9"""
    go, began = asyncio.Event(), list[str]()

    @ol.node(retry=ol.Retry(max_attempts=5, delay=0.01, jitter=0))
    async def flaky() -> None:
        await go.wait()
        raise ConnectionError

    @ol.node
    async def quick() -> str:
        await go.wait()
        return "quick"

    @ol.node(repeatable=False)
    async def charge() -> str:
        began.append("charge")
        await asyncio.sleep(0.1)  # the time of the retry comes and goes
        return "charged"

    @ol.workflow
    async def race() -> str:
        await ol.race(flaky(), quick())
        return await charge()

    engine = await stage.engine()
    handle = await engine.start(race)
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.NodeStarted) and event.node == "quick")
    go.set()
    assert await asyncio.wait_for(handle.result(), SOON) == "charged"
    assert began == ["charge"]
    assert await stage.is_sound(engine, handle.run)


# --- questions that are answered and no longer asked


class Counted(list[e.AnyEvent]):
    """Counts how often somebody goes through it."""

    times = 0

    def __iter__(self) -> Iterator[e.AnyEvent]:
        self.times += 1
        return super().__iter__()


def test_what_is_over_is_looked_for_once_however_much_the_code_gives_up() -> None:
    """P10: a race against thousands of timers."""
    events = Counted()
    for number in range(50):
        events += [e.TimerSet(timer=f"t{number}", due=1), e.InteractionWithdrawn(interaction=f"q{number}")]
        events += [e.TimerCancelled(timer=f"t{number}"), e.TimerCancelled(timer=f"u{number}")]
    left = without_closed(events, State())
    assert events.times < 5
    assert left == [each for each in events if getattr(each, "timer", "").startswith("t")]


async def test_a_question_that_was_answered_after_all_is_not_withdrawn(stage: Any) -> None:
    """V7: both were answered while nobody worked; the code hears of the first one and gives the other up."""

    @ol.workflow
    async def either() -> str:
        won = await ol.race(ol.ask("a?", str), ol.ask("b?", str))
        return str(won.value)

    engine = await stage.engine()
    handle = await engine.start(either)
    await stage.until(engine, handle.run, lambda event: getattr(event, "prompt", "") == "b?")
    await stage.close(engine)
    desk = await stage.engine(worker=False)
    await desk.answer(handle.run, "first", interaction="ask")
    await desk.answer(handle.run, "second", interaction="ask#2")
    async with stage.working() as another:
        assert await asyncio.wait_for(another.result(handle.run), SOON) == "first"
        assert await stage.is_sound(another, handle.run)


async def test_an_answer_that_was_acknowledged_before_a_node_completed_wins_also_in_a_replay(stage: Any) -> None:
    """P1, V7"""
    desk = await stage.engine(worker=False)
    may_end = asyncio.Event()

    @ol.node
    async def check(run: str) -> str:
        await desk.answer(run, "yes")
        return "checked"

    @ol.node
    async def last() -> None:
        await may_end.wait()

    @ol.workflow
    async def race(run: str) -> str:
        won = await ol.race(check(run), ol.ask("Is it right?", str))
        await last()
        return str(won.value)

    engine = await stage.engine()
    handle = await engine.start(race.options(id="r"), "r")
    await stage.until(engine, "r", lambda event: isinstance(event, e.NodeStarted) and event.node == "last")
    await stage.crash(engine)
    may_end.set()
    async with stage.working() as another:
        assert await asyncio.wait_for(another.result(handle.run), SOON) == "yes"
        assert await stage.is_sound(another, handle.run)


async def test_a_name_with_a_tilde_is_answered(stage: Any) -> None:
    """What is asked anew has a `~` at the end of its id; a person's own `~` elsewhere is not taken for it."""

    @ol.workflow
    async def asks() -> str:
        async with ol.step("a~b"):
            one = await ol.ask("One?", str)
        return one + await ol.ask("Two?", str, key="c~2")

    async with stage.working() as engine:
        handle = await engine.start(asks)
        for interaction, answer in (("a~b/ask", "x"), ("ask[c~2]", "y")):
            await stage.until(engine, handle.run, _is_question(interaction))
            await engine.answer(handle.run, answer, interaction=interaction)
        assert await asyncio.wait_for(handle.result(), SOON) == "xy"


def _is_question(interaction: str) -> Any:
    return lambda event: isinstance(event, e.InteractionRequested) and event.interaction == interaction


# --- the same live and in a replay


async def test_code_sees_numbers_as_a_replay_reads_them(stage: Any) -> None:
    """P2: an int where a float is announced is stored as a float."""
    may_end = asyncio.Event()

    @ol.node
    async def price() -> float:
        return 3

    @ol.node
    async def count() -> int:
        return True

    @ol.node
    async def told(text: str, weight: float) -> str:
        return f"{text}, {weight}"

    @ol.node
    async def last() -> None:
        await may_end.wait()

    @ol.workflow
    async def pay(limit: float) -> str:
        said = await told(f"{limit} {await price()} {await count()!r}", 1)
        await last()
        return said

    engine = await stage.engine()
    handle = await engine.start(pay, 10)
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.NodeStarted) and event.node == "last")
    await stage.crash(engine)
    may_end.set()
    async with stage.working() as another:
        assert await asyncio.wait_for(another.result(handle.run), SOON) == "10.0 3.0 1, 1.0"


async def test_the_failure_of_a_node_has_no_context_but_what_the_code_gives_it(stage: Any) -> None:
    """P2: a replay has no error at hand that it could chain to."""

    @ol.node
    async def boom() -> None:
        raise ValueError("boom")

    @ol.workflow
    async def looks() -> str:
        try:
            await boom()
        except ValueError as error:
            return repr(error.__context__)
        return ""

    async with stage.working() as engine:
        handle = await engine.start(looks)
        assert await asyncio.wait_for(handle.result(), SOON) == "None"


async def test_a_map_forgets_only_nodes_that_were_asked_for(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """V3: a call that was made and given up is nothing that happened; neither is a child run a node."""
    monkeypatch.setattr("outlast.functions.mapping.RETIRED_AT_ONCE", 3)

    @ol.node
    async def twice(number: int) -> int:
        return number * 2

    @ol.workflow
    async def child(number: int) -> int:
        return number

    async def helper(number: int) -> int:
        first, second = twice(number), twice(-number)
        second.close()
        return await first + await child(number)

    @ol.workflow
    async def all_of_them() -> int:
        return sum([each async for each in ol.map(helper, range(8), concurrency=3)])

    async with stage.working() as engine:
        handle = await engine.start(all_of_them)
        assert await asyncio.wait_for(handle.result(), SOON) == 3 * sum(range(8))
        assert await stage.is_sound(engine, handle.run)


async def test_a_time_that_never_comes_is_no_trouble(stage: Any) -> None:
    @ol.node
    async def quick() -> str:
        return "quick"

    @ol.workflow
    async def waits() -> str:
        async with asyncio.timeout(1e300):
            won = await ol.race(ol.sleep(days=200_000_000), quick())
        return str(won.value)

    async with stage.working() as engine:
        handle = await engine.start(waits)
        assert await asyncio.wait_for(handle.result(), SOON) == "quick"


async def test_an_attempt_after_the_death_of_its_helper_is_stopped_with_its_run(stage: Any, tmp_path: Path) -> None:
    """The helper of the second attempt is ended when the run is cancelled."""
    mischief = import_module("mischief")

    @ol.workflow
    async def dying(folder: str) -> None:
        await mischief.dies_once_and_lingers(folder)

    async with stage.working() as engine:
        handle = await engine.start(dying, str(tmp_path))
        async with asyncio.timeout(60):
            while not (found := tmp_path / "helper").exists() or not found.read_text():
                await asyncio.sleep(0.01)
            await handle.cancel()
            helper = int(found.read_text())
            while _is_alive(helper):
                await asyncio.sleep(0.01)
            with pytest.raises(ol.RunCancelled):
                await handle.result()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@ol.node(retry=ol.Retry(max_attempts=2, delay=0))
async def amid_failing_once() -> int:
    if ol.context().attempt == 1:
        raise ConnectionError("the first time")
    return ol.context().attempt


@ol.workflow
async def amid_falling() -> int:
    return await amid_failing_once()


async def test_an_error_of_the_engine_after_a_node_failed_leaves_no_run_hanging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P6: whatever goes wrong with what is in memory, the log is there to begin anew from."""
    real, falls = RunDriver.failed, []

    def surprised(self: RunDriver, *told: Any) -> None:
        if not falls:
            falls.append(self.run)
            raise ZeroDivisionError
        real(self, *told)

    monkeypatch.setattr(RunDriver, "failed", surprised)
    async with engine_over(MemoryStore()) as engine:
        handle = await engine.start(amid_falling)
        assert await asyncio.wait_for(handle.result(), SOON) > 1
        assert falls == [handle.run]
        assert await replays(engine._store, handle.run)
