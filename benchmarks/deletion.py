"""Prune many runs while others are appended to, on SQLite and on PostgreSQL.

`measure` fills a store with `--nodes` runs that ended 40 days ago. One process then appends events to new runs, one append
after the other; after some seconds another one prunes the old runs. Latencies of appends before and during that
(milliseconds, 99th percentile), their ratio, the runs deleted per second, and the size of the store before and after (MB).
`sqlite` and `postgres` do this on one store."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from statistics import quantiles

from msgspec import Raw

import outlast as ol
from benchmarks.program import Found, Stage, play
from outlast.compose import open_store
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.store import RunFilter

BATCH = 500
AGE_US = 40 * 86_400_000_000
OLDER_S = 30 * 86_400
QUIET_S, PAUSE_S = 10.0, 0.002
NODES = 4
"""Nodes of each run."""
VALUE = Raw(b'"' + b"x" * 200 + b'"')


async def measure(stage: Stage) -> Found:
    (stage.place / "sqlite").mkdir()
    (stage.place / "postgres").mkdir()
    found = await sqlite(stage, stage.place / "sqlite")
    return found | await postgres(stage, stage.place / "postgres")


async def sqlite(stage: Stage, place: Path | None = None) -> Found:
    place = place or stage.place
    return await pruning(stage, "sqlite", place, str(place / "runs.db"))


async def postgres(stage: Stage, place: Path | None = None) -> Found:
    from support.servers.postgres import postgres_server

    with postgres_server() as server:
        return await pruning(stage, "postgres", place or stage.place, server.url)


async def pruning(stage: Stage, kind: str, place: Path, address: str) -> Found:
    (place / "address").write_text(address)
    stage.played("fill", place, seconds=1800)
    before = await size(place)
    with stage.playing("load", place) as load:
        await asyncio.sleep(QUIET_S)
        (place / "begin").touch()
        found = await asyncio.to_thread(stage.played, "prune", place, 3000)
        (place / "end").touch()
        answer, _ = await asyncio.to_thread(load.communicate, timeout=60)
    measured: Found = json.loads(answer)
    sizes = {"mb_before": before, "mb_after": await size(place)}
    return {f"{kind}_{name}": value for name, value in {**measured, **found, **sizes}.items()}


async def size(place: Path) -> float:
    """The size of the store without its blobs."""
    from outlast.maintenance import inspect
    from outlast.settings import read_settings

    return (await inspect(read_settings({"store": (place / "address").read_text()}))).bytes / 1e6


async def fill(stage: Stage) -> None:
    store = open_store((stage.place / "address").read_text(), durability="relaxed")
    ledger = Ledger(store, clock=lambda: system_clock() - AGE_US)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 3600)
    for first in range(0, stage.nodes, BATCH):
        runs = range(first, min(first + BATCH, stage.nodes))
        await asyncio.gather(*(ended(ledger, RunId(f"old-{number:07}")) for number in runs))
    await store.retire(worker)
    await ledger.close()
    await store.close()


async def ended(ledger: Ledger, run: RunId) -> None:
    """A run whose nodes were appended one by one."""
    writer = ledger.begin(run, ledger.new_worker_id())
    begun = [e.RunCreated(workflow="old"), e.RunStarted(), *node(0)]
    await writer.append(begun)
    for number in range(1, NODES):
        await writer.append(node(number))
    await writer.append([e.RunCompleted(output=VALUE)], release=True)


def node(number: int) -> list[e.AnyEvent]:
    name = f"n{number}"
    return [e.NodeScheduled(node=name), e.NodeStarted(node=name), e.NodeCompleted(node=name, output=VALUE)]


async def load(stage: Stage) -> Found:
    """Append until the file `end` is there; the file `begin` separates the two measurements."""
    store = open_store((stage.place / "address").read_text())
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 36_000)
    before, during = list[float](), list[float]()
    while not (stage.place / "end").exists():
        latencies = during if (stage.place / "begin").exists() else before
        writer = ledger.begin(ledger.new_run_id(), worker)
        events: list[e.AnyEvent] = [e.RunCreated(workflow="new"), e.RunStarted()]
        for number in range(20):
            began = time.perf_counter()
            await writer.append([*events, *node(number)])
            latencies.append(time.perf_counter() - began)
            events = []
            await asyncio.sleep(PAUSE_S)
        await writer.append([e.RunCompleted()], release=True)
    await store.retire(worker)
    await ledger.close()
    await store.close()
    quiet, busy = p99(before), p99(during)
    return {"p99_before_ms": quiet, "p99_during_ms": busy, "p99_ratio": busy / quiet, "appends_during": len(during)}


def p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[98] * 1000


async def prune(stage: Stage) -> Found:
    async with ol.open((stage.place / "address").read_text(), worker=False) as engine:
        began = time.perf_counter()
        found = await engine.prune(OLDER_S, workflow="old")
        seconds = time.perf_counter() - began
        assert found.runs == stage.nodes, found
        assert not len(await engine.list_runs(RunFilter(workflow="old")))
    return {"deleted_per_s": found.runs / seconds, "pruned_s": seconds}


if __name__ == "__main__":
    play({"measure": measure, "sqlite": sqlite, "postgres": postgres, "fill": fill, "load": load, "prune": prune})
