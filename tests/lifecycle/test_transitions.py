"""The one table (L3, V2, V5): every status, every event type, and what the fold makes of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.transitions import CONTROL, GUEST_DATA, RECEIPTS, TABLE, may_follow
from support.histories import History

NO = e.Failure("Error", "no")
BUSY: list[e.AnyEvent] = [
    e.StepStarted(step="step"),
    e.NodeScheduled(node="done"),
    e.NodeStarted(node="done"),
    e.NodeCompleted(node="done"),
    e.NodeScheduled(node="undoing"),
    e.NodeStarted(node="undoing"),
    e.NodeCompleted(node="undoing"),
    e.InteractionRequested(interaction="asked"),
    e.SignalReceived(signal="came", name="news"),
    e.TimerSet(timer="set", due=1),
    e.TriggerRegistered(trigger="source"),
    e.OutboxEnqueued(message="message"),
    e.ChildStarted(child="child"),
]
"""What a run has behind it when it comes to a status: an antecedent for everything, and no node in flight."""
IN_FLIGHT: list[e.AnyEvent] = [
    e.NodeScheduled(node="scheduled"),
    e.NodeScheduled(node="started"),
    e.NodeStarted(node="started"),
]


def story(*events: e.AnyEvent) -> State:
    history = History()
    history.write([e.RunCreated(workflow="flow"), *events], epoch=1)
    return history.state


def running(*events: e.AnyEvent, in_flight: bool = False) -> State:
    return story(e.RunStarted(), *BUSY, *(IN_FLIGHT if in_flight else ()), *events)


PLACES: dict[str, Callable[[bool], State]] = {
    "created": lambda _: story(),
    "running": lambda flight: story(e.RunStarted(), *BUSY[:7], *BUSY[8:9], *(IN_FLIGHT if flight else ())),
    "waiting": lambda flight: running(in_flight=flight),
    "paused": lambda flight: running(e.RunPaused(), in_flight=flight),
    "compensating": lambda flight: running(e.CompensationStarted(node="undoing"), in_flight=flight),
    "completed": lambda _: running(e.RunCompleted()),
    "continued": lambda _: running(e.RunContinued(successor="next")),
    "cancelled": lambda _: running(e.RunCancelled()),
    "failed": lambda _: running(e.RunFailed(error=NO)),
    "failed, recoverable": lambda _: running(e.RunFailed(error=NO, recoverable=True)),
    "failed, held": lambda flight: running(e.RunFailed(error=NO, held=True), in_flight=flight),
}


def fitting(state: State, kind: type[e.Event]) -> e.AnyEvent:
    """An event of this type that talks of what is there."""
    is_new = state.outline.base is RunStatus.CREATED
    events: list[e.AnyEvent] = [
        e.RunCreated(workflow="flow"),
        e.RunStarted(resumed=not is_new),
        e.RunPaused(),
        e.RunTakenOver(epoch=2),
        e.PauseRequested(),
        e.CancelRequested(),
        e.RequestRefused(request=1, code="ended"),
        e.RunCompleted(),
        e.RunFailed(error=NO),
        e.CleanupStarted(due=1),
        e.RunCancelled(),
        e.RunContinued(successor="next"),
        e.RunRecovered(code="G2"),
        e.VersionChanged(version="2"),
        e.AttributesSet(attributes={"customer": "acme"}),
        e.BranchOpened(branch=1, parent=0, cutoff=state.outline.seq),
        e.JumpRequested(target=1, branch=1),
        e.Recalled(at=1, time=1),
        e.StepStarted(step="other"),
        e.StepCompleted(step="step"),
        e.NodeScheduled(node="new"),
        e.NodeStarted(node="scheduled"),
        e.NodeCheckpointed(node="started"),
        e.NodeCompleted(node="started"),
        e.NodeFailed(node="started", error=NO),
        e.NodesRetired(nodes=("done",)),
        e.NodeSkipped(node="scheduled"),
        e.CompensationStarted(node="done"),
        e.NodeCompensated(node="undoing"),
        e.CompensationFailed(node="undoing", error=NO),
        e.GraphExtended(),
        e.InteractionRequested(interaction="other"),
        e.InteractionAnswered(interaction="asked"),
        e.InteractionWithdrawn(interaction="asked"),
        e.SignalAwaited(wait="wait", name="news"),
        e.SignalReceived(signal="other", name="news"),
        e.SignalConsumed(signal="came"),
        e.TimerSet(timer="other", due=1),
        e.TimerFired(timer="set"),
        e.TimerCancelled(timer="set"),
        e.GuestEventsRead(upto=1),
        e.DecisionRecorded(key="key"),
        e.TriggerRegistered(trigger="other"),
        e.TriggerInputReceived(trigger="source", input="1"),
        e.TriggerCursorAdvanced(trigger="source", cursor=1),
        e.OutboxEnqueued(message="other"),
        e.OutboxSent(message="message"),
        e.ChildStarted(child="other"),
        e.ChildEnded(child="child"),
    ]
    return {type(event): event for event in events}[kind]  # type: ignore[index]


ENDINGS = (e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunContinued)
EVERY = [
    pytest.param(place, kind, id=f"{kind.__name__} when {place}") for place in PLACES for kind in e.EVENT_TYPES.values()
]


@pytest.mark.parametrize(("place", "kind"), EVERY)
def test_the_fold_refuses_what_the_table_forbids_and_nothing_else(place: str, kind: type[e.Event]) -> None:
    state = PLACES[place](kind not in ENDINGS)
    refused, is_allowed = None, may_follow(state.outline, kind)
    try:
        apply(state, fitting(state, kind), state.outline.seq + 1, 0)
    except Illegal as illegal:
        refused = illegal.invariant
    if kind is e.RunCreated:
        assert refused == "V2"
    elif not is_allowed:
        assert refused == "V5"
    elif has_antecedent(place, kind):
        assert refused is None
    else:
        assert refused in ("V3", "V7", "V12")


def has_antecedent(place: str, kind: type[e.Event]) -> bool:
    """A new run has asked nothing of anyone, the plain running one not of guests, and only one is undoing something. Nobody
    made a request."""
    if kind is e.RequestRefused:
        return False
    if place == "created":
        return kind not in (e.InteractionAnswered, e.TimerFired, e.TriggerInputReceived, e.OutboxSent, e.ChildEnded)
    if place == "running":
        outside = (e.InteractionAnswered, e.InteractionWithdrawn, e.TimerFired, e.TimerCancelled)
        if kind in (*outside, e.TriggerInputReceived, e.TriggerCursorAdvanced, e.OutboxSent, e.ChildEnded):
            return False
    return place == "compensating" or kind not in (e.NodeCompensated, e.CompensationFailed)


@pytest.mark.parametrize("kind", e.EVENT_TYPES.values(), ids=e.EVENT_TYPES)
def test_before_the_first_event_only_the_creation_may_come(kind: type[e.Event]) -> None:
    state = State()
    if kind is e.RunCreated:
        apply(state, fitting(state, kind), 1, 0)
        assert state.status is RunStatus.CREATED
    else:
        with pytest.raises(Illegal) as refusal:
            apply(state, fitting(state, kind), 1, 0)
        assert refusal.value.invariant == "V2"


@pytest.mark.parametrize("place", PLACES)
def test_guests_may_bring_data_exactly_until_the_run_is_closed(place: str) -> None:
    state = PLACES[place](False)
    for kind in GUEST_DATA:
        assert may_follow(state.outline, kind) is (not state.is_closed or kind in RECEIPTS)


@pytest.mark.parametrize("place", PLACES)
def test_requests_are_taken_until_the_run_is_closed_and_jumps_even_then(place: str) -> None:
    state = PLACES[place](False)
    for kind in CONTROL:
        assert may_follow(state.outline, kind) is (not state.is_closed or kind is e.JumpRequested)


@pytest.mark.parametrize("place", PLACES)
def test_a_branch_a_takeover_and_a_recovery_may_follow_anywhere(place: str) -> None:
    state = PLACES[place](False)
    assert all(may_follow(state.outline, kind) for kind in (e.BranchOpened, e.RunTakenOver, e.RunRecovered))


@pytest.mark.parametrize("place", PLACES)
def test_a_place_has_the_status_it_is_named_after(place: str) -> None:
    status = {"continued": "completed"}.get(place, place.split(",")[0])
    assert PLACES[place](False).status == status


def test_the_table_has_a_row_for_every_status_and_a_place_for_every_event() -> None:
    assert set(TABLE) == {None, *RunStatus}
    assert {kind for row in TABLE.values() for kind in row} == set(e.EVENT_TYPES.values())


def test_waiting_allows_what_running_allows() -> None:
    """Waiting is running with nothing in flight: no event may tell them apart."""
    assert TABLE[RunStatus.WAITING] == TABLE[RunStatus.RUNNING]


@pytest.mark.parametrize("place", PLACES)
def test_only_a_recoverable_failure_and_a_pause_are_resumed(place: str) -> None:
    expected = place in ("created", "paused", "failed, recoverable", "failed, held")
    assert may_follow(PLACES[place](False).outline, e.RunStarted) is expected


@pytest.mark.parametrize("ending", [fitting(story(), kind) for kind in ENDINGS], ids=lambda event: type(event).__name__)
def test_no_run_ends_with_a_node_in_flight(ending: e.AnyEvent) -> None:
    state = running(in_flight=True)
    with pytest.raises(Illegal, match=r"V5.*2 of its nodes have no outcome in the log"):
        apply(state, ending, state.outline.seq + 1, 0)
