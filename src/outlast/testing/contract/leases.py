"""Tests of claims: leases of workers, and the release of runs (S6, S8)."""

from __future__ import annotations

import asyncio

from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind
from outlast.store import LANDED, Holding, Store, WorkerInfo
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.samples import ANN, BEN, CAT, A, B, C, begin, follow, in_pages, land, summary


class LeaseContract(Contract):
    """Tests of leases and releases."""

    # --- leases

    async def test_a_claim_lasts_as_long_as_its_worker_by_the_stores_clock(self, doors: Doors) -> None:
        """S6"""
        store, other = await held_by_ann(doors)
        doors.let_pass(29)
        assert await other.claim(BEN, runs=[A]) == []
        doors.let_pass(2)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, runs=[A])
        assert (claim.worker, claim.previous, claim.cause) == (CAT, ANN, "expired")
        assert await holder(store) == CAT

    async def test_a_worker_renews_for_all_its_runs(self, doors: Doors) -> None:
        """S6"""
        store, other = await held_by_ann(doors)
        await land(store, begin(B, claim=ANN))
        for _ in range(3):
            doors.let_pass(20)
            assert await store.renew(ANN, 30)
        await other.renew(BEN, 30)
        assert await other.claim(BEN, runs=[A, B], limit=2) == []
        assert await other.claim(BEN, limit=2) == []

    async def test_a_worker_renews_through_a_reopened_store_on_another_loop(self, doors: Doors) -> None:
        """S6: so a blocked event loop loses no claims"""
        store, other = await held_by_ann(doors)
        doors.let_pass(20)
        again = store.reopen()

        async def renewed() -> bool:
            try:
                return await again.renew(ANN, 30)
            finally:
                await again.close()

        assert await asyncio.to_thread(asyncio.run, renewed())
        doors.let_pass(20)
        await other.renew(BEN, 30)
        assert await other.claim(BEN, runs=[A]) == []
        assert await store.renew(ANN, 30)

    async def test_renewal_of_an_unknown_worker_fails(self, doors: Doors) -> None:
        """S6"""
        store, other = await workers(doors)
        assert not await store.renew(CAT, 30)
        await store.retire(ANN)
        assert not await other.renew(ANN, 30)
        assert await other.renew(BEN, 30)

    async def test_a_worker_is_listed_with_its_workflows_and_its_last_renewal(self, doors: Doors) -> None:
        """S6"""
        store, other = await held_by_ann(doors)
        info = WorkerInfo(("pay", "ship"), ("gpu",), "machine-1", 7, 1_700_000_000_000_000, -5)
        await store.enrol(CAT, 30, info)
        enrolled = await store.now()
        doors.let_pass(20)
        assert await store.renew(CAT, 30)
        doors.let_pass(15)
        known = {each.worker: each for each in await other.workers()}
        assert set(known) == {ANN, BEN, CAT}
        assert (known[CAT].is_live, known[CAT].info) == (True, info)
        assert 20_000_000 <= known[CAT].seen - enrolled < 22_000_000
        assert not known[ANN].is_live
        assert known[ANN].seen <= enrolled
        (holding,) = await other.holdings()
        assert (holding.worker, holding.seen) == (ANN, known[ANN].seen)
        assert await other.holding(A) == holding
        await store.retire(CAT)
        assert CAT not in {each.worker for each in await other.workers()}

    async def test_skew_is_added_to_the_clock(self, store: Store) -> None:
        """S6"""
        before = await store.now()
        store.skew = 3_600_000_000
        assert 3_600_000_000 <= await store.now() - before < 3_700_000_000

    async def test_other_connections_see_the_holder_of_a_run_and_its_expiry(self, doors: Doors) -> None:
        """S6"""
        _, other = await held_by_ann(doors)
        now = await other.now()
        holding = await other.holding(A)
        assert holding is not None
        assert (holding.run, holding.worker, holding.is_live) == (A, ANN, True)
        assert abs(holding.expires - now - 30_000_000) < 15_000_000
        doors.let_pass(60)
        late = await other.holding(A)
        assert late is not None
        assert (late.worker, late.expires, late.is_live) == (ANN, holding.expires, False)
        assert await other.holding(B) is None

    async def test_holdings_are_listed_in_pages(self, doors: Doors) -> None:
        """S7"""
        store, other = await workers(doors)
        of_ann, of_ben = [RunId(f"a{number}") for number in range(5)], [RunId(f"B{number}") for number in range(3)]
        created = [begin(run, claim=worker) for worker, runs in ((ANN, of_ann), (BEN, of_ben)) for run in runs]
        assert await store.append([*reversed(created), begin(A)]) == [LANDED] * 9
        for worker, expected in ((ANN, of_ann), (BEN, of_ben), (CAT, []), (None, [*of_ben, *of_ann])):
            for limit in (1, 2, 5, 8, 1000):
                found = await all_holdings(other, worker, limit)
                assert [holding.run for holding in found] == expected
                assert found == [await store.holding(run) for run in expected]
        doors.let_pass(31)
        assert not any(holding.is_live for holding in await all_holdings(other, None, 3))

    # --- releases

    async def test_a_run_is_released_only_at_the_expected_version(self, doors: Doors) -> None:
        """S8"""
        store, other = await held_by_ann(doors)
        head = await store.head(A)
        assert head is not None
        moved = await land(other, follow(head, kind=Kind.GUEST))
        assert not await store.release(A, ANN, head.version)
        assert await holder(other) == ANN
        assert await store.head(A) == moved
        assert await store.release(A, ANN, moved.version)
        assert await store.holding(A) is None

    async def test_a_released_run_is_ready_only_if_requested(self, doors: Doors) -> None:
        """S8"""
        store, other = await held_by_ann(doors)
        assert await store.release(A, ANN, 1)
        assert await other.claim(BEN) == []
        assert len(await store.claim(ANN, runs=[A])) == 1
        assert await store.release(A, ANN, 1, ready=True)
        head = await other.head(A)
        assert head is not None
        assert head.ready
        (claim,) = await other.claim(BEN)
        assert (claim.run, claim.previous, claim.cause) == (A, "", "claimed")

    async def test_a_run_that_was_not_released_is_interrupted(self, doors: Doors) -> None:
        """S6"""
        store, other = await held_by_ann(doors)
        assert (await other.derived(A)).interrupted
        assert await store.release(A, ANN, 1)
        assert not (await other.derived(A)).interrupted
        await store.claim(ANN, runs=[A])
        assert await store.release(A, ANN, 1, ready=True)
        assert not (await other.derived(A)).interrupted

    async def test_a_worker_releases_only_its_own_runs(self, doors: Doors) -> None:
        """S6"""
        store, other = await held_by_ann(doors)
        await other.release(A, BEN, 1, ready=True)
        assert await holder(store) == ANN
        assert await other.claim(BEN) == []

    async def test_the_runs_of_a_retired_worker_become_ready(self, doors: Doors) -> None:
        """S8"""
        store, other = await held_by_ann(doors)
        await land(store, begin(B, summary=summary(B), claim=BEN))
        await land(store, begin(C, summary=summary(C), claim=ANN, closed=True))
        await store.retire(ANN)
        assert await store.holding(A) is None
        claims = await other.claim(BEN, limit=9)
        assert [(claim.run, claim.previous, claim.cause) for claim in claims] == [(A, "", "claimed")]
        assert await holder(other, B) == BEN

    async def test_a_run_whose_old_owner_still_appends_stays_claimable(self, doors: Doors) -> None:
        """S8: another worker claimed it and retired before its takeover"""
        store, other = await held_by_ann(doors)
        head = await store.head(A)
        assert head is not None
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        assert len(await other.claim(CAT)) == 1
        await other.retire(CAT)
        assert await store.append([follow(head)]) == [LANDED], "no greater epoch is in the log"
        assert await store.renew(ANN, 30)
        doors.let_pass(31)
        await other.enrol(BEN, 30)
        claims = await other.claim(BEN, limit=9)
        assert [claim.run for claim in claims] == [A], "an unfinished run is neither ready, claimed nor waiting"


async def workers(doors: Doors) -> tuple[Store, Store]:
    """Open two connections; ann enrols on the first and ben on the second, for 30 seconds each."""
    store, other = await doors.open(), await doors.open()
    await store.enrol(ANN, 30)
    await other.enrol(BEN, 30)
    return store, other


async def held_by_ann(doors: Doors) -> tuple[Store, Store]:
    """Like `workers`, with run A of one event, which ann holds."""
    store, other = await workers(doors)
    await land(store, begin(A, summary=summary(A), claim=ANN))
    return store, other


async def holder(store: Store, run: RunId = A) -> str:
    holding = await store.holding(run)
    return holding.worker if holding is not None else ""


async def all_holdings(store: Store, worker: WorkerId | None, limit: int) -> list[Holding]:
    """List all that one worker or all workers hold, in pages."""
    return await in_pages(lambda last: store.holdings(worker, after=last.run if last else "", limit=limit), limit)
