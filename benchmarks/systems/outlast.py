"""Outlast with coroutines; every append is flushed to disk before the run continues. On SQLite, unless a file
`address` in its folder names another store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

import outlast as ol
from benchmarks.witness import Witness
from outlast.history.events import NodeCompleted
from outlast.history.ids import RunId

for room in ("outlast.compose", "outlast.stores.sqlite"):
    import_module(room)  # these modules load on first use; "imports done" includes them, as it does for the peers

_moments: list[float] = []
_payloads: list[Any] = []
_engines: list[ol.Engine] = []


class _Shared:
    """Values for the functions below that cannot be arguments, which are stored."""

    witness: Witness
    is_restart = False
    bodies = 0


def store_at(place: Path) -> str | Path:
    address = place / "address"
    return address.read_text() if address.exists() else place / "runs.db"


@asynccontextmanager
async def opened(place: Path, *, is_restart: bool = False) -> AsyncIterator[None]:
    _Shared.witness, _Shared.is_restart = Witness(place), is_restart
    async with ol.open(store_at(place)) as engine:
        _engines.append(engine)
        try:
            yield
        finally:
            _engines.remove(engine)


# --- trivial nodes


@ol.node
async def trivial(number: int) -> int:
    _Shared.bodies += 1
    return number


@ol.workflow
async def in_sequence(nodes: int) -> int:
    _moments[:] = [time.perf_counter()]
    for number in range(nodes):
        await trivial(number)
        _moments.append(time.perf_counter())
    return nodes


async def sequence(nodes: int) -> list[float]:
    handle = await _engines[-1].start(in_sequence, nodes=nodes)
    await handle.result()
    return list(_moments)


@ol.workflow
async def few(nodes: int) -> int:
    for number in range(nodes):
        await trivial(number)
    return nodes


async def crowd(runs: int, nodes: int) -> None:
    engine = _engines[-1]

    async def one() -> None:
        handle = await engine.start(few, nodes=nodes)
        await handle.result()

    await asyncio.gather(*(one() for _ in range(runs)))


def requests() -> int:
    """How many requests an object store has made since it was opened."""
    store: Any = _engines[-1]._ledger.store
    return sum(astuple(store.requests))


@ol.workflow
async def in_fan(nodes: int) -> int:
    return len(await ol.gather(*(trivial(number) for number in range(nodes))))


async def fan(nodes: int) -> None:
    handle = await _engines[-1].start(in_fan, nodes=nodes)
    await handle.result()


@ol.node
async def returning() -> dict[str, Any]:
    return _payloads[-1]


@ol.workflow
async def in_payloads(times: int) -> int:
    for _ in range(times):
        await returning()
    return times


async def payloads(payload: Any, times: int) -> None:
    _payloads.append(payload)
    handle = await _engines[-1].start(in_payloads, times=times)
    await handle.result()


# --- what is killed


@ol.node
async def slow(run: str, number: int, seconds: float) -> int:
    _Shared.witness.tell("begin", run, number)
    await asyncio.sleep(seconds)
    _Shared.witness.tell("end", run, number)
    return number


@ol.workflow
async def slowly(run: str, nodes: int, seconds: float) -> int:
    for number in range(nodes):
        await slow(run, number, seconds)
    return nodes


async def begin_slow(runs: int, nodes: int, seconds: float) -> None:
    async def begin(run: str) -> None:
        await _engines[-1].start(slowly.options(id=run), run=run, nodes=nodes, seconds=seconds)

    await asyncio.gather(*(begin(f"run-{number}") for number in range(runs)))


async def all_done(runs: int) -> None:
    await asyncio.gather(*(_engines[-1].result(RunId(f"run-{number}")) for number in range(runs)))


def recorded(place: Path) -> set[tuple[str, int]]:
    return asyncio.run(_recorded(place))


async def _recorded(place: Path) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    async with ol.open(store_at(place), worker=False) as desk:
        async for summary in desk.iter_runs(ol.RunFilter(limit=1000), workflow="slowly"):
            run = summary.run
            ended = [entry async for entry in desk.events(run) if isinstance(entry.event, NodeCompleted)]
            found |= {(run, number) for number in range(len(ended))}
    return found


@ol.node
async def last() -> None:
    if not _Shared.is_restart:
        await asyncio.sleep(3600)


@ol.workflow
async def long(nodes: int, width: int) -> int:
    _Shared.witness.tell("began", "long")
    if width == 1:
        for number in range(nodes):
            await trivial(number)
    else:
        for number in range(0, nodes, width):
            await ol.gather(*(trivial(each) for each in range(number, min(nodes, number + width))))
    _Shared.witness.tell("passed", "long", _Shared.bodies)
    await last()
    return nodes


async def begin_long(nodes: int, width: int) -> None:
    await _engines[-1].start(long.options(id="long"), nodes=nodes, width=width)


async def long_done() -> None:
    await _engines[-1].result(RunId("long"))


def events_of_long(place: Path) -> int:
    return asyncio.run(_events_of_long(place))


async def _events_of_long(place: Path) -> int:
    async with ol.open(store_at(place), worker=False) as desk:
        return (await desk.get(RunId("long"))).at


# --- what only Outlast is asked


@ol.workflow
async def waiting() -> str:
    return await ol.ask("Who goes there?", str)


async def wait_in_a_question(runs: int, at_a_time: int = 1000) -> None:
    """Start that many runs, and return when all of them wait for an answer."""
    engine = _engines[-1]
    for _ in range(0, runs, at_a_time):
        await asyncio.gather(*(engine.start(waiting) for _ in range(at_a_time)))
    while True:
        page = await engine.list_runs(ol.RunFilter(statuses=(ol.RunStatus.CREATED, ol.RunStatus.RUNNING), limit=1))
        if not page.items:
            return
        await asyncio.sleep(0.05)


async def finish(runs: int, at_a_time: int = 1000) -> None:
    """That many runs of one node, to their end."""
    for _ in range(0, runs, at_a_time):
        await crowd(at_a_time, 1)
