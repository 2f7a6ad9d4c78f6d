"""Flushes are shared, losers harm nobody, and what a failing store left open is settled: S4, S5, W1."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import Raw

from outlast.errors import OutcomeUnknown, StoreError, StoreFull
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger, RunWriter, group_commit
from outlast.lifecycle.invariants import violations
from outlast.store import Append, Outcome
from outlast.stores.memory import MemoryStore

WORKER = WorkerId("w")
BIRTH = (e.RunCreated(workflow="w"), e.RunStarted(), e.NodeScheduled(node="a"), e.NodeStarted(node="a"))


class Moody(MemoryStore):
    """Fails the next appends as told: before or after their effect."""

    def __init__(self) -> None:
        super().__init__()
        self.moods: list[tuple[str, Exception]] = []
        self.batches: list[int] = []

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        self.batches.append(len(batch))
        await asyncio.sleep(0)
        if not self.moods:
            return await super().append(batch)
        moment, error = self.moods.pop(0)
        if moment == "after":
            await super().append(batch)
        raise error


async def pens(ledger: Ledger, number: int) -> list[RunWriter]:
    await ledger.store.enrol(WORKER, 30)
    return list(await asyncio.gather(*(ledger.create(RunId(f"run-{i}"), BIRTH, WORKER) for i in range(number))))


async def are_sound(store: MemoryStore) -> bool:
    return all(violations(run, log, store.memory.summaries[run]) == [] for run, log in store.memory.logs.items())


def completed(output: bytes = b"1") -> list[e.AnyEvent]:
    return [e.NodeCompleted(node="a", output=Raw(output))]


def test_appends_that_arrive_together_share_a_flush() -> None:
    async def scene() -> None:
        store = Moody()
        ledger = Ledger(store)
        owned = await pens(ledger, 300)
        store.batches.clear()
        await asyncio.gather(*(writer.append(completed()) for writer in owned))
        assert store.batches == [300]
        assert ledger.measures.largest_batch == 300

    asyncio.run(scene())


def test_a_lone_run_does_not_wait_for_company() -> None:
    async def scene() -> None:
        store = Moody()
        ledger = Ledger(store)
        (writer,) = await pens(ledger, 1)
        for _ in range(3):
            await writer.append([e.NodeCheckpointed(node="a")])
        assert store.batches == [1, 1, 1, 1]

    asyncio.run(scene())


@pytest.mark.parametrize(("moment", "batches"), [(60.0, [1, 4]), (0.0, [5])], ids=["in its moment", "after it"])
def test_a_lone_run_writes_at_once_and_lets_the_loop_turn_when_its_moment_is_over(
    moment: float, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who come while it writes get the next flush. Timers, renewals and other runs have their turn, however many
    nodes follow one another."""
    monkeypatch.setattr(group_commit, "TURN_S", moment)

    async def scene() -> None:
        store = Moody()
        ledger = Ledger(store)
        first, *others = await pens(ledger, 5)
        await first.append([e.NodeCheckpointed(node="a")])
        store.batches.clear()
        await asyncio.gather(*(writer.append(completed()) for writer in (first, *others)))
        assert store.batches == batches

    asyncio.run(scene())


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_unknown_outcome_is_asked_for_and_not_repeated(moment: str, times: int) -> None:
    """W1."""

    async def scene() -> None:
        store = Moody()
        ledger = Ledger(store)
        owned = await pens(ledger, 3)
        store.moods = [(moment, OutcomeUnknown("cut"))] * times
        await asyncio.gather(*(writer.append(completed()) for writer in owned))
        assert all(writer.state.outline.done_nodes == 1 for writer in owned)
        assert await are_sound(store)
        assert ledger.measures.unknown == 3

    asyncio.run(scene())


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_pen_in_doubt_finds_out_before_it_writes_again(moment: str) -> None:
    """W1: the caller was told that nothing is known; the log decides."""

    async def scene() -> None:
        store = Moody()
        ledger = Ledger(store)
        (writer,) = await pens(ledger, 1)
        store.moods = [(moment, OutcomeUnknown("cut"))] * 4
        with pytest.raises(OutcomeUnknown):
            await writer.append(completed())
        await writer.catch_up()
        landed = writer.state.outline.done_nodes == 1
        assert landed == (moment == "after")
        await writer.append([e.RunCompleted()] if landed else [*completed(), e.RunCompleted()])
        assert await are_sound(store)

    asyncio.run(scene())


