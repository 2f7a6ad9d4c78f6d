"""Calls of a store that must not cost more as it grows, without an engine, on SQLite and on PostgreSQL.

`measure` fills a store with `--nodes` runs and lists them by what a person looks for (milliseconds, medians). Then it makes
half as many runs ready, all of one workflow, and claims some of them, a run of another workflow, and runs of a workflow that
has none (milliseconds). `sqlite` and `postgres` do this on one store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from random import Random
from statistics import median
from typing import Any

from benchmarks.program import Found, Stage, play
from outlast.compose import open_store
from outlast.history.events import Moment
from outlast.history.ids import RunId, WorkerId, uuid7
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, AttributeFilter, RunFilter, Store
from outlast.testing.contract.samples import BEGINNING, begin, begin_ready

BATCH = 500
REPEATS = 15
PAGE = 50
_STATUSES = (
    *([RunStatus.COMPLETED] * 90),
    *([RunStatus.FAILED] * 5),
    *([RunStatus.CANCELLED] * 3),
    RunStatus.WAITING,
    RunStatus.RUNNING,
)
_REGIONS = ("eu-north", "eu-south", "us-east", "us-west", "asia")


async def measure(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    found = await sqlite(stage)
    with postgres_server() as server:
        return found | await calls(stage, "postgres", server.url)


async def sqlite(stage: Stage) -> Found:
    return await calls(stage, "sqlite", str(stage.place / "many.db"))


async def postgres(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    with postgres_server() as server:
        return await calls(stage, "postgres", server.url)


async def calls(stage: Stage, kind: str, address: str) -> Found:
    store = open_store(address)
    try:
        began = time.perf_counter()
        runs = finished(stage.nodes)
        while batch := list(islice(runs, BATCH)):
            await store.append(batch)
        filled = stage.nodes / (time.perf_counter() - began)
        found = {f"list_{name}_ms": await listed(store, query) for name, query in lists(stage.nodes).items()}
        found |= await claims(store, stage.nodes // 2)
    finally:
        await store.close()
    return {f"{kind}_{name}": value for name, value in {"filled_per_s": filled, **found}.items()}


# --- lists


def finished(number: int) -> Iterator[Append]:
    """Return appends of that many runs. Their ids begin with their time."""
    random = Random(7)
    for i in range(number):
        created = BEGINNING + i * 1_000_000
        status = random.choice(_STATUSES)
        summary = RunSummary(
            run=RunId(uuid7(created // 1000, random.randbytes(10))),
            at=1,
            status=status,
            workflow=f"flow-{i % 7}",
            created=created,
            title=f"Order {i:06} of customer {random.randrange(5000):04}",
            tags=("priority",) if i % 100 == 0 else (),
            reason="the card was declined" if status is RunStatus.FAILED else "",
            held=status is RunStatus.FAILED and i % 10 == 0,
            attributes={
                "customer": f"c-{random.randrange(5000):04}",
                "region": random.choice(_REGIONS),
                "amount": random.randrange(1_000_000) / 100,
                "express": random.random() < 0.5,
                "placed": Moment(created),
            },
        )
        yield begin(summary.run, closed=True, summary=summary)


def lists(number: int) -> dict[str, RunFilter]:
    middle = BEGINNING + number // 2 * 1_000_000
    run = uuid7(middle // 1000, bytes(10))

    def query(**parts: Any) -> RunFilter:
        return RunFilter(limit=PAGE, **parts)

    def attribute(name: str, operator: Any, value: Any) -> AttributeFilter:
        return AttributeFilter(name, operator, value)

    return {
        "newest": query(),
        "id_prefix": query(prefix=run[:8]),
        "id_prefix_short": query(prefix=run[:4]),
        "workflow_and_status": query(workflow="flow-3", statuses=(RunStatus.FAILED,)),
        "workflow_and_statuses": query(workflow="flow-3", statuses=(RunStatus.RUNNING, RunStatus.WAITING)),
        "from_the_middle": query(workflow="flow-3", created_until=middle),
        "text_of_one": query(text=f"Order {number // 3:06}"),
        "text_of_some": query(text="customer 0042"),
        "text_of_many": query(text="declined"),
        "text_of_all": query(text="order"),
        "text_of_none": query(text="parcel"),
        "held": query(held=True),
        "attribute": query(attributes=(attribute("customer", "=", "c-0042"),)),
        "attribute_of_many": query(attributes=(attribute("region", "=", "asia"),)),
        "attribute_range": query(attributes=(attribute("amount", ">=", 9_999.0),)),
        "attributes": query(
            workflow="flow-3", attributes=(attribute("region", "=", "asia"), attribute("amount", "<", 50.0))
        ),
        "by_attribute": query(order="-amount"),
        "by_attribute_and_status": query(order="amount", statuses=(RunStatus.WAITING,)),
    }


async def listed(store: Store, query: RunFilter) -> float:
    """Milliseconds of the first two pages, each."""
    taken: list[float] = []
    for _ in range(REPEATS):
        after = ""
        for _ in range(2):
            began = time.perf_counter()
            page = await store.search(RunFilter(**{**_fields(query), "after": after}))
            taken.append((time.perf_counter() - began) * 1e3)
            after = page.next
            if not after:
                break
    return median(taken)


def _fields(query: RunFilter) -> dict[str, Any]:
    return {name: getattr(query, name) for name in query.__struct_fields__}


# --- claims


async def claims(store: Store, ready: int) -> Found:
    worker = WorkerId("bench")
    await store.enrol(worker, 3600)
    runs = (begin_ready(RunId(f"ready-{i}"), summary=_ready(f"ready-{i}", "many")) for i in range(ready))
    while batch := list(islice(runs, BATCH)):
        await store.append(batch)
    found = {"claim_none_ms": await claimed(store, worker, "none", 0)}
    few = [begin_ready(RunId(f"few-{i}"), summary=_ready(f"few-{i}", "few")) for i in range(REPEATS)]
    await store.append(few)
    found["claim_few_ms"] = await claimed(store, worker, "few", 1)
    found["claim_many_ms"] = await claimed(store, worker, "many", 1)
    found["claim_hundred_ms"] = await claimed(store, worker, "many", 100)
    return found


async def claimed(store: Store, worker: WorkerId, workflow: str, number: int) -> float:
    taken: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        got = await store.claim(worker, workflows=[workflow], limit=max(number, 1))
        taken.append((time.perf_counter() - began) * 1e3)
        if len(got) != number:
            raise RuntimeError(f"{len(got)} runs of {workflow} were claimed instead of {number}")
    return median(taken)


def _ready(run: str, workflow: str) -> RunSummary:
    return RunSummary(RunId(run), 1, RunStatus.RUNNING, workflow, created=BEGINNING)


if __name__ == "__main__":
    play({"measure": measure, "sqlite": sqlite, "postgres": postgres})
