"""W2: 1,000 runs of 5 trivial nodes each, all at once."""

from __future__ import annotations

import time

from benchmarks.measures import peak_mb
from benchmarks.program import Found, Stage, play

RUNS = 1000
NODES = 5


async def measure(stage: Stage) -> Found:
    async with stage.system.opened(stage.place):
        await stage.system.crowd(5, NODES)
        began = time.perf_counter()
        await stage.system.crowd(RUNS, NODES)
        taken = time.perf_counter() - began
        return {"s": taken, "nodes_per_s": RUNS * NODES / taken, "peak_mb": peak_mb()}


if __name__ == "__main__":
    play({"measure": measure})
