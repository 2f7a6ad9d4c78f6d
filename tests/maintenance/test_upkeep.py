"""The caretaker: how a store stands, and a copy of it (U1 to U3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outlast.errors import Damaged, InvalidInput, StoreError, StoreUnusable
from outlast.history.ids import RunId
from outlast.maintenance import back_up, inspect
from outlast.settings import Settings
from outlast.store import BlobRef
from outlast.stores.shared import VERSION
from outlast.stores.sqlite import SqliteStore
from outlast.stores.sqlite import maintenance as sqlite_upkeep
from outlast.testing.contract.samples import ANN, A, B, begin, events, follow, land, summary

LATER = RunId("written-while-it-is-copied")
LARGE = b"large value " * 300_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "home" / "runs.db"))


def play(settings: Settings, act: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def played() -> None:
        store = SqliteStore(settings.store)
        try:
            await act(store)
        finally:
            await store.close()

    asyncio.run(played())


async def two_runs(store: SqliteStore) -> None:
    await store.enrol(ANN, 30)
    await land(store, begin(A, claim=ANN, summary=summary(A)))
    await land(store, begin(B, summary=summary(B), body=events(3000), count=3000))
    await store.blobs.put(LARGE)
    await store.blobs.put(b"small")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm", ".workers"))}


# --- how it stands


def test_it_tells_runs_blobs_and_workers(settings: Settings, tmp_path: Path) -> None:
    async def scene(store: SqliteStore) -> None:
        await two_runs(store)
        found = await inspect(settings)
        assert (found.path, found.schema) == (str(tmp_path / "home" / "runs.db"), VERSION)
        assert sum(found.runs.values()) == 2
        assert (found.blob_count, found.blob_bytes) == (2, len(LARGE) + 5)
        assert [(worker.worker, worker.is_live, worker.runs) for worker in found.workers] == [(ANN, True, 1)]
        assert found.bytes + found.wal_bytes > 0

    play(settings, scene)


def test_a_worker_whose_process_is_gone_is_not_alive(settings: Settings) -> None:
    play(settings, two_runs)  # closed without retiring
    (worker,) = asyncio.run(inspect(settings)).workers
    assert not worker.is_live


def test_nothing_is_made_where_no_store_was(settings: Settings, tmp_path: Path) -> None:
    """U1"""
    for act in (inspect, lambda settings: back_up(settings, str(tmp_path / "copy.db"))):
        with pytest.raises(StoreUnusable, match="there is no store at"):
            asyncio.run(act(settings))
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_needs_no_care(tmp_path: Path) -> None:
    memory = Settings(store="memory:")
    for act in (inspect, lambda settings: back_up(settings, str(tmp_path / "copy.db"))):
        with pytest.raises(InvalidInput, match="in memory"):
            asyncio.run(act(memory))


# --- a copy


def test_a_copy_is_a_store_with_all_runs_and_blobs(settings: Settings, tmp_path: Path) -> None:
    """U2"""
    play(settings, two_runs)
    told: list[tuple[str, int, int]] = []
    copied = asyncio.run(back_up(settings, str(tmp_path / "copies" / "copy.db"), lambda *said: told.append(said)))
    assert (copied.runs, copied.blob_count, copied.blob_bytes, copied.damaged) == (2, 2, len(LARGE) + 5, ())
    assert names(tmp_path / "copies") == {"copy.db", "copy.db.blobs"}
    assert {what for what, _, _ in told} == {"database", "blobs"}
    assert all(0 <= done <= of for _, done, of in told)

    async def scene(store: SqliteStore) -> None:
        for run in (A, B):
            head = await store.head(run)
            assert head is not None
        blobs = [file for file in store.blobs.root.rglob("*") if file.is_file()]
        for file in blobs:
            ref = BlobRef(file.parent.name + file.name, file.stat().st_size)
            assert b"".join([chunk async for chunk in store.blobs.open(ref)]) in (LARGE, b"small")
        assert len(blobs) == 2

    play(Settings(store=str(copied.path)), scene)


def test_what_is_written_while_the_copy_is_made_does_not_make_it_start_over(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U2: the copy is of one moment."""
    monkeypatch.setattr(sqlite_upkeep, "PAGES", 1)

    async def scene(store: SqliteStore) -> None:
        await two_runs(store)
        heads = [await land(store, begin(LATER, summary=summary(LATER)))]
        told: list[int] = []
        writes: list[asyncio.Task[None]] = []
        in_turn = asyncio.Lock()

        async def write() -> None:
            async with in_turn:
                heads.append(await land(store, follow(heads[-1], body=events(200), count=200)))

        def tell(what: str, done: int, _of: int) -> None:
            if what == "database":
                told.append(done)
                assert len(told) < 1000, "it starts over and over"
                if len(told) % 5 == 1:
                    writes.append(asyncio.ensure_future(write()))

        copied = await back_up(settings, str(tmp_path / "copy.db"), tell)
        await asyncio.gather(*writes)
        assert len(writes) > 3
        assert told == list(range(1, len(told) + 1))
        assert copied.runs == 3

    play(settings, scene)
    assert asyncio.run(_version(tmp_path / "copy.db", LATER)) == 1


