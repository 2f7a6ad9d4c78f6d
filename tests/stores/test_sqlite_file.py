"""What is special about a store in an SQLite file. What it shares with all others is in `tests/contract`."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import apsw
import pytest

from outlast.errors import Damaged, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnusable
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.store import LANDED, Holding, Line, Lost, RunFilter
from outlast.stores.shared import VERSION
from outlast.stores.sqlite import SqliteStore
from outlast.stores.sqlite.maintenance import check, look
from outlast.testing.contract.samples import ANN, BEN, A, B, begin, begin_ready, events, follow, land, summary, trace
from outlast.testing.contract.wakeups import RecordedSubscription


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def opened() -> Iterator[list[apsw.Connection]]:
    """Every connection that is opened during the test, in order."""
    connections: list[apsw.Connection] = []
    with hooked(connections.append):
        yield connections


@contextmanager
def hooked(hook: Callable[[apsw.Connection], object]) -> Iterator[None]:
    apsw.connection_hooks.append(hook)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)


def use(store: SqliteStore, act: Callable[[SqliteStore], Awaitable[object]]) -> None:
    """Do something with a store on a loop of its own, then close it."""

    async def used() -> None:
        try:
            await act(store)
        finally:
            await store.close()

    asyncio.run(used())


async def nothing(_: SqliteStore) -> None: ...


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, but for the two that SQLite puts beside one that is being read."""
    gc.collect()  # whatever was refused has let go of the file
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(("-wal", "-shm"))]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


# --- files that are not ours


def write_foreign(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        ("create table t (x)", "insert into t values (1)"),
        ("pragma journal_mode = wal", "create table t (x)"),
        ("pragma user_version = 1",),
        ("pragma application_id = 7",),
    ],
)
def test_an_sqlite_file_of_others_is_refused_and_left_as_it_is(
    path: Path, statements: tuple[str, ...], readonly: bool
) -> None:
    write_foreign(path, *statements)
    before = contents(path.parent)
    with pytest.raises(StoreUnusable, match=f"{path.name} is an SQLite file, but not one of Outlast's"):
        SqliteStore(path, readonly=readonly)
    assert contents(path.parent) == before


def test_a_file_of_a_newer_version_is_refused_by_its_name(path: Path) -> None:
    asyncio.run(SqliteStore(path).close())
    write_foreign(path, "pragma user_version = 99")
    with pytest.raises(StoreUnusable, match=f"{path.name} has version 99, .*: upgrade Outlast to open it"):
        SqliteStore(path)


def test_an_sqlite_file_of_others_keeps_what_is_only_in_its_wal(path: Path) -> None:
    """A process of theirs died; recovering its file is not ours to do."""
    living = path.with_name("living.db")
    connection = sqlite3.connect(living)
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table t (x)")
    connection.commit()
    for suffix in ("", "-wal"):
        shutil.copy(f"{living}{suffix}", f"{path}{suffix}")
    connection.close()
    wal = path.with_name(f"{path.name}-wal")
    before = path.read_bytes(), wal.read_bytes()
    with pytest.raises(StoreUnusable):
        SqliteStore(path)
    gc.collect()
    assert wal.exists()
    assert (path.read_bytes(), wal.read_bytes()) == before


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("text", [b"hello", b"x" * 5000, b"SQLite format 3\0" + b"\0" * 2000])
def test_a_file_that_is_not_sqlite_is_refused_and_left_as_it_is(path: Path, text: bytes, readonly: bool) -> None:
    path.write_bytes(text)
    with pytest.raises(StoreUnusable):
        SqliteStore(path, readonly=readonly)
    assert contents(path.parent) == {path.name: text}


def test_a_folder_is_refused(path: Path) -> None:
    with pytest.raises(StoreUnusable):
        SqliteStore(path.parent)


