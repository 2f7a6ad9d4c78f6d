"""W2 shared: 1,000 runs of 5 trivial nodes each, all at once, by 1 and by 2 processes on one store.

A process of Python keeps one core busy, however many there are.
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

PROCESSES = (1, 2)
PATIENCE = 120.0


def measure(stage: Stage) -> Found:
    found: Found = {}
    for processes in PROCESSES:
        place = stage.place / str(processes)
        place.mkdir()
        found[f"nodes_per_s_{processes}"] = shared(stage, place, processes)
    return {**found, "nodes_per_s": max(found.values())}


def shared(stage: Stage, place: Path, processes: int) -> float:
    """Nodes per second of all of them together, from the first that begins to the last that is done."""
    stage.nodes = RUNS // processes
    stage.played("prepare", place)
    with ExitStack() as playing:
        crew = [playing.enter_context(stage.playing("work", place)) for _ in range(processes)]
        _await(lambda: len(list(place.glob("ready-*"))) == processes)
        (place / "go").touch()
        told = [json.loads(member.communicate(timeout=PATIENCE)[0]) for member in crew]
    taken = max(each["ended"] for each in told) - min(each["began"] for each in told)
    return RUNS // processes * processes * NODES / taken


async def prepare(stage: Stage) -> None:
    """The tables are there before several processes want them at once."""
    async with stage.system.opened(stage.place):
        await stage.system.crowd(1, 1)


async def work(stage: Stage) -> Found:
    """One process: its share of the runs, when all are ready."""
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
            raise TimeoutError("the processes did not get ready")
        time.sleep(0.005)


if __name__ == "__main__":
    play({"measure": measure, "prepare": prepare, "work": work})
