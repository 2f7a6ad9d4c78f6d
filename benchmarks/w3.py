"""W3: one run with 1,000 trivial nodes at once."""

from __future__ import annotations

import time

from benchmarks.program import Found, Stage, play

NODES = 1000


async def measure(stage: Stage) -> Found:
    async with stage.system.opened(stage.place):
        await stage.system.fan(10)
        began = time.perf_counter()
        await stage.system.fan(NODES)
        taken = time.perf_counter() - began
        return {"s": taken, "nodes_per_s": NODES / taken}


if __name__ == "__main__":
    play({"measure": measure})
