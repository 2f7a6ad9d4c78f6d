"""Blobs in the database, in chunks, named by their hash, so every machine that reaches the log reaches them.

The chunks are written first under a new id, one statement each, without a flush. The last statement sets the name and
flushes everything. So no transaction is open while the source is slow. Chunks that never got a name are deleted when a blob
is written a day later.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import suppress

from outlast.errors import Damaged, NotFound, OutlastError
from outlast.store import BlobRef
from outlast.stores.postgres.database import Database

CHUNK = 1 << 20
_HASH = re.compile(r"[0-9a-f]{64}")

_BEGIN = """
with old as (
    select id from {s}.blob where hash is null and put < {s}.clock($1) - 86400000000 limit 10 for update skip locked),
chunks as (delete from {s}.chunk using old where chunk.blob = old.id),
gone as (delete from {s}.blob using old where blob.id = old.id)
insert into {s}.blob (put) values ({s}.clock($1)) returning id"""
_CHUNK = """
with quick as materialized (select set_config('synchronous_commit', 'off', true))
insert into {s}.chunk (blob, number, body) select $1::bigint, $2::bigint, $3::bytea from quick"""
_TOUCH = "update {s}.blob set put = {s}.clock($3) where hash = $1 and size = $2 returning 1"
_NAME = "select {s}.name_blob($1, $2, $3, $4, $5)"
_DROP = """
with gone as (delete from {s}.blob where id = $1 returning id) delete from {s}.chunk using gone where blob = gone.id"""
_FIND = "select id, size from {s}.blob where hash = $1"
_READ = "select body from {s}.chunk where blob = $1 and number = $2"
_REMOVE = """
with gone as (delete from {s}.blob where hash = $1 returning id) delete from {s}.chunk using gone where blob = gone.id"""


class DatabaseBlobs:
    """Blobs in the schema of the store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        self._db.require_writable()
        if isinstance(chunks, bytes):
            name = hashlib.blake2b(chunks, digest_size=32)
            if await self._db.write(_TOUCH, name.digest(), len(chunks), self._db.skew, is_repeatable=True):
                return BlobRef(name.hexdigest(), len(chunks))
        part = _Part(self._db, (await self._db.write(_BEGIN, self._db.skew, is_repeatable=True))[0][0])
        try:
            if isinstance(chunks, bytes):
                await part.write(chunks)
            else:
                async for chunk in chunks:
                    await part.write(chunk)
            return await part.keep()
        except BaseException:
            with suppress(OutlastError):
                await part.drop()
            raise

    async def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        found = await self._db.read(_FIND, bytes.fromhex(ref.hash)) if _HASH.fullmatch(ref.hash) else []
        if not found:
            raise NotFound(f"blob {ref.hash} is not in {self._db.server.shown}")
        id, size = found[0]
        hasher, number, read = hashlib.blake2b(digest_size=32), 0, 0
        while read < size and (rows := await self._db.read(_READ, id, number)):
            chunk: bytes = rows[0][0]
            hasher.update(chunk)
            number, read = number + 1, read + len(chunk)
            yield chunk
        if hasher.hexdigest() != ref.hash:
            if not await self.has(ref.hash):
                raise NotFound(f"blob {ref.hash} was removed while it was read")
            raise Damaged(f"blob {ref.hash} is damaged: its bytes do not match its hash")

    async def has(self, hash: str) -> bool:
        return bool(_HASH.fullmatch(hash)) and bool(await self._db.read(_FIND, bytes.fromhex(hash)))

    async def remove(self, hash: str) -> None:
        self._db.require_writable()
        if _HASH.fullmatch(hash):
            await self._db.write(_REMOVE, bytes.fromhex(hash), is_repeatable=True)


class _Part:
    """A blob that is being written."""

    def __init__(self, database: Database, id: int) -> None:
        self._db = database
        self._id = id
        self._hasher = hashlib.blake2b(digest_size=32)
        self._size = self._number = 0
        self._buffer = bytearray()

    async def write(self, chunk: bytes) -> None:
        self._hasher.update(chunk)
        self._size += len(chunk)
        view = memoryview(chunk)
        while view:
            free = CHUNK - len(self._buffer)
            self._buffer += view[:free]
            view = view[free:]
            if len(self._buffer) == CHUNK:
                await self._send()

    async def _send(self) -> None:
        await self._db.write(_CHUNK, self._id, self._number, bytes(self._buffer))
        self._number += 1
        self._buffer.clear()

    async def keep(self) -> BlobRef:
        if self._buffer:
            await self._send()
        values = self._id, self._hasher.digest(), self._size, self._db.relaxed, self._db.skew
        await self._db.write(_NAME, *values, is_repeatable=True)
        return BlobRef(self._hasher.hexdigest(), self._size)

    async def drop(self) -> None:
        await self._db.write(_DROP, self._id, is_repeatable=True)
