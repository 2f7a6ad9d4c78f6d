"""The schema, as the migrations that made it. A migration that has been released is never edited."""

from __future__ import annotations

from outlast.errors import StoreUnusable
from outlast.stores.postgres.connections import Connection
from outlast.stores.postgres.functions import FUNCTIONS
from outlast.stores.postgres.tables import TABLES

MIGRATIONS: tuple[str, ...] = (TABLES + FUNCTIONS,)
VERSION = len(MIGRATIONS)

OLDEST_SERVER = 14
LOCK = 0x4F75_744C
"""The advisory lock of whoever migrates, "OutL"; the second half of its number is of the schema."""

_WHAT_IS_IT = """
select to_regclass($1 || '.migration') is not null,
       (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1)"""
_VERSION = "select coalesce(max(version), 0) from {s}.migration"
_MAKE = """
create schema if not exists {s};
create table if not exists {s}.migration (
    version int primary key,
    applied timestamptz not null default now()
);"""
_DONE = "insert into {s}.migration (version) values ($1)"


def in_schema(text: str, schema: str) -> str:
    """A statement with the schema's name in its places."""
    return text.replace("{s}", schema)


async def version_of(connection: Connection, schema: str) -> int:
    """How many migrations the schema has seen, 0 if it is not there; `StoreUnusable` if it is not ours or of the future."""
    is_ours, tables = await connection.fetchrow(_WHAT_IS_IT, schema)
    if not is_ours:
        if tables:
            raise StoreUnusable(
                f"there is a schema {schema}, but it is not one of Outlast's; nothing was changed. "
                "Name another with ?schema=… in the URL"
            )
        return 0
    version: int = await connection.fetchval(in_schema(_VERSION, schema))
    if version > VERSION:
        raise StoreUnusable(
            f"the schema {schema} has version {version}, this version of Outlast knows {VERSION}: upgrade Outlast to open it"
        )
    return version


async def must_be_able(connection: Connection) -> None:
    """Refuse a server that cannot keep what we write."""
    if connection.get_server_version().major < OLDEST_SERVER:
        raise StoreUnusable(f"this server is older than PostgreSQL {OLDEST_SERVER}; use a newer one")
    encoding = await connection.fetchval("select current_setting('server_encoding')")
    if encoding != "UTF8":
        raise StoreUnusable(f"this database keeps text as {encoding}; make one with encoding UTF8")


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the schema to `VERSION`. Several processes may come here at once; one of them does it, the others wait."""
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1::int, hashtext($2))", LOCK, schema)
        version = await version_of(connection, schema)
        if version == VERSION:
            return
        await connection.execute(in_schema(_MAKE, schema))
        for number in range(version, VERSION):
            await connection.execute(in_schema(MIGRATIONS[number], schema))
            await connection.execute(in_schema(_DONE, schema), number + 1)
