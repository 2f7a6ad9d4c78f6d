"""A server is killed under load, and its store goes away: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import served

import outlast as ol
from outlast.history import events as e
from support.server_process import ServerProcess, credential, server_process
from support.servers.postgres import PostgresServer, postgres_server

FLOWS = Path(served.__file__)
PATIENCE_S = 120


def client_of(server: ServerProcess) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}/api/v1", headers=headers, timeout=PATIENCE_S)


class Acknowledged:
    """What a server has acknowledged: runs by the key of their start, and the runs that were answered, cancelled and
    created without being started."""

    def __init__(self) -> None:
        self.started: dict[str, str] = {}
        self.answered: set[str] = set()
        self.cancelled: set[str] = set()
        self.deferred: set[str] = set()
        self.began: set[str] = set()


async def load(server: ServerProcess, name: str, done: Acknowledged) -> None:
    """One client after another call, until the server is gone."""
    async with client_of(server) as client:

        async def call(path: str, **body: Any) -> Any:
            key = {"Idempotency-Key": body.pop("key")} if "key" in body else {}
            response = await client.post(path, json=body, headers=key)
            return response.json() if response.is_success else None

        with suppress(httpx.HTTPError):
            for number in range(100_000):
                key, is_deferred = f"{name}-{number}", number % 3 == 2
                made = await call("/runs", workflow="served_asks", key=key, start=not is_deferred)
                if made is None:
                    continue
                run = done.started[key] = made["run"]
                if is_deferred:
                    done.deferred.add(run)
                    if number % 2 and await call(f"/runs/{run}/start"):
                        done.began.add(run)
                elif number % 3:
                    if await call(f"/runs/{run}/cancel", reason=key):
                        done.cancelled.add(run)
                else:
                    while not (await client.get(f"/runs/{run}")).json()["waits"]:
                        await asyncio.sleep(0.01)
                    if await call(f"/runs/{run}/answer", value=True):
                        done.answered.add(run)


async def killed_under_load(server: ServerProcess, each: int) -> Acknowledged:
    """Kill the server when it has acknowledged that many calls of each kind."""
    done = Acknowledged()
    loads = [asyncio.create_task(load(server, f"client {number}", done)) for number in range(8)]
    async with asyncio.timeout(PATIENCE_S):
        while min(map(len, (done.answered, done.cancelled, done.began))) < each:
            await asyncio.sleep(0.01)
    server.process.send_signal(signal.SIGKILL)
    await asyncio.wait_for(asyncio.gather(*loads), PATIENCE_S)
    return done


async def must_all_be_there(store: str, server: ServerProcess, done: Acknowledged) -> None:
    async with client_of(server) as client:
        for key, run in done.started.items():
            body = {"workflow": "served_asks", "start": run not in done.deferred}
            again = await client.post("/runs", json=body, headers={"Idempotency-Key": key})
            assert (again.status_code, again.json()["run"]) == (200, run)
        async with asyncio.timeout(PATIENCE_S):
            for run, status in [(run, "completed") for run in done.answered] + [
                (run, "cancelled") for run in done.cancelled
            ]:
                while (await client.get(f"/runs/{run}")).json()["status"] != status:
                    await asyncio.sleep(0.02)
    async with ol.open(store, worker=False) as engine:
        listed = [summary async for summary in engine.iter_runs()]
        runs = [summary.run for summary in listed]
        assert len(set(runs)) == len(runs)
        assert set(done.started.values()) <= set(runs)
        for run in runs:
            events = [entry.event async for entry in engine.events(run, everything=True)]
            count = {kind: sum(isinstance(event, kind) for event in events) for kind in (e.RunCreated, e.RunStarted)}
            answers = sum(isinstance(event, e.InteractionAnswered) for event in events)
            assert count[e.RunCreated] == 1
            assert count[e.RunStarted] <= 1
            assert answers <= 1
            assert answers == 1 or run not in done.answered
            assert count[e.RunStarted] == 1 or run not in done.began
            assert (await engine.verify(run)).is_sound
        waiting = {summary.run for summary in listed if summary.awaits_start}
        assert waiting <= done.deferred | (set(runs) - set(done.started.values()))
        assert len(done.deferred - done.began - waiting) <= 8, (
            "only the last start of each client may be unacknowledged"
        )


@pytest.mark.parametrize("each", [5, pytest.param(300, marks=pytest.mark.soak)])
def test_everything_that_was_acknowledged_before_a_kill_is_there_once(tmp_path: Path, each: int) -> None:
    token = credential(tmp_path / "runs.db", "token", "admin")
    with server_process(tmp_path, FLOWS, token=token) as first:
        done = asyncio.run(killed_under_load(first, each))
    with server_process(tmp_path, FLOWS, token=token) as second:
        asyncio.run(must_all_be_there(str(tmp_path / "runs.db"), second, done))
    calls = sum(map(len, (done.started, done.answered, done.cancelled, done.began)))
    print(f"\n{calls} acknowledged calls of 8 clients, all there after the kill")


@pytest.fixture
def postgres_of_its_own() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


def test_a_store_that_is_away_for_seconds_stops_no_server(tmp_path: Path, postgres_of_its_own: PostgresServer) -> None:
    """It says that it is not ready, and goes on by itself: runs, requests and streams."""
    url = postgres_of_its_own.url
    token = credential(url, "token", "admin")
    with server_process(tmp_path, FLOWS, token=token, store=url) as server:
        server.get("/api/v1/runs", {"workflow": "served_asks", "id": "asks"})
        server.until("asks", "waiting")
        server.get("/api/v1/runs", {"workflow": "served_counts", "params": {"nodes": 60}, "id": "counts"})
        postgres_of_its_own.stop(immediately=True)
        deadline = time.monotonic() + PATIENCE_S
        while server.get("/readyz") != (503, {"status": "store unavailable"}):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.get("/healthz")[0] == 200
        code, problem = server.get("/api/v1/runs/asks")
        assert (code, problem["code"].startswith("outlast.store")) == (503, True), problem
        time.sleep(3)
        assert server.process.poll() is None
        postgres_of_its_own.start()
        server.until_ready()
        assert server.get("/api/workflows/asks/approve", {})[0] == 200
        assert server.until("asks", "completed")["result"] == "yes"
        assert server.until("counts", "completed")["result"] == sum(range(60))
        body = {"workflow": "served_double", "params": {"value": 2}, "wait": 30}
        assert server.get("/api/v1/runs", body)[1]["result"] == 4
        assert server.end() == 0
        assert "Traceback" not in server.log.read_text()
