"""Tests of the catalog: summaries, their correction, and scratch (S1).

Tests of searches are in `search` (S7)."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace

from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import LANDED, Derived, RunFilter, Store
from outlast.testing.contract.doors import Doors
from outlast.testing.contract.samples import A, B, C, all_waits, answer, begin, land, summary
from outlast.testing.contract.search import SearchContract, listed, names


class CatalogContract(SearchContract):
    """Tests of `outlast.store.Catalog`."""

    # --- summaries

    async def test_a_run_without_a_summary_is_not_listed(self, store: Store) -> None:
        """S1"""
        await land(store, begin(A))
        assert await store.summary(A) is None
        assert await names(store) == []

    async def test_every_field_of_a_summary_is_stored(self, store: Store) -> None:
        """S1"""
        wait = Wait("interaction", "q", "node", 5, "ok? ☃", "hash", msgspec.Raw(b'{"a": 1}'))
        words = ("p", "t\n\x00'", ("b", "a"), "x", "r", "c")
        full = RunSummary(A, 9, RunStatus.WAITING, "w", 2, "v1", "graph", 7, 8, *words, True, True, 6, 1, (wait,))
        await land(store, begin(A, summary=full))
        assert await store.summary(A) == full
        assert [item.summary for item in (await store.search(RunFilter())).items] == [full]

    # --- correcting

    async def test_a_stale_summary_is_corrected_only_at_the_expected_version(self, store: Store, other: Store) -> None:
        """S1"""
        await land(store, begin(A, count=9, summary=summary(A, 1, tags=("old",))))
        right, late = summary(A, 9, title="right", tags=("new",)), summary(A, 8, title="late")
        assert not await store.correct(right, 2)
        assert not await store.correct(right, 0)
        assert await store.summary(A) == summary(A, 1, tags=("old",))
        assert await store.correct(right, 1)
        assert not await other.correct(late, 1)
        assert await other.summary(A) == right
        assert (await names(other, tags=("new",)), await names(other, tags=("old",))) == ([A], [])

    async def test_a_correction_never_stores_an_older_summary(self, store: Store) -> None:
        """S1"""
        await land(store, begin(A, count=9, summary=summary(A, 5, title="newer")))
        assert not await store.correct(summary(A, 4, title="older"), 5)
        assert await store.summary(A) == summary(A, 5, title="newer")
        assert await store.correct(summary(A, 5, title="same"), 5), "a summary of the same version replaces a wrong one"

    async def test_one_of_two_concurrent_corrections_wins(self, store: Store, other: Store) -> None:
        """S1"""
        await land(store, begin(A, count=9, summary=summary(A, 1)))
        one, two = summary(A, 8, title="one"), summary(A, 9, title="two")
        won = await asyncio.gather(store.correct(one, 1), other.correct(two, 1))
        assert sorted(won) == [False, True]
        assert await store.summary(A) == (one if won[0] else two)

    async def test_a_missing_summary_counts_as_version_0(self, store: Store) -> None:
        """S1"""
        assert not await store.correct(summary(A), 0), "the run does not exist"
        await land(store, begin(A))
        assert not await store.correct(summary(A), 1)
        assert await store.correct(summary(A), 0)
        assert await names(store) == [A]

    async def test_a_corrected_run_is_found_by_its_new_fields_only(self, doors: Doors) -> None:
        """S1, S7"""
        store = await listed(doors, other={"created": 50})
        wrong = summary(A, 1, workflow="typo", parent="typo", exclusive="typo", created=1, tags=("typo",))
        await land(store, begin(A, count=2, summary=wrong))
        assert await store.correct(summary(A, 2, workflow="right", parent="p", exclusive="x", created=99), 1)
        assert await names(store) == [A, "other"]
        for field, right, old in (
            ("workflow", "right", "typo"),
            ("parent", "p", "typo"),
            ("created_from", 99, 100),
        ):
            assert await names(store, **{field: right}) == [A], field
            assert await names(store, **{field: old}) == [], field
        assert await names(store, tags=("typo",)) == await names(store, created_until=2) == []

    # --- derived records

    async def test_head_summary_and_waits_are_read_together(self, store: Store, other: Store) -> None:
        """S1"""
        assert await other.derived(A) == Derived(None)
        ask, due = Wait("interaction", "q", text="ok?"), Wait("timer", "t", due=5)
        head = await land(store, begin(A, summary=summary(A), opens=[ask, due]))
        assert await other.derived(A) == Derived(head, summary(A), {ask.name: ask, due.name: due})
        head = await land(store, answer(head, ask.name))
        assert await other.derived(A) == Derived(head, summary(A), {due.name: due})

    async def test_summary_and_waits_are_rewritten_together_at_the_expected_version(
        self, store: Store, other: Store
    ) -> None:
        """S1, S7: of the head, only `closed` changes"""
        stale, due = Wait("interaction", "q"), Wait("timer", "t", due=5)
        old = summary(A, 1, workflow="typo", parent="typo", exclusive="typo", created=1, tags=("typo",))
        head = await land(store, begin(A, count=3, summary=old, opens=[stale]))
        right = summary(A, 3, workflow="right", parent="p", exclusive="x", tags=("new",))
        assert not await other.rewrite(replace(right, at=2), [due], closed=True)
        assert (await store.derived(A)).summary == old
        assert await other.rewrite(right, [due], closed=True)
        assert await store.derived(A) == Derived(replace(head, closed=True), right, {due.name: due})
        assert [each.wait for each in await all_waits(store)] == [due]
        assert await names(store, tags=("new",), workflow="right", parent="p") == [A]
        assert await names(store, tags=("typo",)) == []

    async def test_an_absent_run_is_not_rewritten(self, store: Store) -> None:
        """S1"""
        assert not await store.rewrite(summary(A), [], closed=False)
        assert await names(store) == []

    async def test_all_runs_and_unfinished_runs_are_listed_from_their_heads(self, store: Store) -> None:
        """S7"""
        assert await store.runs() == ([], "")
        await land(store, begin(A, summary=summary(A, status=RunStatus.FAILED, held=True)))
        await land(store, begin(B, summary=summary(B, status=RunStatus.COMPLETED), closed=True))
        await land(store, begin(C, summary=summary(C)))
        for unfinished, wanted in ((False, {A, B, C}), (True, {A, C})):
            found, after = await store.runs(unfinished=unfinished, limit=1)
            while after:
                more, after = await store.runs(unfinished=unfinished, after=after, limit=1)
                found += more
            assert (set(found), len(found)) == (wanted, len(wanted))

    # --- scratch

    async def test_the_latest_scratch_is_listed_beside_the_summary(self, store: Store, other: Store) -> None:
        """S1: it is not a fact and changes none"""
        made = [begin(run, summary=summary(run)) for run in (A, B)]
        assert await store.append(made) == [LANDED, LANDED]
        await store.note({A: b"10%", B: bytes(range(256))})
        await store.note({A: b"20%"})
        await store.note({})
        shown = {item.summary.run: item for item in (await other.search(RunFilter())).items}
        assert (shown[A].scratch, shown[B].scratch) == (b"20%", bytes(range(256)))
        assert (shown[A].summary, await other.head(A)) == (made[0].summary, made[0].head)

    async def test_scratch_of_an_absent_run_creates_no_run(self, store: Store) -> None:
        """S1"""
        await store.note({A: b"10%"})
        assert await names(store) == []
        assert await store.head(A) is None
