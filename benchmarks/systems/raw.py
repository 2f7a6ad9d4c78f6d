"""SQLite alone: the limit of the disk and the database. A node is a row with the bytes of one boundary."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from benchmarks.workload import ROW

INSERT = "insert into t (wf, seq, v) values (?, ?, ?)"

_open: list[apsw.Connection] = []


@asynccontextmanager
async def opened(place: Path, *, is_restart: bool = False) -> AsyncIterator[None]:
    _ = is_restart
    db = connection(place)
    _open.append(db)
    try:
        yield
    finally:
        _open.remove(db)
        db.close()


def connection(place: Path) -> apsw.Connection:
    """WAL, every commit flushed, one plain table."""
    db = apsw.Connection(str(place / "runs.db"))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table if not exists t (id integer primary key, wf text, seq integer, v text)")
    return db


def commit(db: apsw.Connection, rows: list[tuple[str, int, str]]) -> None:
    db.execute("begin immediate")
    db.executemany(INSERT, rows)
    db.execute("commit")


async def sequence(nodes: int) -> list[float]:
    """One insert per commit."""
    db = _open[-1]
    moments = [time.perf_counter()]
    for number in range(nodes):
        db.execute("begin immediate")
        db.execute(INSERT, ("wf", number, ROW))
        db.execute("commit")
        moments.append(time.perf_counter())
    return moments


async def crowd(runs: int, nodes: int) -> None:
    """As many rows per commit as there are runs."""
    for number in range(nodes):
        commit(_open[-1], [(f"run-{run}", number, ROW) for run in range(runs)])


async def fan(nodes: int) -> None:
    """All rows in one commit."""
    commit(_open[-1], [("wf", number, ROW) for number in range(nodes)])


async def payloads(payload: Any, times: int) -> None:
    """Encoded as JSON, one per commit."""
    for number in range(times):
        commit(_open[-1], [("wf", number, msgspec.json.encode(payload).decode())])
