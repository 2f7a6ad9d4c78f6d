"""Times as people type and read them."""

from __future__ import annotations

from datetime import datetime

import pytest

from outlast.views.times import iso, parse_time, span

NOW = 1_793_600_000_000_000
SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("7d", 604_800), ("1w", 604_800)]
)
def test_how_long_ago(text: str, seconds: int) -> None:
    assert parse_time(text, NOW) == NOW - seconds * SECOND


def test_a_moment_with_and_without_a_zone() -> None:
    assert parse_time("2026-11-01T09:00:00Z", NOW) == 1_793_523_600 * SECOND
    assert parse_time("2026-11-01T10:00+01:00", NOW) == 1_793_523_600 * SECOND
    assert parse_time("2026-11-01", NOW) == round(datetime(2026, 11, 1).timestamp()) * SECOND


def test_longer_ago_than_time_has_lasted_is_its_beginning() -> None:
    assert parse_time("999999999w", NOW) == 0


def test_what_programs_read_is_what_they_may_type() -> None:
    assert iso(NOW + 5) == "2026-11-02T06:13:20.000005Z"
    assert parse_time(iso(NOW + 5) or "", 0) == NOW + 5
    assert iso(None) is None
    assert iso(1 << 62) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (172_799, "47h"), (172_800, "2d")],
)
def test_a_length_of_time_has_one_unit(seconds: int, words: str) -> None:
    assert span(seconds * SECOND) == words
