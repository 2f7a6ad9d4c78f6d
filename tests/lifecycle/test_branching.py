"""The branches of a run are told with where they parted, why, and how each one ended."""

from __future__ import annotations

from outlast.history import events as e
from outlast.history.record import entries
from outlast.lifecycle.branching import BranchSummary, branches_in
from outlast.lifecycle.status import RunStatus
from support.histories import History

WORK: list[e.AnyEvent] = [e.NodeScheduled(node="a"), e.NodeStarted(node="a"), e.NodeCompleted(node="a")]


def told(history: History) -> list[BranchSummary]:
    return branches_in(entry for record in history.records for entry in entries(record))


def history() -> History:
    made = History()
    made.write([e.RunCreated(workflow="w"), e.RunStarted()], epoch=1)
    made.write([*WORK, e.RunCompleted()])
    return made


def test_a_run_that_never_went_back_has_one_branch() -> None:
    (only,) = told(history())
    assert (only.branch, only.parent, only.first, only.last, only.events, only.nodes) == (0, None, 1, 6, 6, 1)
    assert (only.status, only.is_current) == (RunStatus.COMPLETED, True)


def test_a_branch_knows_its_parent_its_cutoff_and_its_reason() -> None:
    made = history()
    made.write(made.cut(2, by="cleo", reason="too dry"))
    first, second = told(made)
    assert (first.status, first.is_current) == (RunStatus.COMPLETED, False)
    assert (second.parent, second.cutoff, second.cause, second.by, second.reason) == (0, 2, "jump", "cleo", "too dry")
    assert (second.first, second.last, second.status, second.is_current) == (7, 7, RunStatus.RUNNING, True)


def test_a_branch_stands_as_its_parent_stood_where_it_was_cut() -> None:
    made = history()
    made.write(made.cut(6))
    made.write(made.cut(1))
    assert [each.status for each in told(made)] == [RunStatus.COMPLETED, RunStatus.COMPLETED, RunStatus.CREATED]


def test_a_branch_of_a_branch_stands_as_their_common_parent_did() -> None:
    made = history()
    made.write(made.cut(2))
    made.write(WORK)
    made.write(made.cut(8))
    assert [(each.parent, each.cutoff, each.status) for each in told(made)][1:] == [
        (0, 2, RunStatus.RUNNING),
        (1, 8, RunStatus.RUNNING),
    ]


def test_a_hold_is_told() -> None:
    made = History()
    made.write([e.RunCreated(workflow="w"), e.RunStarted(), e.RunFailed(error=e.Failure("E"), held=True)], epoch=1)
    (only,) = told(made)
    assert (only.status, only.is_held) == (RunStatus.FAILED, True)


def test_a_run_that_goes_on_while_it_undoes_is_told_to_compensate_as_the_fold_says() -> None:
    """P5: paused in the midst of compensation and resumed, it is not running again."""
    made = History()
    made.write([e.RunCreated(workflow="w"), e.RunStarted(), *WORK], epoch=1)
    made.write([e.CompensationStarted(node="a"), e.RunPaused(), e.RunStarted(resumed=True)])
    (only,) = told(made)
    assert only.status is made.state.outline.base is RunStatus.COMPENSATING
    made.write(made.cut(5))
    made.write([e.RunPaused(), e.RunStarted(resumed=True)])
    assert [each.status for each in told(made)] == [RunStatus.COMPENSATING, RunStatus.RUNNING]