async def _version(path: Path, run: RunId) -> int:
    store = SqliteStore(path, readonly=True)
    head = await store.head(run)
    await store.close()
    assert head is not None
    return head.version


def test_the_blobs_of_a_store_may_lie_elsewhere(settings: Settings, tmp_path: Path) -> None:
    play(settings, two_runs)
    (tmp_path / "home" / "runs.db.blobs").rename(tmp_path / "large")
    elsewhere = Settings(store=settings.store, blobs=str(tmp_path / "large"))
    assert asyncio.run(inspect(elsewhere)).blob_count == 2
    assert asyncio.run(back_up(elsewhere, str(tmp_path / "copy.db"))).blobs == tmp_path / "copy.db.blobs"
    assert asyncio.run(inspect(Settings(store=str(tmp_path / "copy.db")))).blob_count == 2


@pytest.mark.parametrize("taken", ["copy.db", "copy.db-wal", "copy.db.blobs"])
def test_a_copy_replaces_nothing(taken: str, settings: Settings, tmp_path: Path) -> None:
    """U3"""
    play(settings, two_runs)
    (tmp_path / taken).write_text("mine")
    with pytest.raises(InvalidInput, match="already exists and a backup overwrites nothing"):
        asyncio.run(back_up(settings, str(tmp_path / "copy.db")))
    assert (tmp_path / taken).read_text() == "mine"
    assert names(tmp_path) == {"home", taken} or taken.endswith("-wal")


def test_a_copy_that_fails_leaves_nothing(settings: Settings, tmp_path: Path) -> None:
    """U3"""
    play(settings, two_runs)

    def tell(what: str, done: int, _of: int) -> None:
        if what == "blobs" and done:
            raise OSError("no space left")

    with pytest.raises(StoreError, match="no space left; its files were removed"):
        asyncio.run(back_up(settings, str(tmp_path / "copies" / "copy.db"), tell))
    assert names(tmp_path / "copies") == set()


def test_a_copy_that_is_interrupted_leaves_nothing(settings: Settings, tmp_path: Path) -> None:
    """U3"""
    play(settings, two_runs)

    async def scene() -> None:
        begun = asyncio.Event()
        work = asyncio.create_task(back_up(settings, str(tmp_path / "copies" / "copy.db"), lambda *_: begun.set()))
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(scene())
    assert names(tmp_path / "copies") == set()


def test_a_damaged_blob_is_copied_as_it_is_and_named(settings: Settings, tmp_path: Path) -> None:
    play(settings, two_runs)
    victim = next(file for file in (tmp_path / "home" / "runs.db.blobs").rglob("*") if file.is_file())
    victim.write_bytes(b"something else")
    copied = asyncio.run(back_up(settings, str(tmp_path / "copy.db")))
    assert copied.damaged == (victim.parent.name + victim.name,)
    assert (copied.blobs / victim.parent.name / victim.name).read_bytes() == b"something else"


def test_a_database_whose_pages_do_not_fit_is_not_passed_on(settings: Settings, tmp_path: Path) -> None:
    play(settings, two_runs)
    file = Path(settings.store)
    content = bytearray(file.read_bytes())
    content[-4096:] = b"\xff" * 4096
    file.write_bytes(bytes(content))
    with pytest.raises((Damaged, StoreError)):
        asyncio.run(back_up(settings, str(tmp_path / "copies" / "copy.db")))
    assert names(tmp_path / "copies") == set()


@pytest.mark.parametrize("target", ["x\0y", "y" * 5000, "\udcff/x.db"])
def test_places_that_cannot_be_are_refused(
    target: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    play(settings, two_runs)
    with pytest.raises((StoreError, InvalidInput)):
        asyncio.run(back_up(settings, target))
