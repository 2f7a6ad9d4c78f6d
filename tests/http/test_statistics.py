"""How the runs of a workflow went: counts and percentiles that agree with the runs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from outlast.http import statistics

Serve = Any


async def test_counts_and_percentiles_are_those_of_the_runs(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVED_FLAKY", "ill")
    async with serve() as server:
        began = int(time.time() * 1e6)
        runs = [await server.start("served_double", wait=10, value=n) for n in range(5)]
        await server.start("served_fails", wait=10, name="a")
        found = (await server("GET", "/workflows/served_double/statistics", role="viewer")).json()
        assert (found["runs"], found["completed"], found["failed"], found["is_complete"]) == (5, 5, 0, True)
        took = []
        for run in runs:
            view = (await server("GET", f"/runs/{run}")).json()
            took.append(_micros(view["updated"]) - _micros(view["created"]))
        assert found["duration_ms"]["longest"] == pytest.approx(max(took) / 1000)
        assert found["duration_ms"]["p50"] == pytest.approx(sorted(took)[2] / 1000)
        assert sum(each["completed"] for each in found["buckets"]) == 5
        assert found["buckets"][-1]["completed"] == 5, "they are new"
        failed = (await server("GET", f"/workflows/served_fails/statistics?since={began}&buckets=3")).json()
        assert (failed["failed"], failed["duration_ms"], len(failed["buckets"])) == (1, None, 3)
        none = (await server("GET", f"/workflows/served_double/statistics?until={began}")).json()
        assert none["runs"] == 0


async def test_the_number_of_runs_that_are_read_is_bounded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MAX_RUNS", 3)
    async with serve() as server:
        runs = [await server.start("served_double", wait=10, value=n) for n in range(5)]
        found = (await server("GET", "/workflows/served_double/statistics")).json()
        assert (found["runs"], found["is_complete"]) == (3, False)
        third = (await server("GET", f"/runs/{runs[2]}")).json()
        assert found["since"] == third["created"]


def _micros(text: str) -> int:
    from outlast.views.times import micros

    return micros(text) or 0
