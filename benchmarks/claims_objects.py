"""Claims on objects: they cost what they claim, whatever other runs are ready, in a bucket on a server on this machine.

`measure` makes `--nodes` runs of one workflow ready and claims the only run of another one (seconds and requests), then
some of the many, then runs of a workflow that has none. Then one process starts 300 runs of 5 nodes without a worker, and
another one runs them: all of one workflow, and of ten (nodes per second, requests per node).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import cast

from msgspec.structs import astuple

import outlast as ol
from benchmarks.program import Found, Stage, play
from outlast.compose import open_store
from outlast.history.ids import RunId, WorkerId
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append
from outlast.stores.objects import ObjectStore
from outlast.testing.contract.samples import begin_ready, summary

BATCH = 200
CLAIMED = 50
RUNS, NODES, WORKFLOWS = 300, 5, 10
CONCURRENCY = 50


async def measure(stage: Stage) -> Found:
    from support.servers import s3

    server = s3.shared("seaweed")
    found = await calls(server.address("calls"), stage.nodes)
    for workflows in (1, WORKFLOWS):
        place = stage.place / str(workflows)
        place.mkdir()
        (place / "address").write_text(server.address(f"apps-{workflows}"))
        stage.width = workflows
        stage.played("begin", place)
        found |= {f"{name}_of_{workflows}": value for name, value in stage.played("work", place).items()}
    s3.stop_shared()
    return found


async def calls(address: str, ready: int) -> Found:
    store = open_store(address)
    assert isinstance(store, ObjectStore)
    worker = WorkerId("worker")
    await store.enrol(worker, 3600)
    await land(store, (begin_ready(RunId(f"a-{i:06}"), summary=of(f"a-{i:06}", "a")) for i in range(ready)))
    await land(store, [begin_ready(RunId("b"), summary=of("b", "b"))])
    found: Found = {}
    for name, workflow, limit in (("other", "b", 1), ("many", "a", CLAIMED), ("none", "c", 1)):
        before, began = sum(astuple(store.requests)), time.perf_counter()
        claims = await store.claim(worker, workflows=[workflow], limit=limit)
        found[f"{name}_s"] = time.perf_counter() - began
        found[f"{name}_requests"] = sum(astuple(store.requests)) - before
        assert len(claims) == (0 if workflow == "c" else limit)
    await store.close()
    return found


def of(run: str, workflow: str) -> RunSummary:
    return summary(RunId(run), workflow=workflow)


async def land(store: ObjectStore, appends: Iterable[Append]) -> None:
    batch: list[Append] = []
    for append in appends:
        batch.append(append)
        if len(batch) == BATCH:
            await store.append(batch)
            batch = []
    await store.append(batch)


# --- apps


@ol.node
async def trivial(number: int) -> int:
    return number


def workflow_named(name: str) -> ol.Workflow[[], int]:
    @ol.workflow(name=name)
    async def few() -> int:
        for number in range(NODES):
            await trivial(number)
        return NODES

    return few


async def begin(stage: Stage) -> None:
    """Start the runs without a worker: they become ready."""
    workflows = [workflow_named(f"w{number}") for number in range(stage.width)]
    async with ol.open((stage.place / "address").read_text(), worker=False) as engine:
        await asyncio.gather(*(engine.start(workflows[i % stage.width].options(id=f"r{i}")) for i in range(RUNS)))


async def work(stage: Stage) -> Found:
    """Run them."""
    for number in range(stage.width):
        workflow_named(f"w{number}")
    began = time.perf_counter()
    async with ol.open((stage.place / "address").read_text(), concurrency=CONCURRENCY) as engine:
        for number in range(RUNS):
            await (await engine.handle(f"r{number}")).result()
        seconds, store = time.perf_counter() - began, cast("ObjectStore", engine._ledger.store)
        return {
            "nodes_per_s": RUNS * NODES / seconds,
            "requests_per_node": sum(astuple(store.requests)) / (RUNS * NODES),
        }


if __name__ == "__main__":
    play({"measure": measure, "begin": begin, "work": work})
