"""The server: one process of `outlast serve` beside the same web framework with an empty handler, and lists of many runs.

`measure` counts requests of 16 connections that each wait for one answer after the other, as many seconds for each kind of
request. `lists` fills a store with `--nodes` runs and reads pages of them over HTTP: the newest first and those of one
status, from the beginning and from the middle, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measures import ROOT, quantile
from benchmarks.program import Found, Stage, kill, play

FLOWS = """
import outlast as ol

@ol.workflow
async def nothing() -> None:
    pass

@ol.workflow
async def asks() -> bool:
    return await ol.approve("Go on?")

@ol.node
async def trivial(number: int) -> int:
    return number

@ol.workflow
async def long(nodes: int) -> None:
    for number in range(nodes):
        await trivial(number)
"""
EMPTY = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def answer(request):
    await request.body()
    return Response(b"{}", media_type="application/json")

app = Starlette(routes=[Route("/api/v1/runs", answer, methods=["GET", "POST"])])
uvicorn.run(app, port=int(sys.argv[1]), http="httptools", loop="asyncio", access_log=False, log_level="error")
"""
CONNECTIONS = 16
SECONDS = 4.0
ANSWERS = 500
NODES, STREAMS = 1_000, 8
"""Nodes of the run that streams read from its beginning, and how many do so at once."""
PAGES = 40
PATIENCE_S = 60
Body = Callable[[], bytes]


def measure(stage: Stage) -> Found:
    (stage.place / "flows.py").write_text(FLOWS)
    (stage.place / "empty.py").write_text(EMPTY)
    with serving(stage.place, [sys.executable, "empty.py"], "/api/v1/runs") as (port, _):
        empty = asyncio.run(rate(port, "POST", "/api/v1/runs", lambda: b'{"workflow":"nothing"}'))
    store = stage.place / "runs.db"
    command = [sys.executable, "-m", "outlast", "serve", "flows.py", "--insecure-local", "--quiet", "--port"]
    with serving(stage.place, command, "/readyz", OUTLAST_STORE=str(store)) as (port, process):
        time.sleep(1)
        idle = resident_mb(process)
        starts = asyncio.run(rate(port, "POST", "/api/v1/runs", lambda: b'{"workflow":"nothing"}'))
        answers = asyncio.run(answered(port))
        events = asyncio.run(streamed(port))
    return {
        "empty_per_s": empty,
        "starts_per_s": starts,
        "answers_per_s": answers,
        "events_per_s": events,
        "starts_ratio": starts / empty,
        "answers_ratio": answers / empty,
        "events_ratio": events / empty,
        "idle_mb": idle,
    }


