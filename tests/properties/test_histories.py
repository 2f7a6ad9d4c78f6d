"""The generator of histories: its logs are legal, and it generates every type of event."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings

from outlast.history import events as e
from outlast.history.record import Kind, entries
from outlast.lifecycle.invariants import violations
from outlast.lifecycle.status import RunStatus
from support.histories import History, histories, written
from support.sampling import examples

MANY = 300


def test_every_event_type_is_common_in_random_histories() -> None:
    seen = Counter(name for seed in range(MANY) for name in types_in(written(seed)))
    rare = {name: seen[name] / MANY for name in e.EVENT_TYPES if seen[name] < MANY / 20}
    assert not rare


def types_in(history: History) -> set[str]:
    return {type(event).__name__ for record in history.records for event in record.events()}


def test_random_histories_end_in_every_status_and_are_written_by_everyone() -> None:
    all_of_them = [written(seed, appends) for seed in range(MANY) for appends in (3, 30)]
    assert {history.state.status for history in all_of_them} == set(RunStatus)
    assert {record.kind for history in all_of_them for record in history.records} == set(Kind)


def test_branches_are_cut_before_the_first_event_inside_appends_and_on_dead_branches() -> None:
    cut = Counter[str]()
    for history in map(written, range(MANY)):
        starts = {record.first for record in history.records}
        for number, branch in history.branches.items():
            cut["before the first event"] += number > 0 and branch.cutoff == 0
            cut["inside an append"] += number > 0 and branch.cutoff > 0 and branch.cutoff + 1 not in starts
            cut["on a dead branch"] += branch.parent is not None and branch.parent < number - 1
            cut["at the end"] += number > 0 and branch.cutoff == branch.first - 1
    assert all(count > 20 for count in cut.values()), cut
    assert len(cut) == 4


@settings(max_examples=examples(300))
@given(history=histories())
def test_a_legal_history_has_no_violations(history: History) -> None:
    """The generator has its own rules; the fold and the whole-log checks agree with it: V1 to V11 from two sides."""
    assert violations(history.run, history.records) == []


@settings(max_examples=examples(100))
@given(history=histories())
def test_what_a_history_says_it_told_is_what_its_records_hold(history: History) -> None:
    log = {entry.seq: entry for record in history.records for entry in entries(record)}
    assert list(log) == list(range(1, history.seq + 1))
    assert all(log[entry.seq] == entry for told in history.told.values() for entry in told)
