"""The server behind nginx with its defaults (buffering, and compression as Debian configures it) and a path prefix."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import served

from support.server_process import ServerProcess, credential, free_port, server_process
from support.watchers import chunk

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
CONFIGURATION = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    gzip on;
    gzip_proxied any;
    gzip_types text/plain text/event-stream application/json;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    map $http_upgrade $connection_upgrade {{
        default upgrade;
        "" close;
    }}
    server {{
        listen 127.0.0.1:{port};
        location /flows/ {{
            proxy_pass http://127.0.0.1:{server}/;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
        }}
    }}
}}
"""
PATIENCE_S = 30

pytestmark = [pytest.mark.soak, pytest.mark.skipif(not os.access(NGINX, os.X_OK), reason="nginx is not installed")]


@contextmanager
def nginx(folder: Path, server: ServerProcess) -> Iterator[int]:
    port, configuration = free_port(), folder / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=port, server=server.port))
    process = subprocess.Popen([NGINX, "-c", str(configuration), "-p", str(folder)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/flows/healthz").raise_for_status()
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


async def event_of_type(reader: asyncio.StreamReader, kind: str) -> Any:
    rest = b""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            *frames, rest = (rest + await chunk(reader)).split(b"\n\n")
            for frame in frames:
                fields = dict(line.split(b": ", 1) for line in frame.split(b"\n"))
                if fields[b"event"] == b"event" and (data := json.loads(fields[b"data"]))["event"]["type"] == kind:
                    return data


async def live(port: int, token: str) -> None:
    """An event arrives at once, though the stream stays open and nginx buffers and compresses what it may."""
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}/flows/api/v1", headers={"Authorization": f"Bearer {token}"}
    ) as client:
        made = await client.post("/runs", json={"workflow": "served_asks", "id": "asks"})
        assert made.status_code == 201
        assert (await client.get("/runs")).headers["content-encoding"] == "gzip", "nginx compresses what it may"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /flows/api/v1/stream?run=asks HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert b" 200 " in head
        assert b"content-encoding: gzip" not in head
        await event_of_type(reader, "InteractionRequested")
        answered = time.monotonic()
        assert (await client.post("/runs/asks/approve")).status_code == 200
        await event_of_type(reader, "RunCompleted")
        assert time.monotonic() - answered < 3
        writer.close()


async def over_a_socket(port: int, token: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET /flows/api/v1/socket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {secrets.token_hex(8)}AAAAAA==\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    command = json.dumps({"subscribe": "asks"}).encode()
    writer.write(bytes([0x81, 0x80 | len(command), 0, 0, 0, 0]) + command)  # one text frame; the mask is zero
    kinds = set()
    async with asyncio.timeout(PATIENCE_S):
        while "backfill_complete" not in kinds:
            _, size = await reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await reader.readexactly(2))
            kinds.add(json.loads(await reader.readexactly(size))["kind"])
    assert "event" in kinds
    writer.close()


def test_api_streams_and_sockets_work_behind_nginx(tmp_path: Path) -> None:
    token = credential(tmp_path / "runs.db", "token", "admin")
    options = ("--root-path", "/flows", "--trust-proxy", "127.0.0.1", "--allow-host", "workflows.example")
    with (
        server_process(tmp_path, Path(served.__file__), *options, token=token) as server,
        nginx(tmp_path, server) as port,
    ):
        asyncio.run(live(port, token))
        asyncio.run(over_a_socket(port, token))
        base, headers = f"http://127.0.0.1:{port}/flows", {"Authorization": f"Bearer {token}"}
        document = httpx.get(f"{base}/api/v1/openapi.json").json()
        assert document["servers"] == [{"url": "/flows"}]
        whole = httpx.get(f"{base}/api/v1/runs/asks/output", headers=headers)
        part = httpx.get(f"{base}/api/v1/runs/asks/output", headers={**headers, "Range": "bytes=1-3"})
        assert (part.status_code, part.content) == (206, whole.content[1:4])
        wrong = httpx.get(f"{base}/api/v1/runs", headers={**headers, "Host": "evil.example"})
        assert wrong.status_code == 421
        entries = httpx.get(f"{base}/api/v1/audit", headers={**headers, "Host": "workflows.example"}).json()["entries"]
        assert {each["address"] for each in entries} == {"127.0.0.1"}
