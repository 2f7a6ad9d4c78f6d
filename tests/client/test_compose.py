"""The builder: which store is meant, and what opens it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outlast.client import Query
from outlast.compose import default_store, open_desk, open_settled, open_store, read_key
from outlast.errors import BadInput, StoreUnusable
from outlast.settings import Settings
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
            assert (await desk.list(Query())).items == ()
        async with open_desk("x.db", readonly=True) as desk:
            assert (await desk.list(Query())).items == ()

    asyncio.run(scene())


def test_a_key_is_all_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"secret\n")
    assert read_key(tmp_path / "key") == b"secret\n"
    for missing in (tmp_path / "none", tmp_path, Path("x\0y")):
        with pytest.raises(BadInput):
            read_key(missing)
