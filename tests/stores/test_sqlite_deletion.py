"""Deletion in an SQLite file: in small steps, with the space given back, and without an id that is used twice."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.store import Line, Lost
from outlast.stores.blob_folder import locked
from outlast.stores.sqlite import SqliteStore
from outlast.stores.sqlite.deletion import PURGE_ROWS
from outlast.testing.contract.samples import A, B, begin, begin_ready, follow, land, summary, tombstone

OF_A_RUN = ("log", "line", "wait", "tag", "attribute", "blob_use", "scratch", "slot")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def use(path: Path, act: Callable[[SqliteStore], Awaitable[Any]], **options: Any) -> None:
    async def used() -> None:
        store = SqliteStore(path, **options)
        try:
            await act(store)
        finally:
            await store.close()

    asyncio.run(used())


def rows(path: Path, sql: str) -> list[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(sql).fetchall()


def test_the_file_gives_back_the_space_of_deleted_runs(path: Path) -> None:
    names = [RunId(f"run-{i:03}") for i in range(300)]

    async def fill(store: SqliteStore) -> None:
        await store.append([begin(run, summary=summary(run), body=b"[" + b" " * 9000 + b"]") for run in names])

    async def delete(store: SqliteStore) -> None:
        for run in names[:200]:
            assert await store.delete(tombstone(run), 1)
        while await store.purge(150):
            pass

    use(path, fill)
    full = path.stat().st_size
    use(path, delete)
    assert path.stat().st_size < 0.4 * full
    assert rows(path, "pragma auto_vacuum") == [(2,)]
    ((free,),) = rows(path, "pragma freelist_count")
    assert free < 10, "the texts were removed from their index later"


def test_nothing_of_a_deleted_run_is_left_but_its_tombstone(path: Path) -> None:
    """S12"""

    async def delete(store: SqliteStore) -> None:
        for run in (A, B):
            whole = summary(run, tags=("eu",), attributes={"n": 1})
            await land(store, begin(run, summary=whole, opens=[Wait("timer", "t", due=1)], blobs=["00" * 32]))
            await store.keep([Line(run, "n", 1, 1, "INFO", "", "said")])
            await store.note({run: b"half"})
        assert await store.delete(tombstone(A), 1)
        assert not await store.purge(100)

    use(path, delete)
    left = {table: len(rows(path, f"select * from {table}")) for table in OF_A_RUN}
    assert left == {**dict.fromkeys(OF_A_RUN, 1), "slot": 0}
    assert rows(path, "select run, purged from tombstone") == [(A, 1)]


def test_runs_that_are_deleted_at_once_share_a_transaction(path: Path) -> None:
    async def delete(store: SqliteStore) -> None:
        runs = [RunId(f"run-{number}") for number in range(4)]
        await store.append([begin(run, summary=summary(run)) for run in runs])
        commits: list[None] = []
        store._db._write.set_commit_hook(lambda: bool(commits.append(None)))
        deleted = await asyncio.gather(
            *(store.delete(tombstone(run), 1) for run in runs), store.delete(tombstone(A), 7)
        )
        assert deleted == [True, True, True, True, False]
        assert len(commits) == 1

    use(path, delete)


def test_a_step_of_a_purge_is_one_small_transaction(path: Path) -> None:
    """S12: an append waits for one step at most"""
    changed: list[int] = []

    async def delete(store: SqliteStore) -> None:
        head = await land(store, begin(A, summary=summary(A)))
        for _ in range(3 * PURGE_ROWS):
            head = await land(store, follow(head))
        assert await store.delete(tombstone(A), head.version)
        writer = store._db._write
        before = writer.total_changes()

        def committed() -> bool:
            nonlocal before
            changed.append(writer.total_changes() - before)
            before = writer.total_changes()
            return False

        writer.set_commit_hook(committed)
        assert await store.purge(3 * PURGE_ROWS)
        assert sum(changed) == PURGE_ROWS
        while await store.purge():
            pass

    use(path, delete, durability="relaxed")
    assert max(changed) <= PURGE_ROWS + 1, "the tombstone is marked too"
    assert sum(changed) == 3 * PURGE_ROWS + 2


def test_the_row_id_of_a_deleted_run_is_never_used_again(path: Path) -> None:
    """S12: a process that remembers it must not write to another run"""

    async def scene(store: SqliteStore) -> None:
        other = SqliteStore(path)
        head = await land(other, begin(A, summary=summary(A)))
        assert await store.delete(tombstone(A), 1)
        assert not await store.purge()
        await land(store, begin(B, summary=summary(B)))
        (lost,) = await other.append([follow(head)])
        assert isinstance(lost, Lost)
        assert lost.why == "deleted"
        assert await other.read(A) == await other.lines(A) == []
        await other.keep([Line(A, "n", 1, 1, "INFO", "", "late")])
        await other.close()

    use(path, scene)
    assert rows(path, "select run, version from head") == [(B, 1)]
    assert rows(path, "select * from line") == []


def test_new_runs_of_one_batch_are_written_but_those_that_were_deleted(path: Path) -> None:
    """S1, S4, S12"""

    async def scene(store: SqliteStore) -> None:
        assert await store.delete(tombstone(A), 0)
        outcomes = await store.append([begin(RunId("one")), begin(A), begin_ready(RunId("two"))])
        assert [getattr(outcome, "why", "") for outcome in outcomes] == ["", "deleted", ""]
        assert [run for run in ("one", A, "two") if await store.head(RunId(run))] == ["one", "two"]

    use(path, scene)


# --- blobs


def test_a_blob_that_is_put_again_during_a_collection_is_kept(path: Path) -> None:
    """S13: the one that comes second waits for the other, in any process"""

    async def scene(store: SqliteStore) -> None:
        content, ends = b"the same bytes", list[float]()
        ref = await store.blobs.put(content)
        (old,) = await store.collect(await store.now())
        assert old == ref.hash
        await store.blobs.put(content)
        before = await store.now()

        def put() -> None:
            asyncio.run(SqliteStore(path).blobs.put(content))
            ends.append(time.monotonic())

        putting = threading.Thread(target=put)
        with locked(store.blobs.root, alone=True):  # a collection has found that the blob is old
            putting.start()
            await asyncio.sleep(0.1)
            assert not ends
            store.blobs._path(ref.hash).unlink()
        await asyncio.to_thread(putting.join)
        assert await store.blobs.has(ref.hash)
        assert await store.collect(before) == []
        assert await store.collect(await store.now()) == [ref.hash]

    use(path, scene)


def test_a_collection_keeps_what_an_append_names_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S13: the uses are checked again under the write lock"""

    async def scene(store: SqliteStore) -> None:
        other = SqliteStore(path)
        ref = await store.blobs.put(b"value")
        transact = store._db.transact

        async def late(act: Any, **options: Any) -> Any:
            await land(other, begin(A, blobs=[ref.hash]))  # after the first check
            return await transact(act, **options)

        with monkeypatch.context() as patched:
            patched.setattr(store._db, "transact", late)
            assert await store.collect(await store.now()) == []
        assert await store.blobs.has(ref.hash)
        assert await other.delete(tombstone(A), 1)
        assert await store.collect(await store.now()) == [ref.hash]
        await other.close()

    use(path, scene)
