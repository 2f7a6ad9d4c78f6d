"""Tests of wake-ups: waits, due times and notifications of changes (S7, S8)."""

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
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.samples import A, B, C, all_waits, begin, follow, in_pages, land

NOTIFIED_S = 2.0
"""Seconds within which other connections are notified of an append."""

SECOND = 1_000_000


class WakeupsContract(Contract):
    """Tests of `outlast.store.Wakeups`."""

    # --- waits

    async def test_every_field_of_a_wait_is_stored(self, store: Store) -> None:
        """S8"""
        full = Wait("interaction", "q:1 ☃", "node", 1 << 50, "ok?\n", "hash", msgspec.Raw(b'{"type": "string"}'))
        bare = Wait("signal", "s")
        await land(store, begin(A, opens=[full, bare]))
        assert await store.wait(A, full.name) == full
        assert await store.wait(A, bare.name) == bare
        assert await store.wait(A, "signal:x") is None
        assert await store.wait(B, bare.name) is None

    async def test_two_runs_can_have_waits_of_the_same_name(self, store: Store) -> None:
        """S8"""
        ours, theirs = Wait("signal", "go", text="ours"), Wait("signal", "go", text="theirs")
        head = await land(store, begin(A, opens=[ours]))
        await land(store, begin(B, opens=[theirs]))
        await land(store, follow(head, closes=[ours.name]))
        assert await store.wait(A, ours.name) is None
        assert await store.wait(B, theirs.name) == theirs

    async def test_waits_are_listed_by_kind(self, store: Store, other: Store) -> None:
        """S7"""
        question, timer, child = Wait("interaction", "q"), Wait("timer", "t", due=7), Wait("child", "c")
        await land(store, begin(A, opens=[question, timer]))
        await land(store, begin(B, opens=[question, child]))
        assert as_set(await all_waits(other, kind="interaction")) == {(A, question.name), (B, question.name)}
        assert as_set(await all_waits(other, kind="timer")) == {(A, timer.name)}
        assert await all_waits(other, kind="outbox") == []
        assert len(await all_waits(other)) == 4
        assert Due(A, timer) in await all_waits(other)

    async def test_pages_contain_every_wait_once(self, store: Store) -> None:
        """S7"""
        runs = [RunId(name) for name in ("r", "r:1", "r.1", "R", "q", "r1")]
        ids = ["1", "10", "2", ":", "a:b", "a\nb"]
        opens = [*(Wait("interaction", id) for id in ids), Wait("timer", "t", due=1)]
        await store.append([begin(run, opens=opens) for run in runs])
        every = {(run, wait.name) for run in runs for wait in opens}
        questions = {(run, name) for run, name in every if name.startswith("interaction")}
        for limit in (1, 2, 5, 36, 42, 43):
            for kind, expected in (("", every), ("interaction", questions)):
                found = await all_waits(store, kind=kind, limit=limit)
                assert as_set(found) == expected
                assert len(found) == len(expected), "a wait is repeated"
                assert len((await store.waits(kind=kind, limit=limit))[0]) == min(limit, len(expected))

    async def test_an_invalid_limit_or_cursor_of_waits_is_refused(self, store: Store) -> None:
        """S7"""
        await land(store, begin(A, opens=[Wait("signal", "s"), Wait("signal", "t")]))
        for limit in (0, -1):
            with pytest.raises(InvalidInput):
                await store.waits(limit=limit)
        with pytest.raises(InvalidInput):
            await store.waits(after="this is no cursor")

    # --- due

    async def test_waits_are_due_by_the_stores_clock_oldest_first(
        self, doors: Doors, store: Store, other: Store
    ) -> None:
        """S6, S8"""
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

    async def test_pages_contain_every_due_wait_once(self, store: Store) -> None:
        """S7: also if many waits are due at the same time"""
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

    async def test_a_list_of_due_waits_continues_after_an_ended_wait(self, store: Store) -> None:
        """S7"""
        head = await land(store, begin(A, opens=[Wait("timer", id, due=7) for id in ("1", "2", "3")]))
        first, second, third = await store.due()
        await land(store, follow(head, closes=[first.wait.name, second.wait.name]))
        assert await store.due(after=second) == [third]

    async def test_an_ended_wait_is_not_due(self, store: Store) -> None:
        """S8"""
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

    async def test_the_next_wait_is_found_after_a_time(self, store: Store) -> None:
        """S8"""
        await land(store, begin(A, opens=[Wait("timer", id, due=due) for id, due in (("1", 3), ("2", 7), ("3", 7))]))
        await land(store, begin(B, opens=[Wait("timer", "1", due=9), Wait("signal", "s")]))
        found = [await store.next_due(after) for after in (0, 2, 3, 6, 7, 8, 9, 1 << 62)]
        assert found == [3, 3, 7, 7, 9, 9, None, None]

    async def test_waits_without_a_time_are_never_due(self, doors: Doors, store: Store) -> None:
        """S8"""
        await land(store, begin(A, opens=[Wait("interaction", "q")]))
        doors.let_pass(1e9)
        assert (await store.due(), await store.next_due()) == ([], None)

    # --- notifications

    async def test_an_append_on_another_connection_is_reported_soon(self, store: Store, other: Store) -> None:
        """S8"""
        await land(other, begin(B))
        subscription = RecordedSubscription(store)
        head = await land(other, begin(A))
        await subscription.wait_for([A])
        subscription.clear()
        await land(other, follow(head))
        await subscription.wait_for([A])
        subscription.end()

    async def test_every_one_of_many_appends_is_reported(self, store: Store, other: Store) -> None:
        """S8: also while the subscriber appends"""
        subscription = RecordedSubscription(store)
        theirs = [RunId(f"theirs-{number}") for number in range(30)]
        for number, run in enumerate(theirs):
            await asyncio.gather(land(other, begin(run)), land(store, begin(RunId(f"ours-{number}"))))
        batch = [RunId(f"batch-{number}") for number in range(30)]
        assert await other.append([begin(run) for run in batch]) == [LANDED] * len(batch)
        await subscription.wait_for([*theirs, *batch])
        subscription.end()

    async def test_an_ended_subscription_is_not_notified(self, store: Store, other: Store) -> None:
        """S8"""
        one, two = RecordedSubscription(store), RecordedSubscription(store)
        await land(other, begin(A))
        await one.wait_for([A])
        await two.wait_for([A])
        one.end()
        await land(other, begin(B))
        await two.wait_for([B])
        assert B not in one.reported
        two.end()
        again = RecordedSubscription(store)
        await land(other, begin(C))
        await again.wait_for([C])
        again.end()


class RecordedSubscription:
    """A subscription that counts the reported runs."""

    def __init__(self, store: Store) -> None:
        self.reported: Counter[RunId] = Counter()
        self._received = asyncio.Event()
        self.end: Callable[[], None] = store.subscribe(self._receive)

    def _receive(self, runs: frozenset[RunId]) -> None:
        self.reported.update(runs)
        self._received.set()

    def clear(self) -> None:
        self.reported.clear()

    async def wait_for(self, runs: Iterable[RunId]) -> None:
        """Wait until all of these runs were reported."""
        wanted = set(runs)
        try:
            async with asyncio.timeout(NOTIFIED_S):
                while not wanted <= self.reported.keys():
                    self._received.clear()
                    await self._received.wait()
        except TimeoutError:
            raise AssertionError(
                f"not reported within {NOTIFIED_S} s: {sorted(wanted - self.reported.keys())}"
            ) from None


async def all_due(store: Store, limit: int) -> list[Due]:
    """List all due waits, in pages."""
    return await in_pages(lambda last: store.due(limit, after=last), limit)


def as_set(found: Iterable[Due]) -> set[tuple[RunId, str]]:
    return {(due.run, due.wait.name) for due in found}
