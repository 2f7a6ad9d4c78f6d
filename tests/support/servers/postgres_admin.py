"""Changes a PostgreSQL store directly, without Outlast."""

from __future__ import annotations

from typing import Any

import asyncpg

from outlast.address import Server, server_at
from outlast.errors import StoreUnusable
from outlast.stores.postgres import PostgresStore

TABLES = (
    "head, log, catalogue, search_text, attribute, tag, scratch, wait, worker, claim, claimable, turn, slot, tombstone, "
    "line_count, line, blob, chunk, blob_use, document"
)


async def carry_out(url: str, *statements: str) -> list[Any]:
    """Execute statements, in which `{s}` is the schema; returns the rows of the last one."""
    server = server_at(url)
    assert isinstance(server, Server)
    connection = await asyncpg.connect(server.dsn, statement_cache_size=0)
    found: list[Any] = []
    try:
        for statement in statements:
            found = await connection.fetch(statement.replace("{s}", server.schema))
    finally:
        await connection.close()
    return found


async def empty_store(url: str) -> None:
    """Delete all rows of a store; create the store if it does not exist, or is not of this version."""
    store = PostgresStore(url)
    try:
        await store.open()
    except StoreUnusable:
        await carry_out(url, "drop schema {s} cascade")
        await store.open()
    finally:
        await store.close()
    await carry_out(url, *(f"delete from {{s}}.{table}" for table in TABLES.split(", ")))


async def bury_workers(url: str) -> None:
    """Mark all workers as dead."""
    await carry_out(url, "delete from {s}.worker")


async def cut_lines(url: str) -> int:
    """Terminate all other connections to the database; returns their number."""
    cut = """select count(pg_terminate_backend(pid)) from pg_stat_activity
             where pid != pg_backend_pid() and datname = current_database() and backend_type = 'client backend'"""
    return int((await carry_out(url, cut))[0][0])
