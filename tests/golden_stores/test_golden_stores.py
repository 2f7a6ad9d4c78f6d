"""Stores that earlier versions wrote are opened, read, continued and verified. They are never written anew."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import kept
import pytest

import outlast as ol
from golden_stores.images import definition_of, restore, unpack, write_files, write_objects
from outlast.client import RunFilter
from outlast.compose import open_store
from outlast.errors import StoreUnusable
from outlast.history.ids import RunId
from outlast.http.auth import Auth
from outlast.store import AttributeFilter
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.schema import VERSION
from support.servers import s3

IMAGES = sorted(Path(__file__).parent.glob("*.tar.xz"))


@pytest.fixture(params=IMAGES, ids=lambda path: path.name.partition(".")[0])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store made of a golden image."""
    kind, files = request.param.name.partition("-")[0], unpack(request.param)
    if kind == "sqlite":
        write_files(tmp_path, files)
        return str(tmp_path / "runs.db")
    if kind == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        asyncio.run(restore(url, files))
        done = subprocess.run([sys.executable, "-m", "outlast", "db", "upgrade", "--store", url], timeout=120)
        assert done.returncode == 0
        return url
    there = s3.shared().address(f"golden-{tmp_path.name}")
    write_objects(there, files)
    return there


def test_there_is_a_store_of_each_kind() -> None:
    assert {path.name.partition("-")[0] for path in IMAGES} == {"sqlite", "postgres", "bucket"}


@pytest.mark.parametrize(
    "image", [path for path in IMAGES if path.name.startswith("postgres")], ids=lambda path: path.name
)
def test_an_upgraded_schema_equals_a_new_one(image: Path, postgres_url: str) -> None:
    async def compare() -> None:
        created = f"{postgres_url}_new"
        store = PostgresStore(created)
        await store.open()
        await store.close()
        await restore(postgres_url, unpack(image))
        with pytest.raises(StoreUnusable, match="outlast db upgrade"):
            await PostgresStore(postgres_url).open()
        for before in (5, VERSION):
            store = PostgresStore(postgres_url)
            assert await store.upgrade() == before
            await store.close()
        assert await definition_of(postgres_url) == await definition_of(created)

    asyncio.run(compare())


def test_it_verifies(address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outlast", "verify", "--all", "--store", address, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_lists_find_what_they_found(address: str) -> None:
    async def look() -> None:
        async with ol.open(address, worker=False) as engine:

            async def names(**query: Any) -> set[str]:
                return {each.run async for each in engine.iter_runs(RunFilter(**query))}

            everything = await names(roots=True)
            assert everything == {
                *("done", "waiting", "parent", "failed", "paused", "alone", "deferred", "queued", "ready")
            }
            assert await names(tags=("north",)) == {"done"}
            assert await names(text="an order") == {"done"}
            assert await names(queue="gpu") == {"queued"}
            paid = AttributeFilter("customer", "=", "acme")
            assert await names(attributes=(paid,)) == {"waiting"}
            done = await engine.get(RunId("done"))
            assert (done.branch, done.attributes["article"]) == (1, "lamp")
            assert [line.text async for line in engine.lines(RunId("done"))] == ["pricing lamp"]
            pages = await engine.output(RunId("done"), kept.printed)
            assert pages == "page " * 300_000
        store = open_store(address)
        assert [each.name for each in await Auth(store).list("token")] == ["deploy"]
        await store.close()

    asyncio.run(look())


def test_its_runs_continue(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT_RELAY", "up")

    async def go_on() -> dict[str, Any]:
        async with ol.open(address) as engine:

            async def result(run: str) -> Any:
                async with asyncio.timeout(60):
                    return await engine.result(RunId(run))

            with pytest.raises(ol.NotAllowed, match="alone"):
                await engine.start(kept.kept_alone, "one")
            with pytest.raises(ol.AlreadyExists, match="deleted"):
                await engine.start(kept.kept_quick.options(idempotency_key="order-1"), 1)
            (child,) = (await engine.get(RunId("parent"))).waits
            for run in ("waiting", RunId(child.id), "alone"):
                await engine.answer(RunId(run), True, by="ann")
            await engine.resume(RunId("failed"))
            await engine.resume(RunId("paused"))
            await engine.begin(RunId("deferred"))
            names = ("waiting", "parent", "alone", "failed", "paused", "deferred", "queued", "ready", "done")
            return {name: await result(name) for name in names}

    assert asyncio.run(go_on()) == {
        "waiting": "rug 14 1500000",
        "parent": "child: vase 2.20 1500000",
        "alone": "one",
        "failed": "sent to ann@example.org",
        "paused": "reminded",
        "deferred": 2,
        "queued": 42,
        "ready": 2,
        "done": "rejected",
    }
    test_it_verifies(address)
