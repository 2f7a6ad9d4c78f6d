"""The schema: made once however many come at once, refused if it is not ours (S1)."""

from __future__ import annotations

import asyncio
import os

import pytest

from outlast.errors import InvalidInput, StoreError, StoreReadOnly, StoreUnusable
from outlast.store import RunFilter
from outlast.stores import shared
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.schema import VERSION
from outlast.testing.contract.samples import A, begin, land
from support.servers.postgres_admin import carry_out


async def opened(url: str) -> None:
    store = PostgresStore(url)
    try:
        await store.open()
    finally:
        await store.close()


def test_ten_that_open_a_fresh_schema_at_once_all_succeed(postgres_url: str) -> None:
    async def scene() -> None:
        await asyncio.gather(*(opened(postgres_url) for _ in range(10)))
        rows = await carry_out(postgres_url, "select version from {s}.migration")
        assert [row[0] for row in rows] == [VERSION]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (VERSION + 1, "upgrade Outlast"),
        (VERSION - 1, "run `outlast db upgrade`"),
        (shared.VERSION - 1, "create a new store"),
    ],
)
def test_a_schema_of_another_version_is_refused(postgres_url: str, version: int, advice: str) -> None:
    async def scene() -> None:
        await opened(postgres_url)
        await carry_out(postgres_url, f"update {{s}}.migration set version = {version}")
        with pytest.raises(StoreUnusable, match=f"has version {version}.*{advice}"):
            await opened(postgres_url)

    asyncio.run(scene())


def test_a_schema_of_somebody_else_is_refused_and_left_as_it_is(postgres_url: str) -> None:
    async def scene() -> None:
        await carry_out(postgres_url, "create schema {s}", "create table {s}.customer (id int)")
        with pytest.raises(StoreUnusable, match="not one of Outlast's; nothing was changed"):
            await opened(postgres_url)
        tables = await carry_out(postgres_url, "select tablename from pg_tables where schemaname = '{s}'")
        assert [row[0] for row in tables] == ["customer"]

    asyncio.run(scene())


def test_a_store_opened_for_reading_is_neither_made_nor_changed(postgres_url: str) -> None:
    async def scene() -> None:
        reader = PostgresStore(postgres_url, readonly=True)
        with pytest.raises(StoreUnusable, match="there is no store at"):
            await reader.search(RunFilter())
        writer = PostgresStore(postgres_url)
        await land(writer, begin(A))
        await writer.close()
        assert len(await reader.read(A)) == 1
        with pytest.raises(StoreReadOnly):
            await reader.append([begin(A)])
        with pytest.raises(StoreReadOnly):
            await reader.blobs.put(b"x")
        await reader.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("postgresql://nobody@127.0.0.1:1/postgres", "could not reach"),
        ("postgresql://outlast@{host}/no_such_database", "could not open"),
    ],
)
def test_a_server_that_is_not_there_is_told_without_a_password(wrong: str, told: str, postgres_url: str) -> None:
    async def scene() -> None:
        host = postgres_url.partition("@")[2].partition("/")[0]
        store = PostgresStore(wrong.format(host=host).replace("@", ":secret@"), patience=0.1)
        with pytest.raises(Exception, match=told) as caught:
            await store.now()
        assert "secret" not in str(caught.value)
        await store.close()

    asyncio.run(scene())


def test_what_is_no_address_of_a_server_is_refused() -> None:
    with pytest.raises(InvalidInput):
        PostgresStore("runs.db")


def test_a_role_without_usage_is_told_which_grants_are_missing(postgres_url: str) -> None:
    async def scene() -> None:
        await opened(postgres_url)
        name = f"guest_{os.urandom(4).hex()}"
        await carry_out(postgres_url, f"create role {name} login")
        as_guest = postgres_url.replace("//outlast@", f"//{name}@")
        assert as_guest != postgres_url
        for readonly in (True, False):
            store = PostgresStore(as_guest, readonly=readonly)
            with pytest.raises(StoreError, match=r"permission denied for schema.*this role needs USAGE on the schema"):
                await store.search(RunFilter())
            await store.close()
        await carry_out(postgres_url, f"drop role {name}")

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["table {s}.wait", "index {s}.claimable_now", "view {s}.event"])
def test_a_store_of_which_a_part_was_dropped_is_refused_by_its_name(postgres_url: str, name: str) -> None:
    async def scene() -> None:
        await opened(postgres_url)
        await carry_out(postgres_url, f"drop {name}")
        for readonly in (True, False):
            store = PostgresStore(postgres_url, readonly=readonly)
            with pytest.raises(StoreUnusable, match=f"lacks {name.rpartition('.')[2]}[,:].* dropped"):
                await store.open()
            with pytest.raises(StoreUnusable, match="lacks"):
                await store.look()
            await store.close()

    asyncio.run(scene())


def test_a_schema_that_is_dropped_under_an_open_store_is_named(postgres_url: str) -> None:
    async def scene() -> None:
        store = PostgresStore(postgres_url)
        await land(store, begin(A))
        await carry_out(postgres_url, "drop schema {s} cascade")
        with pytest.raises(StoreUnusable, match=r"a part of the store is missing.*was dropped"):
            await store.search(RunFilter())
        await store.close()

    asyncio.run(scene())
