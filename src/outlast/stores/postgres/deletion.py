"""The deletion of runs from a PostgreSQL store.

The first step deletes the few rows by which a run is found, and stores its tombstone. The others stay until `purge`; nothing
finds them without the head.
"""

from __future__ import annotations

import asyncio
from itertools import islice

import msgspec

from outlast.history.ids import RunId
from outlast.store import Blobs, Tombstone
from outlast.stores.blob_files import blob_files
from outlast.stores.blob_folder import FolderBlobs
from outlast.stores.postgres.claims import PATIENCE
from outlast.stores.postgres.rows import Rows, escape
from outlast.stores.postgres.schema import VERSION
from outlast.stores.shared import bounded, check_limit

_DELETE = "select {s}.delete_run($1, $2, $3, $4, $5, $6)"
_PURGE = "select {s}.purge($1)"
_ONE = "select body from {s}.tombstone where run = $1"
_SOME = "select body from {s}.tombstone where run > $1 order by run limit $2"
_COLLECT = """
with old as (
    select b.id from {s}.blob b where b.hash is not null and b.put < $1 and not exists (
        select 1 from {s}.blob_use u join {s}.head h on h.id = u.run where u.hash = b.hash)
    order by b.put limit $2 for update skip locked),
gone as (delete from {s}.blob b using old where b.id = old.id and b.put < $1 returning b.id, b.hash),
chunks as (delete from {s}.chunk c using gone where c.blob = gone.id)
select encode(hash, 'hex') from gone"""

_UNUSED = """
select f.hash from unnest($1::text[]) as f (hash) where not exists (
    select 1 from {s}.blob_use u join {s}.head h on h.id = u.run where u.hash = decode(f.hash, 'hex'))"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Tombstone).decode


class DeletionRows(Rows):
    """Implements the deletion."""

    blobs: Blobs

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        values = escape(tombstone.run), VERSION, PATIENCE, self.skew, bounded(version), _encode(tombstone)
        rows = await self._db.write(_DELETE, *values, is_repeatable=True)
        return bool(rows[0][0])

    async def purge(self, limit: int = 1000) -> bool:
        return bool((await self._db.write(_PURGE, bounded(limit), is_repeatable=True))[0][0])

    async def tombstone(self, run: RunId) -> Tombstone | None:
        rows = await self._db.read(_ONE, escape(run))
        return _decode(rows[0][0]) if rows else None

    async def tombstones(self, *, after: str = "", limit: int = 1000) -> list[Tombstone]:
        check_limit(limit)
        rows = await self._db.read(_SOME, escape(after), bounded(limit))
        return [_decode(row[0]) for row in rows]

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        check_limit(limit)
        self._db.require_writable()
        if isinstance(self.blobs, FolderBlobs):
            return await self._collect_files(self.blobs, put_before - self.skew, limit)
        rows = await self._db.write(_COLLECT, bounded(put_before), bounded(limit), is_repeatable=True)
        return [row[0] for row in rows]

    async def _collect_files(self, blobs: FolderBlobs, before: int, limit: int) -> list[str]:
        files, removed = await asyncio.to_thread(blob_files, blobs.root), list[str]()
        old = (hash for file in files if blobs.is_old(hash := file.parent.name + file.name, before))
        while some := await asyncio.to_thread(list, islice(old, limit - len(removed))):
            unused = [row[0] for row in await self._db.read(_UNUSED, some)]
            removed += await asyncio.to_thread(blobs.remove_old, unused, before)
        return removed