@contextmanager
def serving(
    place: Path, command: list[str], ready: str, **environment: str
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server on a port of its own, which is the last word of the command."""
    from support.server_process import free_port

    port = free_port()
    process = subprocess.Popen(
        [*command, str(port)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}", **environment},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5).close()
                break
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"the server did not come up: {' '.join(command)}")
            time.sleep(0.05)
        yield port, process
    finally:
        kill(process)  # type: ignore[arg-type]


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1000


class Connection:
    """One connection that is kept, with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if not head.startswith(b"http/1.1 2"):
            raise RuntimeError(f"{method} {path}: {head.splitlines()[0].decode()} {answer[:300].decode()}")
        return answer

    async def messages(self, path: str) -> AsyncIterator[bytes]:
        """The chunks of a stream."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await self._reader.readuntil(b"\r\n\r\n")
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


async def rate(port: int, method: str, path: str, body: Body) -> float:
    """Answers a second, of all connections."""
    done = 0
    stop = time.perf_counter() + SECONDS

    async def one() -> None:
        nonlocal done
        async with connected(port) as connection:
            while time.perf_counter() < stop:
                await connection.ask(method, path, body())
                done += 1

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return done / (time.perf_counter() - began)


async def answered(port: int) -> float:
    async with connected(port) as connection:
        names = [f"asks-{number}" for number in range(ANSWERS)]
        for first in range(0, ANSWERS, 100):
            items = [{"workflow": "asks", "id": name} for name in names[first : first + 100]]
            await connection.ask("POST", "/api/v1/runs/batch", json.dumps({"items": items}).encode())
        for name in names:
            while not json.loads(await connection.ask("GET", f"/api/v1/runs/{name}"))["waits"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    left = iter(names)

    async def one() -> None:
        async with connected(port) as connection:
            for name in left:
                await connection.ask("POST", f"/api/v1/runs/{name}/approve", b"{}")

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return ANSWERS / (time.perf_counter() - began)


async def streamed(port: int) -> float:
    """Events a second that streams deliver, all of one run, from its log."""
    async with connected(port) as connection:
        body = {"workflow": "long", "params": {"nodes": NODES}, "id": "long", "wait": PATIENCE_S}
        await connection.ask("POST", "/api/v1/runs", json.dumps(body).encode())
    done = 0

    async def one() -> None:
        nonlocal done
        async with connected(port) as connection:
            async for message in connection.messages("/api/v1/stream?run=long"):
                done += message.count(b"event: event\n")
                if b"event: backfill_complete\n" in message:
                    return

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(STREAMS)))
    return done / (time.perf_counter() - began)


# --- lists


def lists(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    (stage.place / "flows.py").write_text(FLOWS)
    found = listed(stage, "sqlite", str(stage.place / "many.db"))
    with postgres_server() as server:
        return found | listed(stage, "postgres", server.url)


def listed(stage: Stage, kind: str, store: str) -> Found:
    asyncio.run(filled(store, stage.nodes))
    command = [sys.executable, "-m", "outlast", "serve", "flows.py", "--no-worker", "--insecure-local", "--quiet"]
    with serving(stage.place, [*command, "--port"], "/readyz", OUTLAST_STORE=store) as (port, _):
        newest = asyncio.run(paged(port, "limit=50"))
        by_status = asyncio.run(paged(port, "limit=50&status=cancelled"))
    return {
        f"{kind}_newest_ms": median(newest),
        f"{kind}_newest_p95_ms": quantile(newest, 0.95),
        f"{kind}_status_ms": median(by_status),
        f"{kind}_status_p95_ms": quantile(by_status, 0.95),
    }


async def filled(store: str, runs: int) -> None:
    """A store with that many runs: nearly all were cancelled, some have not been started."""
    from outlast.compose import open_store
    from outlast.history import events as e
    from outlast.history.ids import RunId
    from outlast.ledger import Ledger

    opened = open_store(store)
    ledger, number = Ledger(opened), count()
    worker = ledger.new_worker_id()

    async def one() -> None:
        for mine in number:
            if mine >= runs:
                return
            left = mine % 500 == 0
            created = e.RunCreated(workflow=f"flow-{mine % 7}", title=f"Order {mine}", tags=("eu",), deferred=left)
            events = [created] if left else [created, e.RunCancelled(reason="not wanted")]
            await ledger.begin(RunId(f"{mine:08}-{secrets.token_hex(4)}"), worker).append(events, release=True)

    try:
        await asyncio.gather(*(one() for _ in range(2000)))
    finally:
        await ledger.close()
        await opened.close()


async def paged(port: int, query: str) -> list[float]:
    """Milliseconds of pages, half of them from the middle on."""
    taken = []
    async with connected(port) as connection:
        await connection.ask("GET", f"/api/v1/runs?{query}")
        for offset in ("", "&until="):
            cursor = ""
            start = await _middle(connection, query) if offset else ""
            for _ in range(PAGES // 2):
                began = time.perf_counter()
                path = f"/api/v1/runs?{query}{start}" + (f"&cursor={cursor}" if cursor else "")
                page: Any = json.loads(await connection.ask("GET", path))
                taken.append((time.perf_counter() - began) * 1e3)
                cursor = page["next"]
    return taken


async def _middle(connection: Connection, query: str) -> str:
    """A filter for the older half: everything before the time in the middle between the newest and the oldest."""
    from datetime import datetime

    newest: Any = json.loads(await connection.ask("GET", f"/api/v1/runs?{query}"))
    created = datetime.fromisoformat(newest["runs"][0]["created"])
    return f"&until={int(created.timestamp() * 1e6) - 2_000_000}"


if __name__ == "__main__":
    play({"measure": measure, "lists": lists})
