"""From an intention to events: what each decision says, and that the fold takes it."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from msgspec import Raw

from outlast.definition.retry import NEVER, Retry
from outlast.errors import RUN_ENDED, WORKER_RESTARTED, NotAllowed
from outlast.history import events as e
from outlast.lifecycle import branch_plan, decide
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.status import RunStatus
from support.histories import History

SOON = e.Failure("Timeout", "too slow", category="timeout")
NO = e.Failure("Error", "no")


def told(*events: e.AnyEvent, on_restart: Literal["resume", "hold"] = "resume") -> History:
    history = History()
    history.write([e.RunCreated(workflow="flow", on_restart=on_restart), *events], epoch=1)
    return history


def going(*events: e.AnyEvent, on_restart: Literal["resume", "hold"] = "resume") -> History:
    return told(e.RunStarted(), *events, on_restart=on_restart)


def started(*nodes: str) -> list[e.AnyEvent]:
    return [event for node in nodes for event in (e.NodeScheduled(node=node), e.NodeStarted(node=node))]


def crashed(times: int) -> list[e.AnyEvent]:
    """One node that was interrupted so often, and started again each time."""
    events = started("a")
    for attempt in range(2, times + 2):
        events += [e.NodeScheduled(node="a", attempt=attempt, cause="crash"), e.NodeStarted(node="a", attempt=attempt)]
    return events


def kinds(events: list[e.AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


# --- taking over


def test_a_takeover_after_a_graceful_release_only_says_who() -> None:
    state = going(*started("a")).state
    taken = e.RunTakenOver(epoch=2, worker="w2", previous="w1")
    assert decide.take_over(state, 2, "w2", previous="w1") == [taken]


@pytest.mark.parametrize("cause", ["expired", "dead"])
def test_a_takeover_after_a_crash_tries_again_what_had_started(cause: Literal["expired", "dead"]) -> None:
    done: list[e.AnyEvent] = [*started("done"), e.NodeCompleted(node="done")]
    history = going(*done, *started("a", "b"), e.NodeScheduled(node="never-started"))
    events = decide.take_over(history.state, 2, "w2", previous="w1", cause=cause)
    assert events == [
        e.RunTakenOver(epoch=2, worker="w2", previous="w1", cause=cause),
        e.NodeScheduled(node="a", attempt=2, cause="crash"),
        e.NodeScheduled(node="b", attempt=2, cause="crash"),
    ]
    history.write(events)
    assert [_attempt(history, name) for name in ("a", "b", "never-started", "done")] == [2, 2, 1, 1]


def _attempt(history: History, name: str) -> int:
    node = history.state.nodes.get(name)
    assert node is not None
    return node.attempt


def test_a_second_takeover_does_not_count_a_crash_twice() -> None:
    history = going(*started("a"))
    history.write(decide.take_over(history.state, 2, "w2", cause="expired"))
    assert kinds(decide.take_over(history.state, 3, "w3", cause="expired")) == ["RunTakenOver"]


def test_a_checkpoint_outlives_a_crash() -> None:
    history = going(*started("a"), e.NodeCheckpointed(node="a", data=Raw(b"7")))
    history.write(decide.take_over(history.state, 2, "w2", cause="expired"))
    node = history.state.nodes.get("a")
    assert node is not None
    assert (node.status, node.checkpoint, node.crashes, node.retries) == (NodeStatus.SCHEDULED, Raw(b"7"), 1, 0)


@pytest.mark.parametrize(
    ("on_restart", "hold"), [("hold", False), ("resume", True), ("hold", True)], ids=["the run", "the taker", "both"]
)
def test_a_takeover_holds_an_interrupted_run_if_either_says_so(
    on_restart: Literal["resume", "hold"], hold: bool
) -> None:
    history = going(*started("a"), on_restart=on_restart)
    events = decide.take_over(history.state, 2, "w2", cause="expired", hold=hold)
    history.write(events)
    assert kinds(events) == ["RunTakenOver", "RunFailed"]
    assert history.state.status is RunStatus.FAILED
    assert history.state.outline.held
    assert history.state.outline.recoverable
    error = history.state.outline.error
    assert error is not None
    assert error.kind == WORKER_RESTARTED


def test_a_graceful_release_is_no_interruption_even_for_who_holds() -> None:
    history = going(*started("a"), on_restart="hold")
    assert kinds(decide.take_over(history.state, 2, "w2", hold=True)) == ["RunTakenOver"]


def test_the_fourth_crash_is_tried_again_and_the_fifth_holds_and_names_the_node() -> None:
    fourth = going(*crashed(3), *started("other"))
    assert kinds(decide.take_over(fourth.state, 2, "w2", cause="expired")) == ["RunTakenOver", *["NodeScheduled"] * 2]
    fifth = going(*crashed(4), *started("other"))
    fifth.write(decide.take_over(fifth.state, 2, "w2", cause="expired"))
    assert fifth.state.status is RunStatus.FAILED
    assert fifth.state.outline.held
    assert fifth.state.outline.reason.startswith("node a was interrupted 5 times, the last time because the claim")


@pytest.mark.parametrize(
    "history",
    [
        told(),
        going(*started("a"), e.RunPaused()),
        going(e.RunCompleted()),
        going(e.RunFailed(error=NO, recoverable=True)),
        going(*started("a"), e.RunFailed(error=NO, held=True)),
    ],
    ids=["created", "paused", "completed", "failed", "held"],
)
def test_a_takeover_leaves_alone_what_was_not_at_work(history: History) -> None:
    assert kinds(decide.take_over(history.state, 2, "w2", cause="dead", hold=True)) == ["RunTakenOver"]


def test_a_run_that_waits_for_a_person_stays_waiting_whoever_takes_it_over() -> None:
    """Restart: the question is in the log and nothing was interrupted, so there is nothing to hold."""
    history = going(e.InteractionRequested(interaction="q"), on_restart="hold")
    history.write(decide.take_over(history.state, 2, "w2", cause="expired", hold=True))
    assert history.state.status is RunStatus.WAITING


def test_a_takeover_in_the_middle_of_undoing_goes_on_undoing() -> None:
    history = going(*started("a"), e.NodeCompleted(node="a"), e.CompensationStarted(node="a"), *started("b"))
    history.write(decide.take_over(history.state, 2, "w2", cause="expired"))
    assert history.state.status is RunStatus.COMPENSATING
    assert _attempt(history, "b") == 2


# --- failing and retrying


def test_a_failure_that_passes_is_tried_again_when_the_policy_says() -> None:
    history = going(*started("a"))
    retry = Retry(max_attempts=3, delay=2.0, jitter=0.0)
    events = decide.fail_node(history.state, "a", SOON, retry, now=1_000_000, ms=5.0)
    assert events == [e.NodeFailed(node="a", error=SOON, ms=5.0, retry_at=3_000_000)]
    history.write(events)
    assert history.state.status is RunStatus.WAITING
    history.write(decide.retry_node(history.state, "a"))
    assert history.state.status is RunStatus.RUNNING
    assert _attempt(history, "a") == 2


def test_the_last_attempt_that_fails_is_final() -> None:
    history = going(*started("a"))
    retry = Retry(max_attempts=2, delay=2.0, jitter=0.0)
    history.write(decide.fail_node(history.state, "a", SOON, retry, now=0))
    history.write([*decide.retry_node(history.state, "a"), e.NodeStarted(node="a", attempt=2)])
    assert decide.fail_node(history.state, "a", SOON, retry, now=0) == [e.NodeFailed(node="a", attempt=2, error=SOON)]


def test_crashes_do_not_use_up_retries() -> None:
    history = going(*crashed(3))
    (failed,) = decide.fail_node(history.state, "a", SOON, Retry(max_attempts=2, jitter=0.0), now=0)
    assert isinstance(failed, e.NodeFailed)
    assert (failed.attempt, failed.retry_at) == (4, 1_000_000)


def test_a_permanent_failure_is_final_at_once() -> None:
    state = going(*started("a")).state
    assert decide.fail_node(state, "a", NO, Retry(max_attempts=9), now=0) == [e.NodeFailed(node="a", error=NO)]


def test_without_a_policy_every_failure_is_final() -> None:
    state = going(*started("a")).state
    assert decide.fail_node(state, "a", SOON, NEVER, now=0) == [e.NodeFailed(node="a", error=SOON)]


def test_a_failed_node_is_done_again_from_scratch() -> None:
    history = going(*crashed(1), e.NodeCheckpointed(node="a", attempt=2, data=Raw(b"7")))
    history.write([e.NodeFailed(node="a", attempt=2, error=NO)])
    events = decide.retry_node(history.state, "a")
    assert events == [e.NodeScheduled(node="a", attempt=3, cause="reset")]
    history.write(events)
    node = history.state.nodes.get("a")
    assert node is not None
    assert (node.checkpoint, node.crashes, node.retries) == (None, 0, 0)


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([e.NodeScheduled(node="a")], "scheduled"),
        (started("a"), "started"),
        ([*started("a"), e.NodeCompleted(node="a")], "completed"),
        ([e.NodeSkipped(node="a")], "skipped"),
    ],
)
def test_only_a_failed_node_is_retried_on_its_branch(events: list[e.AnyEvent], status: str) -> None:
    with pytest.raises(NotAllowed, match=f"node a is {status}"):
        decide.retry_node(going(*events).state, "a")


def test_a_node_that_is_not_there_is_neither_failed_nor_retried() -> None:
    state = going().state
    with pytest.raises(NotAllowed, match="node a is not part of this run"):
        decide.retry_node(state, "a")
    with pytest.raises(NotAllowed, match="node a is not part of this run"):
        decide.fail_node(state, "a", SOON, NEVER, now=0)


# --- ending

OPEN: list[e.AnyEvent] = [
    *started("started"),
    e.NodeScheduled(node="scheduled"),
    *started("retrying"),
    e.NodeFailed(node="retrying", error=SOON, retry_at=9),
    e.InteractionRequested(interaction="q"),
    e.TimerSet(timer="t", due=1),
    e.SignalAwaited(wait="s", name="news"),
    e.ChildStarted(child="c"),
]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (e.RunCompleted(), RunStatus.COMPLETED),
        (e.RunFailed(error=NO), RunStatus.FAILED),
        (e.RunCancelled(), RunStatus.CANCELLED),
        (e.RunContinued(successor="next"), RunStatus.COMPLETED),
    ],
    ids=["completed", "failed", "cancelled", "continued"],
)
def test_an_ending_closes_everything_that_is_open(ending: decide.Ending, status: RunStatus) -> None:
    history = going(*OPEN)
    history.write(decide.end(history.state, ending, "over"))
    state = history.state
    assert state.status is status
    assert state.outline.open_nodes == 0
    assert list(state.waits.values()) == []
    assert [wait.name for wait in state.loose.values()] == ["child:c"]
    asked = state.interactions.get("q")
    assert asked is not None
    assert asked.withdrawn


def test_an_ending_says_what_became_of_each_node_and_wait_before_it_ends() -> None:
    cancelled = e.Failure(RUN_ENDED, "over", category="cancelled")
    assert decide.end(going(*OPEN).state, e.RunCompleted(), "over") == [
        e.NodeFailed(node="started", error=cancelled),
        e.NodeFailed(node="scheduled", error=cancelled),
        e.TimerCancelled(timer="retry:retrying", reason="over"),
        e.InteractionWithdrawn(interaction="q", reason="over"),
        e.TimerCancelled(timer="t", reason="over"),
        e.RunCompleted(),
    ]


@pytest.mark.parametrize("stop", [e.RunPaused(), e.RunFailed(error=NO, held=True)], ids=["paused", "held"])
def test_a_run_that_is_paused_or_held_can_still_be_cancelled_as_it_stands(stop: e.AnyEvent) -> None:
    history = going(*OPEN, stop)
    history.write(decide.end(history.state, e.RunCancelled()))
    assert history.state.status is RunStatus.CANCELLED


def test_a_run_with_nothing_open_just_ends() -> None:
    assert decide.end(going().state, e.RunCompleted()) == [e.RunCompleted()]


# --- pausing and resuming


@pytest.mark.parametrize(
    "history",
    [told(), going(), going(e.InteractionRequested(interaction="q"))],
    ids=["created", "running", "waiting"],
)
def test_a_run_that_is_not_over_can_be_paused(history: History) -> None:
    history.write(decide.pause(history.state, e.PauseRequested(reason="lunch")))
    assert history.state.status is RunStatus.PAUSED
    assert history.state.outline.reason == "lunch"


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (going(e.RunPaused()).state, "paused"),
        (going(e.RunCompleted()).state, "completed"),
        (going(e.RunFailed(error=NO, held=True)).state, "held"),
        (going(e.RunCancelled()).state, "cancelled"),
    ],
)
def test_a_run_that_stands_still_cannot_be_paused(state: State, status: str) -> None:
    with pytest.raises(NotAllowed, match=f"a run that is {status} cannot be paused"):
        decide.pause(state, e.PauseRequested())


@pytest.mark.parametrize("stop", [e.RunPaused(), e.RunFailed(error=NO, held=True)], ids=["paused", "held"])
def test_a_resume_does_again_what_was_in_flight_and_keeps_what_was_asked(stop: e.AnyEvent) -> None:
    history = going(*OPEN, stop)
    events = decide.resume(history.state, by="ada")
    assert events == [
        e.RunStarted(resumed=True, by="ada"),
        e.NodeScheduled(node="started", attempt=2, cause="pause"),
    ]
    history.write(events)
    assert history.state.status is RunStatus.RUNNING
    assert history.state.outline.reason == ""
    assert history.state.waits.get("interaction:q") is not None


def test_a_recoverable_failure_is_resumed_on_its_branch() -> None:
    history = going(e.RunFailed(error=NO, recoverable=True))
    history.write(decide.resume(history.state))
    assert history.state.status is RunStatus.RUNNING
    assert not history.state.outline.recoverable


def test_a_run_that_failed_for_good_is_not_resumed() -> None:
    with pytest.raises(NotAllowed, match="failed for good"):
        decide.resume(going(e.RunFailed(error=NO)).state)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (told().state, "created"),
        (going().state, "running"),
        (going(e.InteractionRequested(interaction="q")).state, "waiting"),
        (going(e.RunCompleted()).state, "completed"),
        (going(e.RunCancelled()).state, "cancelled"),
    ],
)
def test_a_run_that_did_not_stop_is_not_resumed(state: State, status: str) -> None:
    with pytest.raises(NotAllowed, match=f"a run that is {status} cannot be resumed"):
        decide.resume(state)


# --- branches


def opened(history: History, cutoff: int, **turn: Any) -> e.BranchOpened:
    event, *_ = history.cut(cutoff, **turn)
    assert isinstance(event, e.BranchOpened)
    return event


def test_a_branch_names_the_branch_that_holds_its_cutoff_and_where_both_neighbours_opened() -> None:
    history = going(*started("a"), e.NodeCompleted(node="a"))  # 1 to 5 on branch 0
    history.write([opened(history, 4), e.NodeCompleted(node="a")])  # 6 and 7 on branch 1
    history.write([opened(history, 3)])  # 8 on branch 2
    again = opened(history, 7)
    assert (again.branch, again.parent, again.cutoff) == (3, 1, 7)
    assert (again.parent_first, again.previous_first) == (6, 8)


@pytest.mark.parametrize("cutoff", [-1, 1, 3])
def test_a_branch_is_cut_where_its_lineage_ends(cutoff: int) -> None:
    history = going()
    with pytest.raises(NotAllowed, match=f"cannot cut at event {cutoff}: the lineage"):
        decide.open_branch(history.state, history.state_at(2), history.branches.values(), BranchPlan(cutoff=cutoff))


def test_a_branch_withdraws_the_open_questions_it_cuts_off() -> None:
    ask = [e.InteractionRequested(interaction=name) for name in ("before", "after", "answered")]
    history = going(*ask, e.InteractionAnswered(interaction="answered", answer=Raw(b"1")))
    assert opened(history, 3).withdrawn == ("after",)


def test_a_branch_does_not_withdraw_a_question_that_was_withdrawn_before() -> None:
    history = going(e.InteractionRequested(interaction="q"), e.InteractionWithdrawn(interaction="q"))
    assert opened(history, 2).withdrawn == ()


def test_a_branch_does_not_withdraw_a_question_that_is_open_again_on_it() -> None:
    history = going(e.InteractionRequested(interaction="q"), e.InteractionWithdrawn(interaction="q"))
    event = opened(history, 3)
    history.write([event])
    assert history.state.waits.get("interaction:q") is not None
    assert event.withdrawn == ()


def test_a_branch_that_goes_back_to_a_dead_one_withdraws_what_only_the_living_one_asked() -> None:
    history = going(e.VersionChanged(version="2"))  # 1 to 3 on branch 0
    history.write([opened(history, 2), e.VersionChanged(version="3")])  # 4 and 5 on branch 1
    history.write([opened(history, 3), e.InteractionRequested(interaction="q")])  # 6 and 7 on branch 2
    history.write([opened(history, 7), e.VersionChanged(version="4")])  # 8 and 9 on branch 3, which sees the question
    history.write([opened(history, 5), e.VersionChanged(version="5")])  # 10 and 11 on branch 4, which does not
    history.write([opened(history, 9)])  # branch 5 sees it again
    event = opened(history, 11)
    history.write([event])
    assert history.state.interactions.get("q") is None
    assert event.withdrawn == ("q",)


@pytest.mark.parametrize("children", ["cancel", "keep"])
def test_a_branch_cancels_the_living_children_it_cuts_off_or_detaches_them(children: e.Children) -> None:
    started = [e.ChildStarted(child=name) for name in ("living", "ended")]
    history = going(*started, e.ChildEnded(child="ended"))
    event = opened(history, 2, children=children)
    history.write([event])
    assert (event.cancelled, event.detached) == ((("living",), ()) if children == "cancel" else ((), ("living",)))
    assert [wait.name for wait in history.state.loose.values()] == ["child:living"]
    assert history.state.to_cancel() == list(event.cancelled)
    history.write([e.ChildEnded(child="living")])
    assert list(history.state.loose.values()) == []
    assert history.state.to_cancel() == []


def test_a_recovery_cancels_no_child_that_the_run_waits_for() -> None:
    history = going(e.ChildStarted(child="c"))
    event = opened(history, 2, cause="recovery")
    assert (event.cancelled, event.detached) == ((), ())


@pytest.mark.parametrize("cause", ["jump", "recovery"])
def test_a_child_to_cancel_stays_so_on_later_branches_whatever_becomes_of_other_children(cause: e.BranchCause) -> None:
    history = going(e.ChildStarted(child="first"))
    history.write([opened(history, 2)])
    history.write([e.ChildStarted(child="second")])
    event = opened(history, 1, cause=cause, children="keep")
    assert (event.cancelled, event.detached) == (("first",), ("second",) if cause == "jump" else ())
    history.write([event])
    assert history.state.to_cancel() == ["first"]


def test_a_child_that_a_branch_kept_is_not_cancelled_by_a_later_one() -> None:
    history = going(e.ChildStarted(child="kept"))
    history.write([opened(history, 2, children="keep")])
    event = opened(history, 1)
    assert (event.cancelled, event.detached) == ((), ("kept",))


def test_a_request_to_go_back_says_what_becomes_of_the_children() -> None:
    for children in get_args(e.Children):
        turn = BranchPlan(cutoff=3, children=children)
        assert branch_plan.plan_of_request(branch_plan.request_of(turn, 1), 7).children == children


def test_a_branch_does_not_detach_a_child_it_still_waits_for() -> None:
    history = going(e.ChildStarted(child="c"), e.VersionChanged(version="2"))
    event = opened(history, 3)
    history.write([event])
    assert history.state.waits.get("child:c") is not None
    assert event.detached == ()


def test_a_detached_child_stays_known_when_the_branch_that_detached_it_is_cut_off_too() -> None:
    history = going(e.ChildStarted(child="c"))
    history.write([opened(history, 2)])
    history.write([opened(history, 1)])
    assert [wait.name for wait in history.state.loose.values()] == ["child:c"]
