"""Many runs in one store: memory for 100,000 waiting runs, start-up time with 100,000 finished ones.

`--nodes` is the number of runs. Memory is the current size of the process, not its peak; start-up is the time from
the end of the imports to the first durable result of a new run.
"""

from __future__ import annotations

import time
from statistics import median

from benchmarks.measures import resident_mb, store_bytes
from benchmarks.program import Found, Stage, play

WARM = 20_000
"""Runs before the first look at the memory: what any use allocates, and SQLite's caches fill, is not growth."""
REPEATS = 5


async def fill_waiting(stage: Stage) -> Found:
    async with stage.system.opened(stage.place):
        await stage.system.wait_in_a_question(WARM)
        before = resident_mb()
        began = time.perf_counter()
        await stage.system.wait_in_a_question(stage.nodes - WARM)
        taken = time.perf_counter() - began
        return {"few_mb": before, "many_mb": resident_mb(), "runs_per_s": (stage.nodes - WARM) / taken}


async def fill_finished(stage: Stage) -> Found:
    system = stage.system
    began = time.perf_counter()
    async with system.opened(stage.place):
        await system.finish(stage.nodes)
    return {"runs_per_s": stage.nodes / (time.perf_counter() - began)}


async def start_up(stage: Stage) -> Found:
    system = stage.system  # loaded before the clock starts
    began = time.perf_counter()
    async with system.opened(stage.place):
        await system.sequence(1)
        return {"s": time.perf_counter() - began, "mb": resident_mb()}


def waiting(stage: Stage) -> Found:
    """The process that started them all, and a new one that finds them."""
    filled = stage.played("fill_waiting")
    full, empty = _start_ups(stage)
    return {
        "runs": stage.nodes,
        "started_per_s": filled["runs_per_s"],
        "growth_mb": filled["many_mb"] - filled["few_mb"],
        "growth_bytes_per_run": (filled["many_mb"] - filled["few_mb"]) * 1e6 / (stage.nodes - WARM),
        "fresh_mb": full["mb"],
        "fresh_empty_mb": empty["mb"],
        "start_up_ms": full["s"] * 1e3,
        "start_up_empty_ms": empty["s"] * 1e3,
        "bytes_per_run": store_bytes(stage.place) / stage.nodes,
    }


def finished(stage: Stage) -> Found:
    filled = stage.played("fill_finished")
    full, empty = _start_ups(stage)
    return {
        "runs": stage.nodes,
        "finished_per_s": filled["runs_per_s"],
        "start_up_ms": full["s"] * 1e3,
        "start_up_empty_ms": empty["s"] * 1e3,
        "bytes_per_run": store_bytes(stage.place) / stage.nodes,
    }


def _start_ups(stage: Stage) -> tuple[Found, Found]:
    """On the full store and on an almost empty one, in turns; medians."""
    nearby = stage.place / "empty"
    nearby.mkdir()
    stage.played("start_up", nearby)  # creating the file is not measured
    found: tuple[list[Found], list[Found]] = ([], [])
    for _ in range(REPEATS):
        found[0].append(stage.played("start_up"))
        found[1].append(stage.played("start_up", nearby))
    full, empty = ({key: median(each[key] for each in some) for key in some[0]} for some in found)
    return full, empty


if __name__ == "__main__":
    play(
        {
            "waiting": waiting,
            "finished": finished,
            "fill_waiting": fill_waiting,
            "fill_finished": fill_finished,
            "start_up": start_up,
        }
    )