def test_a_path_below_a_file_is_refused(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(StoreUnusable):
        SqliteStore(path / "below" / "runs.db")


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(("version", "advice"), [(VERSION + 1, "upgrade Outlast"), (VERSION - 1, "create a new store")])
def test_a_file_of_another_version_is_refused_and_left_as_it_is(
    path: Path, readonly: bool, version: int, advice: str
) -> None:
    use(SqliteStore(path), nothing)
    write_foreign(path, f"pragma user_version = {version}")
    before = contents(path.parent)
    with pytest.raises(StoreUnusable, match=f"{path} has version {version}.*{advice}"):
        SqliteStore(path, readonly=readonly)
    assert contents(path.parent) == before


# --- the schema


def dump(path: Path) -> str:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    marks = (
        f"-- application_id {connection.pragma('application_id')}, user_version {connection.pragma('user_version')}\n"
    )
    rows = connection.execute("select sql from sqlite_schema where sql is not null order by type, name").fetchall()
    connection.close()
    return "\n".join([marks, *(f"{sql};\n" for (sql,) in rows)])


def fresh_dump(folder: Path) -> str:
    use(SqliteStore(folder / "fresh.db"), nothing)
    return dump(folder / "fresh.db")


def test_opening_a_file_again_changes_nothing(path: Path) -> None:
    use(SqliteStore(path), lambda store: land(store, begin(A)))
    before = contents(path.parent)
    use(SqliteStore(path), lambda store: store.head(A))
    assert contents(path.parent) == before


@pytest.mark.parametrize("round", range(5))
def test_eight_that_open_a_fresh_file_at_once_all_succeed(path: Path, round: int) -> None:
    together = threading.Barrier(8)

    def come() -> SqliteStore:
        together.wait()
        return SqliteStore(path)

    with ThreadPoolExecutor(8) as threads:
        comers = [threads.submit(come) for _ in range(8)]
    stores = [comer.result() for comer in comers]
    heads = [begin(RunId(f"r{number}")) for number in range(8)]

    async def write_and_close() -> None:
        for store, append in zip(stores, heads, strict=True):
            await land(store, append)
            await store.close()

    asyncio.run(write_and_close())
    assert dump(path) == fresh_dump(path.parent)


def test_a_file_that_another_prepares_while_we_look_at_it_is_ours(path: Path) -> None:
    """The one that opens second sees no mark yet, then the first one's tables: they are Outlast's all the same."""
    looks: list[str] = []

    def trace_first(connection: apsw.Connection) -> None:
        apsw.connection_hooks.remove(trace_first)

        def before(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
            if "sqlite_schema" in sql and not looks:
                looks.append(sql)
                use(SqliteStore(path), nothing)
            return True

        connection.exec_trace = before

    apsw.connection_hooks.append(trace_first)
    use(SqliteStore(path), lambda store: land(store, begin(A)))
    assert looks
    assert dump(path) == fresh_dump(path.parent)


# --- settings


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("relaxed", 1)])
def test_commits_are_flushed_unless_durability_is_relaxed(
    path: Path, opened: list[apsw.Connection], durability: str, synchronous: int
) -> None:
    """S3"""

    async def look(_: SqliteStore) -> None:
        writing = [connection for connection in opened if not connection.readonly("main")]
        assert [connection.pragma("synchronous") for connection in writing] == [synchronous] * len(writing)
        assert len(writing) >= 1
        assert {connection.pragma("journal_mode") for connection in opened} == {"wal"}

    use(SqliteStore(path, durability=durability), look)


def test_the_default_is_full_durability(path: Path, opened: list[apsw.Connection]) -> None:
    """S3"""

    async def look(_: SqliteStore) -> None:
        assert {each.pragma("synchronous") for each in opened if not each.readonly("main")} == {2}

    use(SqliteStore(path), look)


def test_a_batch_is_one_commit_and_losers_cost_no_other(path: Path, opened: list[apsw.Connection]) -> None:
    """S4"""
    commits = 0

    def committed() -> bool:
        nonlocal commits
        commits += 1
        return False

    async def write(store: SqliteStore) -> None:
        await land(store, begin(A))
        (writer,) = [connection for connection in opened if not connection.readonly("main")]
        writer.set_commit_hook(committed)
        batch = [begin(RunId(f"r{number}"), opens=[Wait("signal", "s")]) for number in range(50)]
        outcomes = await store.append([begin(A), *batch, begin(A)])
        assert (outcomes.count(LANDED), commits) == (50, 1)

    use(SqliteStore(path), write)


def test_the_event_view_shows_one_row_per_event(path: Path) -> None:
    async def write(store: SqliteStore) -> None:
        body = b'[{"type":"RunCreated","workflow":"w"},{"type":"NodeStarted","node":"n"}]'
        head = await land(store, begin(A, count=2, body=body))
        await land(store, follow(head, branch=1, count=3))
        await land(store, begin(B, body=events(1)))

    use(SqliteStore(path), write)
    connection = sqlite3.connect(path)
    rows = connection.execute("select run, seq, branch, type, node from event order by run, seq").fetchall()
    dates = connection.execute("select distinct time from event").fetchall()
    connection.close()
    assert rows == [
        (A, 1, 0, "RunCreated", None),
        *((A, seq, seq > 2, "NodeStarted", "n") for seq in (2, 3, 4, 5)),
        (B, 1, 0, "NodeStarted", "n"),
    ]
    assert dates == [("2023-11-14 22:13:20",)]


