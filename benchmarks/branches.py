"""A run with many branches: the cost of reading or taking over the current one, and of a jump to an event on it or on a
branch in the midst of the others.

Prints one JSON line for each number of branches: milliseconds, and the number of reads for each jump.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measures import folder
from outlast.client import Engine
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.reading import branches_of, head_of, lineage_of, state_of
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.stores.sqlite import SqliteStore

RUN = RunId("branched")
JUMPS = 5
NODES = 50
"""Nodes on the part that all branches share; each branch adds two events."""


async def measure(place: Path, branches: int) -> dict[str, float]:
    store = SqliteStore(place / f"{branches}.db", durability="relaxed")
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 3600)
    writer = await ledger.create(RUN, [e.RunCreated(workflow="w"), e.RunStarted()], worker)
    for number in range(NODES):
        name = f"n{number}"
        await writer.append([e.NodeScheduled(node=name), e.NodeStarted(node=name), e.NodeCompleted(node=name)])
    place_to_cut, began = writer.head.version, time.perf_counter()
    for _ in range(branches):
        await writer.open_branch(BranchPlan(cutoff=place_to_cut))
        await writer.append([e.DecisionRecorded(key=f"k{writer.head.version}")])
    turns = (time.perf_counter() - began) / max(branches, 1)
    head = await head_of(store, RUN)
    read_events: dict[str, float] = {"branches": branches, "events": head.version, "turn_ms": round(turns * 1000, 3)}
    read_events["read_ms"] = await _timed(lambda: _read(store))
    read_events["take_over_ms"] = await _timed(lambda: _taken(ledger, worker))
    read_events["all_branches_ms"] = await _timed(lambda: _all(store))
    await store.retire(worker)
    engine = Engine(ledger)
    reads = _counted(store)
    for name, target in (("near", place_to_cut), ("elsewhere", head.version // 2 + place_to_cut // 2)):
        took, before = list[float](), reads[0]
        for _ in range(JUMPS):
            spent = time.process_time()
            await engine.jump(RUN, target)
            took.append(time.process_time() - spent)
        read_events[f"jump_{name}_cpu_ms"] = round(min(took) * 1000, 3)
        read_events[f"jump_{name}_reads"] = (reads[0] - before) // JUMPS
    await engine._leave()
    await ledger.close()
    await store.close()
    return read_events


def _counted(store: Any) -> list[int]:
    """Count the reads of records from now on."""
    reads, read = [0], store.read

    async def counting(*args: Any, **kwargs: Any) -> Any:
        reads[0] += 1
        return await read(*args, **kwargs)

    store.read = counting
    return reads


async def _read(store: SqliteStore) -> None:
    await state_of(store, RUN, await lineage_of(store, await head_of(store, RUN)))


async def _taken(ledger: Ledger, worker: Any) -> None:
    (claim,) = await ledger.store.claim(worker, runs=[RUN])
    await ledger.take_over(claim)


async def _all(store: SqliteStore) -> None:
    await branches_of(store, await head_of(store, RUN))


async def _timed(work: Any, times: int = 5) -> float:
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        await work()
        best = min(best, time.perf_counter() - began)
    return round(best * 1000, 3)


def main() -> None:
    with folder() as place:
        for branches in [int(each) for each in sys.argv[1:]] or [0, 10, 100, 1000]:
            print(json.dumps(asyncio.run(measure(place, branches))))


if __name__ == "__main__":
    main()
