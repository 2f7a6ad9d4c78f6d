"""Tests of the journal: every connection reads the same bytes (S3, S7).

Tests of versions and epochs are in `fencing` (S2), of atomicity in `wholeness` (S1, S4)."""

from __future__ import annotations

from outlast.history.ids import checked_run
from outlast.history.record import Record
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Append, Store
from outlast.testing.contract.doors import Doors
from outlast.testing.contract.fencing import FencingContract
from outlast.testing.contract.samples import ANN, NO_TRACE, A, B, begin, chain, follow, in_pages, land, summary, trace
from outlast.testing.contract.wholeness import WholenessContract

MEGABYTE = 1 << 20


class JournalContract(FencingContract, WholenessContract):
    """Tests of `outlast.store.Journal`."""

    # --- bytes

    async def test_bodies_of_any_bytes_are_stored_exactly(self, store: Store) -> None:
        """S3"""
        bodies = [b"", b"\x00", bytes(range(256)), b"not json", '["ünïcödé ☃"]'.encode(), b"[1, 2 ,\n3]"]
        append = begin(A, body=b"[]")
        records = [append.record]
        await land(store, append)
        for body in bodies:
            append = follow(append.head, body=body)
            records.append(append.record)
            await land(store, append)
        assert await store.read(A) == records
        assert [type(record.body) for record in await store.read(A)] == [bytes] * len(records)

    async def test_large_bodies_are_stored_exactly(self, doors: Doors, store: Store) -> None:
        """S3"""
        large = [bytes([number]) * (2 * MEGABYTE) for number in (0, 97, 255)]
        first = begin(A, body=large[0])
        others = [follow(first.head, body=large[1]), begin(B, body=large[2])]
        await land(store, first)
        assert await store.append(others) == [LANDED, LANDED]
        store = await doors.reopen(store)
        assert [record.body for record in await store.read(A)] == large[:2]
        assert [record.body for record in await store.read(B)] == large[2:]

    async def test_every_field_of_a_record_is_stored(self, store: Store) -> None:
        """S3"""
        created = begin(A, epoch=1 << 40, branch=(1 << 31) - 1, count=(1 << 31) - 1, body=b"[]")
        await land(store, created)
        assert await store.read(A) == [created.record]

    async def test_similar_run_ids_are_different_runs(self, store: Store) -> None:
        """S3"""
        names = ["a", "A", "aa", "a.", "a:", "a@b=c+d-e_f:g.h", "0", "00", "1e1", "9" * 200, "a" * 199, "a" * 200]
        made = [begin(checked_run(name), summary=summary(checked_run(name))) for name in names]
        assert await store.append(made) == [LANDED] * len(made)
        for append in made:
            seen = await trace(store, append.record.run)
            assert (seen.head, seen.log, seen.summary) == (append.head, (append.record,), append.summary)

    async def test_an_absent_run_has_no_records(self, store: Store) -> None:
        """S3"""
        assert await trace(store, A) == NO_TRACE
        await land(store, begin(A))
        assert await trace(store, B) == NO_TRACE

    # --- ranges

    async def test_a_range_returns_every_record_that_overlaps_it(self, store: Store) -> None:
        """S7"""
        made = await chain(store, A, 1, 3, 1, 4, 2)
        end = made[-1].last
        for first in range(1, end + 2):
            assert await store.read(A, first) == overlapping(made, first, end)
            for last in range(first, end + 3):
                assert await store.read(A, first, last) == overlapping(made, first, last)

    async def test_a_log_is_read_in_pages_without_loss_or_repeat(self, store: Store) -> None:
        """S7"""
        made = await chain(store, A, *([1, 3, 2] * 5))
        for limit in (1, 2, 4, 5, 15, 16):
            for start in (1, 3, 4):
                assert await paged(store, start, limit) == overlapping(made, start, made[-1].last)

    async def test_a_full_page_has_exactly_limit_records(self, store: Store) -> None:
        """S7"""
        made = await chain(store, A, 2, 2, 2)
        assert await store.read(A, 1, limit=2) == made[:2]
        assert await store.read(A, 2, limit=2) == made[:2], "the range begins inside a record"
        assert await store.read(A, 2, 3, limit=2) == made[:2]
        assert await store.read(A, 3, limit=2) == made[1:]
        assert await store.read(A, 7, limit=2) == []

    async def test_the_logs_of_two_runs_do_not_mix(self, store: Store) -> None:
        """S3"""
        one, two = begin(A), begin(B)
        logs: dict[str, list[Record]] = {A: [], B: []}
        for _ in range(5):
            assert await store.append([one, two]) == [LANDED, LANDED]
            logs[A].append(one.record)
            logs[B].append(two.record)
            one, two = follow(one.head), follow(two.head, count=2)
        assert await store.read(A) == logs[A]
        assert await store.read(B) == logs[B]

    # --- other connections

    async def test_an_append_is_visible_to_another_connection_at_once(self, store: Store, other: Store) -> None:
        """S3"""
        await store.enrol(ANN, 60)
        append = laden(None)
        for _ in range(10):
            assert await store.append([append]) == [LANDED]
            seen, here = await trace(other, A), await trace(store, A)
            assert seen.log[-1:] == (append.record,), "the append was acknowledged before it was visible"
            assert seen == here
            assert (seen.head, seen.summary, seen.waits) == (append.head, append.summary, append.opens)
            append = laden(append)

    async def test_an_append_is_visible_after_reopening(self, doors: Doors, store: Store) -> None:
        """S3"""
        await store.enrol(ANN, 60)
        one = laden(None)
        two = laden(one)
        assert await store.append([one]) == [LANDED]
        assert await store.append([two]) == [LANDED]
        store = await doors.reopen(store)
        seen = await trace(store, A)
        assert (seen.head, seen.log) == (two.head, (one.record, two.record))
        assert (seen.summary, seen.is_listed, seen.waits) == (two.summary, True, two.opens)
        assert seen.holding is not None
        assert seen.holding.worker == ANN

    async def test_a_connection_that_has_read_sees_later_appends_of_another(self, store: Store, other: Store) -> None:
        """S2, S3"""
        assert await other.head(A) is None
        assert await other.read(A) == []
        first = begin(A)
        await land(store, first)
        assert await other.head(A) == first.head
        second = follow(first.head)
        await land(other, second)
        assert await store.read(A) == [first.record, second.record]


def overlapping(made: list[Record], first: int, last: int) -> list[Record]:
    return [record for record in made if record.first <= last and record.last >= first]


async def paged(store: Store, first: int, limit: int) -> list[Record]:
    """Read the log of A from an event, in pages."""
    return await in_pages(lambda last: store.read(A, last.last + 1 if last else first, limit=limit), limit)


def laden(before: Append | None) -> Append:
    """Return an append with a summary and one wait, which replaces the wait before. The first one also claims."""
    if before is None:
        return begin(A, summary=summary(A), opens=[Wait("timer", "1", due=1)], claim=ANN)
    at = before.head.version + 1
    closes = [wait.name for wait in before.opens]
    return follow(before.head, summary=summary(A, at), closes=closes, opens=[Wait("timer", str(at), due=at)])