# --- reading only


def test_a_store_opened_for_reading_reads(path: Path) -> None:
    async def read(store: SqliteStore) -> None:
        created = begin(A, summary=summary(A), opens=[Wait("timer", "t", due=1)], claim=ANN)
        await land(store, created)
        reader = SqliteStore(path, readonly=True)
        heard = asyncio.Event()
        reader.subscribe(lambda _: heard.set())
        assert await trace(reader, A) == await trace(store, A)
        assert [due.wait.name for due in await reader.due()] == ["timer:t"]
        assert len((await reader.search(RunFilter())).items) == 1
        await land(store, follow(created.head))
        await asyncio.wait_for(heard.wait(), 2)
        await reader.close()

    use(SqliteStore(path), read)


def test_a_store_opened_for_reading_refuses_to_write(path: Path) -> None:
    """S5: nothing was written"""

    async def prepare(store: SqliteStore) -> None:
        await store.enrol(ANN, 60)
        await land(store, begin(A, summary=summary(A), claim=ANN))

    async def try_to_write(store: SqliteStore) -> None:
        before = await trace(store, A)
        for write in (
            lambda: store.append([begin(B)]),
            lambda: store.correct(summary(A, 2), 1),
            lambda: store.note({A: b"x"}),
            lambda: store.keep([Line(A, "n", 1, 1, "INFO", "", "x")]),
            lambda: store.enrol(BEN, 60),
            lambda: store.renew(ANN, 60),
            lambda: store.claim(BEN, runs=[A]),
            lambda: store.release(A, ANN, 1),
            lambda: store.retire(ANN),
        ):
            with pytest.raises(StoreReadOnly):
                await write()
        assert await trace(store, A) == before

    use(SqliteStore(path), prepare)
    use(SqliteStore(path, readonly=True), try_to_write)


