"""W1: one run of 200 trivial nodes, one after the other, every one durable before the next begins.

SQLite in WAL mode is about twice as fast once its WAL has reached its size and is written over again as while it still
grows, so all are measured after as many nodes as that takes raw SQLite (`measure`, `share`), and besides on a store that was
just made (`fresh`).
"""

from __future__ import annotations

from statistics import median

from benchmarks.measures import device_flushes, gaps, quantile
from benchmarks.program import Found, Stage, play
from benchmarks.systems import system_of

NODES = 200
FEW = 20
WARM = 1200
REPEATS = 5
"""Runs in one process, one after the other: one alone takes too short a time to be told from the disk's mood."""


async def measure(stage: Stage) -> Found:
    return await _timed(stage, WARM)


async def fresh(stage: Stage) -> Found:
    return await _timed(stage, FEW)


async def _timed(stage: Stage, before_that: int) -> Found:
    taken: list[float] = []
    async with stage.system.opened(stage.place):
        await stage.system.sequence(before_that)
        before = device_flushes(stage.place)
        for _ in range(REPEATS):
            taken += gaps(await stage.system.sequence(NODES))
        after = device_flushes(stage.place)
    found = {
        "p50_ms": quantile(taken, 0.5) * 1e3,
        "p99_ms": quantile(taken, 0.99) * 1e3,
        "nodes_per_s": len(taken) / sum(taken),
    }
    if before is not None and after is not None:
        found["device_flushes_per_node"] = (after - before) / len(taken)
    return found


async def share(stage: Stage) -> Found:
    """Raw SQLite and the system alternate in one process, and raw is the mean of before and after: disk speed varies
    by the second."""
    raw = system_of("raw")
    beside = stage.place / "raw"
    beside.mkdir()
    shares: list[float] = []
    async with stage.system.opened(stage.place), raw.opened(beside):
        await stage.system.sequence(WARM)
        await raw.sequence(WARM)
        before = sum(gaps(await raw.sequence(NODES)))
        for _ in range(2 * REPEATS):
            taken = sum(gaps(await stage.system.sequence(NODES)))
            after = sum(gaps(await raw.sequence(NODES)))
            shares.append((before + after) / 2 / taken)
            before = after
    return {"of_raw": median(shares)}


async def flushes(stage: Stage) -> Found:
    """Those that SQLite asks for, counted between it and the file system; not with peers that bring their own SQLite."""
    from benchmarks.flushes import counted

    with counted() as counter:
        async with stage.system.opened(stage.place):
            await stage.system.sequence(FEW)
            before = counter.flushes
            await stage.system.sequence(NODES * REPEATS)
            number = counter.flushes - before
    return {"flushes_per_node": number / (NODES * REPEATS)}


if __name__ == "__main__":
    play({"measure": measure, "fresh": fresh, "share": share, "flushes": flushes})
