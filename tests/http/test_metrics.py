"""Metrics: what is counted, once, and without ids."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from outlast.errors import NODE_INTERRUPTED
from outlast.history import events as e
from outlast.http import metrics

Serve = Any


async def scraped(server: Any) -> dict[tuple[str, ...], float]:
    await server.state.metrics.refresh()
    response = await server.client.get("/metrics", headers={"Authorization": f"Bearer {server.tokens['viewer']}"})
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


async def test_runs_are_counted_by_status_start_and_end(serve: Serve) -> None:
    async with serve() as server:
        await server.start("served_double", value=1, wait=10)
        run = await server.start("served_rejected", name="a secret text", wait=10)
        asks = await server.start("served_asks")
        await server.until(asks, "waiting")
        for _ in range(3):
            await server("GET", f"/runs/{run}")
        found = await scraped(server)
        assert found["outlast_starts_total", "served_double"] == 1
        assert found["outlast_ended_total", "completed", "served_double"] == 1
        assert found["outlast_ended_total", "failed", "served_rejected"] == 1
        assert found["outlast_failures_total", "outlast.rejected", "served_rejected"] == 1
        assert found["outlast_store_unfinished_runs", "waiting"] == 1
        assert found["outlast_store_open_questions",] == 1
        assert found["outlast_worker_runs",] >= 1
        assert found["outlast_http_request_seconds_count", "GET", "/api/v1/runs/{run}", "200"] >= 3
        assert found["outlast_appends_total",] > 0
        assert found["outlast_attempt_seconds_count", "completed"] == 1
        assert found["outlast_attempt_seconds_count", "failed"] == 1
        assert found["outlast_attempt_failures_total", "outlast.rejected"] == 1
        assert found["outlast_queue_seconds_count",] == 3
        assert found["outlast_store_append_seconds_count",] > 0
        assert found["outlast_ready",] == 1
        assert found["process_resident_memory_bytes",] > 0
        assert (await scraped(server))["outlast_ended_total", "completed", "served_double"] == 1, "each end once"
        labels = " ".join(label for key in found for label in key[1:])
        for secret in (run, asks, "secret text", *server.tokens.values()):
            assert secret not in labels


async def test_a_run_that_another_server_advanced_is_counted_there(serve: Serve, tmp_path: Any) -> None:
    async with serve() as one, serve(worker=False) as other:
        await one.start("served_double", value=1, wait=10)
        assert (await scraped(one))["outlast_ended_total", "completed", "served_double"] == 1
        assert ("outlast_ended_total", "completed", "served_double") not in await scraped(other)


async def test_takeovers_holds_repairs_and_waits_for_a_worker_are_counted(serve: Serve, tmp_path: Any) -> None:
    async with serve(worker=False) as idle:
        run = await idle.start("served_double", value=1)
        await asyncio.sleep(0.2)
        ledger = idle.engine._ledger
        claim, *_ = await idle.engine._store.claim(await idle.engine._control._claims.own_worker(), runs=[run])
        writer = await ledger.take_over(claim)
        await writer.append([e.RunStarted(), e.NodeScheduled(node="n")])
        await writer.append([e.RunRecovered(code="C1", reason="so", previous_branch=0, new_branch=0)])
        await writer.append([e.RunFailed(error=e.Failure(NODE_INTERRUPTED, "so"), held=True)])
        found = await scraped(idle)
        assert found["outlast_takeovers_total", "claimed"] == 1
        assert found["outlast_queue_seconds_sum",] >= 0.2
        assert found["outlast_holds_total", NODE_INTERRUPTED] == 1
        assert found["outlast_recoveries_total", "C1"] == 1
        assert ("outlast_ended_total", "failed", "served_double") not in found


async def test_classes_of_errors_are_bounded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_CLASSES", 1)
    async with serve() as server:
        await server.start("served_rejected", name="x", wait=10)
        await server.start("served_fails", name="x", wait=10)
        found = await scraped(server)
        assert found["outlast_attempt_failures_total", "outlast.rejected"] == 1
        assert found["outlast_attempt_failures_total", "other"] == 1
