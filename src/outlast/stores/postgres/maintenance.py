"""Reports the contents of a schema."""

from __future__ import annotations

from outlast.history.ids import WorkerId
from outlast.stores.postgres.claims import PATIENCE
from outlast.stores.postgres.connections import Connection
from outlast.stores.postgres.rows import Rows, unescape
from outlast.stores.postgres.schema import VERSION, has_schema, in_schema, upgrade
from outlast.stores.shared import Contents, WorkerRuns

_BYTES = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r'"""
_RUNS = "select status, count(*) from {s}.catalogue group by status order by status"
_WORKERS = """
select w.id, {s}.standing(w.id, $1, 0) = 'live', w.expires, (select count(*) from {s}.claim c where c.worker = w.id)
from {s}.worker w order by w.id"""
_DELETED = "select count(*) from {s}.tombstone"
_BLOBS = "select count(*), coalesce(sum(size), 0)::bigint from {s}.blob where hash is not null"


class MaintenanceRows(Rows):
    """Implements the contents report, which is not part of the contract."""

    async def look(self) -> Contents:
        """Return the contents of the schema, without creating or changing it."""
        return await self._db.inspect(self._look)

    async def upgrade(self) -> int:
        """Bring the schema to the current version. Return the version that it had, 0 if there is no store."""
        return await self._db.inspect(lambda connection: upgrade(connection, self._db.server.schema))

    async def _look(self, connection: Connection) -> Contents:
        schema, shown = self._db.server.schema, self._db.server.shown
        major, minor = connection.get_server_version()[:2]
        library = f"PostgreSQL {major}.{minor}"
        if not await has_schema(connection, schema):
            return Contents(path=shown, schema=0, library=library)
        size = await connection.fetchval(_BYTES, schema)
        runs = await connection.fetch(in_schema(_RUNS, schema))
        workers = await connection.fetch(in_schema(_WORKERS, schema), PATIENCE)
        deleted = await connection.fetchval(in_schema(_DELETED, schema))
        blobs = await connection.fetchrow(in_schema(_BLOBS, schema))
        enrolled = tuple(
            WorkerRuns(WorkerId(unescape(id)), is_live, until, held) for id, is_live, until, held in workers
        )
        return Contents(
            path=shown,
            schema=VERSION,
            library=library,
            bytes=size,
            runs=dict(runs),
            deleted=deleted,
            workers=enrolled,
            blob_count=blobs[0],
            blob_bytes=blobs[1],
        )
