"""Crowds of clients on live streams: whatever breaks, each of them receives the log (L1 to L4)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
import served

import outlast as ol
from support.sampling import seed
from support.server_process import ServerProcess, credential, server_process
from support.servers.postgres_admin import carry_out
from support.watchers import Watcher, connected

FLOWS = Path(served.__file__)
PATIENCE_S = 500
LATE = "late"
"""The name of the server whose commits are delayed, as PostgreSQL knows it."""
DELAY = f"""
create function {{s}}.delayed() returns trigger language plpgsql as $$ begin
    if current_setting('application_name') = '{LATE}' and nextval('{{s}}.delays') % 150 = 0 then
        perform pg_sleep(3);
    end if;
    return null;
end $$
"""
"""Commits of that server wait for 3 seconds now and then: what other servers append meanwhile becomes visible first."""


async def start_runs(server: ServerProcess, count: int, nodes: int) -> list[str]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}/api/v1", headers=headers) as client:
        items = [{"workflow": "served_counts", "params": {"nodes": nodes}} for _ in range(count)]
        answer = await client.post("/runs/batch", json={"items": items}, timeout=PATIENCE_S)
    return [each["started"]["run"] for each in answer.json()["items"]]


async def crowd(
    store: str, servers: Sequence[ServerProcess], *, clients: int, runs: int, nodes: int, each: int, breaks: float
) -> None:
    """Clients follow a few runs each while these run, over connections that break; then compare what each has with the
    log."""
    began, chance, ports = time.monotonic(), random.Random(seed()), [server.port for server in servers]
    share = len(range(0, runs, len(servers)))
    started = [run for server in servers for run in await start_runs(server, share, nodes)]
    watchers = [
        Watcher(ports, servers[0].token, chance.sample(started, each), chance, breaks=breaks) for _ in range(clients)
    ]
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for watcher in watchers:
            group.create_task(watcher.follow())
    logs = {}
    async with ol.open(store, worker=False) as engine:
        for run in started:
            events = engine.events(run, everything=True)
            logs[run] = [(entry.seq, type(entry.event).__name__) async for entry in events]
    for watcher in watchers:
        for run, seen in watcher.seen.items():
            assert seen == logs[run][: len(seen)], "no loss, no repeat, in order"
            assert seen[-1][1] == "RunCompleted"
    received = sum(len(seen) for watcher in watchers for seen in watcher.seen.values())
    connections = sum(watcher.connections for watcher in watchers)
    assert connections > clients, "some were cut"
    print(
        f"\n{clients} clients received {received:,} events of {len(started)} runs over {connections:,} connections, "
        f"{time.monotonic() - began:.0f} s"
    )


def test_a_crowd_whose_connections_break_receives_every_event_once(tmp_path: Path) -> None:
    token = credential(tmp_path / "runs.db", "token", "admin")
    with server_process(tmp_path, FLOWS, token=token) as server:
        store = str(tmp_path / "runs.db")
        asyncio.run(crowd(store, [server], clients=20, runs=10, nodes=20, each=4, breaks=20))


@pytest.mark.soak
def test_a_thousand_clients_whose_connections_break_receive_every_event_once(tmp_path: Path) -> None:
    token = credential(tmp_path / "runs.db", "token", "admin")
    with server_process(tmp_path, FLOWS, token=token) as server:
        store = str(tmp_path / "runs.db")
        asyncio.run(crowd(store, [server], clients=1000, runs=200, nodes=40, each=3, breaks=60))


def two_servers(folder: Path, url: str, *, clients: int, runs: int, nodes: int, breaks: float) -> None:
    token = credential(url, "token", "admin")
    sequence = "create sequence {s}.delays"
    trigger = (
        "create constraint trigger delayed after insert on {s}.log deferrable initially deferred "
        "for each row execute function {s}.delayed()"
    )
    asyncio.run(carry_out(url, sequence, DELAY, trigger))
    with ExitStack() as stack:
        stores = (url, f"{url}&application_name={LATE}")
        servers = [stack.enter_context(server_process(folder, FLOWS, token=token, store=store)) for store in stores]
        asyncio.run(crowd(url, servers, clients=clients, runs=runs, nodes=nodes, each=4, breaks=breaks))
    (delays,) = asyncio.run(carry_out(url, "select last_value from {s}.delays"))
    assert delays[0] >= 150, "no commit was delayed"


def test_two_servers_whose_commits_come_out_of_order_send_every_event_once(tmp_path: Path, postgres_url: str) -> None:
    two_servers(tmp_path, postgres_url, clients=15, runs=20, nodes=20, breaks=40)


@pytest.mark.soak
def test_two_servers_whose_commits_come_out_of_order_send_a_thousand_clients_every_event(
    tmp_path: Path, postgres_url: str
) -> None:
    two_servers(tmp_path, postgres_url, clients=1000, runs=200, nodes=30, breaks=60)


@pytest.mark.skipif(not Path("/proc").exists(), reason="the memory of a process is read from /proc")
def test_a_client_that_stops_reading_costs_little_and_delays_nobody(tmp_path: Path) -> None:
    """The logs of its runs have 40 MB each; the client takes none of it, neither of what was there nor of what is new."""

    async def large_run(server: ServerProcess, id: str) -> None:
        """A run of 40 MB, which another client follows to its end."""
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}/api/v1", timeout=PATIENCE_S) as client:
            body = {"workflow": "served_repeats", "params": {"times": 200, "size": 200_000}, "id": id}
            await client.post("/runs", json=body, headers={"Authorization": f"Bearer {server.token}"})
        await Watcher([server.port], server.token, [id], random.Random(1)).follow()

    async def scene(server: ServerProcess) -> None:
        await large_run(server, "first")
        await large_run(server, "second")
        before = server.resident
        _, lazy = await connected(server.port, server.token, ["first", "second", "third"])
        (run,) = await start_runs(server, 1, 40)
        watcher = Watcher([server.port], server.token, [run], random.Random(1))
        await asyncio.gather(watcher.follow(), large_run(server, "third"))
        cost = server.resident - before
        assert not lazy.transport.is_closing(), "the others received everything beside it"
        lazy.transport.abort()
        gap = max(after - before for before, after in pairwise(watcher.times))
        print(f"\na client that does not read costs {cost / 2**20:.0f} MB; the longest gap of another is {gap:.2f} s")
        assert cost < 50 * 2**20

    token = credential(tmp_path / "runs.db", "token", "admin")
    with server_process(tmp_path, FLOWS, token=token, is_cold=True) as server:
        asyncio.run(scene(server))
