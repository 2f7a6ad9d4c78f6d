"""The desk lists, finds and reads runs; reading changes nothing (D1) and nothing is cut short in silence (D2)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from outlast.client import Engine, RunFilter
from outlast.errors import Damaged, InvalidInput, NotFound
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus


async def seqs(desk: Engine, run: RunId, **which: Any) -> list[int]:
    return [entry.seq async for entry in desk.events(run, **which)]


async def until_damage(desk: Engine, run: RunId) -> tuple[list[int], Damaged | None]:
    read: list[int] = []
    try:
        async for entry in desk.events(run):
            read += [entry.seq]
    except Damaged as damage:
        return read, damage
    return read, None


def test_a_list_comes_newest_first_and_in_pages(play: Any) -> None:
    async def scene(house: Any) -> None:
        first = await house.desk.list_runs(RunFilter(limit=4))
        second = await house.desk.list_runs(RunFilter(limit=4, after=first.next))
        listed = [each.summary.workflow for each in (*first.items, *second.items)]
        assert listed == list(reversed(house.made.KEPT))
        assert first.next
        assert not second.next

    play(scene)


def test_all_pages_are_walked_whatever_their_size(play: Any) -> None:
    async def scene(house: Any) -> None:
        for size in (1, 2, 6, 100):
            assert len([each async for each in house.desk.iter_runs(RunFilter(limit=size))]) == 6

    play(scene)


def test_a_query_that_cannot_be_meant_is_refused(play: Any) -> None:
    async def scene(house: Any) -> None:
        for query in (
            RunFilter(limit=0),
            RunFilter(limit=-1),
            RunFilter(after="no cursor"),
            RunFilter(after="²:x"),
        ):
            with pytest.raises(InvalidInput):
                await house.desk.list_runs(query)

    play(scene)


def test_a_run_is_found_by_its_id_and_by_any_unique_beginning(play: Any) -> None:
    async def scene(house: Any) -> None:
        for run in house.runs.values():
            assert await house.desk.find(run) == run
            assert await house.desk.find(run[:13]) == run
        assert await house.desk.find("o") == "order:2026-1001"

    play(scene)


def test_an_ambiguous_beginning_names_the_candidates(play: Any) -> None:
    async def scene(house: Any) -> None:
        with pytest.raises(InvalidInput) as refusal:
            await house.desk.find("01a19")
        for workflow in ("digest", "approval", "import", "report", "payout"):
            assert house.runs[workflow] in str(refusal.value)
        assert "and more" not in str(refusal.value)

    play(scene)


def test_no_more_than_five_candidates_are_named(play: Any) -> None:
    async def scene(house: Any) -> None:
        for number in range(7):
            await house.maker.ledger.create_ready(RunId(f"same-{number}"), e.RunCreated(workflow="w"))
        with pytest.raises(InvalidInput) as refusal:
            await house.desk.find("same")
        assert str(refusal.value).count("same-") == 5
        assert "and more" in str(refusal.value)
        assert await house.desk.find("same-3") == "same-3"

    play(scene)


def test_an_id_that_is_also_the_beginning_of_others_is_meant_itself(play: Any) -> None:
    async def scene(house: Any) -> None:
        for name in ("job", "job-1", "job-2"):
            await house.maker.ledger.create_ready(RunId(name), e.RunCreated(workflow="w"))
        assert await house.desk.find("job") == "job"

    play(scene)


def test_text_elsewhere_in_a_run_is_not_the_beginning_of_its_id(play: Any) -> None:
    async def scene(house: Any) -> None:
        with pytest.raises(NotFound):
            await house.desk.find("digest")

    play(scene)


@pytest.mark.parametrize("name", ["", "-rf", "a b", "../../etc", "\x00", "x" * 201, "\udcff", "%", "' or 1=1"])
def test_what_cannot_be_an_id_is_refused(name: str, play: Any) -> None:
    async def scene(house: Any) -> None:
        with pytest.raises(InvalidInput):
            await house.desk.find(name)

    play(scene)


def test_the_summary_of_a_run_is_given_and_a_missing_run_is_not_found(play: Any) -> None:
    async def scene(house: Any) -> None:
        summary = await house.desk.get(house.runs["approval"])
        assert summary.status is RunStatus.WAITING
        assert summary.waits[0].text == "Publish 12 pages?"
        with pytest.raises(NotFound):
            await house.desk.get(RunId("nobody"))

    play(scene)


def test_events_are_those_of_the_current_lineage_unless_asked_otherwise(play: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["report"]
        assert await seqs(house.desk, run) == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
        assert await seqs(house.desk, run, branch=1) == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
        assert await seqs(house.desk, run, branch=0) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert await seqs(house.desk, run, everything=True) == list(range(1, 12))

    play(scene)


def test_reading_on_after_an_event_gives_the_rest(play: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["report"]
        for after in range(13):
            assert await seqs(house.desk, run, after=after) == [
                seq for seq in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11) if seq > after
            ]
        assert await seqs(house.desk, run, after=1 << 80) == []

    play(scene)


def test_branches_that_are_not_there_and_contradictions_are_refused(play: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["report"]
        for branch in (2, -1, 1 << 70):
            with pytest.raises(NotFound, match="branch"):
                await seqs(house.desk, run, branch=branch)
        with pytest.raises(InvalidInput):
            await seqs(house.desk, run, branch=0, everything=True)
        with pytest.raises(InvalidInput):
            await seqs(house.desk, run, after=-1)
        with pytest.raises(NotFound):
            await seqs(house.desk, RunId("nobody"))
        with pytest.raises(NotFound):
            await seqs(house.desk, RunId("nobody"), everything=True)

    play(scene)


def test_a_missing_record_is_an_error_at_its_place_after_what_precedes_it(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        del house.store.memory.logs[run][2]
        read, damage = await until_damage(house.desk, run)
        assert damage is not None
        assert (read, damage.run, damage.seq) == ([1, 2, 3, 4], run, 5)
        assert await seqs(house.desk, run, after=5) == list(range(6, 13))

    play_in_memory(scene)


def test_a_lost_tail_is_an_error_too(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        house.store.memory.logs[run].pop()
        with pytest.raises(Damaged) as damage:
            await seqs(house.desk, run)
        assert damage.value.seq == 11

    play_in_memory(scene)


def test_a_flipped_byte_never_ends_in_anything_but_damage_with_its_place(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        log = house.store.memory.logs[run]
        for number, record in enumerate(list(log)):
            for place in range(0, len(record.body), 3):
                for mask in (0x01, 0x80):
                    body = bytearray(record.body)
                    body[place] ^= mask
                    log[number] = msgspec.structs.replace(record, body=bytes(body))
                    _, damage = await until_damage(house.desk, run)
                    assert damage is None or (damage.run == run and record.first <= damage.seq <= record.last)
            log[number] = record

    play_in_memory(scene)


def test_a_summary_that_does_not_read_is_damage(play: Any) -> None:
    async def scene(house: Any) -> None:
        if hasattr(house.store, "memory"):
            del house.store.memory.summaries[house.runs["digest"]]
        else:
            await house.store._db.transact(lambda db: db.execute("update catalogue set body = x'7b'"))
        with pytest.raises(Damaged) as damage:
            await house.desk.get(house.runs["digest"])
        assert damage.value.run == house.runs["digest"]

    play(scene)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("statuses", "failed"),
        ("statuses", ("lost",)),
        ("workflow", 7),
        ("tags", "red"),
        ("tags", (1,)),
        ("parent", b"x"),
        ("text", ["x"]),
        ("created_from", datetime(2027, 1, 1)),
        ("created_until", "yesterday"),
        ("after", 5),
        ("limit", "ten"),
        ("limit", None),
    ],
)
def test_a_filter_of_a_wrong_type_is_refused_by_its_name(play: Any, field: str, value: Any) -> None:
    async def scene(house: Any) -> None:
        with pytest.raises(InvalidInput, match=rf"\bfilter\.{field}\b"):
            await house.desk.list_runs(RunFilter(**{field: value}))

    play(scene)


def test_a_filter_takes_lists_and_the_names_of_statuses(play: Any) -> None:
    async def scene(house: Any) -> None:
        named = await house.desk.list_runs(RunFilter(statuses=["failed"], tags=[]))  # type: ignore[list-item, arg-type]
        assert named == await house.desk.list_runs(RunFilter(statuses=(RunStatus.FAILED,)))
        assert named.items
        with pytest.raises(InvalidInput, match="filter must be a RunFilter"):
            await house.desk.list_runs("failed")

    play(scene)


# --- which runs, by what people know


def test_runs_are_listed_by_workflow_status_and_time(play: Any) -> None:
    async def scene(house: Any) -> None:
        desk = house.desk
        everything = [run async for run in desk.iter_runs()]
        page = await desk.list_runs(limit=4)
        assert (len(page), list(page), page[0]) == (4, everything[:4], everything[0])
        for run in everything:
            name, status = run.workflow, str(run.status)
            alike = [each for each in everything if (each.workflow, each.status) == (run.workflow, run.status)]
            assert list(await desk.list_runs(workflow=name, status=status)) == alike
            assert [each async for each in desk.iter_runs(RunFilter(workflow=name, limit=1), status=[status])] == alike
        middle = everything[2].created
        since = datetime.fromtimestamp(middle / 1e6, UTC)
        assert list(await desk.list_runs(since=since)) == [run for run in everything if run.created >= middle]
        for wrong in (
            {"since": datetime(2026, 1, 1)},
            {"since": 5},
            {"status": "asleep"},
            {"workflow": 5},
            {"limit": 0},
        ):
            with pytest.raises(InvalidInput):
                await desk.list_runs(**wrong)

    play(scene)
