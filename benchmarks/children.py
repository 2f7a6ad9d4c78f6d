"""Children of one parent, all at once, of one trivial node each: seconds, and processor time per child.

Measured in a fresh process each, on SQLite and PostgreSQL, for 150 children and for `--nodes`.
"""

from __future__ import annotations

import time
from pathlib import Path

import outlast as ol
from benchmarks.program import Found, Stage, play
from benchmarks.systems.outlast import store_at, trivial

FEW = 150


@ol.workflow
async def child(number: int) -> int:
    return await trivial(number)


@ol.workflow
async def parent(children: int) -> int:
    return len(await ol.gather(*(child(number) for number in range(children))))


async def work(stage: Stage) -> Found:
    async with ol.open(store_at(stage.place)) as engine:
        await (await engine.start(parent, children=10)).result()
        began, spent = time.perf_counter(), time.process_time()
        assert await (await engine.start(parent, children=stage.nodes)).result() == stage.nodes
        return {"s": time.perf_counter() - began, "cpu_s": time.process_time() - spent}


def measure(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    with postgres_server() as server:
        return {**_on(stage, "sqlite"), **_on(stage, "postgres", server.url)}


def _on(stage: Stage, kind: str, url: str = "") -> Found:
    found: Found = {}
    for children in (FEW, stage.nodes):
        place: Path = stage.place / f"{kind}-{children}"
        place.mkdir()
        if url:
            (place / "address").write_text(f"{url}?schema=children_{children}")
        taken = Stage(stage.name, place, children, 1).played("work")
        found[f"{kind}_{children}_s"] = round(taken["s"], 3)
        found[f"{kind}_{children}_cpu_ms_per_child"] = round(taken["cpu_s"] * 1e3 / children, 3)
    return found


if __name__ == "__main__":
    play({"measure": measure, "work": work})
