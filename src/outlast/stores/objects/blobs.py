"""Blobs as objects, named by the hash of their content, and their collection.

A bucket has no conditional delete, so a collector and a writer of equal bytes agree by an object per blob, which changes by
compare-and-set. The collector creates it (`looking`) and waits. Then it reads the time and the uses of the blob, changes the
object to `deleting`, removes the blob, and changes it to `deleted`. A writer first writes the blob, and an append first
records its use. Then they read the object:

- It is absent: a collector that creates it later finds the new time or the use. The collector waits for longer than writers
  trust that the object was absent (`TRUSTED_S`), so they need not read it each time.
- `looking`: they change it to `kept`, so the collector cannot continue.
- `deleting`, `deleted`: the blob may be removed. The writer waits until it is, and writes it again; the append is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from outlast.clock import since_boot
from outlast.errors import Damaged, NotFound, StoreReadOnly
from outlast.store import BlobRef
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Tag, Taken
from outlast.stores.objects.clock import Clock
from outlast.stores.objects.run_index import fresh

SMALL = 4 << 20
"""Bytes that are buffered in memory; larger blobs use a temporary file."""
REMOVED_AFTER_S = 120.0
"""Seconds after which a removal that was begun has happened or failed."""
TRUSTED_S = 2.0
"""Seconds for which a writer trusts that no removal of a blob had begun."""
WAIT_S = 1.25 * TRUSTED_S
"""Seconds that a collector waits before it looks for uses."""
MANY = 10_000
"""Blobs of which this is remembered."""
_HASH = re.compile(r"[0-9a-f]{64}")

State = Literal["looking", "kept", "deleting", "deleted"]


class _Collected(Struct, frozen=True):
    state: State
    nonce: str


_decode = msgspec.json.Decoder(_Collected).decode


class Collection:
    """How far the removal of each blob is."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._clock = Clock(bucket, readonly=False)
        self._kept: dict[str, float] = {}

    async def keep(self, hash: str) -> bool:
        """Make sure that no collector which has not seen the caller's write removes the blob. False: it may be removed."""
        began = since_boot()
        if began - self._kept.get(hash, -math.inf) < TRUSTED_S:
            return True
        state, tag = await self._state(hash)
        while state == "looking" and await self._change(hash, "kept", tag) is None:
            state, tag = await self._state(hash)
        if state in ("deleting", "deleted"):
            return False
        if len(self._kept) >= MANY:
            self._kept.clear()
        self._kept[hash] = began
        return True

    async def restored(self, hash: str) -> bool:
        """Record that a blob was written again after its removal. False: its removal is not over, or another process has
        changed the state."""
        state, tag = await self._state(hash)
        if state == "deleting" and not await self._is_old(hash):
            return False
        return await self._change(hash, "kept", tag) is not None

    async def begin(self, hash: str) -> Tag | None:
        """Begin to remove a blob. The caller waits for `WAIT_S`, then calls `remove`. None: another collector removes it."""
        state, tag = await self._state(hash)
        if state == "deleting" and not await self._is_old(hash):
            return None
        return await self._change(hash, "looking", tag)

    async def remove(self, hash: str, begun: Tag | None, written_before: int) -> bool:
        """Remove a blob if nobody uses it and it was last written before this time of the server."""
        if begun is None:
            return False
        written = await self._bucket.written(keys.blob(hash))
        if written is None or written >= written_before or await self._is_used(hash):
            await self._change(hash, "kept", begun)
            return False
        tag = await self._change(hash, "deleting", begun)
        if tag is None:
            return False
        await self._bucket.delete([keys.blob(hash)])
        await self._change(hash, "deleted", tag)
        return True

    async def _is_old(self, hash: str) -> bool:
        """Return whether the state was changed so long ago that a removal is over."""
        written = await self._bucket.written(keys.collected(hash))
        return written is None or written < await self._clock.now() - int(REMOVED_AFTER_S * 1_000_000)

    async def _is_used(self, hash: str) -> bool:
        async for _ in self._bucket.listing(f"uses/{hash}"):
            return True
        return False

    async def _state(self, hash: str) -> tuple[State | Literal[""], Tag | None]:
        found = await self._bucket.get(keys.collected(hash))
        if found is None:
            return "", None
        try:
            return _decode(found.body).state, found.tag
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Damaged(f"the object {keys.collected(hash)} cannot be decoded: {error}") from error

    async def _change(self, hash: str, state: State, tag: Tag | None) -> Tag | None:
        """Replace this version of the state. Return the new one, None if another process has changed it."""
        name, body = keys.collected(hash), msgspec.json.encode(_Collected(state, fresh()))
        try:
            return await (self._bucket.create(name, body) if tag is None else self._bucket.update(name, body, tag))
        except Taken:
            found = await self._bucket.get(name)
            return found.tag if found is not None and found.body == body else None


class ObjectBlobs:
    """Blobs in a bucket. A second write of the same bytes updates the object's time, because collection does not delete
    young objects."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        self._bucket = bucket
        self._collection = Collection(bucket)
        self._readonly = readonly

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        self._require_writable()
        if isinstance(chunks, bytes):
            name = hashlib.blake2b(chunks, digest_size=32).hexdigest()
            await self._write(name, chunks)
            return BlobRef(name, len(chunks))
        return await self._put_stream(chunks)

    async def _put_stream(self, chunks: AsyncIterator[bytes]) -> BlobRef:
        """Write a blob whose hash is known only at its end."""
        hasher, size = hashlib.blake2b(digest_size=32), 0
        with tempfile.TemporaryDirectory(prefix="outlast-blob-") as folder:
            path = Path(folder, "blob")
            buffer = bytearray()
            async for chunk in chunks:
                hasher.update(chunk)
                size += len(chunk)
                buffer += chunk
                if len(buffer) > SMALL:
                    await asyncio.to_thread(_add, path, bytes(buffer))
                    buffer.clear()
            name = hasher.hexdigest()
            if size <= SMALL:
                await self._write(name, bytes(buffer))
            else:
                await asyncio.to_thread(_add, path, bytes(buffer))
                await self._write(name, path)
        return BlobRef(name, size)

    async def _write(self, hash: str, content: bytes | Path) -> None:
        """Write the blob, again if a collector may have removed it meanwhile."""
        while True:
            await self._bucket.put(keys.blob(hash), content)
            written = since_boot()
            if await self._collection.keep(hash) and since_boot() - written < REMOVED_AFTER_S:
                return
            if not await self._collection.restored(hash):
                await asyncio.sleep(0.1)

    async def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        missing = NotFound(f"blob {ref.hash[:80]} is not in the store")
        if not _HASH.fullmatch(ref.hash):
            raise missing
        hasher = hashlib.blake2b(digest_size=32)
        try:
            async for chunk in self._bucket.stream(keys.blob(ref.hash)):
                hasher.update(chunk)
                yield chunk
        except FileNotFoundError:
            raise missing from None
        if hasher.hexdigest() != ref.hash:
            raise Damaged(f"blob {ref.hash} is damaged: its bytes do not match its hash")

    async def has(self, hash: str) -> bool:
        return bool(_HASH.fullmatch(hash)) and await self._bucket.written(keys.blob(hash)) is not None

    async def remove(self, hash: str) -> None:
        self._require_writable()
        if _HASH.fullmatch(hash):
            await self._bucket.delete([keys.blob(hash)])

    def _require_writable(self) -> None:
        if self._readonly:
            raise StoreReadOnly("the blobs were opened read-only")


def _add(path: Path, piece: bytes) -> None:
    with path.open("ab") as file:
        file.write(piece)
