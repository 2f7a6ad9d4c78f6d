"""Checks and creates the schema in a database."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from outlast.errors import StoreUnusable
from outlast.stores.postgres.connections import Connection
from outlast.stores.shared import VERSION, check_schema, check_version

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
_SET_VERSION = "insert into {s}.migration (version) values ($1)"


def in_schema(text: str, schema: str) -> str:
    """Insert the schema's name into a statement."""
    return text.replace("{s}", schema)


async def has_schema(connection: Connection, schema: str) -> bool:
    """Return whether the schema exists. Raise `StoreUnusable` for a foreign schema or another version."""
    is_ours, tables = await connection.fetchrow(_IDENTIFY, schema)
    if is_ours:
        check_version(
            f"the schema {schema}",
            await connection.fetchval(in_schema("select max(version) from {s}.migration", schema)),
        )
        present = {row[0] for row in await connection.fetch(_RELATIONS, schema)}
        check_schema(f"the schema {schema}", _text(), present)
    elif tables:
        raise StoreUnusable(
            f"the schema {schema} is not one of Outlast's; nothing was changed. "
            "Name another schema with ?schema=… in the URL"
        )
    return bool(is_ours)


async def check_server(connection: Connection) -> None:
    """Refuse a server with an unsupported version or encoding."""
    if connection.get_server_version().major < OLDEST_SERVER:
        raise StoreUnusable(f"the server is older than PostgreSQL {OLDEST_SERVER}: use a newer server")
    encoding = await connection.fetchval("select current_setting('server_encoding')")
    if encoding != "UTF8":
        raise StoreUnusable(f"the database has encoding {encoding}: use a database with encoding UTF8")


async def create(connection: Connection, schema: str) -> None:
    """Create the schema. If several processes do this at once, one creates it and the others wait."""
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1::int, hashtext($2))", LOCK, schema)
        if not await has_schema(connection, schema):
            await connection.execute(in_schema(_text().replace("{by_index}", BY_INDEX), schema))
            await connection.execute(in_schema(_SET_VERSION, schema), VERSION)


@cache
def _text() -> str:
    return Path(__file__).with_name("schema.sql").read_text("utf-8")
