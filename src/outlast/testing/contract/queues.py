"""Tests of claims: queues, due runs, priority and fairness (S6, S8), and slots that are taken with a claim (S11)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from outlast.history.ids import RunId, WorkerId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import LANDED, Slot, Store
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.leases import holder, workers
from outlast.testing.contract.samples import (
    ANN,
    BEGINNING,
    BEN,
    CAT,
    A,
    B,
    C,
    begin,
    begin_ready,
    follow,
    land,
    summary,
)

MANY = 300
"""Ready runs of one fairness key."""

TAKERS, RUNS, LIMIT = 4, 12, 3
TRIES = 2000


class QueuesContract(Contract):
    """Tests of claims that name no runs."""

    # --- queues

    async def test_a_worker_claims_only_the_queues_it_names(self, doors: Doors) -> None:
        """S6"""
        store, _ = await workers(doors)
        await ready(store, **{A: {"queue": "mail"}, B: {"queue": "mails"}, C: {}})
        assert await claimed(store, ANN, queues=[]) == []
        assert await claimed(store, ANN, queues=["mai", "x"]) == []
        assert await claimed(store, ANN, queues=["mail", "x"]) == [A]
        assert await claimed(store, ANN, queues=[""]) == [C], "runs without a queue are in the queue without a name"
        assert await claimed(store, ANN) == [B], "without names, runs of every queue are claimed"

    async def test_queues_and_workflows_are_both_required(self, doors: Doors) -> None:
        """S6"""
        store, _ = await workers(doors)
        places = {"right": ("bake", "mail"), "wrong-queue": ("bake", "x"), "wrong-workflow": ("brew", "mail")}
        await ready(store, **{run: {"workflow": workflow, "queue": queue} for run, (workflow, queue) in places.items()})
        assert await claimed(store, ANN, workflows=["bake", "x"], queues=["mail"]) == ["right"]

    async def test_interrupted_and_due_runs_are_claimed_by_queue_too(self, doors: Doors) -> None:
        """S6, S8"""
        store, other = await workers(doors)
        await land(store, begin(A, summary=summary(A, queue="mail"), claim=ANN))
        await land(store, begin(B, summary=summary(B, queue="mail"), opens=[Wait("timer", "t", due=1)]))
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        assert await claimed(other, CAT, queues=["other"]) == []
        assert await claimed(other, CAT, queues=["mail"]) == [A, B]

    # --- due runs

    async def test_a_run_is_claimed_when_one_of_its_timers_is_due(self, doors: Doors) -> None:
        """S8"""
        store, other = await workers(doors)
        now = await store.now()
        soon, late = Wait("timer", "soon", due=now + 20_000_000), Wait("timer", "late", due=now + 900_000_000)
        for run, status in ((A, RunStatus.RUNNING), (B, RunStatus.WAITING), (C, RunStatus.COMPENSATING)):
            await land(store, begin(run, summary=summary(run, status=status), opens=[late, soon]))
        assert await claimed(other, BEN) == []
        doors.let_pass(25)
        claims = await other.claim(BEN, limit=9)
        assert sorted(claim.run for claim in claims) == [A, B, C]
        assert {(claim.previous, claim.cause) for claim in claims} == {("", "claimed")}
        assert await claimed(store, ANN) == [], "a run is claimed once for its due timer"

    async def test_a_run_in_another_state_is_not_due(self, doors: Doors) -> None:
        """S8: paused, held, created to be started later, and over"""
        store, other = await workers(doors)
        timer = Wait("timer", "t", due=1)
        for name, state in (
            ("paused", {"status": RunStatus.PAUSED}),
            ("held", {"status": RunStatus.FAILED, "held": True}),
            ("created", {"status": RunStatus.CREATED, "awaits_start": True}),
        ):
            await land(store, begin(RunId(name), summary=summary(RunId(name), **state), opens=[timer]))
        await land(store, begin(A, summary=summary(A, status=RunStatus.COMPLETED), opens=[timer], closed=True))
        await land(store, begin(B, summary=summary(B), opens=[timer], claim=ANN))
        assert await claimed(other, BEN) == [], "the last one is held by a live worker"

    async def test_a_wait_that_is_no_timer_makes_no_run_due(self, doors: Doors) -> None:
        """S8"""
        store, other = await workers(doors)
        opens = [Wait("interaction", "q", due=1), Wait("signal", "s"), Wait("timer", "t", due=BEGINNING * 2)]
        await land(store, begin(A, summary=summary(A, status=RunStatus.WAITING), opens=opens))
        assert await claimed(other, BEN) == []

    async def test_a_timer_that_ended_or_moved_makes_no_run_due(self, doors: Doors) -> None:
        """S8"""
        store, other = await workers(doors)
        timer = Wait("timer", "t", due=1)
        first, second, head = [await land(store, begin(run, summary=summary(run), opens=[timer])) for run in (A, B, C)]
        await land(store, follow(first, closes=[timer.name]))
        await land(store, follow(second, opens=[Wait("timer", "t", due=BEGINNING * 2)]))
        head = await land(store, follow(head, summary=summary(C, 2, status=RunStatus.PAUSED)))
        assert await claimed(other, BEN) == []
        await land(store, follow(head, summary=summary(C, 3)))
        assert await claimed(other, BEN) == [C], "it runs again"

    async def test_a_due_run_is_due_again_after_its_release(self, doors: Doors) -> None:
        """S8: as long as nobody has ended the timer"""
        store, other = await workers(doors)
        await land(store, begin(A, summary=summary(A), opens=[Wait("timer", "t", due=1)]))
        assert await claimed(store, ANN) == [A]
        assert await store.release(A, ANN, 1)
        assert await claimed(other, BEN) == [A]

    async def test_ready_interrupted_and_due_runs_are_claimed_in_one_call(self, doors: Doors) -> None:
        """S8: each run once"""
        store, other = await workers(doors)
        timer = Wait("timer", "t", due=1)
        await land(store, begin(A, summary=summary(A), opens=[timer], claim=ANN))
        await land(store, begin_ready(B, opens=[timer]))
        await land(store, begin(C, summary=summary(C), opens=[timer]))
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        assert sorted(await claimed(other, CAT)) == [A, B, C]

    # --- order

    async def test_interrupted_runs_come_first_and_then_the_greatest_priority(self, doors: Doors) -> None:
        """S8"""
        store, other = await workers(doors)
        await land(store, begin(A, summary=summary(A, priority=-5, created=BEGINNING + 9), claim=ANN))
        order = {"urgent": 10, "soon": 3, "normal": 0, "later": -1, "last": -100}
        await ready(
            store, **{run: {"priority": order[run], "created": BEGINNING + at} for at, run in enumerate(sorted(order))}
        )
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        assert await claimed(other, CAT, limit=2) == [A, "urgent"]
        assert [*await claimed(other, CAT, limit=1), *await claimed(other, CAT)] == ["soon", "normal", "later", "last"]

    async def test_a_due_run_has_its_priority_too(self, doors: Doors) -> None:
        """S8"""
        store, _ = await workers(doors)
        await ready(store, **{A: {"priority": 1}, C: {"priority": 3}})
        await land(store, begin(B, summary=summary(B, priority=2), opens=[Wait("timer", "t", due=1)]))
        assert await claimed(store, ANN) == [C, B, A]

    async def test_a_changed_priority_counts(self, doors: Doors) -> None:
        """S8"""
        store, _ = await workers(doors)
        await ready(store, **{A: {"priority": 1}, B: {"priority": 2}})
        assert await store.correct(summary(A, priority=3), 1)
        assert await claimed(store, ANN) == [A, B]

    async def test_the_oldest_run_of_a_key_is_first(self, doors: Doors) -> None:
        """S8"""
        store, _ = await workers(doors)
        order = {"d": 0, "b": 1, "e": 2, "a": 3, "c": 4}
        for run in sorted(order):
            await ready(store, **{run: {"fairness_key": "k", "created": BEGINNING + order[run]}})
        assert [run for _ in order for run in await claimed(store, ANN, limit=1)] == list(order)

    async def test_a_key_with_many_runs_does_not_delay_another_one(self, doors: Doors) -> None:
        """S8"""
        store, _ = await workers(doors)
        many = {f"a{at:03}": {"fairness_key": "many", "created": BEGINNING + at} for at in range(MANY)}
        await ready(store, **many, **{str(B): {"fairness_key": "one", "created": BEGINNING + MANY}})
        first, second = [run for _ in range(2) for run in await claimed(store, ANN, limit=1)]
        assert B in (first, second)

    async def test_a_workflow_with_many_runs_does_not_delay_another_one(self, doors: Doors) -> None:
        """S8: also within one call"""
        store, _ = await workers(doors)
        many = {f"a{at:03}": {"workflow": "many", "created": BEGINNING + at} for at in range(30)}
        few = {run: {"workflow": run, "created": BEGINNING + 99} for run in (B, C)}
        await ready(store, **many, **few)
        found = await claimed(store, ANN, workflows=["many", B, C], limit=4)
        assert {B, C} <= set(found[:3])
        assert len(found) == 4

    async def test_the_turn_passes_between_workflows_and_keys_from_call_to_call(self, doors: Doors) -> None:
        """S8"""
        store, _ = await workers(doors)
        places = [(workflow, key) for workflow, keys in (("v", "x"), ("w", "xyz")) for key in keys]
        runs = {
            f"{workflow}-{key}-{at}": {"workflow": workflow, "fairness_key": key, "created": BEGINNING + at}
            for workflow, key in places
            for at in range(12 if workflow == "v" else 4)
        }
        await ready(store, **runs)
        served = Counter[str]()
        for turn in range(12):
            (run,) = await claimed(store, ANN, limit=1)
            workflow, key, _ = run.split("-")
            served.update([workflow, f"{workflow}-{key}"])
            assert abs(served["v"] - served["w"]) <= 1, f"turn {turn}"
            counts = [served[f"w-{key}"] for key in "xyz"]
            assert max(counts) - min(counts) <= 1, f"turn {turn}"

    async def test_no_run_is_left_out_for_ever(self, doors: Doors) -> None:
        """S8: new keys arrive all the time"""
        store, _ = await workers(doors)
        await ready(store, **{A: {"fairness_key": "old"}})
        found = list[str]()
        for turn in range(5):
            now = await store.now()
            new = (f"new-{turn}-{at}" for at in range(2))
            await ready(store, **{run: {"fairness_key": run, "created": now} for run in new})
            found += await claimed(store, ANN, limit=1)
        assert A in found

    # --- slots

    async def test_a_claim_takes_the_slots_of_the_queue(self, doors: Doors) -> None:
        """S11"""
        store, other = await workers(doors)
        await ready(store, **{f"r{at}": {"queue": "mail", "created": BEGINNING + at} for at in range(3)}, free={})
        slots = {"mail": [Slot("mail", 2), Slot("all", 9)]}
        found = await store.claim(ANN, slots=slots, limit=9)
        assert sorted(claim.run for claim in found) == ["free", "r0", "r1"], "r2 does not get a slot and is left"
        held = [(each.name, each.run, each.epoch, each.until) for each in await other.slot_holders()]
        epochs = {claim.run: claim.epoch for claim in found}
        assert held == [(name, run, epochs[RunId(run)], "claim") for name in ("all", "mail") for run in ("r0", "r1")]
        assert await claimed(other, BEN, slots=slots) == []
        assert await store.release(RunId("r0"), ANN, 1)
        assert await claimed(other, BEN, slots=slots) == ["r2"]

    async def test_a_run_that_is_left_does_not_count(self, doors: Doors) -> None:
        """S11: nor does it delay runs of other queues"""
        store, _ = await workers(doors)
        full = {f"r{at}": {"queue": "full", "priority": 5} for at in range(4)}
        await ready(store, **full, **{str(run): {"queue": "empty"} for run in (A, B)})
        slots = {"full": [Slot("full", 1)], "empty": [Slot("empty", 5)]}
        assert len(await claimed(store, ANN, queues=["full"], slots=slots)) == 1
        assert sorted(await claimed(store, ANN, slots=slots, limit=2)) == [A, B]

    async def test_slots_are_taken_all_or_none_with_a_claim(self, doors: Doors) -> None:
        """S11"""
        store, _ = await workers(doors)
        await ready(store, **{str(A): {"queue": "one"}, str(B): {"queue": "both", "priority": -1}})
        slots = {"one": [Slot("x")], "both": [Slot("a"), Slot("x")]}
        assert await claimed(store, ANN, slots=slots) == [A]
        assert [(held.name, held.run) for held in await store.slot_holders()] == [("x", A)]
        assert await store.holding(B) is None

    async def test_a_claim_of_named_runs_takes_no_slots(self, doors: Doors) -> None:
        """S11"""
        store, _ = await workers(doors)
        await ready(store, **{A: {"queue": "mail"}})
        assert await claimed(store, ANN, runs=[A], slots={"mail": [Slot("mail", 1)]}) == [A]
        assert await store.slot_holders() == []

    async def test_an_interrupted_run_keeps_its_slot_and_is_claimed_with_it(self, doors: Doors) -> None:
        """S11: the slot is full, but it is the run's own"""
        store, other = await workers(doors)
        await ready(store, **{str(A): {"queue": "mail"}, str(B): {"queue": "mail", "created": BEGINNING + 1}})
        slots = {"mail": [Slot("mail", 1)]}
        (first,) = await store.claim(ANN, slots=slots, limit=9)
        assert first.run == A
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (second,) = await other.claim(CAT, slots=slots, limit=9)
        assert (second.run, second.previous) == (A, ANN)
        (held,) = await other.slot_holders("mail")
        assert (held.run, held.epoch) == (A, second.epoch)

    async def test_a_released_run_that_kept_its_slot_is_claimed_with_it(self, doors: Doors) -> None:
        """S8, S11: the slot is full until a takeover is in the log, so only this run can make place for the others"""
        store, other = await workers(doors)
        await ready(
            store, **{str(A): {"queue": "mail"}, **{f"r{at}": {"queue": "mail", "priority": 1} for at in range(3)}}
        )
        slots = {"mail": [Slot("mail", 1)]}
        (claim,) = await store.claim(ANN, runs=[A])
        assert await store.take(A, claim.epoch, slots["mail"]) == ()
        doors.let_pass(31)
        await other.enrol(CAT, 30)
        (claim,) = await other.claim(CAT, slots=slots, limit=9)
        assert claim.previous == ANN
        await other.retire(CAT)
        await store.enrol(BEN, 30)
        (claim,) = await store.claim(BEN, slots=slots, limit=9)
        assert (claim.run, claim.previous) == (A, ANN), "the slot is its own"

    async def test_workers_never_claim_more_runs_than_there_are_slots(self, doors: Doors) -> None:
        """S11"""
        names = [WorkerId(f"worker-{number}") for number in range(TAKERS)]
        stores = [await doors.open() for _ in names]
        for store, worker in zip(stores, names, strict=True):
            await store.enrol(worker, 60)
        await ready(stores[0], **{f"r{at:02}": {"queue": "mail"} for at in range(RUNS)})
        slots = {"mail": [Slot("other", RUNS), Slot("mail", LIMIT)]}
        held, done = set[RunId](), list[RunId]()

        async def work(store: Store, worker: WorkerId) -> None:
            for _ in range(TRIES):
                for claim in await store.claim(worker, queues=["mail"], slots=slots, limit=2):
                    held.add(claim.run)
                    await asyncio.sleep(0.001)
                    assert len(held) <= LIMIT, "more runs are claimed than there are slots"
                    assert len(await store.slot_holders("mail")) <= LIMIT
                    held.remove(claim.run)
                    done.append(claim.run)
                    assert await store.release(claim.run, worker, 1)
                if len(done) == RUNS:
                    break
                await asyncio.sleep(0.001)

        await asyncio.gather(*(work(store, worker) for store, worker in zip(stores, names, strict=True)))
        assert len(set(done)) == len(done) == RUNS
        assert await stores[0].slot_holders() == []
        assert [await holder(stores[0], run) for run in done] == [""] * RUNS


async def ready(store: Store, **runs: Any) -> None:
    """Create ready runs with these summaries."""
    made = [begin_ready(RunId(run), summary=summary(RunId(run), **parts)) for run, parts in runs.items()]
    assert await store.append(made) == [LANDED] * len(made)


async def claimed(store: Store, worker: WorkerId, *, limit: int = 100, **wanted: Any) -> Sequence[str]:
    """Claim runs and return them in order."""
    return [claim.run for claim in await store.claim(worker, limit=limit, **wanted)]
