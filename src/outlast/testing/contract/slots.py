"""Tests of slots: limits on what runs use at the same time (S11). Slots that are taken with a claim are in `queues`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from outlast.errors import InvalidInput, NotAllowed
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Head, Lost, Slot, SlotHolder, Store
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.leases import workers
from outlast.testing.contract.samples import (
    ANN,
    BEN,
    CAT,
    NO_TRACE,
    A,
    B,
    C,
    begin,
    begin_ready,
    follow,
    in_pages,
    land,
    summary,
    trace,
)

TAKERS, LIMIT = 4, 3
ROUNDS = 5
TRIES = 2000


class SlotsContract(Contract):
    """Tests of `outlast.store.Slots`, and of the slots of appends."""

    # --- taking and giving

    async def test_a_slot_has_no_more_holders_than_its_limit(self, doors: Doors) -> None:
        """S11"""
        store, other = await held(doors, A, B, C)
        assert await store.take(A, 1, [Slot("x", 2)]) == ()
        assert await other.take(B, 1, [Slot("x", 2)]) == ()
        full = await store.take(C, 1, [Slot("x", 2)])
        assert sorted(each.run for each in full) == [A, B]
        assert await other.slot_holders("x") == [SlotHolder("x", A, 1), SlotHolder("x", B, 1)]
        await other.give(A, 1, ["x"])
        assert await store.take(C, 1, [Slot("x", 2)]) == ()
        assert await all_holders(store) == [("x", B), ("x", C)]

    async def test_several_slots_are_taken_together_or_not_at_all(self, doors: Doors) -> None:
        """S11"""
        store, _ = await held(doors, A, B)
        assert await store.take(A, 1, [Slot("m")]) == ()
        for wanted in (["a", "m"], ["m", "z"], ["z", "m", "a"]):
            (full,) = await store.take(B, 1, [Slot(name) for name in wanted])
            assert (full.name, full.run) == ("m", A)
            assert await all_holders(store) == [("m", A)]
        assert await store.take(B, 1, [Slot("z"), Slot("a")]) == ()
        assert await all_holders(store) == [("a", B), ("m", A), ("z", B)]
        assert await store.take(B, 1, []) == ()

    async def test_a_slot_that_the_run_holds_stays_its_own(self, doors: Doors) -> None:
        """S11: so the answer to a `take` may be lost"""
        store, other = await held(doors, A, B)
        for _ in range(2):
            assert await store.take(A, 1, [Slot("x"), Slot("y")]) == ()
        await land(store, follow(await head_of(store, A), release=True))
        (claim,) = await other.claim(BEN, runs=[A])
        assert await other.take(A, claim.epoch, [Slot("x", until="run")]) == ()
        (found,) = await other.slot_holders()
        assert found == SlotHolder("x", A, claim.epoch, "run"), "the slot y ended with the first claim"

    async def test_the_limit_is_that_of_the_last_taker(self, doors: Doors) -> None:
        """S11"""
        store, _ = await held(doors, A, B, C)
        assert await store.take(A, 1, [Slot("x", 2)]) == ()
        assert await store.take(B, 1, [Slot("x", 2)]) == ()
        assert len(await store.take(C, 1, [Slot("x", 1)])) == 2
        assert await store.take(C, 1, [Slot("x", 3)]) == ()

    async def test_only_the_current_claim_takes_slots(self, doors: Doors) -> None:
        """S11"""
        store, other = await held(doors, A)
        await land(store, begin(B))
        for run, epoch in ((A, 0), (A, 2), (B, 0), (B, 1), (RunId("not-there"), 0), (RunId("not-there"), 1)):
            with pytest.raises(NotAllowed):
                await store.take(run, epoch, [Slot("x")])
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, runs=[A])
        with pytest.raises(NotAllowed):
            await store.take(A, 1, [Slot("x")])
        assert await other.slot_holders() == []
        assert await other.take(A, claim.epoch, [Slot("x")]) == ()

    async def test_a_slot_is_given_only_under_its_epoch_or_a_greater_one(self, doors: Doors) -> None:
        """S11: the last request of a worker that lost its claim may arrive late"""
        store, other = await held(doors, A, B)
        await store.take(B, 1, [Slot("x", 9), Slot("y", 9)])
        (claim,) = await store.claim(ANN, runs=[A])
        await store.take(A, claim.epoch, [Slot("x", 9), Slot("y", 9)])
        await other.give(A, claim.epoch - 1, ["x", "y"])
        assert len(await store.slot_holders()) == 4
        await other.give(A, claim.epoch + 1, ["x", "z"])
        assert await all_holders(store) == [("x", B), ("y", A), ("y", B)]
        await other.give(RunId("not-there"), 1, ["x"])
        await other.give(A, claim.epoch, [])
        assert len(await store.slot_holders()) == 3

    async def test_holders_are_listed_by_name_and_run(self, doors: Doors) -> None:
        """S7, S11"""
        runs = [RunId(name) for name in ("r", "r:1", "r.1", "R", "q")]
        store, other = await held(doors, *runs)
        names = ["x", "x:y", "X ☃", "exclusive:a\nb", "x%", "a" * 200]
        for run in runs:
            assert await store.take(run, 1, [Slot(name, 9) for name in names]) == ()
        every = sorted((name, run) for name in names for run in runs)
        for limit in (1, 4, len(every), 1000):
            assert await all_holders(other, limit=limit) == every
            for name in names:
                assert await all_holders(other, name, limit=limit) == [(name, run) for run in sorted(runs)]
        assert await other.slot_holders("y") == []
        for wrong in ({"limit": 0}, {"after": "this is no cursor"}):
            with pytest.raises(InvalidInput):
                await other.slot_holders(**wrong)

    # --- slots of a claim

    async def test_a_slot_of_a_claim_ends_with_the_release(self, doors: Doors) -> None:
        """S11"""
        store, other = await held(doors, A, B)
        for run in (A, B):
            assert await store.take(run, 1, [Slot("x", 2), Slot(f"own-{run}")]) == ()
        assert not await store.release(A, ANN, 7)
        assert len(await store.slot_holders()) == 4, "the claim was not released"
        assert await store.release(A, ANN, 1)
        await land(other, follow(await head_of(other, B), release=True))
        assert await store.slot_holders() == []

    async def test_the_slots_of_claims_end_when_their_worker_retires(self, doors: Doors) -> None:
        """S11"""
        store, other = await held(doors, A, B)
        await land(other, begin(C, claim=BEN))
        for run in (A, B, C):
            assert await store.take(run, 1, [Slot("x", 3)]) == ()
        await store.retire(ANN)
        assert await all_holders(other) == [("x", C)]

    async def test_a_slot_of_a_claim_lasts_until_a_takeover_is_in_the_log(self, doors: Doors) -> None:
        """S11: until then the old owner may append"""
        store, other = await held(doors, A, B)
        assert await store.take(A, 1, [Slot("x")]) == ()
        await land(other, begin(C, claim=BEN))
        doors.let_pass(31)
        await other.enrol(BEN, 30)
        assert len(await other.take(C, 1, [Slot("x")])) == 1, "its worker expired"
        (claim,) = await other.claim(BEN, runs=[A])
        assert len(await other.take(C, 1, [Slot("x")])) == 1, "the run is claimed"
        await land(store, follow(await head_of(store, A)))
        await land(other, follow(await head_of(other, A), kind=Kind.TAKEOVER, epoch=claim.epoch))
        assert await other.take(C, 1, [Slot("x")]) == ()

    async def test_a_slot_lasts_if_the_claim_that_took_it_over_ends_before_its_takeover(self, doors: Doors) -> None:
        """S11: the interrupted owner may still append"""
        store, other = await held(doors, A, B)
        assert await store.take(A, 1, [Slot("x")]) == ()
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, runs=[A])
        assert await other.take(A, claim.epoch, [Slot("x")]) == ()
        await other.retire(CAT)
        assert await store.append([follow(await head_of(store, A))]) == [LANDED]
        await other.enrol(BEN, 30)
        await land(other, begin(C, claim=BEN))
        assert len(await other.take(C, 1, [Slot("x")])) == 1
        (claim,) = await other.claim(BEN, runs=[A])
        await land(other, follow(await head_of(other, A), kind=Kind.TAKEOVER, epoch=claim.epoch))
        assert await other.take(C, 1, [Slot("x")]) == ()

    async def test_a_slot_ends_if_the_interrupted_owner_released_the_run_after_all(self, doors: Doors) -> None:
        """S11: its last append arrives when another worker has claimed the run and its slots"""
        store, other = await held(doors, A)
        assert await store.take(A, 1, [Slot("x")]) == ()
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, runs=[A])
        assert await other.take(A, claim.epoch, [Slot("x")]) == ()
        head = await land(store, follow(await head_of(store, A), closed=True, release=True))
        assert [each.epoch for each in await store.slot_holders()] == [claim.epoch]
        assert await other.release(A, CAT, head.version)
        assert await store.slot_holders() == []

    async def test_a_takeover_keeps_the_slots_of_its_own_claim(self, doors: Doors) -> None:
        """S11"""
        store, other = await held(doors, A)
        assert await store.take(A, 1, [Slot("old"), Slot("both")]) == ()
        doors.let_pass(31)
        await other.enrol(BEN, 30)
        (claim,) = await other.claim(BEN, runs=[A])
        assert await other.take(A, claim.epoch, [Slot("both"), Slot("new")]) == ()
        head = await head_of(other, A)
        await land(other, follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch, takes=[Slot("with-it")]))
        assert await all_holders(other) == [("both", A), ("new", A), ("with-it", A)]

    # --- slots of a run

    async def test_a_slot_of_a_run_lasts_until_an_append_frees_it(self, doors: Doors) -> None:
        """S11: after a release, an expiry, a takeover and a retirement"""
        store, other = await held(doors, A)
        slot = Slot("x", until="run")
        assert await store.take(A, 1, [slot]) == ()
        assert await store.release(A, ANN, 1)
        (claim,) = await store.claim(ANN, runs=[A])
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, runs=[A])
        head = await land(other, follow(await head_of(other, A), kind=Kind.TAKEOVER, epoch=claim.epoch))
        assert await other.take(A, claim.epoch, [Slot("y")]) == ()
        await other.retire(CAT)
        assert await all_holders(store) == [("x", A)]
        await land(other, begin_ready(B))
        head = await land(store, follow(head, closed=True))
        assert await store.append([follow(await head_of(store, B), takes=[slot])]) != [LANDED]
        await land(store, follow(head, kind=Kind.CONTROL, closed=True, frees=True))
        assert await store.slot_holders() == []

    async def test_only_the_slots_of_the_run_are_freed(self, doors: Doors) -> None:
        """S11"""
        store, _ = await held(doors, A, B)
        for run in (A, B):
            assert await store.take(run, 1, [Slot("claim", 2), Slot("run", 2, "run")]) == ()
        await land(store, follow(await head_of(store, A), frees=True))
        assert await all_holders(store) == [("claim", A), ("claim", B), ("run", B)]

    # --- appends

    async def test_an_append_takes_its_slots_or_is_lost(self, store: Store, other: Store) -> None:
        """S1, S11"""
        slots = [Slot("a", 2, "run"), Slot("b", 1, "run")]
        head = await land(store, begin(A, takes=slots, summary=summary(A)))
        assert [each.name for each in await other.slot_holders()] == ["a", "b"]
        (lost,) = await other.append([begin(B, takes=slots, summary=summary(B), opens=[Wait("signal", "s")])])
        assert isinstance(lost, Lost)
        assert (lost.why, lost.head, [(held.name, held.run, held.until) for held in lost.full]) == (
            "slot",
            None,
            [("b", A, "run")],
        )
        assert await trace(other, B) == NO_TRACE
        await land(store, follow(head, frees=True, closed=True))
        await land(other, begin(B, takes=slots))
        assert await all_holders(store) == [("a", B), ("b", B)]

    async def test_a_later_append_takes_slots_too(self, store: Store) -> None:
        """S11"""
        await land(store, begin(A, takes=[Slot("x", 1, "run")]))
        head = await land(store, begin(B, summary=summary(B)))
        before = await trace(store, B)
        (lost,) = await store.append([follow(head, takes=[Slot("x"), Slot("y")], summary=summary(B, 2))])
        assert isinstance(lost, Lost)
        assert (lost.why, lost.head) == ("slot", head)
        assert await trace(store, B) == before
        await land(store, follow(head, takes=[Slot("x", 2), Slot("y")]))
        assert await all_holders(store) == [("x", A), ("x", B), ("y", B)]

    async def test_a_lost_append_takes_and_frees_no_slots(self, store: Store) -> None:
        """S1, S11"""
        head = await land(store, begin(A, epoch=2, takes=[Slot("run", until="run"), Slot("claim")]))
        before = await trace(store, A)
        for lost in (
            follow(Head(A, 0, head.digest, 2), takes=[Slot("x")], frees=True, release=True),
            follow(head, epoch=1, takes=[Slot("x")], frees=True, release=True),
            follow(head, needs=["signal:s"], takes=[Slot("x")], frees=True),
            follow(head, kind=Kind.TAKEOVER, epoch=2, takes=[Slot("x")], frees=True),
        ):
            (outcome,) = await store.append([lost])
            assert isinstance(outcome, Lost)
            assert outcome.why != "slot"
            assert await trace(store, A) == before

    async def test_a_repeated_append_that_took_slots_is_recognised(self, store: Store) -> None:
        """S2, S11"""
        created = begin(A, takes=[Slot("x", until="run")])
        await land(store, created)
        (lost,) = await store.append([created])
        assert isinstance(lost, Lost)
        assert (lost.why, lost.tail[:1]) == ("version", (created.record,))

    async def test_the_appends_of_a_batch_take_and_free_slots_in_their_order(self, store: Store) -> None:
        """S1, S4, S11"""
        slot = Slot("x", until="run")
        first, second = await store.append([begin(A, takes=[slot]), begin(B, takes=[slot])])
        assert first is LANDED
        assert isinstance(second, Lost)
        assert (second.why, [held.run for held in second.full]) == ("slot", [A])
        freeing = follow(await head_of(store, A), frees=True)
        assert await store.append([freeing, begin(B, takes=[slot]), begin(C)]) == [LANDED] * 3
        assert await all_holders(store) == [("x", B)]

    async def test_a_run_that_begins_and_ends_in_one_append_needs_its_slots_and_keeps_none(self, store: Store) -> None:
        """S11"""
        takes = [Slot("x", until="run"), Slot("y", until="run")]
        head = await land(store, begin(A, takes=takes))
        (lost,) = await store.append([begin(B, takes=takes[:1], frees=True, closed=True)])
        assert [held.run for held in why_full(lost)] == [A]
        await land(store, follow(head, frees=True, takes=[Slot("z", until="run")]))
        assert await store.slot_holders() == []
        await land(store, begin(B, takes=takes[:1], frees=True, closed=True))
        assert await store.slot_holders() == []

    # --- concurrency

    async def test_one_of_several_appends_gets_the_last_slot(self, doors: Doors) -> None:
        """S11"""
        stores = [await doors.open() for _ in range(TAKERS)]
        for turn in range(ROUNDS):
            takes = [Slot("x", until="run")]
            rivals = [begin(RunId(f"r{turn}-{number}"), takes=takes) for number in range(TAKERS)]
            found = await asyncio.gather(
                *(store.append([each]) for store, each in zip(stores, rivals, strict=True)),
            )
            outcomes = [outcome for (outcome,) in found]
            assert outcomes.count(LANDED) == 1
            winner = rivals[outcomes.index(LANDED)].head
            for outcome in outcomes:
                assert outcome is LANDED or ([held.run for held in why_full(outcome)] == [winner.run])
            assert await all_holders(stores[0]) == [("x", winner.run)]
            await land(stores[0], follow(winner, frees=True))

    async def test_takers_on_several_connections_never_exceed_the_limit(self, doors: Doors) -> None:
        """S11"""
        runs = [RunId(f"r{number}") for number in range(2 * TAKERS)]
        await held(doors, *runs)
        stores = [await doors.open() for _ in range(TAKERS)]
        using, served = set[RunId](), list[RunId]()

        async def use(store: Store, run: RunId) -> None:
            for _ in range(ROUNDS):
                await taken(store, run, [Slot("x", LIMIT), Slot("y", LIMIT + 1)])
                using.add(run)
                await asyncio.sleep(0.001)
                assert len(using) <= LIMIT, "a slot has more holders than its limit"
                assert len(await store.slot_holders("x")) <= LIMIT
                using.remove(run)
                served.append(run)
                await store.give(run, 1, ["x", "y"])

        await asyncio.gather(*(use(stores[number % TAKERS], run) for number, run in enumerate(runs)))
        assert len(served) == ROUNDS * len(runs)
        assert await stores[0].slot_holders() == []

    async def test_takers_of_the_same_slots_in_another_order_do_not_block_each_other(self, doors: Doors) -> None:
        """S11"""
        store, other = await held(doors, A, B)
        using = set[RunId]()

        async def use(store: Store, run: RunId, names: Sequence[str]) -> None:
            for _ in range(2 * ROUNDS):
                await taken(store, run, [Slot(name) for name in names])
                using.add(run)
                await asyncio.sleep(0.001)
                assert using == {run}
                using.remove(run)
                await store.give(run, 1, names)

        await asyncio.gather(use(store, A, "abcd"), use(other, B, "dcba"))
        assert await store.slot_holders() == []


async def held(doors: Doors, *runs: RunId) -> tuple[Store, Store]:
    """Like `workers`, with these runs of one event, which ann holds under epoch 1."""
    store, other = await workers(doors)
    made = [begin(run, summary=summary(run), claim=ANN) for run in runs]
    assert await store.append(made) == [LANDED] * len(made)
    return store, other


async def taken(store: Store, run: RunId, slots: Sequence[Slot]) -> None:
    """Try until the run has its slots."""
    full: tuple[SlotHolder, ...] = ()
    for _ in range(TRIES):
        if not (full := await store.take(run, 1, slots)):
            return
        assert all(each.run != run for each in full), "its own slots are not in its way"
        await asyncio.sleep(0.001)
    raise AssertionError(f"{run} did not get its slots: {full}")


async def head_of(store: Store, run: RunId) -> Head:
    head = await store.head(run)
    assert head is not None
    return head


def why_full(outcome: Any) -> tuple[SlotHolder, ...]:
    assert isinstance(outcome, Lost)
    assert outcome.why == "slot"
    return outcome.full


async def all_holders(store: Store, name: str = "", *, limit: int = 1000) -> list[tuple[str, RunId]]:
    """List the names and runs of all slots that are held, or of those of one name, in pages."""
    found = await in_pages(
        lambda last: store.slot_holders(name, after=f"{last.name}\n{last.run}" if last else "", limit=limit), limit
    )
    return [(each.name, each.run) for each in found]
