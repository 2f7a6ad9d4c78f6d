"""Tests of the journal: appends are atomic (S1) and independent of others in their batch (S4)."""

from __future__ import annotations

from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import LANDED, Append, Head, Lost, Store
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.samples import ANN, BEN, NO_TRACE, A, B, C, answer, begin, follow, land, summary, trace

QUESTION, TIMER, SIGNAL = Wait("interaction", "q", text="ok?"), Wait("timer", "t", due=5), Wait("signal", "s")


class WholenessContract(Contract):
    """Tests of all fields of an append, and of batches with lost appends."""

    # --- complete

    async def test_record_head_summary_waits_and_claim_are_written_together(self, store: Store) -> None:
        """S1"""
        await store.enrol(ANN, 60)
        created = begin(A, count=3, summary=summary(A, 3), opens=[QUESTION, TIMER], claim=ANN)
        await land(store, created)
        seen = await trace(store, A)
        assert (seen.head, seen.log) == (created.head, (created.record,))
        assert (seen.summary, seen.is_listed) == (created.summary, True)
        assert seen.waits == (QUESTION, TIMER)
        assert seen.holding is not None
        assert seen.holding.worker == ANN

    async def test_every_field_of_a_head_is_stored(self, store: Store) -> None:
        """S1"""
        head = await land(store, begin(A, epoch=4, count=6))
        head = await land(store, follow(head, branch=2, count=2))
        assert head == Head(A, 8, head.digest, 4, 2, 7, closed=False, ready=False)
        assert await store.head(A) == head
        head = await land(store, follow(head, closed=True))
        assert await store.head(A) == head
        assert head.closed

    async def test_an_append_without_a_summary_keeps_the_old_one(self, store: Store) -> None:
        """S1"""
        first = summary(A, 1, title="one", tags=("x",), waiting=1, waits=(QUESTION,))
        head = await land(store, begin(A, summary=first))
        head = await land(store, follow(head))
        assert await store.summary(A) == first
        second = summary(A, 3, status=RunStatus.COMPLETED, title="two", tags=("x", "y"), reason="done")
        await land(store, follow(head, summary=second))
        assert await store.summary(A) == second

    async def test_waits_are_closed_before_new_ones_open(self, store: Store) -> None:
        """S1"""
        head = await land(store, begin(A, opens=[QUESTION, TIMER]))
        again = Wait("interaction", "q", text="really?")
        closes = [QUESTION.name, TIMER.name, "signal:never-there"]
        head = await land(store, follow(head, closes=closes, opens=[again, SIGNAL]))
        assert (await trace(store, A)).waits == (again, SIGNAL)
        later = Wait("signal", "s", due=9)
        await land(store, follow(head, opens=[later]))
        assert (await trace(store, A)).waits == (again, later), "a wait that opens again replaces the old one"

    async def test_an_owner_releases_the_run_with_its_last_append(self, store: Store) -> None:
        """S1"""
        await store.enrol(ANN, 60)
        head = await land(store, begin(A, claim=ANN))
        head = await land(store, follow(head))
        assert await store.holding(A) is not None
        await land(store, follow(head, release=True))
        assert await store.holding(A) is None

    async def test_an_append_releases_only_the_claim_with_its_own_epoch(self, doors: Doors, store: Store) -> None:
        """S1, S6"""
        await store.enrol(ANN, 60)
        head = await land(store, begin(A, claim=ANN))
        doors.let_pass(61)
        await store.enrol(BEN, 60)
        (claim,) = await store.claim(BEN, runs=[A])
        head = await land(store, follow(head, release=True))
        holding = await store.holding(A)
        assert holding is not None
        assert holding.worker == BEN
        head = await land(store, follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch))
        await land(store, follow(head, release=True))
        assert await store.holding(A) is None

    async def test_only_a_guests_append_and_a_release_set_ready(self, store: Store) -> None:
        """S1, S8: an owner that lost its claim unnoticed must not hide the run"""
        head = await land(store, begin(A))
        assert not await is_ready(store)
        head = await land(store, follow(head, kind=Kind.GUEST))
        assert await is_ready(store)
        head = await land(store, follow(head, ready=False))
        assert await is_ready(store), "an owner's append does not change it"
        head = await land(store, follow(head, kind=Kind.TAKEOVER, ready=False))
        assert await is_ready(store), "a takeover does not change it"
        head = await land(store, follow(head, ready=False, release=True))
        assert not await is_ready(store)
        head = await land(store, follow(head, ready=True, release=True))
        assert await is_ready(store)
        await land(store, follow(head, kind=Kind.GUEST, ready=False))
        assert not await is_ready(store)

    # --- lost

    async def test_a_lost_append_changes_nothing(self, store: Store) -> None:
        """S1"""
        await store.enrol(ANN, 60)
        head = await land(store, begin(A, summary=summary(A), opens=[QUESTION], claim=ANN))
        before = await trace(store, A)
        for lost in laden(head):
            (outcome,) = await store.append([lost])
            assert isinstance(outcome, Lost)
            assert await trace(store, A) == before

    async def test_a_lost_creation_changes_nothing(self, store: Store) -> None:
        """S1"""
        await store.enrol(ANN, 60)
        await store.enrol(BEN, 60)
        await land(store, begin(A, summary=summary(A), opens=[QUESTION], claim=ANN))
        before = await trace(store, A)
        rival = begin(A, count=2, summary=summary(A, 2, title="rival"), opens=[TIMER], claim=BEN)
        orphan = follow(Head(B, 4, b"d" * 16, 1), summary=summary(B), opens=[TIMER], claim=BEN)
        outcomes = await store.append([rival, orphan])
        assert [type(outcome) for outcome in outcomes] == [Lost, Lost]
        assert await trace(store, A) == before
        assert await trace(store, B) == NO_TRACE

    # --- batches

    async def test_an_empty_batch_has_no_outcomes(self, store: Store) -> None:
        """S4"""
        assert await store.append([]) == []

    async def test_a_lost_append_in_a_batch_does_not_affect_the_others(self, store: Store) -> None:
        """S1, S4"""
        await store.enrol(ANN, 60)
        head = await land(store, begin(A, summary=summary(A), opens=[QUESTION], claim=ANN))
        before = await trace(store, A)
        losers = laden(head)
        new_b = begin(B, summary=summary(B), opens=[TIMER], claim=ANN)
        new_c = begin(C, summary=summary(C), opens=[SIGNAL], claim=ANN)
        outcomes = await store.append([losers[0], new_b, *losers[1:], new_c])
        assert outcomes[1] == outcomes[-1] == LANDED
        assert all(isinstance(outcome, Lost) for outcome in [outcomes[0], *outcomes[2:-1]])
        assert await trace(store, A) == before
        for landed in (new_b, new_c):
            await must_have_landed(store, landed)

    async def test_the_first_append_of_a_batch_succeeds_if_all_others_are_lost(
        self, store: Store, other: Store
    ) -> None:
        """S4"""
        taken = begin(B)
        await land(store, taken)
        created = begin(A, summary=summary(A), opens=[TIMER])
        outcomes = await store.append([created, begin(B), answer(taken.head, "timer:x"), follow(taken.head, epoch=9)])
        assert [type(outcome) for outcome in outcomes[1:]] == [Lost, Lost, Lost]
        assert outcomes[0] == LANDED
        await must_have_landed(other, created)
        assert await other.read(B) == [taken.record]

    async def test_the_appends_of_a_batch_are_written_in_order(self, store: Store) -> None:
        """S2, S4"""
        first = begin(A, opens=[QUESTION])
        second = follow(first.head, count=2, closes=[QUESTION.name], opens=[TIMER])
        third = follow(second.head, summary=summary(A, 4))
        assert await store.append([first, second, third]) == [LANDED, LANDED, LANDED]
        seen = await trace(store, A)
        assert (seen.head, seen.summary, seen.waits) == (third.head, third.summary, (TIMER,))
        assert seen.log == (first.record, second.record, third.record)

    async def test_the_first_of_two_appends_at_a_version_in_a_batch_wins(self, store: Store) -> None:
        """S2, S4"""
        head = await land(store, begin(A))
        one, two = follow(head, opens=[QUESTION]), follow(head, opens=[TIMER], summary=summary(A, 2))
        landed, lost = await store.append([one, two])
        assert landed == LANDED
        assert isinstance(lost, Lost)
        assert (lost.why, lost.head) == ("version", one.head)
        assert lost.tail[:1] == (one.record,)
        seen = await trace(store, A)
        assert (seen.log[1:], seen.waits, seen.summary) == ((one.record,), (QUESTION,), None)

    async def test_a_repeated_append_in_a_batch_is_recognised(self, store: Store) -> None:
        """S2, S4"""
        created = begin(A)
        landed, lost = await store.append([created, created])
        assert landed == LANDED
        assert isinstance(lost, Lost)
        assert lost.tail[:1] == (created.record,)
        assert await store.read(A) == [created.record]

    async def test_the_second_of_two_answers_in_a_batch_is_lost(self, store: Store) -> None:
        """S2, S4"""
        head = await land(store, begin(A, opens=[QUESTION]))
        one = answer(head, QUESTION.name)
        landed, lost = await store.append([one, answer(one.head, QUESTION.name)])
        assert landed == LANDED
        assert isinstance(lost, Lost)
        assert (lost.why, lost.head) == ("wait", one.head)


