"""Folding (L1, L2, L4): in parts or at once, on a state or on a draft, and never half-way."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.lineage import lineage
from outlast.history.record import Entry, entries
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply, fold, fold_records
from outlast.lifecycle.state import TABLES, State
from outlast.lifecycle.summary import is_changed, summarise
from support.histories import History, events, histories
from support.sampling import examples

NAMES = st.sampled_from(["n0", "n1", "q0", "g0", "a0", "t0", "retry:n0", "d0", "x0", "m0", "c0", "s0", ""])
NEARBY = events(text=NAMES, numbers=st.integers(-1, 4), newer=False)
"""Events that talk of what a random history talks of, mostly out of turn."""


def appends(told: list[Entry], history: History) -> list[list[Entry]]:
    """The entries of a lineage, append by append."""
    starts = {record.first for record in history.records}
    groups: list[list[Entry]] = []
    for entry in told:
        if entry.seq in starts or not groups or entry.seq != groups[-1][-1].seq + 1:
            groups.append([])
        groups[-1].append(entry)
    return groups


@settings(max_examples=examples(150))
@given(history=histories())
def test_folding_in_two_parts_equals_folding_at_once_at_every_split(history: History) -> None:
    for told in history.told.values():
        whole = fold(State(), told)
        growing = State()
        for at, entry in enumerate(told):
            rest = fold(deepcopy(growing), told[at:])
            assert rest == whole
            assert summarise(history.run, rest) == summarise(history.run, whole)
            fold(growing, [entry])
        assert growing == whole


@settings(max_examples=examples(150))
@given(history=histories())
def test_the_records_of_a_run_without_branches_fold_like_its_events(history: History) -> None:
    single = history.records[: next((at for at, each in enumerate(history.records) if each.branch), None)]
    told = [entry for record in single for entry in entries(record)]
    assert fold_records(State(), single) == fold(State(), told)


@settings(max_examples=examples(150))
@given(history=histories())
def test_the_lineage_of_the_newest_branch_folds_to_the_state(history: History) -> None:
    log = {entry.seq: entry for record in history.records for entry in entries(record)}
    intervals = lineage(history.branches, history.branch, history.seq)
    assert fold(State(), [log[seq] for first, last in intervals for seq in range(first, last + 1)]) == history.state


@settings(max_examples=examples(150))
@given(history=histories(), data=st.data())
def test_a_draft_that_is_absorbed_equals_a_plain_fold_at_every_append(history: History, data: st.DataObject) -> None:
    told = history.told[data.draw(st.sampled_from(sorted(history.told)))]
    drafted, plain = State(), State()
    draft = Draft(drafted)
    for group in appends(told, history):
        fold(draft.view, group)
        fold(plain, group)
        shown = summarise(history.run, draft.view)
        assert shown == summarise(history.run, plain)
        assert view_of(draft) == as_dicts(plain)
        begun, ended = draft.ends()
        opened, closed = {wait.name: wait for wait in begun}, set(ended)
        before = ends(drafted)
        draft.absorb()
        assert drafted == plain
        assert {**without(before, closed), **opened} == ends(plain)
        assert summarise(history.run, drafted) == shown
        assert list(drafted.waits.items()) == list(plain.waits.items())


@settings(max_examples=examples(150))
@given(history=histories(), data=st.data())
def test_a_draft_that_is_dropped_leaves_the_state_as_it_was(history: History, data: st.DataObject) -> None:
    told = history.told[data.draw(st.sampled_from(sorted(history.told)))]
    state = State()
    draft = Draft(state)
    for group in appends(told, history):
        before = deepcopy(state)
        fold(draft.view, group)
        draft.drop()
        assert state == before
        assert view_of(draft) == as_dicts(state)
        fold(draft.view, group)
        draft.absorb()
    assert state == fold(State(), told)


@settings(max_examples=examples(150))
@given(history=histories())
def test_a_draft_that_says_nothing_changed_shows_what_was_shown(history: History) -> None:
    """What is not written to the catalogue for it need not be: only the place, the time and the count of nodes differ."""
    state = State()
    draft = Draft(state)
    for group in appends(history.lineage, history):
        before = summarise(history.run, state)
        fold(draft.view, group)
        after = summarise(history.run, draft.view)
        if not is_changed(draft, frozenset(type(entry.event) for entry in group)):
            assert replace(before, at=after.at, updated=after.updated, done_nodes=after.done_nodes) == after
            assert ends(state) == ends(draft.view)
        draft.absorb()


@settings(max_examples=examples(600))
@given(history=histories(12), event=NEARBY, ahead=st.integers(1, 3))
def test_an_illegal_event_leaves_the_state_as_it_was(history: History, event: e.AnyEvent, ahead: int) -> None:
    """L2, and the same on the view of a draft."""
    state = history.state
    draft = Draft(deepcopy(state))
    before = deepcopy(state)
    refused = refusal(state, event, history.seq + ahead, history.time + 9)
    assert refusal(draft.view, event, history.seq + ahead, history.time + 9) == refused
    if refused is None:
        assert state != before
        assert view_of(draft) == as_dicts(state)
    else:
        assert state == before
        assert view_of(draft) == as_dicts(before)
        assert refused[1] == history.seq + ahead


@settings(max_examples=examples(40))
@given(history=histories(), back=st.integers(0, 5))
def test_an_event_at_a_place_already_taken_breaks_v1(history: History, back: int) -> None:
    before = deepcopy(history.state)
    seq = max(0, history.seq - back)
    assert refusal(history.state, e.VersionChanged(version="9"), seq, history.time) == ("V1", seq)
    assert history.state == before


def refusal(state: State, event: e.AnyEvent, seq: int, time: int) -> tuple[str, int] | None:
    try:
        apply(state, event, seq, time)
    except Illegal as illegal:
        return illegal.invariant, illegal.seq
    return None


def as_dicts(state: State) -> dict[str, object]:
    tables = {name: dict(getattr(state, name).items()) for name in TABLES}
    return {"outline": state.outline, **tables}


def view_of(draft: Draft) -> dict[str, object]:
    return as_dicts(draft.view)


def ends(state: State) -> dict[str, object]:
    return {**dict(state.waits.items()), **dict(state.loose.items())}


def without(table: dict[str, object], names: set[str]) -> dict[str, object]:
    return {name: part for name, part in table.items() if name not in names}
