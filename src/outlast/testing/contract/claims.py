"""Tests of claims: one holder, and growing epochs (S6, S8).

Tests of leases and releases are in `leases`."""

from __future__ import annotations

import asyncio

from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Claim
from outlast.testing.contract.doors import Doors
from outlast.testing.contract.leases import LeaseContract, held_by_ann, holder, workers
from outlast.testing.contract.samples import ANN, BEN, CAT, A, B, C, begin, begin_ready, follow, land, summary


class ClaimsContract(LeaseContract):
    """Tests of `outlast.store.Claims`."""

    # --- one holder

    async def test_a_run_that_a_live_worker_holds_is_not_claimed_by_another(self, doors: Doors) -> None:
        """S6"""
        _, other = await held_by_ann(doors)
        assert await other.claim(BEN, runs=[A]) == []
        assert await other.claim(BEN) == []
        assert await holder(other) == ANN

    async def test_a_run_that_is_created_and_released_in_one_append_is_nobodys_and_not_ready(
        self, doors: Doors
    ) -> None:
        """S6"""
        store, other = await workers(doors)
        head = await land(store, begin(A, release=True))
        assert not head.ready
        assert await store.head(A) == head
        assert await other.holding(A) is None
        assert await other.claim(BEN) == []
        (claim,) = await other.claim(BEN, runs=[A])
        assert (claim.run, claim.epoch, claim.previous, claim.cause) == (A, 2, "", "claimed")

    async def test_a_claimed_run_cannot_be_claimed_in_another_way(self, doors: Doors) -> None:
        """S6"""
        store, other = await workers(doors)
        await land(store, begin_ready(A))
        (claim,) = await store.claim(ANN)
        assert claim == Claim(A, ANN, 1, "", "claimed")
        assert await other.claim(BEN, runs=[A]) == []
        assert await other.claim(BEN, workflows=["w"]) == []
        assert await store.claim(ANN, workflows=["w"]) == [], "the holder does not get it again without naming it"

    async def test_workers_on_two_connections_never_claim_the_same_run(self, doors: Doors) -> None:
        """S6"""
        store, other = await workers(doors)
        runs = [RunId(f"r{number:02}") for number in range(40)]
        assert await store.append([begin_ready(run) for run in runs]) == [LANDED] * len(runs)
        granted = await asyncio.gather(
            *(each.claim(worker, limit=3) for _ in range(10) for each, worker in ((store, ANN), (other, BEN)))
        )
        claims = [claim for some in granted for claim in some]
        assert sorted(claim.run for claim in claims) == runs
        for claim in claims:
            assert await holder(store, claim.run) == claim.worker

    # --- candidates

    async def test_a_named_run_is_claimed_in_any_state(self, doors: Doors) -> None:
        """S6"""
        store, _ = await workers(doors)
        await land(store, begin_ready(A))
        await land(store, begin(B))
        await land(store, begin(C, closed=True))
        claims = await store.claim(ANN, runs=[A, B, C, RunId("not-there")], limit=9)
        assert [(claim.run, claim.cause, claim.previous) for claim in claims] == [
            (run, "claimed", "") for run in (A, B, C)
        ]

    async def test_without_names_only_ready_runs_are_claimed(self, doors: Doors) -> None:
        """S8"""
        store, _ = await workers(doors)
        asleep = await land(store, begin(A, summary=summary(A), opens=[Wait("interaction", "q")]))
        await land(store, begin(B, summary=summary(B), closed=True))
        await land(store, begin_ready(C))
        assert [claim.run for claim in await store.claim(ANN, limit=9)] == [C]
        await land(store, follow(asleep, kind=Kind.GUEST))
        assert [claim.run for claim in await store.claim(ANN, limit=9)] == [A]

    async def test_without_names_interrupted_runs_are_claimed(self, doors: Doors) -> None:
        """S8"""
        _, other = await held_by_ann(doors)
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, limit=9)
        assert (claim.run, claim.worker, claim.previous, claim.cause) == (A, CAT, ANN, "expired")
        assert claim.seen == {each.worker: each.seen for each in await other.workers()}[ANN] > 0

    async def test_a_worker_claims_only_the_workflows_it_names(self, doors: Doors) -> None:
        """S6"""
        store, _ = await workers(doors)
        for run, workflow in ((A, "bake"), (B, "brew"), (C, "bake")):
            await land(store, begin_ready(run, summary=summary(run, workflow=workflow)))
        assert await store.claim(ANN, workflows=[], limit=9) == []
        assert await store.claim(ANN, workflows=["ba", "x"], limit=9) == []
        assert [claim.run for claim in await store.claim(ANN, workflows={"brew", "x"}, limit=9)] == [B]
        doors.let_pass(31)
        await store.enrol(BEN, 30)
        claims = await store.claim(BEN, workflows=["bake"], limit=9)
        assert {claim.run for claim in claims} == {A, C}, "B was interrupted, but has another workflow"

    async def test_no_more_than_the_limit_is_claimed(self, doors: Doors) -> None:
        """S6"""
        store, _ = await workers(doors)
        runs = [RunId(f"r{number}") for number in range(8)]
        await store.append([begin_ready(run) for run in runs])
        assert len(await store.claim(ANN)) == 1
        assert len(await store.claim(ANN, runs=runs, limit=2)) == 2
        assert len(await store.claim(ANN, limit=3)) == 3
        doors.let_pass(31)
        await store.enrol(BEN, 30)
        counts = [len(await store.claim(BEN, limit=3)) for _ in range(4)]
        assert counts == [3, 3, 2, 0], "interrupted and ready ones together"

    # --- epochs

    async def test_every_claim_has_a_greater_epoch_than_all_before_it(self, doors: Doors) -> None:
        """S6: after a release, an expiry, a claim without takeover, a takeover and a retirement"""
        store, other = await workers(doors)
        head = await land(store, begin(A, claim=ANN))
        epochs = [head.epoch]
        assert await store.release(A, ANN, head.version)
        for _ in range(2):
            (claim,) = await other.claim(BEN, runs=[A])
            epochs.append(claim.epoch)
            assert await other.release(A, BEN, head.version)
        (claim,) = await store.claim(ANN, runs=[A])
        epochs.append(claim.epoch)
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, runs=[A])
        epochs.append(claim.epoch)
        await land(other, follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch))
        await other.retire(CAT)
        store = await doors.reopen(store)
        await store.enrol(ANN, 30)
        (claim,) = await store.claim(ANN)
        epochs.append(claim.epoch)
        assert epochs == sorted(set(epochs)), "the epochs do not grow"

    async def test_a_takeover_with_the_epoch_of_a_claim_succeeds(self, doors: Doors) -> None:
        """S2, S6"""
        store, other = await held_by_ann(doors)
        head = await store.head(A)
        assert head is not None
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT)
        assert await store.head(A) == head, "the log does not change before the takeover"
        taken = await land(other, follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch))
        await land(other, follow(taken, release=True))
        assert await store.holding(A) is None

    async def test_a_holder_that_names_its_run_gets_a_claim_with_a_new_epoch(self, doors: Doors) -> None:
        """S6: so a claim survives the loss of its answer"""
        store, other = await held_by_ann(doors)
        (again,) = await store.claim(ANN, runs=[A])
        assert (again.worker, again.previous, again.cause) == (ANN, "", "claimed")
        (once_more,) = await store.claim(ANN, runs=[A])
        assert once_more.epoch > again.epoch > 1
        assert await other.claim(BEN, runs=[A]) == []

    async def test_a_run_named_twice_gets_no_epoch_twice(self, doors: Doors) -> None:
        """S6"""
        store, _ = await workers(doors)
        await land(store, begin_ready(A))
        epochs = [claim.epoch for claim in await store.claim(ANN, runs=[A, A], limit=2)]
        epochs += [claim.epoch for claim in await store.claim(ANN, runs=[A])]
        assert epochs == sorted(set(epochs))
