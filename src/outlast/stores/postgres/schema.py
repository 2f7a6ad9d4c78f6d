"""Checks, creates and upgrades the schema in a database.

`schema.sql` and `functions.sql` are the schema of the current version. `migrations` has a file for each version after
the first one, with the changes of tables and indexes; an upgrade carries them out and then creates all functions again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from outlast.errors import StoreUnusable
from outlast.stores import shared
from outlast.stores.postgres.connections import Connection
from outlast.stores.shared import check_schema, check_version

VERSION = 6
"""The version of the schema: that of the format of every store, and the migrations since."""

OLDEST_SERVER = 14
LOCK = 0x4F75_744C
"""First key of the advisory lock for creating a schema, "OutL"; the second key is a hash of the schema's name."""

BY_INDEX = (
    "set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan "
    "set jit = off set lock_timeout = '10s'"
)
_IDENTIFY = """
select to_regclass($1 || '.migration') is not null,
       (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1)"""
_RELATIONS = "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1"
_VERSION = "select max(version) from {s}.migration"
_SET_VERSION = "insert into {s}.migration (version) values ($1)"
_DROP_FUNCTIONS = """
do $$
declare
    each regprocedure;
begin
    for each in select oid from pg_proc where pronamespace = '{s}'::regnamespace and proname != 'short' loop
        execute 'drop function ' || each;
    end loop;
end $$"""
"""Indexes use `short`."""


def in_schema(text: str, schema: str) -> str:
    """Insert the schema's name into a statement."""
    return text.replace("{s}", schema)


async def has_schema(connection: Connection, schema: str) -> bool:
    """Return whether the schema exists. Raise `StoreUnusable` for a foreign schema or another version."""
    version = await version_of(connection, schema)
    if version:
        check_version(f"the schema {schema}", version, VERSION)
        present = {row[0] for row in await connection.fetch(_RELATIONS, schema)}
        check_schema(f"the schema {schema}", _text("schema"), present)
    return bool(version)


async def version_of(connection: Connection, schema: str) -> int:
    """Return the version of the schema, 0 if it does not exist. Raise `StoreUnusable` for a foreign schema."""
    is_ours, tables = await connection.fetchrow(_IDENTIFY, schema)
    if is_ours:
        return await connection.fetchval(in_schema(_VERSION, schema)) or 0
    if tables:
        raise StoreUnusable(
            f"the schema {schema} is not one of Outlast's; nothing was changed. "
            "Name another schema with ?schema=… in the URL"
        )
    return 0


async def check_server(connection: Connection) -> None:
    """Refuse a server with an unsupported version or encoding."""
    if connection.get_server_version().major < OLDEST_SERVER:
        raise StoreUnusable(f"the server is older than PostgreSQL {OLDEST_SERVER}: use a newer server")
    encoding = await connection.fetchval("select current_setting('server_encoding')")
    if encoding != "UTF8":
        raise StoreUnusable(f"the database has encoding {encoding}: use a database with encoding UTF8")


async def create(connection: Connection, schema: str) -> None:
    """Create the schema. If several processes do this at once, one creates it and the others wait."""
    async with _locked(connection, schema):
        if not await has_schema(connection, schema):
            await connection.execute(in_schema(_text("schema") + _text("functions"), schema))
            await connection.execute(in_schema(_SET_VERSION, schema), VERSION)


async def upgrade(connection: Connection, schema: str) -> int:
    """Bring the schema to the current version, in one transaction. Return the version that it had, 0 if there is none."""
    async with _locked(connection, schema):
        before = await version_of(connection, schema)
        if shared.VERSION <= before < VERSION:
            for version in range(before + 1, VERSION + 1):
                await connection.execute(in_schema(_text(f"migrations/{version}"), schema))
                await connection.execute(in_schema(_SET_VERSION, schema), version)
            await connection.execute(in_schema(_DROP_FUNCTIONS, schema))
            await connection.execute(in_schema(_text("functions"), schema))
        await has_schema(connection, schema)
    return before


@asynccontextmanager
async def _locked(connection: Connection, schema: str) -> AsyncIterator[None]:
    """Run a transaction that creates or changes the schema, one at a time."""
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1::int, hashtext($2))", LOCK, schema)
        yield


@cache
def _text(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text("utf-8").replace("{by_index}", BY_INDEX)
