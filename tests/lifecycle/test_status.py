"""Statuses, the other names people know them by, and what a run shows."""

from __future__ import annotations

import pytest

from outlast.errors import InvalidInput
from outlast.history import events as e
from outlast.lifecycle.status import ALIASES, TERMINAL, UNFINISHED, RunStatus, parse_status
from outlast.lifecycle.summary import MAX_WAITS, summarise
from support.histories import History

NO = e.Failure("Error", "no")


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("pending", RunStatus.CREATED),
        ("initializing", RunStatus.CREATED),
        ("planning", RunStatus.CREATED),
        ("processing", RunStatus.RUNNING),
        ("in_progress", RunStatus.RUNNING),
        ("executing", RunStatus.RUNNING),
        ("synthesizing", RunStatus.RUNNING),
        ("awaiting_input", RunStatus.WAITING),
        ("blocked", RunStatus.WAITING),
        ("waiting_signal", RunStatus.WAITING),
        ("error", RunStatus.FAILED),
    ],
)
def test_an_alias_names_its_status(name: str, status: RunStatus) -> None:
    assert parse_status(name) is status


def test_no_alias_hides_a_status() -> None:
    assert not set(ALIASES) & {str(status) for status in RunStatus}


@pytest.mark.parametrize("status", RunStatus)
def test_every_status_is_known_by_its_own_name_in_any_case(status: RunStatus) -> None:
    assert parse_status(f"  {status.upper()} ") is status


def test_a_name_that_is_no_status_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"'done' is not a status; use one of: created, running, .*cancelled"):
        parse_status("done")


def test_a_status_is_either_terminal_or_unfinished() -> None:
    assert set(RunStatus) == TERMINAL | UNFINISHED
    assert not TERMINAL & UNFINISHED
    assert {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED} == TERMINAL


def told(*events: e.AnyEvent) -> History:
    history = History()
    history.write([e.RunCreated(workflow="flow", title="t", tags=("a",)), e.RunStarted(), *events], epoch=1)
    return history


@pytest.mark.parametrize(
    "event",
    [
        e.InteractionRequested(interaction="q"),
        e.SignalAwaited(wait="s", name="news"),
        e.TimerSet(timer="t", due=1),
        e.ChildStarted(child="c"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_run_with_nothing_in_flight_and_something_to_wait_for_is_waiting(event: e.AnyEvent) -> None:
    history = told(event)
    assert history.state.status is RunStatus.WAITING
    history.write([e.NodeScheduled(node="a")])
    assert history.state.status is RunStatus.RUNNING


@pytest.mark.parametrize(
    "event",
    [
        e.OutboxEnqueued(message="m"),
        e.ChildStarted(child="c", detached=True),
        e.TriggerRegistered(trigger="x"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_loose_end_does_not_make_a_run_wait(event: e.AnyEvent) -> None:
    history = told(event)
    assert history.state.status is RunStatus.RUNNING
    assert len(history.state.loose) == 1


def test_a_held_run_is_failed_but_not_closed() -> None:
    state = told(e.RunFailed(error=NO, held=True)).state
    assert state.status is RunStatus.FAILED
    assert not state.is_closed


@pytest.mark.parametrize(
    "ending",
    [e.RunCompleted(), e.RunCancelled(), e.RunFailed(error=NO, recoverable=True), e.RunContinued(successor="next")],
    ids=lambda event: type(event).__name__,
)
def test_a_run_that_ended_is_closed(ending: e.AnyEvent) -> None:
    assert told(ending).state.is_closed


def test_a_summary_counts_all_waits_and_names_the_first_few_in_order() -> None:
    history = told(*(e.TimerSet(timer=f"t{number}", due=number) for number in range(MAX_WAITS + 3)))
    summary = summarise(history.run, history.state)
    assert summary.waiting == MAX_WAITS + 3
    assert [wait.id for wait in summary.waits] == [f"t{number}" for number in range(MAX_WAITS)]


def test_a_wait_that_begins_again_is_shown_last() -> None:
    history = told(e.TimerSet(timer="a", due=1), e.TimerSet(timer="b", due=1))
    history.write([e.TimerFired(timer="a"), e.TimerSet(timer="a", due=2)])
    assert [wait.id for wait in summarise(history.run, history.state).waits] == ["b", "a"]


def test_a_summary_shows_what_the_run_was_created_as_and_when() -> None:
    history = told()
    summary = summarise(history.run, history.state)
    assert (summary.workflow, summary.title, summary.tags, summary.at) == ("flow", "t", ("a",), 2)
    assert summary.created == summary.updated == history.records[0].time


def test_the_clock_of_a_summary_never_goes_back() -> None:
    history = told()
    before = history.state.outline.time
    history.write([e.VersionChanged(version="2")], time=before - 5)
    assert summarise(history.run, history.state).updated == before
