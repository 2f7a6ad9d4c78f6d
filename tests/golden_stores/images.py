"""Images of stores: the bytes of one as a file, and a store made of these bytes, without Outlast.

A file of SQLite and its blobs are files. The image of PostgreSQL is the schema as it was created and the rows as text;
that of a bucket is its objects."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import asyncpg
from obstore.store import from_url

from outlast.address import Server, bucket_at, server_at


def pack(target: Path, files: dict[str, bytes]) -> None:
    """Write a compressed archive whose bytes depend on the files only."""
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def unpack(source: Path) -> dict[str, bytes]:
    with tarfile.open(source) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


# --- SQLite


def files_below(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith((".lock", "-shm", "-wal")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


# --- PostgreSQL

SCHEMA = "schema.sql"


async def rows_of(url: str) -> dict[str, bytes]:
    """The rows of each table of a schema, and the positions of its sequences."""
    async with _Connection(url) as (connection, schema):
        tables = await connection.fetch("select tablename::text from pg_tables where schemaname = $1", schema)
        found: dict[str, bytes] = {}
        for (table,) in tables:
            rows = io.BytesIO()
            await connection.copy_from_table(table, schema_name=schema, output=rows)
            found[f"{table}.copy"] = rows.getvalue()
        return found


async def restore(url: str, files: dict[str, bytes]) -> None:
    """Create the schema of an image and fill it."""
    async with _Connection(url) as (connection, schema):
        await connection.execute(files[SCHEMA].decode().replace("{s}", schema))
        for name, rows in files.items():
            if name != SCHEMA and rows:
                table = name.removesuffix(".copy")
                columns = await connection.fetch(_COLUMNS, schema, table)
                await connection.execute(f'truncate {schema}."{table}"')
                await connection.copy_to_table(
                    table, schema_name=schema, source=io.BytesIO(rows), columns=[name for name, _ in columns]
                )
                for column, is_counted in columns:
                    if is_counted:
                        await connection.execute(
                            f"select setval(pg_get_serial_sequence('{schema}.{table}', '{column}'),"
                            f" (select max({column}) from {schema}.{table}))"
                        )


async def definition_of(url: str) -> list[tuple[str, ...]]:
    """Everything that a schema consists of, but for its name and the order of columns."""
    async with _Connection(url) as (connection, schema):
        rows = await connection.fetch(_DEFINITION, schema)
        return sorted(tuple(str(value).replace(schema, "{s}") for value in row) for row in rows)


_DEFINITION = """
with mine as (select oid from pg_namespace where nspname = $1)
select 'table', c.relname, c.relkind::text, coalesce(c.reloptions::text, '')
from pg_class c join mine on mine.oid = c.relnamespace where c.relkind in ('r', 'v', 'S')
union all
select 'column', c.relname, a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation,
    a.attnotnull, a.attidentity, a.attstorage, pg_get_expr(d.adbin, d.adrelid))
from pg_class c join mine on mine.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped
union all
select 'index', c.relname, concat(i.indisunique, i.indisprimary, i.indisvalid, c.reloptions), pg_get_indexdef(c.oid)
from pg_class c join mine on mine.oid = c.relnamespace join pg_index i on i.indexrelid = c.oid
union all
select 'view', c.relname, '', pg_get_viewdef(c.oid)
from pg_class c join mine on mine.oid = c.relnamespace where c.relkind = 'v'
union all
select 'function', p.proname, p.oid::regprocedure::text, pg_get_functiondef(p.oid)
from pg_proc p join mine on mine.oid = p.pronamespace"""

_COLUMNS = """
select column_name::text, is_identity = 'YES' from information_schema.columns
where table_schema = $1 and table_name = $2 and is_generated = 'NEVER' order by ordinal_position"""


class _Connection:
    def __init__(self, url: str) -> None:
        server = server_at(url)
        assert isinstance(server, Server)
        self._server = server

    async def __aenter__(self) -> tuple[Any, str]:
        self._connection = await asyncpg.connect(self._server.dsn, statement_cache_size=0)
        return self._connection, self._server.schema

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()


# --- a bucket


def _objects(address: str) -> Any:
    at = bucket_at(address)
    assert at is not None
    return from_url(at.url, config=dict(at.config), client_options={"allow_http": True})  # type: ignore[arg-type]


def objects_of(address: str) -> dict[str, bytes]:
    store = _objects(address)
    return {meta["path"]: bytes(store.get(meta["path"]).bytes()) for page in store.list() for meta in page}


def write_objects(address: str, files: dict[str, bytes]) -> None:
    store = _objects(address)
    for name, content in files.items():
        store.put(name, content)