def test_an_error_before_writing_reaches_every_caller_and_the_pens_go_on() -> None:
    """S5."""

    async def scene() -> None:
        store = Moody()
        ledger = Ledger(store)
        owned = await pens(ledger, 3)
        store.moods = [("before", StoreFull("no space"))]
        results = await asyncio.gather(*(writer.append(completed()) for writer in owned), return_exceptions=True)
        assert all(isinstance(result, StoreFull) for result in results)
        await asyncio.gather(*(writer.append(completed()) for writer in owned))
        assert await are_sound(store)
        assert ledger.measures.failed == 3

    asyncio.run(scene())


def test_a_loser_does_not_harm_its_neighbours() -> None:
    """S4."""

    async def scene() -> None:
        store = MemoryStore()
        ledger, other = Ledger(store), Ledger(MemoryStore(store.memory))
        owned = await pens(ledger, 3)
        await other.deliver(owned[1].run, [e.SignalReceived(signal="s", name="go")])
        firsts = await asyncio.gather(*(writer.append(completed()) for writer in owned))
        assert firsts == [5, 6, 5]
        assert await are_sound(store)

    asyncio.run(scene())


class Picky(Moody):
    """Cannot write what one run says, and fails over it with an error that is not of the store."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        if any(append.record.run == "run-1" and append.record.first > 1 for append in batch):
            self.batches.append(len(batch))
            raise OverflowError("too big")
        return await super().append(batch)


def test_a_run_that_cannot_be_written_does_not_harm_its_neighbours() -> None:
    """S4"""

    async def scene() -> None:
        store = Picky()
        ledger = Ledger(store)
        owned = await pens(ledger, 3)
        store.batches.clear()
        answers = await asyncio.gather(*(writer.append(completed()) for writer in owned), return_exceptions=True)
        assert [type(answer) for answer in answers] == [int, OverflowError, int]
        assert store.batches == [3, 1, 1, 1]

    asyncio.run(scene())


def test_an_error_of_the_store_does_not_stop_later_flushes() -> None:
    async def scene() -> None:
        store = Moody()
        ledger = Ledger(store)
        (writer,) = await pens(ledger, 1)
        store.moods = [("before", StoreError("gone")), ("before", ValueError("a bug"))]
        for expected in (StoreError, ValueError):
            with pytest.raises(expected):
                await writer.append(completed())
        await writer.append(completed())

    asyncio.run(scene())


class Gated(MemoryStore):
    """Answers only when the gate is opened; `before` says on which side of the effect it waits."""

    def __init__(self, *, before: bool) -> None:
        super().__init__()
        self.before = before
        self.gate = asyncio.Event()
        self.gate.set()
        self.reached = asyncio.Event()

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        if self.before:
            self.reached.set()
            await self.gate.wait()
        outcomes = await super().append(batch)
        if not self.before:
            self.reached.set()
            await self.gate.wait()
        return outcomes


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_whoever_stops_waiting_is_settled_by_the_next_append(before: bool, alone: bool) -> None:
    """W1: a cancelled caller does not know whether its append landed; the pen finds out before it writes again."""

    async def scene() -> None:
        store = Gated(before=before)
        ledger = Ledger(store)
        writer, other = await pens(ledger, 2)
        await (writer if alone else other).append([e.NodeCheckpointed(node="a")])
        store.gate.clear()
        store.reached.clear()
        task = asyncio.ensure_future(writer.append(completed()))
        await store.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.gate.set()
        await ledger.close()
        await writer.catch_up()
        landed = writer.state.outline.done_nodes == 1
        assert landed or (before and alone)
        await writer.append([e.RunCompleted()] if landed else [*completed(), e.RunCompleted()])
        assert await are_sound(store)

    asyncio.run(scene())


def test_one_pen_serves_one_task() -> None:
    async def scene() -> None:
        store = Gated(before=True)
        ledger = Ledger(store)
        (writer,) = await pens(ledger, 1)
        store.gate.clear()
        store.reached.clear()
        first = asyncio.ensure_future(writer.append([e.NodeCheckpointed(node="a")]))
        await store.reached.wait()
        with pytest.raises(RuntimeError, match="two tasks"):
            await writer.append([e.NodeCheckpointed(node="a")])
        store.gate.set()
        assert await first == 5
        assert await writer.append([e.NodeCheckpointed(node="a")]) == 6

    asyncio.run(scene())
