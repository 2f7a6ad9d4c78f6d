"""Blobs as objects, named by the hash of their content."""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from outlast.errors import Damaged, NotFound, StoreReadOnly
from outlast.store import BlobRef
from outlast.stores.objects.bucket import Bucket

SMALL = 4 << 20
"""Bytes that are buffered in memory; larger blobs use a temporary file."""
_HASH = re.compile(r"[0-9a-f]{64}")


class ObjectBlobs:
    """Blobs in a bucket. A second write of the same bytes updates the object's time, because collection does not delete
    young objects."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        self._bucket = bucket
        self._readonly = readonly

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        self._require_writable()
        if isinstance(chunks, bytes):
            name = hashlib.blake2b(chunks, digest_size=32).hexdigest()
            await self._bucket.put(_key(name), chunks)
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
                await self._bucket.put(_key(name), bytes(buffer))
            else:
                await asyncio.to_thread(_add, path, bytes(buffer))
                await self._bucket.put(_key(name), path)
        return BlobRef(name, size)

    async def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        missing = NotFound(f"blob {ref.hash[:80]} is not in the store")
        if not _HASH.fullmatch(ref.hash):
            raise missing
        hasher = hashlib.blake2b(digest_size=32)
        try:
            async for chunk in self._bucket.stream(_key(ref.hash)):
                hasher.update(chunk)
                yield chunk
        except FileNotFoundError:
            raise missing from None
        if hasher.hexdigest() != ref.hash:
            raise Damaged(f"blob {ref.hash} is damaged: its bytes do not match its hash")

    async def has(self, hash: str) -> bool:
        return bool(_HASH.fullmatch(hash)) and await self._bucket.written(_key(hash)) is not None

    async def remove(self, hash: str) -> None:
        self._require_writable()
        if _HASH.fullmatch(hash):
            await self._bucket.delete([_key(hash)])

    def _require_writable(self) -> None:
        if self._readonly:
            raise StoreReadOnly("the blobs were opened read-only")


def _key(hash: str) -> str:
    return f"blobs/{hash[:2]}/{hash}"


def _add(path: Path, piece: bytes) -> None:
    with path.open("ab") as file:
        file.write(piece)
