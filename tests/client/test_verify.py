"""`verify` proves a log (P12): every damage is reported with its place, and what is merely new is none (D3, D4)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from outlast.client import Reader, Verification
from outlast.errors import NotFound
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.stores.memory import MemoryStore


def places(found: Verification) -> set[tuple[str, int]]:
    return {(violation.invariant, violation.seq) for violation in found.violations}


def test_sound_logs_are_sound_and_counted(play: Any) -> None:
    async def scene(house: Any) -> None:
        for run in house.runs.values():
            found = await house.desk.verify(run)
            assert found.is_sound, found.violations
            head = await house.store.head(run)
            assert (found.run, found.events, found.digest) == (run, head.version, head.digest.hex())
        report = await house.desk.verify(house.runs["report"])
        assert (report.events, report.appends, report.branches) == (11, 6, 2)
        assert report.status is RunStatus.COMPLETED

    play(scene)


def test_a_missing_run_is_not_found(play: Any) -> None:
    async def scene(house: Any) -> None:
        with pytest.raises(NotFound):
            await house.desk.verify(RunId("nobody"))

    play(scene)


def test_every_flipped_byte_is_found_where_it_is(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        log = house.store.memory.logs[run]
        for number, record in enumerate(list(log)):
            for place in range(0, len(record.body), 5):
                for mask in (0x01, 0x80):
                    body = bytearray(record.body)
                    body[place] ^= mask
                    log[number] = msgspec.structs.replace(record, body=bytes(body))
                    found = await house.desk.verify(run)
                    assert ("V1", record.first) in places(found)
            log[number] = record
        assert (await house.desk.verify(run)).is_sound

    play_in_memory(scene)


def test_a_missing_record_is_found_before_the_one_that_follows(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        gone = house.store.memory.logs[run].pop(2)
        assert ("V1", gone.last + 1) in places(await house.desk.verify(run))

    play_in_memory(scene)


def test_a_lost_tail_is_told_by_the_head_and_by_the_summary(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        gone = house.store.memory.logs[run].pop()
        assert {("V1", gone.first), ("V10", gone.last)} <= places(await house.desk.verify(run))

    play_in_memory(scene)


def test_a_log_that_is_gone_altogether_is_found(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        house.store.memory.logs[run].clear()
        assert {("V1", 1), ("V2", 0)} <= places(await house.desk.verify(run))

    play_in_memory(scene)


def test_a_run_that_only_lists_know_is_reported(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        del house.store.memory.heads[run]
        assert places(await house.desk.verify(run)) == {("V1", 0)}

    play_in_memory(scene)


@pytest.mark.parametrize(
    ("field", "value", "invariant"),
    [
        ("version", 7, "V1"),
        ("version", 99, "V1"),
        ("digest", b"\0" * 16, "V1"),
        ("epoch", 5, "V11"),
        ("branch", 0, "V8"),
        ("branch_first", 3, "V8"),
    ],
)
def test_a_head_that_disagrees_with_the_log_is_found(
    field: str, value: Any, invariant: str, play_in_memory: Any
) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["report"]
        heads = house.store.memory.heads
        heads[run] = msgspec.structs.replace(heads[run], **{field: value})
        assert invariant in {violation.invariant for violation in (await house.desk.verify(run)).violations}

    play_in_memory(scene)


def test_records_behind_the_end_of_the_head_are_found(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        memory = house.store.memory
        before = memory.logs[run][-2]
        memory.heads[run] = msgspec.structs.replace(memory.heads[run], version=before.last, digest=before.digest)
        assert ("V1", before.last + 1) in places(await house.desk.verify(run))

    play_in_memory(scene)


def test_a_summary_that_says_something_else_is_found(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["import"]
        summaries = house.store.memory.summaries
        summaries[run] = msgspec.structs.replace(summaries[run], status=RunStatus.COMPLETED)
        found = await house.desk.verify(run)
        assert places(found) == {("V10", 6)}
        assert "completed" in found.violations[0].message
        del summaries[run]
        assert {violation.invariant for violation in (await house.desk.verify(run)).violations} == {"V10"}

    play_in_memory(scene)


def test_a_record_that_the_store_cannot_read_is_named_and_the_rest_is_judged(play: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        if hasattr(house.store, "memory"):
            house.store = house.desk._reader._store = _BlindAt5(house.store.memory)
        else:
            change = "update log set kind = 77 where first = 5 and run = (select id from head where run = ?)"
            await house.store._db.transact(lambda db: db.execute(change, (run,)))
        found = await house.desk.verify(run)
        assert ("V1", 5) in places(found)
        assert found.events == 11

    play(scene)


class _BlindAt5(MemoryStore):
    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> Any:
        found = await super().read(run, first, last, limit)
        if any(record.first == 5 for record in found):
            raise KeyError(77)
        return found


def test_a_key_proves_what_was_written_with_it_and_only_that(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        store = MemoryStore()
        maker = house.made.ExecutorFactory(store, key=b"secret")
        await house.made.make_all(maker)
        run = maker.runs["report"]
        assert (await Reader(store, key=b"secret").verify(run)).is_sound
        assert ("V1", 1) in places(await Reader(store).verify(run))
        assert ("V1", 1) in places(await Reader(store, key=b"other").verify(run))

    play_in_memory(scene)


@pytest.mark.parametrize("moment", ["derived", "read"])
def test_what_is_written_while_verify_looks_is_no_violation(moment: str, play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        writer = await house.maker.begin("busy")
        store = _Interrupted(house.store.memory, moment)

        async def write() -> None:
            name = f"n{writer.head.version}"
            await writer.append([e.NodeScheduled(node=name), e.NodeStarted(node=name)])
            await writer.append([e.NodeCompleted(node=name), e.SignalAwaited(wait=name, name=name)])

        store.meanwhile = write
        found = await Reader(store).verify(writer.run)
        assert found.is_sound, found.violations
        assert store.interruptions

    play_in_memory(scene)


class _Interrupted(MemoryStore):
    """After each answer of one kind, and before it is looked at, something else is written."""

    def __init__(self, memory: Any, moment: str) -> None:
        super().__init__(memory)
        self.moment = moment
        self.meanwhile: Any = None
        self.interruptions = 0

    async def _interrupt(self, moment: str) -> None:
        if moment == self.moment:
            self.interruptions += 1
            await self.meanwhile()

    async def derived(self, run: RunId) -> Any:
        answer = await super().derived(run)
        await self._interrupt("derived")
        return answer

    async def read(self, *args: Any) -> Any:
        answer = await super().read(*args)
        await self._interrupt("read")
        return answer


def test_verifying_does_not_hold_up_the_loop(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(tick())
        await house.desk.verify(house.runs["report"])
        other.cancel()
        assert ticks > 1

    play_in_memory(scene)
