"""Every legal history can be explained, compared and shown as a tree, and what is the same is found to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from msgspec import Raw

from outlast.history.lineage import Interval, lineage
from outlast.history.record import Entry, entries
from outlast.lifecycle.branching import branches_in
from outlast.lifecycle.comparison import compare, counted, is_unremarkable, length_of, shared_upto
from outlast.lifecycle.difference import changes_between
from outlast.lifecycle.explanation import explain
from outlast.lifecycle.fold import fold
from outlast.lifecycle.state import State
from outlast.lifecycle.timeline import MAX_ENTRIES, TimelineBuilder
from support.histories import History, histories, values
from support.sampling import examples


def log(history: History) -> list[Entry]:
    return [entry for record in history.records for entry in entries(record)]


def read(history: Iterable[Entry], intervals: Sequence[Interval] = ()) -> TimelineBuilder:
    timeline = TimelineBuilder(intervals)
    for entry in history:
        timeline.add(entry)
    return timeline


@settings(max_examples=examples(100))
@given(history=histories())
def test_every_branch_of_every_history_can_be_explained(history: History) -> None:
    whole = log(history)
    for branch, told in history.told.items():
        end = told[-1].seq
        intervals = lineage(history.branches, branch, end)
        for full in (False, True):
            timeline = read((entry for entry in whole if entry.seq <= end), intervals)
            found = explain(history.run, timeline, history.time, newest=history.branch, full=full, limit=12)
            shown = found.timeline.entries
            assert found.status == fold(State(), told).status
            assert shown
            assert found.state
            assert full or len(shown) <= 12
            assert sum(each.count for each in shown) == len(told) or not full
            assert all(each.text.isprintable() for each in shown)
            assert all(sentence.isprintable() for sentence in found.state)
            assert all(1 <= each.seq <= each.last <= end for each in shown)


@settings(max_examples=examples(100))
@given(history=histories())
def test_a_branch_alone_is_explained_like_one_among_others(history: History) -> None:
    intervals = lineage(history.branches, history.branch, history.seq)
    alone = explain(history.run, read(history.lineage), history.time)
    among = explain(history.run, read(log(history), intervals), history.time)
    assert (alone.headline, alone.state, alone.actions) == (among.headline, among.state, among.actions)
    assert len(alone.timeline.entries) == len(among.timeline.entries) <= MAX_ENTRIES


@settings(max_examples=examples(100))
@given(history=histories())
def test_a_history_is_the_same_as_itself(history: History) -> None:
    for told in history.told.values():
        rows, moved, skipped = compare(told, list(told))
        found = counted(rows)
        assert (found["differs"], found["left"], found["right"], moved) == (0, 0, 0, 0)
        assert 2 * found["same"] + skipped == 2 * len(told)


@settings(max_examples=examples(100))
@given(one=histories(), other=histories())
def test_every_event_of_both_sides_is_in_exactly_one_row(one: History, other: History) -> None:
    left, right = one.lineage, other.lineage
    rows, _, _ = compare(left, right)
    assert [row.left.seq for row in rows if row.left] == [each.seq for each in left if not is_unremarkable(each.event)]
    rights = sorted(row.right.seq for row in rows if row.right)
    assert rights == [each.seq for each in right if not is_unremarkable(each.event)]
    mirrored = counted(compare(right, left)[0])
    found = counted(rows)
    assert (found["same"], found["differs"]) == (mirrored["same"], mirrored["differs"])
    assert (found["left"], found["right"]) == (mirrored["right"], mirrored["left"])


@settings(max_examples=examples(100))
@given(history=histories())
def test_what_branches_share_by_their_intervals_is_what_they_share_by_their_events(history: History) -> None:
    intervals = {
        branch: lineage(history.branches, branch, told[-1].seq) for branch, told in history.told.items() if told
    }
    for one, ours in intervals.items():
        for other, theirs in intervals.items():
            places = {entry.seq for entry in history.told[one]} & {entry.seq for entry in history.told[other]}
            upto = shared_upto(ours, theirs)
            assert upto == max(places)
            assert length_of(ours, upto) == len(places)


@settings(max_examples=examples(100))
@given(history=histories())
def test_every_branch_has_its_place_in_the_tree(history: History) -> None:
    found = branches_in(log(history))
    assert [each.branch for each in found] == sorted(history.branches)
    assert sum(each.events for each in found) == history.seq
    for each in found:
        status = fold(State(), history.told[each.branch]).outline.base
        assert each.status is status
        assert each.is_held == fold(State(), history.told[each.branch]).outline.held


@settings(max_examples=examples(100))
@given(old=values(), new=values())
def test_values_have_differences_both_ways_or_none(old: Raw, new: Raw) -> None:
    assert changes_between(old, old) == []
    there, back = changes_between(old, new), changes_between(new, old)
    assert sorted(change.path for change in there) == sorted(change.path for change in back)
