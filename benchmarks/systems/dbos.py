"""DBOS Transact on SQLite.

Plain functions where steps follow each other, because they are faster there than coroutines; coroutines where steps run at
once, because plain ones would need a child workflow each.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from benchmarks.witness import Witness

THREADS = 64

_moments: list[float] = []
_payloads: list[Any] = []


class _Shared:
    """Values for the functions below that cannot be arguments, which are stored."""

    witness: Witness
    is_restart = False
    bodies = 0


@asynccontextmanager
async def opened(place: Path, *, is_restart: bool = False) -> AsyncIterator[None]:
    _Shared.witness, _Shared.is_restart = Witness(place), is_restart
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{place / 'runs.db'}",
            "application_version": "bench",
            "executor_id": "local",
            "log_level": "ERROR",
            "max_executor_threads": THREADS,
        }
    )
    DBOS.launch()
    yield
    # never destroyed: it would wait for its own threads, and the process ends now


# --- one node after the other


@DBOS.step()
def trivial(number: int) -> int:
    _Shared.bodies += 1
    return number


@DBOS.workflow()
def in_sequence(nodes: int) -> int:
    _moments[:] = [time.perf_counter()]
    for number in range(nodes):
        trivial(number)
        _moments.append(time.perf_counter())
    return nodes


async def sequence(nodes: int) -> list[float]:
    await asyncio.to_thread(in_sequence, nodes)
    return list(_moments)


@DBOS.workflow()
def few(nodes: int) -> int:
    for number in range(nodes):
        trivial(number)
    return nodes


async def crowd(runs: int, nodes: int) -> None:
    await asyncio.to_thread(_crowd, runs, nodes)


def _crowd(runs: int, nodes: int) -> None:
    for handle in [DBOS.start_workflow(few, nodes) for _ in range(runs)]:
        handle.get_result()


@DBOS.step()
def returning() -> Any:
    return _payloads[-1]


@DBOS.workflow()
def in_payloads(times: int) -> int:
    for _ in range(times):
        returning()
    return times


async def payloads(payload: Any, times: int) -> None:
    _payloads.append(payload)
    await asyncio.to_thread(in_payloads, times)


# --- many nodes at once


@DBOS.step()
async def trivial_at_once(number: int) -> int:
    _Shared.bodies += 1
    return number


@DBOS.workflow()
async def in_fan(nodes: int) -> int:
    return len(await asyncio.gather(*(trivial_at_once(number) for number in range(nodes))))


async def fan(nodes: int) -> None:
    await in_fan(nodes)


# --- what is killed


@DBOS.step()
async def slow(run: str, number: int, seconds: float) -> int:
    _Shared.witness.tell("begin", run, number)
    await asyncio.sleep(seconds)
    _Shared.witness.tell("end", run, number)
    return number


@DBOS.workflow()
async def slowly(run: str, nodes: int, seconds: float) -> int:
    for number in range(nodes):
        await slow(run, number, seconds)
    return nodes


async def begin_slow(runs: int, nodes: int, seconds: float) -> None:
    async def begin(run: str) -> None:
        with SetWorkflowID(run):
            await DBOS.start_workflow_async(slowly, run, nodes, seconds)

    await asyncio.gather(*(begin(f"run-{number}") for number in range(runs)))


async def all_done(runs: int) -> None:
    while True:
        done = await DBOS.list_workflows_async(status="SUCCESS", load_input=False, load_output=False)
        if len(done) >= runs:
            return
        await asyncio.sleep(0.1)


def recorded(place: Path) -> set[tuple[str, int]]:
    with closing(sqlite3.connect(place / "runs.db")) as db:
        rows = db.execute("select workflow_uuid, function_id - 1 from operation_outputs")
        return {(str(run), int(number)) for run, number in rows}


@DBOS.step()
def last() -> None:
    if not _Shared.is_restart:
        time.sleep(3600)


@DBOS.workflow()
def long(nodes: int) -> int:
    _Shared.witness.tell("began", "long")
    for number in range(nodes):
        trivial(number)
    _Shared.witness.tell("passed", "long", _Shared.bodies)
    last()
    return nodes


async def begin_long(nodes: int, width: int) -> None:
    assert width == 1, "one step after the other"
    with SetWorkflowID("long"):
        await asyncio.to_thread(DBOS.start_workflow, long, nodes)


async def long_done() -> None:
    handle: Any = await DBOS.retrieve_workflow_async("long")
    await handle.get_result()
