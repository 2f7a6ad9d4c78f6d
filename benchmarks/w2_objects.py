"""W2 on objects: one run of 200 trivial nodes, and 100 runs of 5 at once, in a bucket on a server on this machine;
how fast, and how many requests a node takes, those that begin and end its run included."""

from __future__ import annotations

import time

from benchmarks.program import Found, Stage, play

LONE = 200
RUNS = 100
NODES = 5


def measure(stage: Stage) -> Found:
    from support.servers import s3

    (stage.place / "address").write_text(s3.shared("seaweed").address("w2"))
    found = stage.played("work", stage.place)
    s3.stop_shared()
    return {f"s3_{what}": value for what, value in found.items()}


async def work(stage: Stage) -> Found:
    """All of it in one process, on the store whose address is in the folder."""
    from benchmarks.systems import outlast as system

    async with system.opened(stage.place):
        await system.crowd(5, NODES)
        before, began = system.requests(), time.perf_counter()
        await system.sequence(LONE)
        between, middle = system.requests(), time.perf_counter()
        await system.crowd(RUNS, NODES)
        after, ended = system.requests(), time.perf_counter()
    return {
        "ms_per_node": (middle - began) / LONE * 1e3,
        "requests_per_node": (between - before) / LONE,
        "nodes_per_s": RUNS * NODES / (ended - middle),
        "requests_per_node_of_five": (after - between) / (RUNS * NODES),
    }


if __name__ == "__main__":
    play({"measure": measure, "work": work})