def test_a_store_opened_for_reading_makes_no_lock_for_a_worker(path: Path) -> None:
    """S5"""

    async def enrol(store: SqliteStore) -> None:
        with pytest.raises(StoreReadOnly):
            await store.enrol(BEN, 60)

    use(SqliteStore(path), nothing)
    before = contents(path.parent)
    use(SqliteStore(path, readonly=True), enrol)
    assert contents(path.parent) == before


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.EACCES, StoreReadOnly),
        (errno.EROFS, StoreReadOnly),
        (errno.ENOSPC, StoreFull),
        (errno.EMFILE, StoreError),
    ],
)
def test_a_worker_that_can_have_no_lock_is_refused_and_not_enrolled(
    code: int, error: type[Exception], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5"""

    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    async def enrol(store: SqliteStore) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refuse)
            with pytest.raises(error, match="nothing was written"):
                await store.enrol(BEN, 60)
        assert not await store.renew(BEN, 60)

    use(SqliteStore(path), enrol)


def test_a_store_opened_for_reading_keeps_no_blobs(path: Path) -> None:
    """S5"""

    async def put(store: SqliteStore) -> None:
        with pytest.raises(StoreReadOnly):
            await store.blobs.put(b"x")

    use(SqliteStore(path), nothing)
    before = contents(path.parent)
    use(SqliteStore(path, readonly=True), put)
    assert contents(path.parent) == before


def test_a_file_that_is_missing_cannot_be_opened_for_reading(path: Path) -> None:
    with pytest.raises(StoreUnusable, match="there is no store"):
        SqliteStore(path, readonly=True)
    assert contents(path.parent) == {}


# --- the death of a worker

WORKER = """
import asyncio, os, sys, time
from outlast.stores.sqlite import SqliteStore

async def work():
    store = SqliteStore(sys.argv[1])
    await store.enrol(sys.argv[2], 3600)
    claims = await store.claim(sys.argv[2], limit=9)
    print(*(claim.run for claim in claims), flush=True)
    THEN
    sys.stdin.read()

asyncio.run(work())
"""
FORK = "os.fork() or (print(os.getpid(), flush=True), time.sleep(60))"


@contextmanager
def worker_process(path: Path, name: str, then: str = "") -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process in which a worker has claimed what there was; it waits until it is killed."""
    command = [sys.executable, "-c", WORKER.replace("THEN", then), str(path), name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def test_a_killed_worker_is_taken_over_at_once_and_a_live_one_is_not(path: Path) -> None:
    """S6: the system gives its lock away, so nobody has to wait an hour"""

    async def watch(store: SqliteStore) -> None:
        await land(store, begin_ready(A))
        await store.enrol(BEN, 60)
        with worker_process(path, "one") as (process, claimed):
            assert claimed == [A]
            assert await store.claim(BEN, limit=9) == []
            assert await store.claim(BEN, runs=[A]) == []
            holding = await store.holding(A)
            assert holding is not None
            assert (holding.worker, holding.is_live) == ("one", True)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            holding = await store.holding(A)
            assert holding is not None
            assert not holding.is_live
            assert holding.expires > await store.now() + 1_000_000_000, "its time has not run out"
            (claim,) = await store.claim(BEN, limit=9)
            assert (claim.run, claim.previous, claim.cause) == (A, "one", "dead")

    use(SqliteStore(path), watch)


def test_a_worker_of_this_process_counts_as_alive_at_every_door(path: Path) -> None:
    """S6"""

    async def watch(store: SqliteStore) -> None:
        other = SqliteStore(path)
        await store.enrol(ANN, 60)
        await other.enrol(BEN, 60)
        await land(store, begin(A, claim=ANN))
        for _ in range(3):  # looking at a lock must not take it away
            assert await other.claim(BEN, runs=[A]) == []
            assert await store.claim(BEN, runs=[A]) == []
        await other.close()

    use(SqliteStore(path), watch)


@pytest.mark.parametrize("step", [60, 3_600])
def test_a_step_of_the_clock_takes_no_run_from_a_worker_that_holds_its_lock(step: int, path: Path) -> None:
    """S6: so does a machine that slept"""

    async def watch(store: SqliteStore) -> None:
        await land(store, begin_ready(A))
        await store.enrol(BEN, 30)
        with worker_process(path, "one") as (_, claimed):
            assert claimed == [A]
            store.skew = (3_600 + step) * 1_000_000
            assert (await held(store)).expires < await store.now()
            assert (await held(store)).is_live
            assert await store.claim(BEN, limit=9) == []
            assert await store.claim(BEN, runs=[A]) == []

    use(SqliteStore(path), watch)


def test_where_the_lock_of_a_worker_cannot_be_seen_its_time_decides(path: Path) -> None:
    """S6"""

    async def watch(store: SqliteStore) -> None:
        await land(store, begin_ready(A))
        await store.enrol(BEN, 30)
        with worker_process(path, "one"):
            path.with_name("runs.db.workers").joinpath("one.lock").unlink()
            assert await store.claim(BEN, runs=[A]) == []
            store.skew = 5_000_000_000
            (claim,) = await store.claim(BEN, runs=[A])
            assert (claim.previous, claim.cause) == ("one", "expired")

    use(SqliteStore(path), watch)


def test_a_worker_that_the_store_no_longer_knows_holds_no_lock(path: Path) -> None:
    """S6: or what it still holds would be nobody's for ever"""

    async def watch(store: SqliteStore) -> None:
        other = SqliteStore(path)
        await store.enrol(ANN, 60)
        await land(store, begin(A, claim=ANN))
        with closing(apsw.Connection(str(path))) as db:
            db.execute("delete from worker where id = ?", (ANN,))
        assert not await store.renew(ANN, 60)
        await other.enrol(BEN, 60)
        (claim,) = await other.claim(BEN, runs=[A])
        assert (claim.previous, claim.cause) == (ANN, "expired")
        await other.close()

    use(SqliteStore(path), watch)


def test_a_forked_child_does_not_keep_the_workers_of_its_parent_alive(path: Path) -> None:
    """S6: it outlives the parent, as the processes of a pool do when their parent is killed"""

    async def watch(store: SqliteStore) -> None:
        await land(store, begin_ready(A))
        await store.enrol(BEN, 60)
        with worker_process(path, "one", FORK) as (process, claimed):
            assert claimed == [A]
            assert process.stdout is not None
            child = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            try:
                (claim,) = await store.claim(BEN, runs=[A])
                assert claim.cause == "dead"
            finally:
                os.kill(child, signal.SIGKILL)

    use(SqliteStore(path), watch)


async def held(store: SqliteStore) -> Holding:
    holding = await store.holding(A)
    assert holding is not None
    return holding


# --- others hold the lock


async def tick(times: list[float], often: asyncio.Event) -> None:
    """Note the time again and again; `often` is set after ten times."""
    while True:
        times.append(time.monotonic())
        if len(times) == 10:
            often.set()
        await asyncio.sleep(0.001)


@contextmanager
def locked(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    connection.execute("begin immediate")
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("commit", ["inline", "thread"])
def test_a_write_lock_of_others_is_waited_for_up_to_the_time_out_while_the_loop_goes_on(
    path: Path, commit: str
) -> None:
    """S5: and then nothing was written"""

    async def write(store: SqliteStore) -> None:
        head = await land(store, begin(A))
        ticks: list[float] = []
        ticking = asyncio.create_task(tick(ticks, asyncio.Event()))
        with locked(path):
            began = time.monotonic()
            with pytest.raises(StoreBusy):
                await store.append([follow(head)])
            took = time.monotonic() - began
            assert await store.head(A) == head, "reading is not disturbed"
        ticking.cancel()
        assert 0.3 <= took < 3
        assert len([moment for moment in ticks if began <= moment <= began + took]) > 10
        await land(store, follow(head))

    use(SqliteStore(path, busy_timeout=0.3, commit=commit), write)


@pytest.mark.parametrize("commit", ["inline", "thread"])
def test_a_write_lock_of_others_that_ends_in_time_is_not_noticed(path: Path, commit: str) -> None:
    """S5"""

    async def write(store: SqliteStore) -> None:
        head = await land(store, begin(A))
        often = asyncio.Event()
        ticking = asyncio.create_task(tick([], often))
        with locked(path) as other:
            writing = asyncio.create_task(store.append([follow(head)]))
            await often.wait()
            assert not writing.done()
            other.execute("rollback")
            assert await asyncio.wait_for(writing, 10) == [LANDED]
        ticking.cancel()

    use(SqliteStore(path, busy_timeout=30, commit=commit), write)


def test_an_append_that_meets_the_short_transaction_of_another_process_does_not_go_back_to_the_loop(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleep of the loop takes longer than that transaction."""

    async def write(store: SqliteStore) -> None:
        head = await land(store, begin(A))
        with locked(path) as other:
            monkeypatch.setattr(time, "sleep", lambda _: other.execute("rollback"))
            with closing(store.append([follow(head)])) as appending, pytest.raises(StopIteration) as ended:
                appending.send(None)
            assert ended.value.value == [LANDED]

    use(SqliteStore(path, commit="inline"), write)


def test_a_cancelled_write_that_fails_is_not_logged_by_the_loop(path: Path) -> None:
    async def write(store: SqliteStore) -> None:
        begun, ends = threading.Event(), threading.Event()

        def fail(_: apsw.Connection) -> None:
            begun.set()
            ends.wait(10)
            raise ValueError

        logged: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        writing = asyncio.create_task(store._db.transact(fail, flushed=False))
        await asyncio.to_thread(begun.wait, 10)
        writing.cancel()
        for _ in range(3):  # until the transaction waits for its thread only
            await asyncio.sleep(0)
        ends.set()
        await asyncio.wait([writing])
        assert writing.cancelled()
        del writing
        await asyncio.sleep(0)
        gc.collect()
        assert logged == []

    use(SqliteStore(path), write)


def test_what_another_process_wrote_while_we_waited_is_what_we_lose_to(path: Path) -> None:
    """S2"""

    async def write(store: SqliteStore) -> None:
        head = await land(store, begin(A))
        other = SqliteStore(path)
        theirs = follow(head, kind=Kind.GUEST)
        with locked(path) as lock:
            writing = [
                asyncio.create_task(door.append([each])) for door, each in ((other, theirs), (store, follow(head)))
            ]
            await asyncio.sleep(0)
            lock.execute("rollback")
            outcomes = [outcome for (outcome,) in await asyncio.gather(*writing)]
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Landed", "Lost"]
        (lost,) = [outcome for outcome in outcomes if isinstance(outcome, Lost)]
        assert list(lost.tail) == (await store.read(A))[1:]
        await other.close()

    use(SqliteStore(path), write)


# --- blobs beside the file


def test_a_blob_that_is_no_longer_what_its_name_says_is_damaged(path: Path) -> None:
    """S3"""

    async def damage(store: SqliteStore) -> None:
        ref = await store.blobs.put(b"what it was")
        (file,) = [file for file in (path.parent / "runs.db.blobs").rglob("*") if file.is_file()]
        file.write_bytes(b"what it is ")
        with pytest.raises(Damaged):
            [chunk async for chunk in store.blobs.open(ref)]

    use(SqliteStore(path), damage)


@pytest.mark.parametrize("commit", ["inline", "thread"])
def test_what_a_process_writes_itself_is_no_news_to_it(
    path: Path, commit: Literal["inline", "thread"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or every run of a busy process would read its own log again, whenever another process writes."""
    monkeypatch.setattr("outlast.stores.sqlite.wakeups.POLL", 0.0)  # a look at every turn of the loop

    async def scene() -> None:
        own, other = SqliteStore(path, commit=commit), SqliteStore(path)
        subscription = RecordedSubscription(own)
        heads = [await land(own, begin(A)), await land(other, begin(B))]
        for _ in range(20):
            heads[0] = await land(own, follow(heads[0]))
            heads[1] = await land(other, follow(heads[1]))
        await subscription.wait_for([B])
        last = RunId("last")
        await land(other, begin(last))
        await subscription.wait_for([last])  # earlier appends are checked by then
        assert A not in subscription.reported
        subscription.end()
        await own.close()
        await other.close()

    asyncio.run(scene())


@pytest.fixture
def creation_killed(tmp_path: Path) -> Path:
    """A file beside which a journal is left that is to be rolled back, which a reader may not touch."""
    made, file = tmp_path / "made.db", tmp_path / "runs.db"
    connection = apsw.Connection(str(made))
    for statement in ("pragma cache_size = 1", "begin", "create table t (x)"):
        connection.execute(statement)
    connection.execute(
        "with n (i) as (select 1 union all select i + 1 from n where i < 500) "
        "insert into t select randomblob(4000) from n"
    )
    shutil.copy(made, file)
    shutil.copy(f"{made}-journal", f"{file}-journal")
    connection.close()
    return file


def test_a_file_whose_creation_was_killed_is_completed_by_whoever_reads_it(creation_killed: Path) -> None:
    async def read() -> list[str]:
        store = SqliteStore(creation_killed, readonly=True)
        try:
            return [listed.summary.run for listed in (await store.search(RunFilter())).items]
        finally:
            await store.close()

    assert asyncio.run(read()) == []


# --- a file that is moved or replaced while it is open ------------------------------------------------------------------


@pytest.mark.parametrize("deed", ["moved", "replaced"])
def test_a_file_that_is_moved_or_replaced_while_it_is_open_is_neither_written_nor_read(path: Path, deed: str) -> None:
    async def scene() -> None:
        store = SqliteStore(path)
        await land(store, begin(A))
        elsewhere = path.with_name("elsewhere.db")
        path.rename(elsewhere)
        if deed == "replaced":
            other = SqliteStore(path.with_name("other.db"))
            await other.close()
            path.with_name("other.db").rename(path)
        said = "moved or removed" if deed == "moved" else "replaced by another file"
        for act in (lambda: land(store, begin(B)), lambda: store.read(A), lambda: store.search(RunFilter())):
            with pytest.raises(StoreUnusable, match=said):
                await act()
        elsewhere.rename(path)
        await land(store, begin(B))
        assert await store.read(B)
        await store.close()
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select run from head").fetchall() == [(A,), (B,)]

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["table wait", "index head_ready"])
@pytest.mark.parametrize("readonly", [True, False])
def test_a_file_of_which_a_part_was_dropped_is_refused_by_its_name(path: Path, name: str, readonly: bool) -> None:
    asyncio.run(SqliteStore(path).close())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"drop {name}")
        connection.commit()
    with pytest.raises(StoreUnusable, match=f"runs.db lacks {name.split()[1]}"):
        SqliteStore(path, readonly=readonly)


def test_a_file_whose_creation_was_killed_is_completed_by_whoever_looks_after_it(
    creation_killed: Path, tmp_path: Path
) -> None:
    """`outlast db info` and `outlast db backup`."""
    assert look(creation_killed).runs == {}
    shutil.copy(creation_killed, tmp_path / "whole.db")
    check(tmp_path / "whole.db")
