"""How often, how soon and after which errors a node is tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from outlast.definition.retry import NEVER, Retry
from outlast.errors import InvalidInput
from outlast.history.events import Failure

SOON = Failure("Timeout", category="timeout")
STEADY = Retry(max_attempts=10, delay=1.0, backoff=2.0, max_delay=300.0, jitter=0.0)


def test_delays_grow_by_the_factor_up_to_the_longest() -> None:
    waits = [STEADY.wait_us(SOON, failed, 0.5) for failed in range(1, 10)]
    assert waits == [each * 1_000_000 for each in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    assert Retry(max_attempts=20, jitter=0.0).wait_us(SOON, 15, 0.5) == 300_000_000


def test_attempts_count_the_first_one() -> None:
    retry = Retry(max_attempts=3, jitter=0.0)
    assert [retry.wait_us(SOON, failed, 0.5) is None for failed in (1, 2, 3, 4)] == [False, False, True, True]


def test_without_a_limit_there_is_always_another_attempt() -> None:
    assert Retry(max_attempts=None, jitter=0.0).wait_us(SOON, 1_000_000, 0.5) == 300_000_000


def test_classes_of_errors_are_kept_as_tuples() -> None:
    assert Retry(retry_on=OSError, give_up_on=[KeyError, ValueError]).classes == ((OSError,), (KeyError, ValueError))  # type: ignore[arg-type]


def test_delays_may_be_timedeltas() -> None:
    assert Retry(delay=timedelta(minutes=1), max_delay=timedelta(hours=1)) == Retry(delay=60.0, max_delay=3600.0)
    for odd in ("1", None, True):
        with pytest.raises(InvalidInput, match="delay must be a number of seconds or a timedelta"):
            Retry(delay=odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="negative"):
        Retry(delay=timedelta(seconds=-1))


@pytest.mark.parametrize("category", ["transient", "timeout"])
def test_what_another_attempt_may_cure_is_tried_again(category: str) -> None:
    assert STEADY.wait_us(Failure("E", category=category), 1, 0.5) == 1_000_000  # type: ignore[arg-type]


@pytest.mark.parametrize("category", ["permanent", "cancelled", "crash", "rejected"])
def test_what_no_attempt_cures_is_not(category: str) -> None:
    assert STEADY.wait_us(Failure("E", category=category), 1, 0.5) is None  # type: ignore[arg-type]


def test_by_default_nothing_is_tried_again() -> None:
    assert NEVER.wait_us(SOON, 1, 0.5) is None


def test_chance_spreads_the_delay_evenly_around_its_middle() -> None:
    retry = Retry(max_attempts=2, delay=10.0, jitter=0.1)
    assert [retry.wait_us(SOON, 1, chance) for chance in (0.0, 0.5, 1.0)] == [9_000_000, 10_000_000, 11_000_000]


def test_no_delay_means_at_once() -> None:
    assert Retry(max_attempts=2, delay=0.0).wait_us(SOON, 1, 1.0) == 0


def test_a_node_that_is_tried_for_ever_waits_the_longest_delay_for_ever() -> None:
    assert Retry(max_attempts=1_000_000, jitter=0.0).wait_us(SOON, 5_000, 0.5) == 300_000_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"delay": -0.1},
        {"backoff": 0.9},
        {"max_delay": -1.0},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"delay": float("nan")},
        {"backoff": float("nan")},
        {"max_delay": float("nan")},
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_meant_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        Retry(**wrong)  # type: ignore[arg-type]
