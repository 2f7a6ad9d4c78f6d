"""The builder: which store is meant, and what opens it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import outlast as ol
from outlast.address import blobs_beside
from outlast.client import RunFilter
from outlast.compose import default_store, open_desk, open_settled, open_store, read_key
from outlast.errors import InvalidInput, StoreError, StoreUnusable
from outlast.history.events import InteractionRequested
from outlast.settings import Settings
from outlast.store import BlobRef
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_STORE", raising=False)


def test_the_one_given_goes_before_the_variable_and_that_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_store() == str(tmp_path / ".outlast" / "runs.db")
    monkeypatch.setenv("OUTLAST_STORE", "")
    assert default_store() == str(tmp_path / ".outlast" / "runs.db")
    monkeypatch.setenv("OUTLAST_STORE", "named.db")
    assert default_store() == "named.db"
    assert default_store("given.db") == "given.db"


@pytest.mark.parametrize("address", ["x.db", "./x.db", "sqlite:///x.db", Path("x.db")])
def test_a_path_and_a_url_open_the_same_file(address: str | Path, tmp_path: Path) -> None:
    store = open_store(address)
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "x.db"
    asyncio.run(store.close())


def test_four_slashes_are_an_absolute_path(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'y.db'}")
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "y.db"
    asyncio.run(store.close())


def test_memory_is_a_store_too() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


def test_a_file_with_a_colon_in_its_name_can_be_meant(tmp_path: Path) -> None:
    store = open_store("./runs:2.db")
    assert isinstance(store, SqliteStore)
    assert store.path.name == "runs:2.db"
    asyncio.run(store.close())


@pytest.mark.parametrize(
    ("address", "blobs"),
    [(".outlast/runs.db", ".outlast/blobs"), ("x.db", "x.db.blobs"), ("deep/runs.db", "deep/runs.db.blobs")],
)
def test_blobs_are_kept_beside_the_file(address: str, blobs: str, tmp_path: Path) -> None:
    store = open_store(address)
    assert isinstance(store, SqliteStore)
    assert store.blobs.root == tmp_path / blobs
    asyncio.run(store.close())


def _linked(link: str, target: str, folder: Path) -> None:
    (folder / link).parent.mkdir(parents=True, exist_ok=True)
    (folder / link).symlink_to(folder / target)


@pytest.mark.parametrize(
    ("link", "target", "address"),
    [("x.db", "y.db", "x.db"), ("x", "y", "x/runs.db"), ("x", ".outlast", "x/runs.db"), (".outlast", "y", None)],
)
def test_a_store_and_what_is_beside_it_are_the_same_through_a_link(
    link: str, target: str, address: str | None, tmp_path: Path
) -> None:
    file = target if target.endswith(".db") else f"{target}/runs.db"
    asyncio.run(open_store(file).close())
    _linked(link, target, tmp_path)
    one, two = open_store(file), open_store(default_store(address))
    assert isinstance(one, SqliteStore)
    assert isinstance(two, SqliteStore)
    assert (two.path, two.blobs.root) == (one.path, one.blobs.root) == (tmp_path / file, one.blobs.root)
    for store in (one, two):
        asyncio.run(store.close())


@pytest.mark.parametrize(
    ("before", "after"), [(".outlast", "data"), ("data", ".outlast"), ("data", "other"), (".outlast", ".outlast")]
)
def test_a_folder_that_is_moved_keeps_its_blobs_also_behind_a_link(before: str, after: str, tmp_path: Path) -> None:
    async def put() -> BlobRef:
        store = open_store(f"{before}/runs.db")
        try:
            return await store.blobs.put(b"large")
        finally:
            await store.close()

    async def read(address: str) -> bytes:
        store = open_store(address)
        try:
            return b"".join([chunk async for chunk in store.blobs.open(ref)])
        finally:
            await store.close()

    ref = asyncio.run(put())
    (tmp_path / "disk").mkdir()
    (tmp_path / before).rename(tmp_path / "disk" / after)
    _linked(".outlast", f"disk/{after}", tmp_path)
    assert asyncio.run(read(".outlast/runs.db")) == b"large"
    assert asyncio.run(read(f"disk/{after}/runs.db")) == b"large"


def test_a_folder_of_somebody_elses_is_not_taken_for_that_of_the_blobs(tmp_path: Path) -> None:
    (tmp_path / "blobs" / "ab").mkdir(parents=True)
    (tmp_path / "blobs" / "ab" / "photo.jpg").touch()
    assert blobs_beside(tmp_path / "runs.db") == tmp_path / "runs.db.blobs"


def test_a_store_is_made_where_a_link_leads_to(tmp_path: Path) -> None:
    _linked("x.db", "y.db", tmp_path)
    asyncio.run(open_store("x.db").close())
    assert (tmp_path / "y.db").is_file()


@pytest.mark.parametrize(("link", "target"), [("x.db", "gone/x.db"), ("x", "gone")])
def test_a_link_that_leads_to_no_folder_is_refused_and_nothing_is_made(link: str, target: str, tmp_path: Path) -> None:
    _linked(link, target, tmp_path)
    with pytest.raises(StoreUnusable):
        open_store("x.db" if link == "x.db" else "x/runs.db")
    assert [each.name for each in tmp_path.iterdir()] == [link]


def test_a_run_that_was_left_is_gone_on_with_through_a_link(tmp_path: Path) -> None:
    """Its large values are found there, and so is the proof that its worker is dead."""

    @ol.workflow
    async def lengthy(text: str) -> int:
        await ol.approve("Go on?")
        return len(text)

    _linked("x.db", "y.db", tmp_path)
    with ol.open("y.db") as engine:
        run = engine.start(lengthy, "x" * 2_000_000).run
    with ol.open("x.db") as engine:
        asked = (entry for entry in engine.watch(run) if isinstance(entry.event, InteractionRequested))
        assert next(asked)
        engine.answer(run, True)
        assert engine.result(run) == 2_000_000


def test_one_opening_is_entered_once_at_a_time(tmp_path: Path) -> None:
    opening = ol.open(tmp_path / "x.db")
    with opening as engine:
        with pytest.raises(InvalidInput, match="already open"):
            opening.__enter__()
        assert engine.list_runs().items == ()
    with opening as engine:
        assert engine.list_runs().items == ()


def test_one_opening_is_entered_once_at_a_time_by_those_who_await(tmp_path: Path) -> None:
    async def scene() -> None:
        opening = ol.open(tmp_path / "x.db")
        async with opening as engine:
            with pytest.raises(InvalidInput, match="already open"):
                await opening.__aenter__()
            assert (await engine.list_runs(RunFilter())).items == ()
        async with opening as engine:
            assert (await engine.list_runs(RunFilter())).items == ()

    asyncio.run(scene())


@pytest.mark.parametrize("worker", [True, False])
def test_a_start_after_the_end_is_an_error_of_the_store(tmp_path: Path, worker: bool) -> None:
    @ol.workflow
    async def late() -> None: ...

    async def scene() -> None:
        async with ol.open(tmp_path / "x.db", worker=worker) as engine:
            pass
        with pytest.raises(StoreError, match=r"x\.db"):
            await engine.start(late)

    asyncio.run(scene())


def test_a_store_is_opened_as_it_is_set(tmp_path: Path) -> None:
    store = open_settled(Settings(store="x.db", blobs="large", durability="relaxed"))
    assert isinstance(store, SqliteStore)
    assert (store.path, store.blobs.root) == (tmp_path / "x.db", tmp_path / "large")
    asyncio.run(store.close())


def test_a_store_opened_for_reading_must_be_there_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"there is no store at .*x\.db"):
        open_store("x.db", readonly=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["x\0y", "y" * 5000, "\udcff/x.db"])
def test_paths_that_cannot_be_are_unusable(address: str) -> None:
    with pytest.raises(StoreUnusable):
        open_store(address, readonly=True)


def test_the_desk_closes_its_store() -> None:
    async def scene() -> None:
        async with open_desk("x.db") as desk:
            assert (await desk.list_runs(RunFilter())).items == ()
        async with open_desk("x.db", readonly=True) as desk:
            assert (await desk.list_runs(RunFilter())).items == ()

    asyncio.run(scene())


def test_a_key_is_all_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"secret\n")
    assert read_key(tmp_path / "key") == b"secret\n"
    for missing in (tmp_path / "none", tmp_path, Path("x\0y")):
        with pytest.raises(InvalidInput):
            read_key(missing)
