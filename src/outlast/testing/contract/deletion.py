"""Tests of deletion: tombstones and bounded steps (S12). Tests of the collection of blobs are in `collection`."""

from __future__ import annotations

import asyncio

import pytest

from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import LANDED, Derived, Head, Line, Lost, RunFilter, Slot, Store, Tombstone
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.leases import held_by_ann, workers
from outlast.testing.contract.samples import (
    ANN,
    BEGINNING,
    BEN,
    CAT,
    NO_TRACE,
    A,
    B,
    C,
    all_waits,
    begin,
    begin_ready,
    chain,
    follow,
    in_pages,
    land,
    summary,
    tombstone,
    trace,
)

RACES = 30
STEP = 10
LATER = 31
"""Seconds after which a worker counts as dead."""


class DeletionContract(Contract):
    """Tests of `outlast.store.Deletion`."""

    # --- the first step

    async def test_a_run_is_deleted_only_at_the_expected_version(self, store: Store, other: Store) -> None:
        """S12"""
        head = await land(store, begin(A, count=3, summary=summary(A, 3)))
        before = await trace(store, A)
        for version in (0, 2, 4):
            assert not await other.delete(tombstone(A), version)
        assert await trace(store, A) == before
        assert await store.tombstone(A) is None
        assert await other.delete(tombstone(A), head.version)
        assert await store.head(A) is None

    async def test_first_appends_beside_those_of_known_and_deleted_runs_land(self, store: Store, other: Store) -> None:
        """S4, S12: each with its own rows"""
        known, deleted, *fresh = (RunId(f"{place}-run") for place in "bcead")
        await land(store, begin(known))
        await land(store, begin(deleted, summary=summary(deleted), closed=True))
        assert await store.delete(tombstone(deleted), 1)
        runs = (fresh[0], deleted, known, *fresh[1:])
        batch = [
            begin(run, body=f'["{run}"]'.encode(), summary=summary(run), opens=[Wait("timer", run)]) for run in runs
        ]
        outcomes = await store.append(batch)
        assert [outcome.why if isinstance(outcome, Lost) else "" for outcome in outcomes] == [
            "",
            "deleted",
            "version",
            "",
            "",
        ]
        for run, append in zip(runs, batch, strict=True):
            if run in fresh:
                assert await other.read(run) == [append.record]
                assert await other.summary(run) == append.summary
                assert await other.wait(run, f"timer:{run}") == append.opens[0]
        assert (await other.head(deleted), await other.summary(known)) == (None, None)

    async def test_a_run_that_a_live_worker_holds_is_not_deleted(self, doors: Doors) -> None:
        """S12"""
        store, other = await held_by_ann(doors)
        assert not await other.delete(tombstone(A), 1)
        assert await store.head(A) is not None
        doors.let_pass(LATER)
        assert await other.delete(tombstone(A), 1)
        assert await store.holding(A) is None

    async def test_a_deleted_run_is_in_no_list(self, doors: Doors) -> None:
        """S12: from the first step on"""
        store, other = await workers(doors)
        timer, question = Wait("timer", "t", due=1), Wait("interaction", "q")
        looks = summary(A, tags=("x",), queue="mail", attributes={"n": 1})
        slots = [Slot("s", 9, "run")]
        await land(store, begin(A, summary=looks, opens=[timer, question], claim=ANN, takes=slots))
        assert await store.take(A, 1, [Slot("c", 9)]) == ()
        await store.note({A: b"10%"})
        await store.keep([line(A, 1)])
        await land(store, begin_ready(B))
        await land(store, begin(C, summary=summary(C), opens=[question], takes=slots))
        doors.let_pass(LATER)
        await other.enrol(CAT, 30)
        assert await store.delete(tombstone(A), 1)
        assert await store.delete(tombstone(B), 1)
        for run in (A, B):
            for _ in range(2):
                seen = await trace(other, run)
                assert (seen.head, seen.summary, seen.is_listed, seen.waits) == (None, None, False, ())
                assert (seen.holding, seen.slots) == (None, ())
                assert await other.derived(run) == Derived(None)
                assert await other.wait(run, question.name) is None
                while await store.purge():
                    pass
        assert (await other.runs(), await other.runs(unfinished=True)) == (([C], ""), ([C], ""))
        for query in (RunFilter(), RunFilter(text="run-"), RunFilter(prefix="run-")):
            assert [each.run for each in await other.search(query)] == [C]
        for query in (RunFilter(tags=("x",)), RunFilter(queue="mail"), RunFilter(order="n")):
            assert len(await other.search(query)) == 0
        assert [due.run for due in await all_waits(other)] == [C]
        assert (await other.due(), await other.next_due()) == ([], None)
        assert await other.holdings() == []
        assert [held.run for held in await other.slot_holders()] == [C]
        assert await other.claim(CAT, limit=9) == await other.claim(CAT, runs=[A, B], limit=9) == []

    async def test_a_deleted_run_accepts_no_append(self, store: Store, other: Store) -> None:
        """S12: neither of its owner nor of guests, nor of a new run with its id; also after all is purged"""
        head = await land(store, begin(A, summary=summary(A)))
        assert await store.delete(tombstone(A), 1)
        for number in range(2):
            refused = [
                follow(head),
                follow(head, kind=Kind.GUEST, opens=[Wait("signal", "s")]),
                follow(head, kind=Kind.TAKEOVER, summary=summary(A, 2), takes=[Slot("x")]),
                begin(A, summary=summary(A), claim=ANN),
                begin_ready(A),
            ]
            outcomes = await other.append([*refused, begin(RunId(f"another-{number}"))])
            assert [why(outcome) for outcome in outcomes[:-1]] == [("deleted", None)] * len(refused)
            assert outcomes[-1] is LANDED
            while await store.purge():
                pass
            assert await trace(store, A) == NO_TRACE
            assert await store.tombstone(A) == tombstone(A)

    async def test_other_writes_to_a_deleted_run_change_nothing(self, store: Store) -> None:
        """S12"""
        await land(store, begin(A, summary=summary(A)))
        assert await store.delete(tombstone(A), 1)
        while await store.purge():
            pass
        assert not await store.correct(summary(A), 0)
        assert not await store.correct(summary(A, 2), 1)
        assert not await store.rewrite(summary(A), [Wait("signal", "s")], closed=False)
        await store.note({A: b"10%"})
        await store.keep([line(A, 1)])
        assert await trace(store, A) == NO_TRACE
        assert await store.lines(A) == []
        assert not await store.purge()

    async def test_one_of_a_deletion_and_an_append_wins(self, store: Store, other: Store) -> None:
        """S2, S12"""
        for number in range(RACES):
            run = RunId(f"r{number}")
            head = await land(store, begin(run, summary=summary(run)))
            kind = Kind.GUEST if number % 2 else Kind.OWNER
            append = follow(head, kind=kind, summary=summary(run, 2))
            first, second = (store, other) if number % 3 else (other, store)
            is_deleted, (outcome,) = await asyncio.gather(
                first.delete(tombstone(run), head.version), second.append([append])
            )
            if is_deleted:
                assert why(outcome) == ("deleted", None)
                assert (await store.head(run), (await trace(other, run)).is_listed) == (None, False)
            else:
                assert outcome is LANDED
                assert (await store.head(run), await store.tombstone(run)) == (append.head, None)

    async def test_one_of_a_deletion_and_a_claim_wins(self, doors: Doors) -> None:
        """S6, S12"""
        store, other = await workers(doors)
        for number in range(RACES):
            run = RunId(f"r{number}")
            await land(store, begin_ready(run))
            named = [run] if number % 2 else None
            is_deleted, claims = await asyncio.gather(store.delete(tombstone(run), 1), other.claim(BEN, runs=named))
            assert is_deleted is not bool(claims)
            assert (await store.holding(run) is None) is is_deleted

    # --- tombstones

    async def test_every_field_of_a_tombstone_is_stored(self, doors: Doors, store: Store) -> None:
        """S12"""
        full = tombstone(
            A, workflow="w ☃", status=RunStatus.FAILED, deleted=BEGINNING + 5, key="k\n1", by="ann", reason="old\x00'"
        )
        await land(store, begin(A))
        assert await store.delete(full, 1)
        store = await doors.reopen(store)
        assert await store.tombstone(A) == full
        assert await store.tombstones() == [full]
        assert await store.tombstone(B) is None

    async def test_a_repeated_deletion_is_recognised(self, store: Store, other: Store) -> None:
        """S12: the answer to the first one may be lost"""
        await land(store, begin(A))
        for _ in range(2):
            assert await store.delete(tombstone(A, by="ann"), 1)
        assert not await other.delete(tombstone(A, by="ben"), 1), "another process deleted the run"
        while await store.purge():
            pass
        assert await store.delete(tombstone(A, by="ann"), 1)
        assert await store.tombstone(A) == tombstone(A, by="ann")

    async def test_a_tombstone_is_stored_for_an_id_without_a_run(self, store: Store) -> None:
        """S12: the tombstones of a store that is copied"""
        assert not await store.delete(tombstone(A), 1)
        assert await store.delete(tombstone(A), 0)
        assert await store.tombstones() == [tombstone(A)]
        assert why((await store.append([begin(A)]))[0]) == ("deleted", None)
        assert not await store.purge()

    async def test_tombstones_are_listed_in_pages(self, store: Store, other: Store) -> None:
        """S7, S12"""
        runs = sorted(RunId(name) for name in ("r", "r:1", "r.1", "R", "q", "r1", "Z"))
        await store.append([begin(run) for run in runs])
        for run in reversed(runs):
            assert await store.delete(tombstone(run), 1)
        for limit in (1, 3, len(runs), 1000):
            assert [each.run for each in await all_tombstones(other, limit)] == runs
        with pytest.raises(InvalidInput):
            await other.tombstones(limit=0)

    # --- the other steps

    async def test_a_deleted_run_is_removed_in_bounded_steps(self, store: Store, other: Store) -> None:
        """S12"""
        await chain(store, A, *[2] * 3 * STEP)
        await store.keep([line(A, number) for number in range(2 * STEP)])
        await store.note({A: b"10%"})
        kept = [await chain(store, run, 1, 2, 1) for run in (B, C)]
        head = await store.head(A)
        assert head is not None
        assert not await store.purge(STEP), "nothing is deleted"
        assert await store.delete(tombstone(A), head.version)
        steps, left = 1, await rows(store, A)
        while await other.purge(STEP):
            now = await rows(store, A)
            assert left - STEP <= now <= left, "a step removes at most the rows that it may"
            steps, left = steps + 1, now
            assert steps < 100, "the deletion does not end"
        assert steps > 1
        assert await rows(store, A) == 0
        assert await trace(store, A) == NO_TRACE
        assert [list((await trace(store, run)).log) for run in (B, C)] == kept
        assert await store.tombstone(A) == tombstone(A)

    async def test_several_processes_remove_deleted_runs_at_once(self, store: Store, other: Store) -> None:
        """S12: while another one appends"""
        runs = [RunId(f"r{number}") for number in range(6)]
        for run in runs:
            await chain(store, run, 1, 1, 1)
            await store.keep([line(run, number) for number in range(5)])
            assert await store.delete(tombstone(run), 3)

        async def purge(store: Store) -> None:
            while await store.purge(5):
                await asyncio.sleep(0)

        async def work() -> None:
            head = await land(store, begin(A))
            for _ in range(10):
                head = await land(store, follow(head))

        await asyncio.gather(purge(store), purge(other), work())
        assert [await rows(store, run) for run in runs] == [0] * len(runs)
        assert len(await store.read(A)) == 11
        assert [each.run for each in await store.tombstones()] == runs

    async def test_a_process_continues_the_deletion_of_another_one(self, doors: Doors, store: Store) -> None:
        """S12"""
        await chain(store, A, *[1] * 25)
        assert await store.delete(tombstone(A), 25)
        assert await store.purge(STEP)
        store = await doors.reopen(store)
        assert await store.head(A) is None
        while await store.purge(STEP):
            pass
        assert await rows(store, A) == 0


def why(outcome: object) -> tuple[str, Head | None]:
    assert isinstance(outcome, Lost)
    return outcome.why, outcome.head


def line(run: RunId, number: int) -> Line:
    return Line(run, f"node-{number % 3}", 1, BEGINNING + number, "info", "", f"line {number}")


async def all_tombstones(store: Store, limit: int) -> list[Tombstone]:
    """List all tombstones, in pages."""
    return await in_pages(lambda last: store.tombstones(after=last.run if last else "", limit=limit), limit)


async def rows(store: Store, run: RunId) -> int:
    """Count the records and lines of a run that can be read."""
    return len(await store.read(run)) + len(await store.lines(run))
