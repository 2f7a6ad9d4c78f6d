"""The journal's first part: where an append lands, and under whose epoch (S2)."""

from __future__ import annotations

import asyncio

from outlast.history.ids import RunId
from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Append, Head, Lost, Store
from outlast.testing.contract.doors import Contract, Doors, with_doors
from outlast.testing.contract.samples import A, B, answer, begin, begin_ready, chain, follow, land, trace

RACES = 200


class FencingContract(Contract):
    """Expected versions, epochs, and the same append sent twice."""

    # --- versions

    @with_doors
    async def test_an_append_at_the_expected_version_lands(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        first = begin(A, count=2)
        second = follow(first.head, count=3)
        assert await store.append([first]) == [LANDED]
        assert await store.append([second]) == [LANDED]
        assert await store.head(A) == second.head
        assert await store.read(A) == [first.record, second.record]

    @with_doors
    async def test_an_append_behind_the_log_is_lost_and_brought_what_is_there(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        made = await chain(store, A, 2, 1, 3)
        head, before = await store.head(A), await trace(store, A)
        late = follow(Head(A, made[0].last, made[0].digest, 1))
        lost = await lose(store, late)
        assert (lost.why, lost.head) == ("version", head)
        assert lost.tail[:1] == (made[1],), "the tail begins with the record at the expected place"
        assert list(lost.tail) == made[1 : 1 + len(lost.tail)], "the tail is in order and without a gap"
        assert await trace(store, A) == before

    @with_doors
    async def test_an_append_ahead_of_the_log_is_lost(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        head = await land(store, begin(A))
        lost = await lose(store, follow(Head(A, 5, head.digest, 1)))
        assert (lost.why, lost.head, lost.tail) == ("version", head, ())

    @with_doors
    async def test_an_append_to_a_run_that_is_not_there_is_lost(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        for kind in (Kind.OWNER, Kind.TAKEOVER, Kind.GUEST, Kind.CONTROL):
            lost = await lose(store, follow(Head(A, 3, b"d" * 16, 1), kind=kind))
            assert (lost.why, lost.head, lost.tail) == ("version", None, ())
        assert await store.head(A) is None

    @with_doors
    async def test_a_run_is_created_once(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        created = begin(A)
        await land(store, created)
        for again in (begin(A), begin_ready(A)):
            lost = await lose(store, again)
            assert (lost.why, lost.head) == ("version", created.head)
            assert lost.tail[:1] == (created.record,)

    @with_doors
    async def test_a_record_that_would_begin_inside_another_is_lost(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        (whole,) = await chain(store, A, 5)
        lost = await lose(store, follow(Head(A, 2, whole.digest, 1)))
        assert lost.why == "version"
        assert await store.read(A) == [whole]

    # --- the same append again

    @with_doors
    async def test_the_same_append_sent_again_is_recognised_and_kept_once(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
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

    @with_doors
    async def test_an_owner_that_was_taken_over_still_recognises_what_it_wrote(self, doors: Doors) -> None:
        """S2: a stale version is said before a stale epoch"""
        store = await doors.open()
        last_words = follow(await land(store, begin(A)))
        await land(store, last_words)
        await land(store, follow(last_words.head, kind=Kind.TAKEOVER))
        lost = await lose(store, last_words)
        assert (lost.why, lost.tail[:1]) == ("version", (last_words.record,))

    @with_doors
    async def test_an_answer_sent_again_is_recognised_though_its_wait_is_gone(self, doors: Doors) -> None:
        """S2: a stale version is said before a missing wait"""
        store = await doors.open()
        head = await land(store, begin(A, opens=[Wait("interaction", "q")]))
        given = answer(head, "interaction:q")
        await land(store, given)
        lost = await lose(store, given)
        assert (lost.why, lost.tail[:1]) == ("version", (given.record,))

    # --- epochs

    @with_doors
    async def test_an_owner_under_another_epoch_is_lost(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        head = await land(store, begin(A, epoch=3))
        before = await trace(store, A)
        for epoch in (1, 2, 4):
            lost = await lose(store, follow(head, epoch=epoch))
            assert (lost.why, lost.head) == ("epoch", head)
        assert await trace(store, A) == before

    @with_doors
    async def test_a_takeover_needs_a_strictly_greater_epoch(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        head = await land(store, begin(A, epoch=3))
        for epoch in (1, 2, 3):
            lost = await lose(store, follow(head, kind=Kind.TAKEOVER, epoch=epoch))
            assert (lost.why, lost.head) == ("epoch", head)
        taken = await land(store, follow(head, kind=Kind.TAKEOVER, epoch=7))
        assert await store.head(A) == taken
        assert taken.epoch == 7

    @with_doors
    async def test_the_old_owner_is_fenced_off_once_the_takeover_has_landed(self, doors: Doors) -> None:
        """S2"""
        store, other = await doors.open(), await doors.open()
        head = await land(store, begin(A))
        taken = await land(other, follow(head, kind=Kind.TAKEOVER))
        assert (await lose(store, follow(taken, epoch=head.epoch))).why == "epoch"
        await land(other, follow(taken))

    @with_doors
    async def test_guests_need_no_epoch_and_leave_the_owners_as_it_is(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        head = await land(store, begin(A, epoch=5))
        for kind in (Kind.GUEST, Kind.CONTROL):
            head = await land(store, follow(head, kind=kind))
            assert await store.head(A) == head
            assert (head.epoch, head.ready) == (5, True)
        await land(store, follow(head))

    # --- waits that have to be there

    @with_doors
    async def test_an_append_that_needs_a_wait_which_is_not_there_is_lost(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        head = await land(store, begin(A, opens=[Wait("interaction", "q"), Wait("timer", "t")]))
        await land(store, begin(B, opens=[Wait("interaction", "elsewhere")]))
        before = await trace(store, A)
        for needs in (["interaction:x"], ["interaction:elsewhere"], ["interaction:q", "timer:x"]):
            lost = await lose(store, follow(head, kind=Kind.GUEST, needs=needs, closes=needs))
            assert (lost.why, lost.head) == ("wait", head)
        assert await trace(store, A) == before
        await land(store, follow(head, kind=Kind.GUEST, needs=["interaction:q", "timer:t"]))

    @with_doors
    async def test_a_wait_is_ended_once(self, doors: Doors) -> None:
        """S2"""
        store, other = await doors.open(), await doors.open()
        head = await land(store, begin(A, opens=[Wait("interaction", "q")]))
        head = await land(store, answer(head, "interaction:q"))
        assert (await lose(other, answer(head, "interaction:q"))).why == "wait"

    @with_doors
    async def test_the_first_append_of_a_run_finds_no_waits(self, doors: Doors) -> None:
        """S2"""
        store = await doors.open()
        lost = await lose(store, begin(A, kind=Kind.GUEST, epoch=0, needs=["interaction:q"]))
        assert (lost.why, lost.head) == ("wait", None)
        assert await store.head(A) is None

    # --- races

    @with_doors
    async def test_of_two_doors_that_race_for_a_place_one_wins(self, doors: Doors) -> None:
        """S2"""
        store, other = await doors.open(), await doors.open()
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

    @with_doors
    async def test_writers_at_two_doors_leave_a_log_without_gaps(self, doors: Doors) -> None:
        """S2"""
        store, other = await doors.open(), await doors.open()
        head = await land(store, begin(A))
        landed = await asyncio.gather(*(insist(door, head, RACES // 4) for door in (store, other, store, other)))
        log = await must_be_gapless(store, A, RACES + 1)
        told = [record.id for record in log[1:]]
        assert sorted(told) == sorted(id for ids in landed for id in ids)


async def lose(store: Store, append: Append) -> Lost:
    """Append it alone; it has to be lost."""
    (outcome,) = await store.append([append])
    assert isinstance(outcome, Lost), f"it should have been lost: {append}"
    return outcome


async def insist(store: Store, head: Head, times: int) -> list[bytes]:
    """Append so often, each time until it lands; the ids of what landed."""
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
    """So many records of one event each, one after the other, and a head that fits the last."""
    log = await store.read(run)
    assert [record.first for record in log] == list(range(1, events + 1))
    assert all(record.count == 1 for record in log)
    head = await store.head(run)
    assert head is not None
    assert (head.version, head.digest) == (events, log[-1].digest)
    return log
