"""Tests of the journal: expected versions and epochs of appends (S2)."""

from __future__ import annotations

import asyncio

from outlast.history.ids import RunId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Append, Head, Lost, Store
from outlast.testing.contract.doors import Contract
from outlast.testing.contract.samples import A, B, answer, begin, begin_ready, chain, follow, land, trace

RACES = 200


class FencingContract(Contract):
    """Tests of versions, epochs and repeated appends."""

    # --- versions

    async def test_an_append_at_the_expected_version_succeeds(self, store: Store) -> None:
        """S2"""
        first = begin(A, count=2)
        second = follow(first.head, count=3)
        assert await store.append([first]) == [LANDED]
        assert await store.append([second]) == [LANDED]
        assert await store.head(A) == second.head
        assert await store.read(A) == [first.record, second.record]

    async def test_an_append_behind_the_log_is_lost_with_the_tail_of_the_log(self, store: Store) -> None:
        """S2"""
        made = await chain(store, A, 2, 1, 3)
        head, before = await store.head(A), await trace(store, A)
        late = follow(Head(A, made[0].last, made[0].digest, 1))
        lost = await lose(store, late)
        assert (lost.why, lost.head) == ("version", head)
        assert lost.tail[:1] == (made[1],), "the tail begins with the record at the expected seq"
        assert list(lost.tail) == made[1 : 1 + len(lost.tail)], "the tail is in order and has no gap"
        assert await trace(store, A) == before

    async def test_an_append_ahead_of_the_log_is_lost(self, store: Store) -> None:
        """S2"""
        head = await land(store, begin(A))
        lost = await lose(store, follow(Head(A, 5, head.digest, 1)))
        assert (lost.why, lost.head, lost.tail) == ("version", head, ())

    async def test_an_append_to_an_absent_run_is_lost(self, store: Store) -> None:
        """S2"""
        for kind in (Kind.OWNER, Kind.TAKEOVER, Kind.GUEST, Kind.CONTROL):
            lost = await lose(store, follow(Head(A, 3, b"d" * 16, 1), kind=kind))
            assert (lost.why, lost.head, lost.tail) == ("version", None, ())
        assert await store.head(A) is None

    async def test_a_run_is_created_once(self, store: Store) -> None:
        """S2"""
        created = begin(A)
        await land(store, created)
        for again in (begin(A), begin_ready(A)):
            lost = await lose(store, again)
            assert (lost.why, lost.head) == ("version", created.head)
            assert lost.tail[:1] == (created.record,)

    async def test_a_record_that_overlaps_another_is_lost(self, store: Store) -> None:
        """S2"""
        (whole,) = await chain(store, A, 5)
        lost = await lose(store, follow(Head(A, 2, whole.digest, 1)))
        assert lost.why == "version"
        assert await store.read(A) == [whole]

    # --- repeated appends

    async def test_a_repeated_append_is_recognised_and_stored_once(self, store: Store) -> None:
        """S2"""
        created = begin(A)
        second = follow(created.head)
        third = follow(second.head)
        for append in (created, second, third):
            await land(store, append)
        for append in (created, second, third):
            lost = await lose(store, append)
            assert lost.why == "version"
            assert lost.tail[:1] == (append.record,)
        assert await store.read(A) == [created.record, second.record, third.record]

    async def test_a_fenced_owner_recognises_its_own_append(self, store: Store) -> None:
        """S2: a stale version is reported before a stale epoch"""
        last = follow(await land(store, begin(A)))
        await land(store, last)
        await land(store, follow(last.head, kind=Kind.TAKEOVER))
        lost = await lose(store, last)
        assert (lost.why, lost.tail[:1]) == ("version", (last.record,))

    async def test_a_repeated_answer_is_recognised_after_its_wait_ended(self, store: Store) -> None:
        """S2: a stale version is reported before a missing wait"""
        head = await land(store, begin(A, opens=[Wait("interaction", "q")]))
        given = answer(head, "interaction:q")
        await land(store, given)
        lost = await lose(store, given)
        assert (lost.why, lost.tail[:1]) == ("version", (given.record,))

    # --- epochs

    async def test_an_append_of_an_owner_with_another_epoch_is_lost(self, store: Store) -> None:
        """S2"""
        head = await land(store, begin(A, epoch=3))
        before = await trace(store, A)
        for epoch in (1, 2, 4):
            lost = await lose(store, follow(head, epoch=epoch))
            assert (lost.why, lost.head) == ("epoch", head)
        assert await trace(store, A) == before

    async def test_a_takeover_needs_a_strictly_greater_epoch(self, store: Store) -> None:
        """S2"""
        head = await land(store, begin(A, epoch=3))
        for epoch in (1, 2, 3):
            lost = await lose(store, follow(head, kind=Kind.TAKEOVER, epoch=epoch))
            assert (lost.why, lost.head) == ("epoch", head)
        taken = await land(store, follow(head, kind=Kind.TAKEOVER, epoch=7))
        assert await store.head(A) == taken
        assert taken.epoch == 7

    async def test_a_takeover_fences_off_the_old_owner(self, store: Store, other: Store) -> None:
        """S2"""
        head = await land(store, begin(A))
        taken = await land(other, follow(head, kind=Kind.TAKEOVER))
        assert (await lose(store, follow(taken, epoch=head.epoch))).why == "epoch"
        await land(other, follow(taken))

    async def test_an_append_of_a_guest_needs_no_epoch_and_keeps_the_owners(self, store: Store) -> None:
        """S2"""
        head = await land(store, begin(A, epoch=5))
        for kind in (Kind.GUEST, Kind.CONTROL):
            head = await land(store, follow(head, kind=kind))
            assert await store.head(A) == head
            assert (head.epoch, head.ready) == (5, True)
        await land(store, follow(head))

    # --- needed waits

    async def test_an_append_that_needs_an_absent_wait_is_lost(self, store: Store) -> None:
        """S2"""
        head = await land(store, begin(A, opens=[Wait("interaction", "q"), Wait("timer", "t")]))
        await land(store, begin(B, opens=[Wait("interaction", "elsewhere")]))
        before = await trace(store, A)
        for needs in (["interaction:x"], ["interaction:elsewhere"], ["interaction:q", "timer:x"]):
            lost = await lose(store, follow(head, kind=Kind.GUEST, needs=needs, closes=needs))
            assert (lost.why, lost.head) == ("wait", head)
        assert await trace(store, A) == before
        await land(store, follow(head, kind=Kind.GUEST, needs=["interaction:q", "timer:t"]))

    async def test_a_wait_is_ended_once(self, store: Store, other: Store) -> None:
        """S2"""
        head = await land(store, begin(A, opens=[Wait("interaction", "q")]))
        head = await land(store, answer(head, "interaction:q"))
        assert (await lose(other, answer(head, "interaction:q"))).why == "wait"

    async def test_the_first_append_of_a_run_cannot_need_a_wait(self, store: Store) -> None:
        """S2"""
        lost = await lose(store, begin(A, kind=Kind.GUEST, epoch=0, needs=["interaction:q"]))
        assert (lost.why, lost.head) == ("wait", None)
        assert await store.head(A) is None

    # --- races

    async def test_one_of_two_concurrent_appends_at_a_version_wins(self, store: Store, other: Store) -> None:
        """S2"""
        head = await land(store, begin(A))
        for _ in range(RACES):
            rivals = [follow(head), follow(head, kind=Kind.GUEST)]
            answers = await asyncio.gather(store.append(rivals[:1]), other.append(rivals[1:]))
            outcomes = [outcome for (outcome,) in answers]
            assert outcomes.count(LANDED) == 1, outcomes
            winner, loser = sorted(zip(outcomes, rivals, strict=True), key=lambda pair: pair[0] != LANDED)
            assert isinstance(loser[0], Lost)
            assert loser[0].tail[:1] == (winner[1].record,)
            head = winner[1].head
        await must_be_gapless(other, A, RACES + 1)

    async def test_concurrent_writers_on_two_connections_leave_no_gap(self, store: Store, other: Store) -> None:
        """S2"""
        head = await land(store, begin(A))
        landed = await asyncio.gather(*(insist(each, head, RACES // 4) for each in (store, other, store, other)))
        log = await must_be_gapless(store, A, RACES + 1)
        stored = [record.id for record in log[1:]]
        assert sorted(stored) == sorted(id for ids in landed for id in ids)


async def lose(store: Store, append: Append) -> Lost:
    """Append one append, which must be lost."""
    (outcome,) = await store.append([append])
    assert isinstance(outcome, Lost), f"the append should have been lost: {append}"
    return outcome


async def insist(store: Store, head: Head, times: int) -> list[bytes]:
    """Append `times` events, retrying each until it succeeds. Return the append ids."""
    landed: list[bytes] = []
    while len(landed) < times:
        append = follow(head)
        (outcome,) = await store.append([append])
        if isinstance(outcome, Lost):
            assert outcome.head is not None
            head = outcome.head
        else:
            head = append.head
            landed.append(append.record.id)
        await asyncio.sleep(0)
    return landed


async def must_be_gapless(store: Store, run: RunId, events: int) -> list[Record]:
    """Check that the log has so many consecutive records of one event each, and a matching head."""
    log = await store.read(run)
    assert [record.first for record in log] == list(range(1, events + 1))
    assert all(record.count == 1 for record in log)
    head = await store.head(run)
    assert head is not None
    assert (head.version, head.digest) == (events, log[-1].digest)
    return log
