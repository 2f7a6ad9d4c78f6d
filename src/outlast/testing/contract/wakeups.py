"""Wake-ups: what is waited for can be named, found when due, and changes are announced (S7, S8)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
import pytest

from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Due, Store
from outlast.testing.contract.doors import Contract, Doors, with_doors
from outlast.testing.contract.samples import A, B, C, all_waits, begin, follow, land

SOON = 2.0
"""Seconds within which an append at one door is known at another."""

SECOND = 1_000_000


class WakeupsContract(Contract):
    """Waits, due times, and news of other doors."""

    # --- waits

    @with_doors
    async def test_every_part_of_a_wait_comes_back(self, doors: Doors) -> None:
        """S8"""
        store = await doors.open()
        full = Wait("interaction", "q:1 ☃", "node", 1 << 50, "ok?\n", "hash", msgspec.Raw(b'{"type": "string"}'))
        bare = Wait("signal", "s")
        await land(store, begin(A, opens=[full, bare]))
        assert await store.wait(A, full.name) == full
        assert await store.wait(A, bare.name) == bare
        assert await store.wait(A, "signal:x") is None
        assert await store.wait(B, bare.name) is None

    @with_doors
    async def test_waits_of_the_same_name_in_two_runs_are_two(self, doors: Doors) -> None:
        """S8"""
        store = await doors.open()
        ours, theirs = Wait("signal", "go", text="ours"), Wait("signal", "go", text="theirs")
        head = await land(store, begin(A, opens=[ours]))
        await land(store, begin(B, opens=[theirs]))
        await land(store, follow(head, closes=[ours.name]))
        assert await store.wait(A, ours.name) is None
        assert await store.wait(B, theirs.name) == theirs

    @with_doors
    async def test_waits_are_listed_by_kind(self, doors: Doors) -> None:
        """S7"""
        store, other = await doors.open(), await doors.open()
        question, timer, child = Wait("interaction", "q"), Wait("timer", "t", due=7), Wait("child", "c")
        await land(store, begin(A, opens=[question, timer]))
        await land(store, begin(B, opens=[question, child]))
        assert as_set(await all_waits(other, kind="interaction")) == {(A, question.name), (B, question.name)}
        assert as_set(await all_waits(other, kind="timer")) == {(A, timer.name)}
        assert await all_waits(other, kind="outbox") == []
        assert len(await all_waits(other)) == 4
        assert Due(A, timer) in await all_waits(other)

    @with_doors
    async def test_pages_hold_every_wait_once(self, doors: Doors) -> None:
        """S7"""
        store = await doors.open()
        runs = [RunId(name) for name in ("r", "r:1", "r.1", "R", "q", "r1")]
        ids = ["1", "10", "2", ":", "a:b", "a\nb"]
        opens = [*(Wait("interaction", id) for id in ids), Wait("timer", "t", due=1)]
        await store.append([begin(run, opens=opens) for run in runs])
        every = {(run, wait.name) for run in runs for wait in opens}
        asked = {(run, name) for run, name in every if name.startswith("interaction")}
        for limit in (1, 2, 5, 36, 42, 43):
            for kind, expected in (("", every), ("interaction", asked)):
                found = await all_waits(store, kind=kind, limit=limit)
                assert as_set(found) == expected
                assert len(found) == len(expected), "a wait is repeated"
                assert len((await store.waits(kind=kind, limit=limit))[0]) == min(limit, len(expected))

    @with_doors
    async def test_a_page_of_waits_is_asked_for_properly(self, doors: Doors) -> None:
        """S7"""
        store = await doors.open()
        await land(store, begin(A, opens=[Wait("signal", "s"), Wait("signal", "t")]))
        for limit in (0, -1):
            with pytest.raises(InvalidInput):
                await store.waits(limit=limit)
        with pytest.raises(InvalidInput):
            await store.waits(after="this is no cursor")

    # --- due

    @with_doors
    async def test_waits_come_due_by_the_stores_clock_oldest_first(self, doors: Doors) -> None:
        """S6, S8"""
        store, other = await doors.open(), await doors.open()
        now = await store.now()
        late, early = Wait("timer", "late", due=now + 60 * SECOND), Wait("timer", "early", due=now + 30 * SECOND)
        await land(store, begin(A, opens=[late, Wait("signal", "never")]))
        await land(store, begin(B, opens=[early]))
        assert await other.due() == []
        assert await other.next_due() == early.due
        doors.let_pass(45)
        assert await other.due() == [Due(B, early)]
        doors.let_pass(45)
        assert await other.due() == [Due(B, early), Due(A, late)]
        assert await other.due(1) == [Due(B, early)]

    @with_doors
    async def test_pages_hold_every_wait_that_is_due_once(self, doors: Doors) -> None:
        """S7: so that whoever cannot act on the oldest comes to those behind them, also where many are due at once"""
        store = await doors.open()
        runs = [RunId(name) for name in ("r", "r:1", "r.1", "R", "q", "r1")]
        ids = ["1", "10", "2", ":", "a:b", "a\nb"]
        opens = [Wait("timer", id, due=7 + number // 3) for number, id in enumerate(ids)]
        await store.append([begin(run, opens=opens) for run in runs])
        every = {(run, wait.name) for run in runs for wait in opens}
        for limit in (1, 2, 5, 36, 37):
            found = await all_due(store, limit)
            assert as_set(found) == every
            assert len(found) == len(every), "a wait is repeated"
            times = [due.wait.due or 0 for due in found]
            assert times == sorted(times)

    @with_doors
    async def test_a_list_of_what_is_due_goes_on_behind_a_wait_that_has_ended(self, doors: Doors) -> None:
        """S7"""
        store = await doors.open()
        head = await land(store, begin(A, opens=[Wait("timer", id, due=7) for id in ("1", "2", "3")]))
        first, second, third = await store.due()
        await land(store, follow(head, closes=[first.wait.name, second.wait.name]))
        assert await store.due(after=second) == [third]

    @with_doors
    async def test_a_wait_that_ended_is_no_longer_due(self, doors: Doors) -> None:
        """S8"""
        store = await doors.open()
        assert await store.next_due() is None
        one, two = Wait("timer", "one", due=1), Wait("timer", "two", due=2)
        head = await land(store, begin(A, opens=[one, two]))
        assert [due.wait for due in await store.due()] == [one, two]
        head = await land(store, follow(head, closes=[one.name]))
        assert (await store.due(), await store.next_due()) == ([Due(A, two)], 2)
        later = Wait("timer", "two", due=await store.now() + 60 * SECOND)
        head = await land(store, follow(head, opens=[later]))
        assert (await store.due(), await store.next_due()) == ([], later.due)
        await land(store, follow(head, closes=[later.name]))
        assert await store.next_due() is None

    @with_doors
    async def test_waits_without_a_time_are_never_due(self, doors: Doors) -> None:
        """S8"""
        store = await doors.open()
        await land(store, begin(A, opens=[Wait("interaction", "q")]))
        doors.let_pass(1e9)
        assert (await store.due(), await store.next_due()) == ([], None)

    # --- news

    @with_doors
    async def test_an_append_at_another_door_is_announced_soon(self, doors: Doors) -> None:
        """S8"""
        store, other = await doors.open(), await doors.open()
        await land(other, begin(B))
        news = NewsSubscription(store)
        head = await land(other, begin(A))
        await news.of([A])
        news.forget()
        await land(other, follow(head))
        await news.of([A])
        news.end()

    @with_doors
    async def test_no_append_among_many_goes_unannounced(self, doors: Doors) -> None:
        """S8: also while the listener writes itself"""
        store, other = await doors.open(), await doors.open()
        news = NewsSubscription(store)
        theirs = [RunId(f"theirs-{number}") for number in range(30)]
        for number, run in enumerate(theirs):
            await asyncio.gather(land(other, begin(run)), land(store, begin(RunId(f"ours-{number}"))))
        batch = [RunId(f"batch-{number}") for number in range(30)]
        assert await other.append([begin(run) for run in batch]) == [LANDED] * len(batch)
        await news.of([*theirs, *batch])
        news.end()

    @with_doors
    async def test_who_stops_listening_hears_no_more(self, doors: Doors) -> None:
        """S8"""
        store, other = await doors.open(), await doors.open()
        one, two = NewsSubscription(store), NewsSubscription(store)
        await land(other, begin(A))
        await one.of([A])
        await two.of([A])
        one.end()
        await land(other, begin(B))
        await two.of([B])
        assert B not in one.heard
        two.end()
        again = NewsSubscription(store)
        await land(other, begin(C))
        await again.of([C])
        again.end()


class NewsSubscription:
    """A subscription, and what it has brought so far."""

    def __init__(self, store: Store) -> None:
        self.heard: Counter[RunId] = Counter()
        self._came = asyncio.Event()
        self.end: Callable[[], None] = store.subscribe(self._hear)

    def _hear(self, runs: frozenset[RunId]) -> None:
        self.heard.update(runs)
        self._came.set()

    def forget(self) -> None:
        self.heard.clear()

    async def of(self, runs: Iterable[RunId]) -> None:
        """Wait, not for long, until all of these have been announced."""
        wanted = set(runs)
        try:
            async with asyncio.timeout(SOON):
                while not wanted <= self.heard.keys():
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise AssertionError(f"not announced within {SOON} s: {sorted(wanted - self.heard.keys())}") from None


async def all_due(store: Store, limit: int) -> list[Due]:
    """Everything that is due, page by page."""
    found = await store.due(limit)
    page = found
    while len(page) == limit and len(found) < 1000:
        page = await store.due(limit, after=page[-1])
        found = [*found, *page]
    return found


def as_set(found: Iterable[Due]) -> set[tuple[RunId, str]]:
    return {(due.run, due.wait.name) for due in found}
