"""Timers that are due in the same second: seconds from then until the last run has ended, on SQLite and PostgreSQL.

`--nodes` is the number of runs; each sleeps once and has no node.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import outlast as ol
from benchmarks.program import Found, Stage, play
from benchmarks.systems.outlast import store_at

AHEAD_S = 0.003
"""Seconds for each run to be started before its timer is due."""
AT_A_TIME = 1000


@ol.workflow
async def sleeping(until: datetime) -> int:
    await ol.sleep(until=until)
    return 1


async def work(stage: Stage) -> Found:
    async with ol.open(store_at(stage.place)) as engine:
        due = datetime.now(UTC) + timedelta(seconds=5 + AHEAD_S * stage.nodes)
        for first in range(0, stage.nodes, AT_A_TIME):
            each = range(first, min(stage.nodes, first + AT_A_TIME))
            untils = [due + timedelta(microseconds=number * 1_000_000 // stage.nodes) for number in each]
            await asyncio.gather(*(engine.start(sleeping, until=until) for until in untils))
        early = (due - datetime.now(UTC)).total_seconds()
        assert early > 0, "the first timer is due before the last run has started"
        await asyncio.sleep(early)
        began, spent = time.perf_counter(), time.process_time()
        while (await engine.list_runs(ol.RunFilter(statuses=OPEN, limit=1))).items:  # noqa: ASYNC110 - a poll
            await asyncio.sleep(0.05)
        return {"s": time.perf_counter() - began, "cpu_s": time.process_time() - spent}


OPEN = (ol.RunStatus.CREATED, ol.RunStatus.RUNNING, ol.RunStatus.WAITING)


def measure(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    with postgres_server() as server:
        return {**_on(stage, "sqlite"), **_on(stage, "postgres", server.url)}


def _on(stage: Stage, kind: str, url: str = "") -> Found:
    place = stage.place / kind
    place.mkdir()
    if url:
        (place / "address").write_text(f"{url}?schema=timers")
    return {f"{kind}_{name}": round(value, 3) for name, value in stage.played("work", place).items()}


if __name__ == "__main__":
    play({"measure": measure, "work": work})
