"""Which schema a server has, and how the schema is made."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from outlast.errors import StoreUnusable
from outlast.stores.postgres.connections import Connection
from outlast.stores.shared import VERSION, check_schema, check_version

OLDEST_SERVER = 14
LOCK = 0x4F75_744C
"""The advisory lock of whoever makes the schema, "OutL"; the second half of its number is of the schema."""

BY_INDEX = (
    "set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan "
    "set jit = off set lock_timeout = '10s'"
)
_WHAT_IS_IT = """
select to_regclass($1 || '.migration') is not null,
       (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1)"""
_RELATIONS = "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1"
_DONE = "insert into {s}.migration (version) values ($1)"


def in_schema(text: str, schema: str) -> str:
    """A statement with the schema's name in its places."""
    return text.replace("{s}", schema)


async def has_schema(connection: Connection, schema: str) -> bool:
    """Whether the schema is there; `StoreUnusable` if it is not ours or of another version."""
    is_ours, tables = await connection.fetchrow(_WHAT_IS_IT, schema)
    if is_ours:
        check_version(
            f"the schema {schema}",
            await connection.fetchval(in_schema("select max(version) from {s}.migration", schema)),
        )
        there = {row[0] for row in await connection.fetch(_RELATIONS, schema)}
        check_schema(f"the schema {schema}", _text(), there)
    elif tables:
        raise StoreUnusable(
            f"there is a schema {schema}, but it is not one of Outlast's; nothing was changed. "
            "Name another with ?schema=… in the URL"
        )
    return bool(is_ours)


async def check_server(connection: Connection) -> None:
    """Refuse a server that cannot keep what we write."""
    if connection.get_server_version().major < OLDEST_SERVER:
        raise StoreUnusable(f"this server is older than PostgreSQL {OLDEST_SERVER}; use a newer one")
    encoding = await connection.fetchval("select current_setting('server_encoding')")
    if encoding != "UTF8":
        raise StoreUnusable(f"this database keeps text as {encoding}; make one with encoding UTF8")


async def create(connection: Connection, schema: str) -> None:
    """Make the schema. Several processes may come here at once; one of them does it, the others wait."""
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1::int, hashtext($2))", LOCK, schema)
        if not await has_schema(connection, schema):
            await connection.execute(in_schema(_text().replace("{by_index}", BY_INDEX), schema))
            await connection.execute(in_schema(_DONE, schema), VERSION)


@cache
def _text() -> str:
    return Path(__file__).with_name("schema.sql").read_text("utf-8")
