"""Looking at the schema as a whole."""

from __future__ import annotations

from typing import NamedTuple

from outlast.history.ids import WorkerId
from outlast.stores.postgres.connections import Connection
from outlast.stores.postgres.rows import Rows, told
from outlast.stores.postgres.schema import has_schema, in_schema
from outlast.stores.shared import VERSION

_BYTES = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r'"""
_RUNS = "select status, count(*) from {s}.catalogue group by status order by status"
_WORKERS = """
select w.id, w.expires > {s}.clock(0), w.expires, (select count(*) from {s}.claim c where c.worker = w.id)
from {s}.worker w order by w.id"""
_BLOBS = "select count(*), coalesce(sum(size), 0)::bigint from {s}.blob where hash is not null"


class Enrolled(NamedTuple):
    """A worker that the store knows, and how many runs it holds."""

    worker: WorkerId
    is_live: bool
    expires: int
    runs: int


class Contents(NamedTuple):
    """What is in a schema; version 0 if there is none."""

    shown: str
    version: int
    library: str
    bytes: int
    runs: dict[str, int]
    workers: tuple[Enrolled, ...]
    blob_count: int
    blob_bytes: int


class MaintenanceRows(Rows):
    """The caretaker's part of the store. It is no part of the contract."""

    async def look(self) -> Contents:
        """What is in the schema, without making or changing it."""
        return await self._db.inspect(self._look)

    async def _look(self, connection: Connection) -> Contents:
        schema, shown = self._db.server.schema, self._db.server.shown
        major, minor = connection.get_server_version()[:2]
        library = f"PostgreSQL {major}.{minor}"
        if not await has_schema(connection, schema):
            return Contents(shown, 0, library, 0, {}, (), 0, 0)
        size = await connection.fetchval(_BYTES, schema)
        runs = await connection.fetch(in_schema(_RUNS, schema))
        workers = await connection.fetch(in_schema(_WORKERS, schema))
        blobs = await connection.fetchrow(in_schema(_BLOBS, schema))
        enrolled = tuple(Enrolled(WorkerId(told(id)), is_live, until, held) for id, is_live, until, held in workers)
        return Contents(shown, VERSION, library, size, dict(runs), enrolled, blobs[0], blobs[1])
