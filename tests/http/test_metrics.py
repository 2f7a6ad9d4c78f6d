"""Metrics: what is counted, once, and without ids."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

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
        assert found["outlast_runs_held",] >= 1
        assert found["outlast_http_request_seconds_count", "GET", "/api/v1/runs/{run}", "200"] >= 3
        assert found["outlast_appends_total",] > 0
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
