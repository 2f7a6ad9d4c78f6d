"""The summary against the log (A1, A2, A3r, G2): the log counts, and nothing that was done is done again (P2, V10)."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus

BRANCH = ("BranchOpened", "RunRecovered")


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


def in_the_midst(ward: Any) -> RunId:
    return ward.do(ward.killed_in("pack", ward.flows.doctor_errand, "lamp"))


def asking(ward: Any) -> RunId:
    return ward.do(ward.left_after(ward.flows.doctor_asking, e.InteractionRequested))


def answered(ward: Any) -> RunId:
    return ward.do(ward.left_after(ward.flows.doctor_asking, e.GuestEventsRead))


def edited(make: Any, **changes: Any) -> Any:
    def made(ward: Any) -> RunId:
        run = make(ward)
        ward.summary(run, **changes)
        return run

    return made


def nearly_over(ward: Any) -> RunId:
    return ward.do(ward.left_after(ward.flows.doctor_errand, completed("ship")))


LAMP = "lamp fetched packed shipped"
SAID_WAITING = {"status": RunStatus.WAITING}
SAID_RUNNING = {"status": RunStatus.RUNNING, "waiting": 0, "waits": ()}
SAID_COMPLETED = {"status": RunStatus.COMPLETED}

STATES = {
    "A1: it says waiting, and no question is open": (
        edited(in_the_midst, **SAID_WAITING),
        "A1",
        ("NodeCompleted", "NodeStarted"),
        BRANCH,
        LAMP,
        ("pack", "ship"),
    ),
    "A1: it says waiting, and the question was answered": (
        edited(answered, **SAID_WAITING),
        "A1",
        ("InteractionAnswered", "GuestEventsRead"),
        BRANCH,
        "lamp fetched (True) packed",
        ("pack",),
    ),
    "A2: it says running, and a question is open": (
        edited(asking, **SAID_RUNNING),
        "A2",
        ("NodeCompleted", "InteractionRequested"),
        BRANCH,
        "lamp fetched (True) packed",
        ("pack",),
        True,
    ),
    "A3r: it says completed, and all nodes are": (
        edited(nearly_over, **SAID_COMPLETED),
        "A3r",
        ("NodeCompleted",),
        BRANCH,
        LAMP,
        (),
    ),
    "A3r: it says completed, in the midst of a node": (
        edited(in_the_midst, **SAID_COMPLETED),
        "A3r",
        ("NodeCompleted", "NodeStarted"),
        BRANCH,
        LAMP,
        ("pack", "ship"),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_summary_that_contradicts_the_log_of_its_own_version_costs_a_branch_and_no_completed_node(
    ward: Any, case: Any, name: str
) -> None:
    """P2, V10."""
    treated = case(*STATES[name])
    ward.treat(treated.make(ward), treated)


OVER = {
    "completed": (lambda ward: ward.do(ward.left_after(ward.flows.doctor_errand, e.RunCompleted)), LAMP),
    "failed": (lambda ward: ward.do(ward.left_after(ward.flows.doctor_hopeless, e.RunFailed)), ValueError),
    "cancelled": (
        lambda ward: ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), e.RunCancelled())),
        None,
    ),
    "paused": (
        lambda ward: ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), e.RunPaused())),
        None,
    ),
}


@pytest.mark.parametrize("said", [RunStatus.WAITING, RunStatus.COMPLETED, RunStatus.RUNNING, RunStatus.CANCELLED])
@pytest.mark.parametrize("name", OVER)
def test_a_summary_that_contradicts_the_end_of_a_run_is_written_again_and_the_run_is_not_set_going(
    ward: Any, name: str, said: RunStatus
) -> None:
    """V5, V10: what is over stays over, and what a person has stopped stays stopped."""
    run = OVER[name][0](ward)
    if said == name:
        said = RunStatus.WAITING
    version = ward.events(run)[-1].seq
    ward.summary(run, status=said)
    (found,) = [finding for finding in ward.diagnose(run) if finding.standing != "consistent"]
    assert (found.code, found.events) == ("G2", (version,))
    assert ward.recovery_plan(run) == []
    assert [finding.code for finding in ward.recover(run)] == ["G2"]
    assert ward.status(run) == name
    assert ward.events(run)[-1].seq == version
    assert ward.is_sound(run)
    assert ward.recover(run) == []


def test_a_question_beside_a_node_at_work_is_no_reason_to_cut_anything(ward: Any) -> None:
    """A1 is for logs without an open question."""
    scheduled = e.NodeScheduled(node="beside")
    run = ward.do(
        ward.left_after(ward.flows.doctor_asking, e.InteractionRequested, scheduled, e.NodeStarted(node="beside"))
    )
    ward.summary(run, status=RunStatus.WAITING)
    assert next(finding.code for finding in ward.diagnose(run)) == "G2"


@pytest.mark.parametrize(
    ("make", "old", "said", "like"),
    [
        (asking, 5, {"status": RunStatus.RUNNING, "waiting": 0, "waits": ()}, "A2"),
        (in_the_midst, 3, {"status": RunStatus.WAITING}, "A1"),
        (in_the_midst, 3, {"status": RunStatus.COMPLETED}, "A3r"),
    ],
    ids=["A2", "A1", "A3r"],
)
def test_a_stale_summary_is_written_again_and_names_what_it_resembles(
    ward: Any, make: Any, old: int, said: dict[str, Any], like: str
) -> None:
    """G2, V10: nothing is cut, so open questions keep their ids."""
    run = make(ward)
    events = ward.events(run)
    ward.summary(run, at=old, **said)
    (found, *_) = [finding for finding in ward.diagnose(run) if finding.standing != "consistent"]
    assert (found.code, found.events) == ("G2", (old, events[-1].seq))
    assert f"(similar to {like}, but the summary is only stale)" in found.sentence
    before = ward.dump()
    assert ward.recovery_plan(run) == []
    assert ward.dump() == before
    assert ward.recover(run)[0].code == "G2"
    assert not [entry for entry in ward.events(run) if isinstance(entry.event, e.BranchOpened | e.RunRecovered)]
    assert ward.is_sound(run)


def test_a_lost_summary_is_written_from_the_log(sqlite_ward: Any) -> None:
    """G2."""
    ward = sqlite_ward
    run = asking(ward)
    ward.sql("delete from catalogue")
    assert [finding.code for finding in ward.recover(run)] == ["G2"]
    assert ward.status(run) == "waiting"
    assert ward.is_sound(run)


def test_a_summary_of_the_right_status_that_says_something_else_is_written_again(ward: Any) -> None:
    """V10."""
    run = ward.do(ward.left_after(ward.flows.doctor_hopeless, e.RunFailed))
    ward.summary(run, reason="something else", recoverable=False)
    assert [finding.code for finding in ward.recover(run)] == ["G2"]
    assert ward.is_sound(run)
    assert ward.recover(run) == []
