"""A store of objects as a whole: it says how it stands, and what to do where a file would be copied (U1)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from outlast.compose import open_store
from outlast.errors import InvalidInput, StoreUnusable
from outlast.lifecycle.status import RunStatus
from outlast.maintenance import back_up, inspect
from outlast.settings import Settings
from outlast.store import LANDED
from outlast.stores.shared import VERSION
from outlast.testing.contract.samples import ANN, A, B, C, begin, summary
from support.servers import s3


@pytest.fixture
def address() -> str:
    return s3.shared().address(f"upkeep/{os.urandom(8).hex()}")


def test_it_says_how_it_stands(address: str) -> None:
    """U1"""

    async def play() -> None:
        store = open_store(address)
        await store.enrol(ANN, 60)
        made = [
            begin(A, summary=summary(A), claim=ANN),
            begin(B, summary=summary(B, status=RunStatus.WAITING)),
            begin(C, summary=summary(C, status=RunStatus.COMPLETED), closed=True),
        ]
        assert await store.append(made) == [LANDED] * 3
        await store.blobs.put(b"four")
        await store.close()
        info = await inspect(Settings(store=address))
        assert info.runs == {"completed": 1, "running": 1, "waiting": 1}
        assert [(worker.worker, worker.is_live, worker.runs) for worker in info.workers] == [(ANN, True, 1)]
        assert (info.blob_count, info.blob_bytes) == (1, 4)
        assert info.schema == VERSION
        assert info.bytes > 500
        assert "?" not in str(info.path), "what is said about the server is left out"

    asyncio.run(play())


def test_looking_makes_nothing(address: str) -> None:
    """U1"""
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="there is no store"):
            asyncio.run(inspect(Settings(store=address)))


def test_a_copy_is_refused_with_what_to_do(address: str, tmp_path: Path) -> None:
    """P11"""
    asyncio.run(open_store(address).close())
    with pytest.raises(InvalidInput, match="versioning"):
        asyncio.run(back_up(Settings(store=address), str(tmp_path / "x.db")))
    assert not (tmp_path / "x.db").exists()


def test_an_sqlite_store_is_not_copied_into_a_bucket(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(open_store(path).close())
    with pytest.raises(InvalidInput, match="the backup of an SQLite store is a file"):
        asyncio.run(back_up(Settings(store=str(path)), "s3://bucket/runs"))
