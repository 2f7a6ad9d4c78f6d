"""Lines in an SQLite file cost an append nothing: no flush, no turn of the loop, no durability."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import apsw
import pytest

from outlast.errors import StoreError
from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.store import Line
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract.samples import A, begin, follow, land
from support.disk import Disk

# the checkpointer of a machine without power may end as it likes
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def use(store: SqliteStore, act: Callable[[SqliteStore], Awaitable[object]]) -> None:
    """Do something with a store on a loop of its own, then close it."""

    async def used() -> None:
        try:
            await act(store)
        finally:
            await store.close()

    asyncio.run(used())


def said(text: str, run: RunId = A) -> Line:
    return Line(run, "n", 1, 1, "INFO", "", text)


def test_many_lines_are_one_commit_without_a_flush_and_off_the_loop(path: Path) -> None:
    """S9"""
    disk, commits = Disk(), list[str]()

    def committed() -> bool:
        commits.append(threading.current_thread().name)
        return False

    async def write(store: SqliteStore) -> None:
        runs = [RunId(f"r{number}") for number in range(5)]
        await store.append([begin(run) for run in runs])
        store._db._write.set_commit_hook(committed)
        syncs = disk.syncs
        await store.keep([said(str(number), run) for number in range(50) for run in runs])
        assert disk.syncs == syncs
        assert [name.rpartition("_")[0] for name in commits] == ["outlast-sqlite-writer"]
        assert [len(await store.lines(run)) for run in runs] == [50] * 5

    use(SqliteStore(path, vfs=disk.name), write)


@pytest.mark.parametrize(("durability", "flushes"), [("full", 1), ("relaxed", 0)])
def test_an_append_after_lines_is_flushed_as_it_was_before(path: Path, durability: str, flushes: int) -> None:
    """S3"""
    disk = Disk()

    async def write(store: SqliteStore) -> None:
        head = await land(store, begin(A))
        for _ in range(3):
            syncs = disk.syncs
            head = await land(store, follow(head))
            assert disk.syncs == syncs + flushes
            await store.keep([said("between")])

    use(SqliteStore(path, vfs=disk.name, durability=durability), write)


def test_an_append_that_cannot_be_flushed_does_not_begin(path: Path) -> None:
    """S3: an append is never acknowledged under the terms of a line"""

    def refuse(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        return "synchronous" not in sql

    async def write(store: SqliteStore) -> None:
        head, writer = await land(store, begin(A)), store._db._write
        await store.keep([said("one")])
        writer.exec_trace = refuse
        with pytest.raises(StoreError):
            await store.append([follow(head)])
        assert await store.head(A) == head
        writer.exec_trace = None
        await land(store, follow(head))
        assert writer.pragma("synchronous") == 2

    use(SqliteStore(path), write)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_acknowledged_between_lines_survives_a_power_cut(path: Path, seed: int) -> None:
    """S3, S9"""
    disk, rng = Disk(), Random(seed)
    landed: list[Record] = []

    async def work(store: SqliteStore) -> None:
        append = begin(A)
        while True:
            head = await land(store, append)
            landed.append(append.record)
            await store.keep([said("x" * rng.choice((1, 3000))) for _ in range(3)])
            append = follow(head)

    async def work_until_the_cut(store: SqliteStore) -> None:
        disk.cut_power_at(rng.randint(1, 150), rng)
        with pytest.raises(StoreError):
            await work(store)

    async def look(store: SqliteStore) -> None:
        found = await store.read(A)
        assert found[: len(landed)] == landed
        assert len(found) <= len(landed) + 1, "nothing but the append under way"
        lines = await store.lines(A)
        assert [line.number for line in lines] == list(range(1, len(lines) + 1)), "only the last of them are lost"

    use(SqliteStore(path, vfs=disk.name), work_until_the_cut)
    use(SqliteStore(path), look)
