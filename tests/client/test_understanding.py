"""The desk explains a run, compares two of them and lists branches; all of it only reads (D1)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from outlast.errors import Damaged, InvalidInput, NotFound
from outlast.history import events as e
from outlast.history.ids import RunId


def test_every_run_is_explained(play: Any) -> None:
    async def scene(house: Any) -> None:
        for workflow, run in house.runs.items():
            told = await house.desk.explain(run)
            assert (told.run, told.workflow, told.is_current) == (run, workflow, True)
            assert told.status == (await house.desk.get(run)).status

    play(scene)


def test_a_branch_that_was_left_is_explained_by_itself(play: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["report"]
        now, before = await house.desk.explain(run), await house.desk.explain(run, branch=0)
        assert (now.branch, now.is_current, before.branch, before.is_current) == (1, True, 0, False)
        assert 'write completed: "first try" (after 250 ms)' in [each.text for each in before.timeline.entries]
        entries = [each.text for each in now.timeline.entries]
        assert any("event 8 stays on branch 0, completed there: write" in each for each in entries)

    play(scene)


def test_a_full_timeline_has_an_entry_for_every_event(play: Any) -> None:
    async def scene(house: Any) -> None:
        run = house.runs["digest"]
        short, full = await house.desk.explain(run), await house.desk.explain(run, full=True)
        assert [each.seq for each in full.timeline.entries] == list(range(1, 13))
        assert len(full.timeline.entries) > len(short.timeline.entries)

    play(scene)


def test_branches_are_listed_with_how_they_ended(play: Any) -> None:
    async def scene(house: Any) -> None:
        first, second = await house.desk.branches(house.runs["report"])
        assert (first.branch, first.events, first.status, first.is_current) == (0, 8, "running", False)
        assert (second.parent, second.cutoff, second.by, second.reason) == (0, 7, "cleo", "too dry")
        assert (second.status, second.is_current) == ("completed", True)

    play(scene)


def test_a_run_alone_is_compared_with_the_branch_before(play: Any) -> None:
    async def scene(house: Any) -> None:
        told = await house.desk.compare(house.runs["report"])
        assert (told.left.branch, told.right.branch, told.shared) == (0, 1, 7)
        assert (told.left.events, told.right.events, told.right.ending) == (8, 10, "completed")
        assert [row.verdict for row in told.rows] == ["right", "differs", "right"]
        (change,) = told.rows[1].changes
        assert (change.path, change.old, change.new) == ("output", Raw(b'"first try"'), Raw(b'"second try"'))
        assert not told.is_same

    play(scene)


def test_what_branches_share_is_not_read(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        read = house.store.read
        places: list[int] = []

        async def noting(run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> Any:
            places.append(first)
            return await read(run, first, last, limit)

        house.store.read = noting
        await house.desk.compare(house.runs["report"])
        assert min(places) > 7

    play_in_memory(scene)


def test_two_runs_are_compared_and_a_run_is_the_same_as_itself(play: Any) -> None:
    async def scene(house: Any) -> None:
        digest, report = house.runs["digest"], house.runs["report"]
        told = await house.desk.compare(digest, report)
        assert (told.shared, told.is_same, told.left.run, told.right.run) == (0, False, digest, report)
        same = await house.desk.compare(digest, digest)
        assert (same.is_same, same.shared, same.rows) == (True, 12, [])
        sides = await house.desk.compare(report, branch=1, other_branch=0)
        assert [row.verdict for row in sides.rows] == ["left", "differs", "left"]

    play(scene)


def test_large_values_are_looked_into(play: Any) -> None:
    async def scene(house: Any) -> None:
        runs = []
        for last in (1, 2):
            value = b'{"big":"%s","last":%d}' % (b"x" * 5000, last)
            ref = await house.store.blobs.put(value)
            kept = Raw(b'{"$":"blob","hash":"%s","size":%d}' % (ref.hash.encode(), ref.size))
            writer = await house.maker.begin("large")
            await writer.append([*house.made.began("a"), e.NodeCompleted(node="a", output=kept)])
            runs.append(writer.run)
        told = await house.desk.compare(*runs)
        assert [[each.path for each in row.changes] for row in told.rows if row.changes] == [["output.last"]]

    play(scene)


def test_what_cannot_be_compared_or_told_is_refused(play: Any) -> None:
    async def scene(house: Any) -> None:
        with pytest.raises(InvalidInput, match="no branch before branch 0"):
            await house.desk.compare(house.runs["digest"])
        with pytest.raises(NotFound, match="has no branch 7"):
            await house.desk.explain(house.runs["report"], branch=7)
        with pytest.raises(NotFound):
            await house.desk.branches(RunId("nobody"))

    play(scene)


def test_a_damaged_log_is_not_explained(play_in_memory: Any) -> None:
    async def scene(house: Any) -> None:
        del house.store.memory.logs[house.runs["digest"]][2]
        with pytest.raises(Damaged):
            await house.desk.explain(house.runs["digest"])

    play_in_memory(scene)