def laden(head: Head) -> list[Append]:
    """Return appends that lose for every possible reason, with all possible fields. QUESTION is open at `head`."""
    version = Head(head.run, head.version + 3, head.digest, head.epoch)
    return [
        follow(Head(head.run, 0, head.digest, head.epoch), summary=_other(head), opens=[TIMER], closes=[QUESTION.name]),
        follow(version, summary=_other(head), opens=[TIMER], closes=[QUESTION.name], release=True),
        follow(head, epoch=head.epoch + 1, summary=_other(head), opens=[TIMER], closes=[QUESTION.name], release=True),
        follow(head, kind=Kind.TAKEOVER, epoch=head.epoch, summary=_other(head), closes=[QUESTION.name], release=True),
        follow(head, kind=Kind.GUEST, needs=[QUESTION.name, "timer:x"], closes=[QUESTION.name], opens=[TIMER]),
        follow(head, needs=["timer:x"], closes=[QUESTION.name], summary=_other(head), release=True),
    ]


def _other(head: Head) -> RunSummary:
    return summary(head.run, 9, status=RunStatus.FAILED, title="of a lost append", tags=("lost",))


async def is_ready(store: Store) -> bool:
    head = await store.head(A)
    return head is not None and head.ready


async def must_have_landed(store: Store, append: Append) -> None:
    """Check that all fields of the first append of a run are stored."""
    seen = await trace(store, append.record.run)
    assert (seen.head, seen.log, seen.summary) == (append.head, (append.record,), append.summary)
    assert (seen.waits, seen.is_listed) == (append.opens, append.summary is not None)
    assert (seen.holding.worker if seen.holding else None) == append.claim
