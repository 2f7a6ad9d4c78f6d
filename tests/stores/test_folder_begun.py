"""Bytes that are written before it is known whether they are a blob: one once they are kept, and nothing else ever (S3)."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from outlast.errors import StoreFull, StoreReadOnly
from outlast.store import BeginsEarly
from outlast.stores.blob_folder import FolderBlobs

LARGE = bytes(range(256)) * 20_000


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("outlast-blob"):
            thread.join()


async def content(blobs: FolderBlobs, ref: object) -> bytes:
    return b"".join([chunk async for chunk in blobs.open(ref)])  # type: ignore[arg-type]


@pytest.mark.parametrize("whole", [b"", b"x", LARGE], ids=["nothing", "little", "much"])
def test_what_is_kept_is_the_blob_that_put_makes(whole: bytes, tmp_path: Path) -> None:
    async def scene() -> None:
        one, other = FolderBlobs(tmp_path / "one"), FolderBlobs(tmp_path / "other")
        assert isinstance(one, BeginsEarly)
        ref = await one.begin(whole).keep()
        assert ref == await other.put(whole)
        assert await content(one, ref) == await content(other, ref) == whole
        assert len(files(tmp_path / "one")) == 1

    asyncio.run(scene())


def test_bytes_that_are_there_already_are_kept_once(tmp_path: Path) -> None:
    async def scene() -> None:
        blobs = FolderBlobs(tmp_path)
        assert await blobs.put(LARGE) == await blobs.begin(LARGE).keep() == await blobs.put(LARGE)
        assert len(files(tmp_path)) == 1

    asyncio.run(scene())


def test_what_is_dropped_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scene() -> None:
        FolderBlobs(tmp_path).begin(LARGE).drop()

    asyncio.run(scene())
    wait_for_threads()
    assert files(tmp_path) == []


def test_a_blob_is_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3, after a power cut too."""
    said: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (said.append("flush"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (said.append("name"), replace(*paths)))

    async def scene() -> None:
        await FolderBlobs(tmp_path).begin(LARGE).keep()

    asyncio.run(scene())
    assert said[: said.index("name")].count("flush") >= 1
    assert said[said.index("name") :] == ["name", "flush", "flush", "flush"]


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_full_disk_refuses_what_is_kept_and_nothing_is_left(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def scene() -> None:
        with pytest.raises(StoreFull, match="no space"):
            await FolderBlobs(tmp_path).begin(LARGE).keep()

    monkeypatch.setattr(os, place, no_space)
    asyncio.run(scene())
    assert files(tmp_path) == []


def test_nothing_begins_where_nothing_may_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly):
        FolderBlobs(tmp_path, readonly=True).begin(LARGE)
    assert files(tmp_path) == []
