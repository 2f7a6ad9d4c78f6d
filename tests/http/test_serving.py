"""The server as a process: ready, killed, restarted, shut down; and mounted in another application."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import served
from starlette.applications import Starlette
from starlette.routing import Mount

import outlast as ol
from outlast.http.auth import Auth
from outlast.http.server import Options, Server, config_of, listen
from outlast.http.state import ServerState
from support import commands
from support.server_process import PATIENCE, ServerProcess, credential, server_process

FLOWS = Path(served.__file__)


def process(folder: Path, *options: str, **more: Any) -> AbstractContextManager[ServerProcess]:
    return server_process(folder, FLOWS, *options, **more)


def token_for(folder: Path) -> str:
    return credential(folder / "runs.db", "token", "admin")


@pytest.mark.parametrize("on_restart", ["resume", "hold"])
def test_what_a_killed_server_left_is_resumed_or_held(tmp_path: Path, on_restart: str) -> None:
    token, go = token_for(tmp_path), tmp_path / "go"
    with process(tmp_path, token=token) as first:
        slow = {"workflow": "served_slow", "params": {"path": str(go)}, "id": "slow"}
        assert first.get("/api/v1/runs", slow)[0] == 201
        assert first.get("/api/v1/runs", {"workflow": "served_asks", "id": "asks"})[0] == 201
        first.until("slow", "running")
        first.until("asks", "waiting")
        first.end(signal.SIGKILL)
    with process(tmp_path, "--on-restart", on_restart, token=token) as second:
        said = second.log.read_text()
        n, h = (1, 0) if on_restart == "resume" else (0, 1)
        assert f"Recovery complete: {n} resumed, {h} held, 1 questions restored." in said
        assert said.count("Recovery complete") == 1
        assert [each["run"] for each in second.get("/api/v1/inbox")[1]["questions"]] == ["asks"]
        if on_restart == "hold":
            held = second.until("slow", "failed")
            assert (held["held"], held["recoverable"]) == (True, True)
            assert held["reason"] == "Server restarted while workflow was running"
            assert second.get("/api/workflows/slow/resume", {})[0] == 200
        go.write_text("gone")
        assert second.until("slow", "completed")["result"] == "gone"
        assert second.get("/api/workflows/asks/approve", {})[0] == 200
        assert second.until("asks", "completed")["result"] == "yes"
        assert second.end() == 0


def test_every_acknowledged_start_is_there_once_after_a_kill(tmp_path: Path) -> None:
    token = token_for(tmp_path)
    acknowledged: dict[str, str] = {}
    with process(tmp_path, token=token) as first:
        deadline = time.monotonic() + 0.7
        for number in range(100_000):
            body = {"items": [{"workflow": "served_double", "params": {"value": number}, "key": f"key {number}"}]}
            item = first.get("/api/v1/runs/batch", body)[1]["items"][0]
            acknowledged[f"key {number}"] = item["started"]["run"]
            if time.monotonic() > deadline:
                break
        first.end(signal.SIGKILL)
    assert acknowledged
    with process(tmp_path, token=token) as second:
        for number, (key, run) in enumerate(acknowledged.items()):
            assert second.until(run, "completed")["result"] == 2 * number
            body = {"items": [{"workflow": "served_double", "params": {"value": number}, "key": key}]}
            assert second.get("/api/v1/runs/batch", body)[1]["items"][0]["started"]["run"] == run
        seen, cursor = [], ""
        while cursor is not None:
            page = second.get(f"/api/v1/runs?limit=1000&cursor={cursor}")[1]
            seen += [each["run"] for each in page["runs"]]
            cursor = page["next"]
        assert len(seen) == len(set(seen))
        assert set(acknowledged.values()) <= set(seen)
        assert len(seen) <= len(acknowledged) + 1  # the last may have begun and not have been acknowledged


def test_a_bulk_cancel_that_is_killed_half_way_continues_by_itself(tmp_path: Path) -> None:
    token, count = token_for(tmp_path), 300
    with process(tmp_path, token=token) as first:
        items = [{"workflow": "served_sleeps", "id": f"run-{number}"} for number in range(count)]
        first.get("/api/v1/runs/batch", {"items": items})
        first.until(f"run-{count - 1}", "waiting")
        body = {"action": "cancel", "filter": {"workflow": "served_sleeps"}, "reason": "recall"}
        status, confirmed = first.get("/api/v1/bulk", body)
        assert (status, confirmed["confirmed"]) == (201, count)
        bulk = f"/api/v1/bulk/{confirmed['run']}"
        while (found := first.get(bulk)[1])["done"] < 20:
            time.sleep(0.002)
        first.end(signal.SIGKILL)
        assert found["done"] < count, "it was killed too late to show anything"
    with process(tmp_path, token=token) as second:
        deadline = time.monotonic() + PATIENCE
        while (found := second.get(bulk)[1])["status"] != "completed":
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        assert (found["done"], found["skipped"], found["failed"]) == (count, 0, 0)
        for number in range(count):
            second.until(f"run-{number}", "cancelled")  # its worker may be about to obey
            events = second.get(f"/api/v1/runs/run-{number}/events")[1]["events"]
            asked = [each["fields"] for each in events if each["type"] == "CancelRequested"]
            assert [(each["by"].endswith(f"bulk {found['run']}"), each["force"]) for each in asked] == [(True, False)]
            # A run whose end was not delivered before the kill is taken over once more, to deliver it.
            assert [each["type"] for each in events if each["type"] != "RunTakenOver"][-1] == "RunCancelled"


def test_a_server_that_shuts_down_hands_its_runs_over(tmp_path: Path) -> None:
    token = token_for(tmp_path)
    with process(tmp_path, "--grace", str(10 * PATIENCE), token=token) as first:
        first.get("/api/v1/runs", {"workflow": "served_asks", "id": "asks"})
        first.until("asks", "waiting")
        assert first.end() == 0, "no node runs for which it would have to wait"
        assert "Traceback" not in first.log.read_text()
    with process(tmp_path, "--no-worker", token=token) as second:
        assert second.get("/api/workflows/asks/approve", {})[0] == 200
        time.sleep(0.2)
        assert second.get("/api/v1/runs/asks")[1]["status"] != "completed", "it advances no runs"
    with process(tmp_path, token=token) as third:
        third.until("asks", "completed")


def test_the_first_start_prints_no_sign_in_link_into_a_log(tmp_path: Path) -> None:
    with process(tmp_path, token="none") as server:
        assert server.get("/api/v1/runs")[0] == 401
        deadline = time.monotonic() + PATIENCE
        while "outlast token" not in (said := server.log.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert "oli_" not in said


def test_insecure_local_is_for_loopback(tmp_path: Path) -> None:
    refused = commands.run(
        [sys.executable, "-m", "outlast", "serve", str(FLOWS), "--insecure-local", "--host", "0.0.0.0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert refused.returncode == 2
    assert "loopback" in refused.stderr


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = commands.run(
            [sys.executable, "-m", "outlast", "serve", str(FLOWS), "--port", str(port)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in refused.stderr


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_development_server_starts_again_when_a_module_changes(tmp_path: Path, end: signal.Signals) -> None:
    flows = tmp_path / "mine.py"
    text = "import outlast as ol\n\n@ol.workflow\nasync def says() -> str:\n    return 'before'\n"
    flows.write_text(text)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = [sys.executable, "-m", "outlast", "dev", "mine.py", "--port", str(port)]
    environment = {**os.environ, "OUTLAST_STORE": str(tmp_path / "runs.db")}
    log = (tmp_path / "log").open("wb")
    dev = subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=log)

    def result() -> Any:
        body = json.dumps({"workflow": "says", "wait": 10}).encode()
        headers = {"Content-Type": "application/json"}
        with suppress(OSError):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/runs", body, headers)
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return json.loads(response.read())["result"]
        return None

    def until(wanted: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while result() != wanted:
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            assert dev.poll() is None
            time.sleep(0.05)

    try:
        until("before")
        flows.write_text(text.replace("before", "after"))
        until("after")
        dev.send_signal(end)
        assert dev.wait(PATIENCE) == (0 if end is signal.SIGTERM else -end)
        deadline = time.monotonic() + PATIENCE
        while result() is not None:  # the server ends with its supervisor, however that ends
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        if dev.poll() is None:
            dev.kill()
        log.close()


def test_tokens_are_created_listed_and_revoked_on_the_command_line(tmp_path: Path) -> None:
    def outlast(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OUTLAST_STORE": str(tmp_path / "runs.db")}
        command = [sys.executable, "-m", "outlast", "token", *words]
        return commands.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)

    secret = outlast("create", "deploy", "--role", "operator", "--expires", "30").stdout.strip()
    assert secret.startswith("olt_")
    listed = json.loads(outlast("list", "-o", "json").stdout)["tokens"]
    assert [(each["name"], each["role"], each["used"]) for each in listed] == [("deploy", "operator", None)]
    assert secret.rpartition("_")[2] not in outlast("list").stdout
    assert outlast("revoke", listed[0]["id"]).returncode == 0
    assert outlast("revoke", listed[0]["id"]).returncode == 2
    assert json.loads(outlast("list", "-o", "json").stdout)["tokens"] == []
    assert outlast("create", "x", "--role", "god").returncode == 2
    assert "/sign-in#oli_" in outlast("link", "--url", "https://outlast.example").stdout


def test_an_idle_server_is_small(tmp_path: Path) -> None:
    token = token_for(tmp_path)
    with process(tmp_path, token=token, is_cold=True) as server:
        server.get("/api/v1/runs")
        if not Path("/proc").exists():
            pytest.skip("no /proc here")
        assert server.resident < 80 * 2**20


# --- in this process


@asynccontextmanager
async def listening(folder: Path, **options: Any) -> Any:
    async with ol.open(folder / "runs.db") as engine:
        app = ol.asgi(engine, insecure_local=True)
        async with app.lifespan():
            server = Server(config_of(app, Options(port=0, **options)), app.state)
            task = asyncio.create_task(server._serve([listen("127.0.0.1", 0)]))
            await server.listening.wait()
            yield server, app.state
            server.should_exit = True
            await task


async def test_a_request_that_does_not_arrive_is_closed(tmp_path: Path) -> None:
    async with listening(tmp_path, request_deadline=0.3) as (server, _):
        for begin in (
            b"",
            b"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nX-A: ",
            b"POST /api/v1/runs HTTP/1.1\r\n"
            b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        ):
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(begin)
            async with asyncio.timeout(5):
                assert await reader.read() == b"", "closed without an answer"
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.address[1]}") as client:
            for _ in range(3):  # also on a connection that was kept
                assert (await client.get("/api/v1/runs")).status_code == 200
                await asyncio.sleep(0.2)


async def test_no_answer_waits_for_an_acknowledgement(tmp_path: Path) -> None:
    async with listening(tmp_path) as (server, _):
        _, writer = await asyncio.open_connection(*server.address)
        while not server.server_state.connections:
            await asyncio.sleep(0.005)
        (connection,) = server.server_state.connections
        sent_by = connection.transport.get_extra_info("socket")
        assert sent_by.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()


async def test_two_lengths_in_one_request_are_refused(tmp_path: Path) -> None:
    async with listening(tmp_path) as (server, _):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(
            b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        assert b" 400 " in await reader.readline()
        writer.close()


async def test_a_server_that_drains_refuses_new_requests(tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        app = ol.asgi(engine, insecure_local=True)
        async with (
            app.lifespan(),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
        ):
            woken = []
            app.state.wakers.add(lambda: woken.append(True))
            app.state.drain()
            refused = await client.get("/api/v1/runs")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            assert (await client.get("/readyz")).json() == {"status": "draining"}
            assert (await client.get("/healthz")).status_code == 200
            assert woken == [True]


async def test_a_server_without_its_store_is_alive_and_not_ready() -> None:
    state = ServerState(Auth())
    from outlast.http.app import build

    app = build(state)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        refused = await client.get("/api/v1/runs", headers={"Authorization": "Bearer olt_0000000000000000_" + "A" * 43})
        assert (refused.status_code, refused.json()["code"]) == (503, "http.unavailable")
        assert refused.headers["retry-after"]


async def test_it_is_mounted_in_another_application(tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        inner = ol.asgi(engine, insecure_local=True)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> Any:
            async with inner.lifespan():
                yield

        outer = Starlette(routes=[Mount("/outlast", inner)], lifespan=lifespan)
        async with (
            lifespan(outer),
            httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://localhost") as client,
        ):
            body = {"workflow": "served_double", "params": {"value": 3}, "wait": 10}
            assert (await client.post("/outlast/api/v1/runs", json=body)).json()["result"] == 6
            document = (await client.get("/outlast/api/v1/openapi.json")).json()
            assert document["servers"] == [{"url": "/outlast"}]
            assert (await client.get("/outlast/readyz")).status_code == 200
            assert inner.state.is_ready
        assert not inner.state.is_ready


def test_importing_outlast_imports_no_server() -> None:
    code = "import sys, outlast; print([name for name in sys.modules if 'starlette' in name or 'uvicorn' in name])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert found.stdout.strip() == "[]"
