"""What single events make of a state: the small meanings that drivers and people rely on."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.history.record import Kind
from outlast.lifecycle import decide
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply
from outlast.lifecycle.invariants import violations
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import is_changed, summarise
from support.histories import History

NO = e.Failure("Error", "no")


def told(*events: e.AnyEvent) -> History:
    history = History()
    history.write([e.RunCreated(workflow="flow"), e.RunStarted(), *events], epoch=1)
    return history


def state(*events: e.AnyEvent) -> State:
    return told(*events).state


# --- requests


JUMP, PAUSE, CANCEL = e.JumpRequested(target=1, branch=1), e.PauseRequested(), e.CancelRequested()
HELD = e.RunFailed(error=e.Failure("Held"), held=True)


def is_open(*events: e.AnyEvent) -> list[e.AnyEvent]:
    """The requests that are open after these events."""
    return [each.event for each in state(*events).outline.requests]


@pytest.mark.parametrize("request_", [PAUSE, CANCEL, JUMP], ids=lambda event: type(event).__name__)
def test_no_start_and_no_takeover_closes_a_request(request_: e.AnyEvent) -> None:
    history = History()
    history.write([e.RunCreated(workflow="flow"), request_], epoch=1)
    history.write([e.RunTakenOver(epoch=2)], Kind.TAKEOVER, epoch=2)
    history.write([e.RunStarted()])
    assert [each.event for each in history.state.outline.requests] == [request_]
    assert is_open(e.RunPaused(), request_, e.RunStarted(resumed=True)) == [request_]


def test_a_pause_is_closed_by_what_makes_the_run_stand_still() -> None:
    assert is_open(PAUSE, PAUSE, e.RunPaused()) == []
    assert is_open(PAUSE, HELD) == []
    assert is_open(CANCEL, JUMP, PAUSE, HELD) == [CANCEL, JUMP]


def test_a_cancellation_is_closed_by_the_end_it_asked_for_and_handed_to_a_successor() -> None:
    assert is_open(CANCEL, e.RunPaused()) == [CANCEL]
    assert is_open(CANCEL, CANCEL, e.RunCancelled()) == []
    assert state(CANCEL, e.RunContinued(successor="next")).outline.cancel_inherited == CANCEL


def test_a_request_is_closed_by_its_refusal() -> None:
    assert is_open(PAUSE, JUMP, e.RequestRefused(request=4, code="superseded")) == [PAUSE]


@pytest.mark.parametrize(
    "ending", [e.RunCompleted(), e.RunFailed(error=e.Failure("No")), e.RunContinued(successor="n")]
)
def test_a_run_cannot_end_while_a_request_is_open(ending: e.AnyEvent) -> None:
    with pytest.raises(Illegal, match=r"V12.*the request at event 3 is open"):
        state(JUMP, ending)
    assert is_open(JUMP, e.RequestRefused(request=3, code="ended"), ending) == []


def test_a_branch_obeys_the_jump_it_names_and_settles_the_other_requests_in_its_append() -> None:
    history = told(e.JumpRequested(target=2, branch=1), JUMP, e.PauseRequested(by="ann"))
    opening = history.cut(2, request=4)
    assert opening[0].request == 4
    assert opening[1:] == [
        e.RequestRefused(request=3, code="superseded", reason="another jump superseded this one"),
        e.RunPaused(by="ann", reason="requested while the run jumped back"),
    ]
    history.write(opening)
    assert history.state.outline.requests == ()
    assert violations(history.run, history.records) == []


def test_a_run_that_is_to_end_ends_on_the_branch_that_opens() -> None:
    history = told(PAUSE, CANCEL)
    opening = history.cut(2)
    assert [type(event) for event in opening] == [e.BranchOpened, e.RequestRefused, e.RunCancelled]
    history.write(opening)
    assert violations(history.run, history.records) == []


def test_a_branch_does_not_open_a_request_again_that_was_obeyed_on_the_branch_it_leaves() -> None:
    history = told(PAUSE, e.RunPaused(), e.RunStarted(resumed=True))
    history.write(history.cut(3))
    assert history.state.outline.requests == ()
    assert history.state.status is RunStatus.RUNNING


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([], None),
        ([PAUSE], PAUSE),
        ([PAUSE, JUMP], JUMP),
        ([JUMP, PAUSE], JUMP),
        ([JUMP, e.JumpRequested(target=2, branch=1)], e.JumpRequested(target=2, branch=1)),
        ([CANCEL, JUMP, PAUSE], CANCEL),
        ([PAUSE, JUMP, CANCEL], CANCEL),
        ([e.RunPaused(), PAUSE], None),
        ([HELD, PAUSE], None),
        ([e.RunPaused(), PAUSE, JUMP], JUMP),
        ([HELD, CANCEL], CANCEL),
    ],
)
def test_a_cancellation_comes_before_a_jump_and_a_jump_before_a_pause(requests: Any, expected: Any) -> None:
    assert decide.next_request(state(*requests)) == expected


# --- endings


def test_an_ending_keeps_what_came_of_the_run() -> None:
    assert state(e.RunCompleted(output=Raw(b"7"))).outline.output == Raw(b"7")
    assert state(e.RunContinued(successor="next")).outline.successor == "next"
    assert state(e.RunCancelled(reason="late")).outline.reason == "late"
    assert state(e.RunFailed(error=NO)).outline.error == NO


def test_a_hold_is_always_recoverable_and_keeps_what_is_open() -> None:
    held = state(e.NodeScheduled(node="a"), e.TimerSet(timer="t", due=1), e.RunFailed(error=NO, held=True))
    assert held.outline.recoverable
    assert held.outline.open_nodes == 1
    assert len(held.waits) == 1


def test_a_child_that_was_waited_for_becomes_a_loose_end_when_the_run_ends() -> None:
    ended = state(e.ChildStarted(child="c"), e.RunCompleted())
    assert list(ended.waits.values()) == []
    assert [wait.name for wait in ended.loose.values()] == ["child:c"]
    apply(ended, e.ChildEnded(child="c", output=Raw(b"3")), 5, 0)
    child = ended.children.get("c")
    assert child is not None
    assert (child.status, child.output) == ("completed", Raw(b"3"))
    assert list(ended.loose.values()) == []


# --- nodes


def test_done_nodes_are_counted_once_and_open_ones_while_they_are_open() -> None:
    history = told(e.NodeScheduled(node="a"), e.NodeStarted(node="a"))
    assert (history.state.outline.open_nodes, history.state.outline.done_nodes) == (1, 0)
    history.write([e.NodeCompleted(node="a")])
    assert (history.state.outline.open_nodes, history.state.outline.done_nodes) == (0, 1)
    history.write([e.CompensationStarted(node="a"), e.NodeCompensated(node="a")])
    assert (history.state.outline.open_nodes, history.state.outline.done_nodes) == (0, 1)


def test_a_node_that_waits_for_its_retry_is_not_open_and_the_wait_is_a_timer() -> None:
    waiting = state(e.NodeScheduled(node="a"), e.NodeStarted(node="a"), e.NodeFailed(node="a", error=NO, retry_at=9))
    assert waiting.outline.open_nodes == 0
    assert waiting.status is RunStatus.WAITING
    wait = waiting.waits.get("timer:retry:a")
    assert wait is not None
    assert (wait.due, wait.text) == (9, "no")


def test_a_retry_ends_its_timer_even_if_it_did_not_fire() -> None:
    again = state(
        e.NodeScheduled(node="a"),
        e.NodeStarted(node="a"),
        e.NodeFailed(node="a", error=NO, retry_at=9),
        e.NodeScheduled(node="a", attempt=2, cause="retry"),
    )
    assert list(again.waits.values()) == []
    assert again.outline.open_nodes == 1


def test_an_adopted_completion_needs_no_start_on_this_branch() -> None:
    adopted = state(e.NodeCompleted(node="a", output=Raw(b"1"), adopted=7))
    node = adopted.nodes.get("a")
    assert node is not None
    assert (node.status, node.attempt, node.output) == (NodeStatus.COMPLETED, 1, Raw(b"1"))
    assert adopted.outline.done_nodes == 1


def test_a_node_knows_how_its_attempt_began_until_it_completes() -> None:
    started = e.NodeStarted(node="a", hash="h", code="c")
    under_way = state(e.NodeScheduled(node="a"), started)
    node = under_way.nodes.get("a")
    assert node is not None
    assert node.started == started
    apply(under_way, e.NodeCompleted(node="a"), under_way.outline.seq + 1, 0)
    node = under_way.nodes.get("a")
    assert node is not None
    assert node.started is None


# --- people and time


def test_a_signal_that_is_delivered_twice_is_one_signal() -> None:
    once = e.SignalReceived(signal="g", name="news", data=Raw(b"1"))
    twice = state(once, e.SignalReceived(signal="g", name="news", data=Raw(b"2")))
    signal = twice.signals.get("g")
    assert signal is not None
    assert signal.data == Raw(b"1")


def test_a_consumed_signal_ends_the_wait_and_lets_go_of_its_data() -> None:
    consumed = state(
        e.SignalAwaited(wait="w", name="news"),
        e.SignalReceived(signal="g", name="news", data=Raw(b"1")),
        e.SignalConsumed(signal="g", wait="w"),
    )
    signal = consumed.signals.get("g")
    assert signal is not None
    assert (signal.consumed, signal.data) == (True, Raw(b"null"))
    assert list(consumed.waits.values()) == []


def test_a_wait_shows_a_guest_what_it_needs_to_answer() -> None:
    asked = state(e.InteractionRequested(interaction="q", node="n", prompt="?", schema=Raw(b"{}"), hash="h", due=5))
    wait = asked.waits.get("interaction:q")
    assert wait is not None
    assert (wait.node, wait.text, wait.detail, wait.hash, wait.due) == ("n", "?", Raw(b"{}"), "h", 5)


# --- drafts


@pytest.mark.parametrize("absorbed", [False, True], ids=["in the draft", "once absorbed"])
def test_a_timer_that_is_put_off_is_shown_last_like_in_a_plain_fold(absorbed: bool) -> None:
    history = told(e.TimerSet(timer="a", due=1), e.TimerSet(timer="b", due=1))
    draft = Draft(history.state)
    for seq, event in enumerate((e.TimerCancelled(timer="a"), e.TimerSet(timer="a", due=2)), 5):
        apply(draft.view, event, seq, 0)
    if absorbed:
        draft.absorb()
    shown = summarise(history.run, history.state if absorbed else draft.view)
    assert [(wait.id, wait.due) for wait in shown.waits] == [("b", 1), ("a", 2)]


def test_a_draft_says_which_waits_it_opens_and_which_it_ends() -> None:
    draft = Draft(state(e.TimerSet(timer="a", due=1), e.ChildStarted(child="c")))
    for seq, event in enumerate((e.TimerFired(timer="a"), e.OutboxEnqueued(message="m"), e.RunCompleted()), 5):
        apply(draft.view, event, seq, 0)
    opened, closed = draft.ends()
    assert {wait.name for wait in opened} == {"outbox:m", "child:c"}
    assert set(closed) == {"timer:a", "child:c"}


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([e.RunFailed(error=NO, held=True)], e.RunFailed(error=e.Failure("Error", "another"), held=True)),
        ([e.RunFailed(error=NO, held=True)], e.RunFailed(error=NO)),
        ([], e.VersionChanged(version="2")),
        ([], e.RunPaused()),
        ([], e.TimerSet(timer="t", due=1)),
        ([], e.OutboxEnqueued(message="m")),
        ([e.TimerSet(timer="t", due=1)], e.NodeScheduled(node="a")),
    ],
    ids=["another reason", "no longer held", "another version", "paused", "a wait", "a loose end", "no longer waiting"],
)
def test_what_people_look_for_makes_a_new_summary(before: list[e.AnyEvent], event: e.AnyEvent) -> None:
    draft = Draft(state(*before))
    apply(draft.view, event, 9, 0)
    assert is_changed(draft, frozenset([type(event)]))


def test_a_node_that_starts_in_a_run_that_waits_for_nothing_makes_no_new_summary() -> None:
    """The catalogue is not written with every node."""
    draft = Draft(state())
    event = e.NodeScheduled(node="a")
    apply(draft.view, event, 9, 0)
    assert not is_changed(draft, frozenset([type(event)]))


def test_a_draft_that_adds_and_ends_a_wait_changes_nothing_that_is_shown() -> None:
    draft = Draft(state())
    for seq, event in enumerate((e.TimerSet(timer="a", due=1), e.TimerFired(timer="a")), 3):
        apply(draft.view, event, seq, 0)
    assert draft.ends() == ((), ())
    assert not draft.has_new_ends()
