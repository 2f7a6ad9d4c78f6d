"""W2 on PostgreSQL: 1,000 runs of 5 trivial nodes each, all at once, shared by 1, 2 and 4 worker processes.

The server is a real one on this machine with fsync on: it, the workers and whatever else runs here share the cores.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.program import Found, Stage, play
from benchmarks.w2 import NODES, RUNS

WORKERS = (1, 2, 4)
PATIENCE = 120.0


def measure(stage: Stage) -> Found:
    from outlast.testing.servers.postgres import postgres_server

    found: Found = {}
    with postgres_server() as server:
        for workers in WORKERS:
            place = stage.place / str(workers)
            place.mkdir()
            (place / "address").write_text(f"{server.url}?schema=w2_{workers}")
            found[f"nodes_per_s_{workers}"] = _shared(stage, place, workers)
    return {**found, "nodes_per_s": max(found.values())}


def _shared(stage: Stage, place: Path, workers: int) -> float:
    """Nodes per second of all of them together, from the first that begins to the last that is done."""
    stage.nodes = RUNS // workers
    with ExitStack() as playing:
        crew = [playing.enter_context(stage.playing("work", place)) for _ in range(workers)]
        _await(lambda: len(list(place.glob("ready-*"))) == workers)
        (place / "go").touch()
        told = [json.loads(member.communicate(timeout=PATIENCE)[0]) for member in crew]
    taken = max(each["ended"] for each in told) - min(each["began"] for each in told)
    return RUNS // workers * workers * NODES / taken


async def work(stage: Stage) -> Found:
    """One worker: its share of the runs, when all are ready."""
    async with stage.system.opened(stage.place):
        await stage.system.crowd(50, NODES)
        (stage.place / f"ready-{os.getpid()}").touch()
        while not (stage.place / "go").exists():  # noqa: ASYNC110 - a word from another process
            await asyncio.sleep(0.001)
        began = time.time()
        await stage.system.crowd(stage.nodes, NODES)
        return {"began": began, "ended": time.time()}


def _await(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > give_up:
            raise TimeoutError("the workers did not get ready")
        time.sleep(0.005)


if __name__ == "__main__":
    play({"measure": measure, "work": work})
