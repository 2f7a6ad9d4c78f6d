"""The schema: made once however many come at once, equal to the committed one, refused if it is not ours (S1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outlast.errors import BadInput, StoreReadOnly, StoreUnusable
from outlast.store import Query
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.schema import VERSION
from outlast.testing.contract.samples import A, begin, land
from outlast.testing.servers.deeds import carry_out

GOLDEN = Path(__file__).with_name("postgres.sql")

COLUMNS = """
select format('table %s: %s', c.relname, string_agg(format('%s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
           case when a.attnotnull then ' not null' else '' end,
           case when a.attcollation = 950 then ' collate C' else '' end), ', ' order by a.attnum))
       || coalesce(' with ' || array_to_string(c.reloptions, ', '), '') as said
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
where c.relnamespace = '{s}'::regnamespace and c.relkind in ('r', 'v') group by c.oid, c.relname, c.reloptions order by 1"""
INDEXES = "select indexdef from pg_indexes where schemaname = '{s}' order by indexname"
VIEWS = "select viewname || ': ' || definition from pg_views where schemaname = '{s}' order by 1"
FUNCTIONS = "select pg_get_functiondef(oid) from pg_proc where pronamespace = '{s}'::regnamespace order by proname"


async def described(url: str) -> str:
    """What the server knows of the schema, in words."""
    schema = url.rpartition("schema=")[2]
    parts = [row[0] for query in (COLUMNS, INDEXES, VIEWS, FUNCTIONS) for row in await carry_out(url, query)]
    return "\n".join(part.replace(f"{schema}.", "").rstrip() for part in parts) + "\n"


async def opened(url: str) -> None:
    store = PostgresStore(url)
    try:
        await store.open()
    finally:
        await store.close()


def test_the_migrations_make_the_committed_schema(postgres_url: str) -> None:
    """To renew it after a new migration: write what `described` returns to the file."""

    async def scene() -> str:
        await opened(postgres_url)
        return await described(postgres_url)

    assert asyncio.run(scene()) == GOLDEN.read_text()


def test_ten_that_open_a_fresh_schema_at_once_all_succeed(postgres_url: str) -> None:
    async def scene() -> None:
        await asyncio.gather(*(opened(postgres_url) for _ in range(10)))
        rows = await carry_out(postgres_url, "select version from {s}.migration")
        assert [row[0] for row in rows] == list(range(1, VERSION + 1))

    asyncio.run(scene())


def test_a_schema_of_the_future_is_refused(postgres_url: str) -> None:
    async def scene() -> None:
        await opened(postgres_url)
        await carry_out(postgres_url, f"insert into {{s}}.migration (version) values ({VERSION + 1})")
        with pytest.raises(StoreUnusable, match=f"has version {VERSION + 1}, this version of Outlast knows {VERSION}"):
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
            await reader.search(Query())
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
    with pytest.raises(BadInput):
        PostgresStore("runs.db")
