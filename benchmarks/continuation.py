"""From the call that answers a question until the node after it begins, in milliseconds: the run is in memory; it was
released; it is answered by another process. `--nodes` is the number of answers; each run receives one."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from pathlib import Path

import outlast as ol
from benchmarks.measures import quantile
from benchmarks.program import Found, Stage, play
from benchmarks.systems.outlast import store_at
from outlast.engine.evictor import INTERVAL_S
from outlast.history.ids import RunId

IDLE = 400
"""Waiting runs that fill the memory of a worker, so that it releases further ones."""
FRESH = 50
"""Runs that are still in memory when they are answered."""
PAUSE_S = 0.03, 0.06
"""Seconds between two answers, at random: so each finds an idle worker, and no poll falls into step with them."""


@ol.node
async def moment() -> float:
    return time.monotonic()


@ol.workflow
async def asking() -> float:
    await ol.ask("Continue?", bool)
    return await moment()


async def resident(stage: Stage) -> Found:
    async with ol.open(store_at(stage.place)) as engine:
        return await _answered(engine, await _started(engine, "r", FRESH))


async def released(stage: Stage) -> Found:
    async with ol.open(store_at(stage.place)) as engine:
        await _started(engine, "idle", IDLE)
        return await _answered(engine, await _started(engine, "e", stage.nodes))


async def serve(stage: Stage) -> None:
    """A worker with some runs in memory and others released, until it is killed."""
    async with ol.open(store_at(stage.place)) as engine:
        await _started(engine, "idle", IDLE)
        await _started(engine, "e", stage.nodes)
        await asyncio.sleep(2 * INTERVAL_S + 1)  # then no run is in memory
        await _started(engine, "r", FRESH)
        (stage.place / "ready").touch()
        while not (stage.place / "answered").exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.2)
        began, spent = time.perf_counter(), time.process_time()
        await asyncio.sleep(3)
        share = (time.process_time() - spent) / (time.perf_counter() - began)
        (stage.place / "idle").write_text(str(share))
        await asyncio.sleep(3600)


async def answer(stage: Stage) -> Found:
    """Answer from a process without a worker."""
    found: Found = {}
    async with ol.open(store_at(stage.place), worker=False) as engine:
        for name, key, runs in (("resident", "r", FRESH), ("released", "e", stage.nodes)):
            taken = await _answered(engine, [RunId(f"{key}-{number}") for number in range(runs)])
            found |= {f"{name}_{measure}": value for measure, value in taken.items()}
    return found


async def _started(engine: ol.Engine, key: str, runs: int) -> list[RunId]:
    handles = await asyncio.gather(*(engine.start(asking.options(id=f"{key}-{number}")) for number in range(runs)))
    for handle in handles:
        await engine.asked(handle.run)
    return [handle.run for handle in handles]


async def _answered(engine: ol.Engine, runs: list[RunId]) -> Found:
    taken: list[float] = []
    for run in runs:
        await asyncio.sleep(random.uniform(*PAUSE_S))
        began = time.monotonic()
        await engine.answer(run, True)
        taken.append((await engine.result(run) - began) * 1e3)
    return {"p50_ms": round(quantile(taken, 0.5), 2), "p90_ms": round(quantile(taken, 0.9), 2)}


def measure(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    with postgres_server() as server:
        return {**_on(stage, "sqlite"), **_on(stage, "postgres", server.url)}


def _on(stage: Stage, kind: str, url: str = "") -> Found:
    found: Found = {}
    for act in ("resident", "released"):
        taken = stage.played(act, _place(stage, kind, act, url))
        found |= {f"{kind}_{act}_{measure}": value for measure, value in taken.items()}
    place = _place(stage, kind, "other", url)
    with stage.playing("serve", place) as server:
        _wait_for(place / "ready", server)
        found |= {f"{kind}_other_process_{name}": value for name, value in stage.played("answer", place).items()}
        (place / "answered").touch()
        _wait_for(place / "idle", server)
        found[f"{kind}_idle_cpu_share"] = round(float((place / "idle").read_text()), 4)
    return found


def _wait_for(path: Path, server: subprocess.Popen[str]) -> None:
    while not path.exists():
        if server.poll() is not None:
            raise RuntimeError("the worker ended")
        time.sleep(0.05)
    time.sleep(0.2)


def _place(stage: Stage, kind: str, act: str, url: str) -> Path:
    place = stage.place / f"{kind}-{act}"
    place.mkdir()
    if url:
        (place / "address").write_text(f"{url}?schema={act}")
    return place


if __name__ == "__main__":
    play({"measure": measure, "resident": resident, "released": released, "serve": serve, "answer": answer})
