"""From `kill -9` of a worker until another one takes over the run that it executed, in seconds, on SQLite and PostgreSQL.

`--nodes` is the number of kills. The other worker is there all the time, with the default settings."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median

import outlast as ol
from benchmarks.program import Found, Stage, kill, play
from benchmarks.systems.outlast import store_at
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry


@ol.node
async def endless() -> None:
    await asyncio.sleep(3600)


@ol.workflow
async def stuck() -> None:
    await endless()


async def work(stage: Stage) -> None:
    """Execute one run for ever; the file `begun` says that it executes."""
    async with ol.open(store_at(stage.place)) as engine:
        handle = await engine.start(stuck)
        while not await _events(engine, handle.run, e.NodeStarted):  # noqa: ASYNC110 - a poll
            await asyncio.sleep(0.01)
        (stage.place / "begun").write_text(handle.run)
        await asyncio.sleep(3600)


async def _events(engine: ol.Engine, run: RunId, kind: type[e.AnyEvent]) -> list[Entry]:
    return [entry async for entry in engine.events(run) if isinstance(entry.event, kind)]


async def taken_over(stage: Stage) -> Found:
    seconds = []
    async with ol.open(store_at(stage.place)) as engine:
        for _ in range(stage.nodes):
            with stage.playing("work") as worker:
                run = await _begun(stage.place / "begun")
                kill(worker)
                began = time.perf_counter()
                while not await _events(engine, run, e.RunTakenOver):  # noqa: ASYNC110 - a poll
                    await asyncio.sleep(0.01)
                seconds.append(time.perf_counter() - began)
            await engine.cancel(run, force=True)
    return {"s": round(median(seconds), 3), "most_s": round(max(seconds), 3)}


async def _begun(path: Path) -> RunId:
    while not path.exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.01)
    run = RunId(path.read_text())
    path.unlink()
    return run


def measure(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    with postgres_server() as server:
        return {**_on(stage, "sqlite"), **_on(stage, "postgres", server.url)}


def _on(stage: Stage, kind: str, url: str = "") -> Found:
    place = stage.place / kind
    place.mkdir()
    if url:
        (place / "address").write_text(f"{url}?schema=takeover")
    return {f"{kind}_{name}": value for name, value in stage.played("taken_over", place).items()}


if __name__ == "__main__":
    play({"measure": measure, "taken_over": taken_over, "work": work})
