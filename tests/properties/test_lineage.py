"""Which events a branch sees (H4, V8), against the plainest way to say it: one list of events per branch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.errors import Illegal, NotFound
from outlast.history.lineage import BEFORE_FIRST, ROOT, Branch, Interval, holder, lineage
from support.histories import History, histories
from support.sampling import examples


class Tree:
    """Branches that opened one after another, and what each of them sees."""

    def __init__(self, first: int) -> None:
        self.branches = {0: ROOT}
        self.seen: dict[int, list[int]] = {0: list(range(1, first + 1))}
        self.where = dict.fromkeys(self.seen[0], 0)

    @property
    def last(self) -> int:
        return len(self.where)

    def open(self, cutoff: int, length: int) -> None:
        parent, number = self.where.get(cutoff, 0), len(self.branches)
        own = list(range(self.last + 1, self.last + 1 + length))
        shared = [seq for seq in self.seen[parent] if seq <= cutoff]
        self.branches[number] = Branch(number, own[0], parent, cutoff)
        self.seen[number] = [*(shared or [1]), *own]
        self.where.update(dict.fromkeys(own, number))

    def end(self, number: int) -> int:
        return self.seen[number][-1]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree = Tree(draw(st.integers(1, 8)))
    for _ in range(draw(st.integers(0, 8))):
        tree.open(draw(st.integers(BEFORE_FIRST, tree.last)), draw(st.integers(1, 5)))
    return tree


def spelled_out(intervals: list[Interval]) -> list[int]:
    return [seq for first, last in intervals for seq in range(first, last + 1)]


@settings(max_examples=examples(300))
@given(tree=trees())
def test_every_branch_of_any_tree_sees_what_its_list_says(tree: Tree) -> None:
    for number in tree.branches:
        assert spelled_out(lineage(tree.branches, number, tree.end(number))) == tree.seen[number]


@settings(max_examples=examples(300))
@given(tree=trees())
def test_a_branch_sees_less_when_it_is_read_only_up_to_an_event_of_its_own(tree: Tree) -> None:
    for seq, number in tree.where.items():
        expected = [each for each in tree.seen[number] if each <= seq]
        assert spelled_out(lineage(tree.branches, number, seq)) == expected


@settings(max_examples=examples(300))
@given(tree=trees())
def test_the_intervals_of_a_lineage_rise_and_begin_with_the_first_event(tree: Tree) -> None:
    for number in tree.branches:
        seqs = spelled_out(lineage(tree.branches, number, tree.end(number)))
        assert seqs[0] == 1
        assert seqs == sorted(set(seqs))


@settings(max_examples=examples(300))
@given(tree=trees(), backwards=st.booleans())
def test_the_holder_of_an_event_is_the_branch_it_was_written_on(tree: Tree, backwards: bool) -> None:
    branches = list(tree.branches.values())
    if backwards:
        branches.reverse()
    for seq, number in tree.where.items():
        assert holder(branches, seq).id == number
    assert holder(branches, BEFORE_FIRST) == ROOT


@settings(max_examples=examples(100))
@given(history=histories())
def test_the_branches_of_a_legal_history_see_what_they_were_told(history: History) -> None:
    ends = {number: max(entry.seq for entry in told) for number, told in history.told.items()}
    for number, told in history.told.items():
        assert spelled_out(lineage(history.branches, number, ends[number])) == [entry.seq for entry in told]
    where = {entry.seq: entry.branch for told in history.told.values() for entry in told}
    assert all(holder(history.branches.values(), seq).id == number for seq, number in where.items())


def test_a_branch_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(NotFound, match="no branch 3"):
        lineage({0: ROOT}, 3, 10)


def test_a_branch_that_is_cut_after_it_opened_breaks_v8() -> None:
    with pytest.raises(Illegal) as refusal:
        lineage({0: ROOT, 1: Branch(1, 5, 0, 5)}, 1, 9)
    assert refusal.value.invariant == "V8"


def test_a_cutoff_before_the_first_event_shares_only_the_creation_of_the_run() -> None:
    assert lineage({0: ROOT, 1: Branch(1, 5, 0, BEFORE_FIRST)}, 1, 9) == [(1, 1), (5, 9)]


def test_a_cutoff_at_the_first_event_shares_the_same() -> None:
    assert lineage({0: ROOT, 1: Branch(1, 5, 0, 1)}, 1, 9) == [(1, 1), (5, 9)]
