"""How the runs of a workflow went: counts and percentiles that agree with the runs."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from outlast.history.ids import RunId
from outlast.http.api import workflows

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
    monkeypatch.setattr(workflows, "MAX_RUNS", 3)
    async with serve() as server:
        runs = [await server.start("served_double", wait=10, value=n) for n in range(5)]
        found = (await server("GET", "/workflows/served_double/statistics")).json()
        assert (found["runs"], found["is_complete"]) == (3, False)
        third = (await server("GET", f"/runs/{runs[2]}")).json()
        assert found["since"] == third["created"]


def _micros(text: str) -> int:
    from outlast.views.times import micros

    return micros(text) or 0


async def test_versions_are_compared_if_runs_are_of_them(serve: Serve) -> None:
    async with serve() as server:
        await server.start("served_double", wait=10, value=1)
        await server.start("served_echo", wait=10, value=1)
        (one,), (other,) = [
            (await server("GET", f"/workflows/{name}/versions")).json()["versions"]
            for name in ("served_double", "served_echo")
        ]
        of = "/versions/diff?old={}&new={}"
        same = await server("GET", of.format(one["version"], one["version"][:9]), role="viewer")
        assert same.json() == {"old": one["version"], "new": one["version"], "diff": ""}
        assert (
            "-async def served_double"
            in (await server("GET", of.format(one["version"], other["version"]))).json()["diff"]
        )
        (run,) = await server.engine.list_runs(workflow="served_double")
        today = await server("GET", f"/versions/diff?old={run.run}")
        assert today.json() == same.json()
        secret = await server.engine._store.blobs.put(b'{"source": "secret"}')
        for nobody in ("../secret", secret.hash, "%20", "0" * 64):
            refused = await server("GET", of.format(one["version"], nobody))
            assert (refused.status_code, refused.json()["code"]) == (404, "outlast.not_found"), nobody
        assert (await server("GET", f"/versions/diff?old={one['version']}")).status_code == 404
        engine, changed = server.engine, "async def served_double(value):\n    return 3\n"
        ref = await engine._store.blobs.put(json.dumps({"source": changed}).encode())
        created = await engine.diagnostics.created((await engine.list_runs(workflow="served_double"))[0].run)
        newer = msgspec.structs.replace(created, version=ref.hash, deferred=True)
        await engine._ledger.begin(RunId("newer"), engine._ledger.new_worker_id()).append([newer], release=True)
        found = (await server("GET", of.format(one["version"], ref.hash))).json()["diff"]
        assert "+    return 3" in found
        assert "-    return await double(value)" in found
