"""Maintenance of a PostgreSQL store, and its commands (U1)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import outlast as ol
from outlast.compose import open_settled, open_store
from outlast.errors import InvalidInput, StoreUnusable
from outlast.maintenance import back_up, inspect
from outlast.settings import Settings, read_settings
from outlast.stores.blob_folder import FolderBlobs
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.blobs import DatabaseBlobs
from outlast.stores.postgres.schema import VERSION
from outlast.testing.contract.samples import ANN, A, begin, land, summary
from support import commands
from support.servers.postgres_admin import carry_out

FLOWS = """
import outlast as ol

@ol.node
async def note(text: str) -> str:
    return text

@ol.workflow
async def kept_on_a_server(text: str) -> str:
    return await note(text)
"""


def outlast(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", **variables}
    return commands.run(
        [sys.executable, "-m", "outlast", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_tells_runs_workers_and_blobs(postgres_url: str) -> None:
    async def scene() -> None:
        settings = Settings(store=postgres_url)
        store = PostgresStore(postgres_url)
        await store.enrol(ANN, 30)
        await land(store, begin(A, claim=ANN, summary=summary(A)))
        await store.blobs.put(b"four")
        found = await inspect(settings)
        assert (found.schema, found.runs) == (VERSION, {"running": 1})
        assert [(worker.worker, worker.is_live, worker.runs) for worker in found.workers] == [(ANN, True, 1)]
        assert (found.blob_count, found.blob_bytes, found.blobs) == (1, 4, "the database")
        assert found.library.startswith("PostgreSQL ")
        assert found.bytes > 0
        await store.close()

    asyncio.run(scene())


def test_looking_makes_no_store(postgres_url: str) -> None:
    async def scene() -> None:
        settings = Settings(store=postgres_url)
        with pytest.raises(StoreUnusable, match="there is no store at"):
            await inspect(settings)
        assert await carry_out(postgres_url, "select 1 from pg_namespace where nspname = '{s}'") == []

    asyncio.run(scene())


def test_a_copy_is_left_to_the_program_that_can(postgres_url: str, tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(InvalidInput, match="pg_dump --schema=test_"):
            await back_up(Settings(store=postgres_url), str(tmp_path / "copy.db"))
        with pytest.raises(InvalidInput, match="the backup of an SQLite store is a file"):
            await back_up(Settings(store=str(tmp_path / "runs.db")), postgres_url)

    (tmp_path / "runs.db").touch()
    asyncio.run(scene())


def test_blobs_are_in_the_database_unless_they_are_given_a_folder(postgres_url: str, tmp_path: Path) -> None:
    assert isinstance(open_store(postgres_url).blobs, DatabaseBlobs)
    blobs = open_settled(Settings(store=postgres_url, blobs=str(tmp_path / "large"))).blobs
    assert isinstance(blobs, FolderBlobs)
    assert blobs.root == tmp_path / "large"


def test_blobs_of_another_store_do_not_go_with_a_server(postgres_url: str, tmp_path: Path) -> None:
    """G5"""
    (tmp_path / "outlast.toml").write_text('store = "runs.db"\nblobs = "large"\n')
    settings = read_settings({"store": postgres_url}, environment={}, start=tmp_path)
    assert (settings.store, settings.blobs) == (postgres_url, "")
    settings = read_settings({"store": "memory:"}, environment={"OUTLAST_STORE": postgres_url}, start=tmp_path)
    assert settings.blobs == ""


def test_an_engine_is_opened_over_a_server(postgres_url: str) -> None:
    @ol.node
    async def twice(number: int) -> int:
        return 2 * number

    @ol.workflow
    async def doubled(number: int) -> int:
        return await twice(number)

    async def scene() -> None:
        async with ol.open(postgres_url) as engine:
            assert await (await engine.start(doubled, 21)).result() == 42

    asyncio.run(scene())
    with ol.open(postgres_url) as engine:
        assert engine.start(doubled, 4).result() == 8


def test_commands_take_a_server_for_a_store(postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(FLOWS)
    missing = outlast(tmp_path, "ps", "--store", postgres_url)
    assert (missing.returncode, "there is no store at postgresql://" in missing.stderr) == (3, True)
    ran = outlast(tmp_path, "run", "flows.py:kept_on_a_server", "text=sun", "--store", postgres_url)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    listed = outlast(tmp_path, "ps", "-o", "json", OUTLAST_STORE=postgres_url)
    assert "completed" in listed.stdout
    told = json.loads(outlast(tmp_path, "db", "info", "-o", "json", "--store", postgres_url).stdout)
    assert (told["runs"], told["schema"]) == ({"completed": 1}, VERSION)
    assert (told["kind"], told["library"].split()[0]) == ("server", "PostgreSQL")
    assert outlast(tmp_path, "verify", "--all", "--store", postgres_url).returncode == 0
    refused = outlast(tmp_path, "db", "backup", "copy.db", "--store", postgres_url)
    assert (refused.returncode, "pg_dump" in refused.stderr) == (2, True)


def test_without_the_driver_the_refusal_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['asyncpg'] = None")
    refused = subprocess.run(  # a fresh interpreter: a forked one does not import `sitecustomize`
        [sys.executable, "-m", "outlast", "ps", "--store", "postgresql://me@127.0.0.1/db"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 3, refused.stderr
    assert "pip install 'outlast[postgres]'" in refused.stderr
