"""Outlast's pytest fixtures, found by entry point. The import is cheap: a fixture imports the engine when it is used.

def test_my_flow(survives_crashes):
    survives_crashes(my_flow, url="…", answers={"Publish?": True})

def test_old_runs_still_replay(replay_check):
    replay_check("tests/histories/*.jsonl")

def test_a_month_takes_no_time(outlast_engine):
    assert outlast_engine.start(my_flow, url="…").result() == "…"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from outlast.client import BlockingEngine

SURVIVED = "outlast_crash_points"
"""The property of a test report with the number of crash points survived."""


@pytest.fixture
def survives_crashes(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Kill a workflow at every store call and require the same result: see `outlast.testing.survives_crashes`."""

    def check(*args: Any, **kwargs: Any) -> Any:
        from outlast.testing.crash_test import DidNotSurvive, survives_crashes

        try:
            survival = survives_crashes(*args, **kwargs)
        except DidNotSurvive as difference:
            told = str(difference)
        else:
            request.node.user_properties.append((SURVIVED, survival.points))
            print(survival)
            return survival
        pytest.fail(told, pytrace=False)

    return check


@pytest.fixture
def replay_check() -> Callable[..., Any]:
    """Replay recorded runs with the current code: see `outlast.testing.replay_check`."""

    def check(*args: Any, **kwargs: Any) -> Any:
        from outlast.testing.recorded_replay import DoesNotReplay, replay_check

        try:
            return replay_check(*args, **kwargs)
        except DoesNotReplay as difference:
            told = str(difference)
        pytest.fail(told, pytrace=False)

    return check


@pytest.fixture
def outlast_engine() -> Iterator[BlockingEngine]:
    """An engine on a store in memory, whose sleeps take no time: see `outlast.testing.engine`."""
    from outlast.testing.instant_engine import engine

    with engine() as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many crash points were survived, if any test checked that."""
    told = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in getattr(report, "user_properties", ())
        if name == SURVIVED
    ]
    if told:
        tests = "1 test" if len(told) == 1 else f"{len(told)} tests"
        terminalreporter.write_line(f"outlast: {sum(told)} crash points survived in {tests}")
