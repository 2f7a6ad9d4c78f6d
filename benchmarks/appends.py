"""Append throughput: single and grouped, against raw SQLite at the same time on the same disk."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import apsw
from msgspec import Struct

from benchmarks.measures import folder
from benchmarks.workload import BIRTH, ROW, boundary
from outlast.history.ids import RunId
from outlast.ledger import Ledger, RunWriter
from outlast.stores.sqlite import SqliteStore
from support.disk import Disk


class Round(Struct):
    """One round: rates per second."""

    raw_lone: float
    lone: float
    raw_grouped: float
    grouped_events: float


def measure(rounds: int = 7, lone: int = 2000, runs: int = 1000, each: int = 20) -> list[Round]:
    """Raw and ours alternate, and raw is the mean of before and after: disk speed varies by the second."""
    found: list[Round] = []
    for _ in range(rounds):
        gc.collect()  # the previous round's files are not part of this measurement
        before = raw_lone(lone)
        ours = asyncio.run(lone_appends(lone))
        after = raw_lone(lone)
        gc.collect()
        grouped = asyncio.run(grouped_appends(runs, each))
        found.append(Round((before + after) / 2, ours, raw_grouped(runs, each), grouped))
    return found


def raw_lone(number: int) -> float:
    """One insert per commit: WAL, synchronous=FULL, nothing else."""
    with folder() as place:
        db = _raw(place)
        began = time.perf_counter()
        for i in range(number):
            db.execute("begin immediate")
            db.execute("insert into t (wf, seq, v) values (?, ?, ?)", ("wf", i, ROW))
            db.execute("commit")
        taken = time.perf_counter() - began
        db.close()
    return number / taken


def raw_grouped(runs: int, each: int) -> float:
    """As many rows per commit as there are runs."""
    with folder() as place:
        db = _raw(place)
        began = time.perf_counter()
        for i in range(each):
            db.execute("begin immediate")
            db.executemany("insert into t (wf, seq, v) values (?, ?, ?)", (("wf", i, ROW) for _ in range(runs)))
            db.execute("commit")
        taken = time.perf_counter() - began
        db.close()
    return runs * each / taken


def _raw(place: Path) -> apsw.Connection:
    db = apsw.Connection(str(place / "raw.db"))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table t (id integer primary key, wf text, seq integer, v text)")
    return db


async def lone_appends(number: int) -> float:
    """Boundaries of one run, one after the other: fold, head, log row and flush each time."""
    with folder() as place:
        store, writer = await _one_run(place)
        began = time.perf_counter()
        for i in range(number):
            await writer.append(boundary(i))
        taken = time.perf_counter() - began
        await store.close()
    return number / taken


async def grouped_appends(runs: int, each: int) -> float:
    """Boundaries of many runs at once; events per second."""
    with folder() as place:
        store = SqliteStore(place / "runs.db")
        ledger = Ledger(store)
        worker = ledger.new_worker_id()
        await store.enrol(worker, 60)
        pens = await asyncio.gather(*(ledger.create(ledger.new_run_id(), BIRTH, worker) for _ in range(runs)))

        async def story(writer: RunWriter) -> None:
            for i in range(each):
                await writer.append(boundary(i))

        began = time.perf_counter()
        await asyncio.gather(*(story(writer) for writer in pens))
        taken = time.perf_counter() - began
        await ledger.close()
        await store.close()
    return 3 * runs * each / taken


async def bytes_per_boundary(number: int = 20_000) -> float:
    """How much the closed file grows for each boundary of a long run."""
    with folder() as place:
        store, writer = await _one_run(place, durability="relaxed")
        await store.close()
        start = store.path.stat().st_size
        store, writer = await _one_run(place, run="run-2", durability="relaxed")
        for i in range(number):
            await writer.append(boundary(i))
        await store.close()
        return (store.path.stat().st_size - start) / number


async def flushes_per_append(number: int = 2000) -> float:
    """Flushes requested from the file system, checkpoints included."""
    with folder() as place:
        disk = Disk()
        store, writer = await _one_run(place, vfs=disk.name)
        before = disk.syncs
        for i in range(number):
            await writer.append(boundary(i))
        flushes = disk.syncs - before
        await store.close()
        return flushes / number


async def _one_run(place: Path, run: str = "run-1", **options: str) -> tuple[SqliteStore, RunWriter]:
    store = SqliteStore(place / "runs.db", **options)  # type: ignore[arg-type]
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 600)
    return store, await ledger.create(RunId(run), BIRTH, worker)
