"""A server process exports traces to a collector, and continues the trace of a caller."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path

import served

from support.collector import collector
from support.server_process import credential, server_process

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PATIENCE_S = 60


def test_a_server_sends_the_spans_of_its_runs_to_a_collector(tmp_path: Path) -> None:
    token = credential(tmp_path / "runs.db", "token", "operator")
    with collector() as collected:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collected.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with server_process(tmp_path, Path(served.__file__), token=token, environment=environment) as server:
            body = {"workflow": "served_rejected", "params": {"name": "swordfish"}, "id": "traced", "wait": 30}
            headers = {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token}",
                "traceparent": CALLER,
            }
            request = urllib.request.Request(f"{server.address}/api/v1/runs", json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                assert response.status == 201
            deadline = time.monotonic() + PATIENCE_S
            while len(collected.spans) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert server.end() == 0
        assert {span.name for span in collected.spans} == {"run served_rejected", "node refused"}
        assert {span.trace_id.hex() for span in collected.spans} == {CALLER.split("-")[1]}
        for secret in (b"swordfish", token.encode(), token.split("_", 2)[2].encode()):
            assert secret not in collected.raw
