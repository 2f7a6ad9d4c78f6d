"""Blobs in a folder, one file each, named by the hash of its content.

A blob is written to a temporary file, flushed and renamed, then its folder is flushed: so a blob that has its name has all
its bytes, after a power cut too. A second write of the same bytes only updates the file's time, because collection does not
delete young files. Writers and collections lock the folder, so a blob is never removed just after it was written again.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import importlib
import os
import re
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from outlast.atomic_file import flush
from outlast.errors import Damaged, NotFound, OutcomeUnknown, StoreFull, StoreReadOnly
from outlast.store import BlobRef

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

CHUNK = 1 << 20
_LARGE = 1 << 22
"""Size in bytes from which one thread hashes while another writes."""
_HASH = re.compile(r"[0-9a-f]{64}")


class FolderBlobs:
    """Blobs below `root`, a folder that the first write creates."""

    def __init__(self, root: Path, *, durable: bool = True, readonly: bool = False) -> None:
        self.root = root
        self._durable = durable
        self._readonly = readonly

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        self._require_writable()
        try:
            if isinstance(chunks, bytes):  # in one thread call: a cancelled caller leaves no open file
                return await asyncio.to_thread(self._put_now, chunks)
            return await self._put_slowly(chunks)
        except OSError as error:
            raise _store_error(error) from error

    def _put_now(self, content: bytes) -> BlobRef:
        part = _Part(self.root)
        if len(content) >= _LARGE:
            return PendingBlob(part, content, self._path, self._durable).kept()
        try:
            part.write(content)
            return part.keep(self._path, self._durable)
        finally:
            part.drop()

    def begin(self, content: bytes) -> PendingBlob:
        """Begin to write bytes to a temporary file while the caller decides whether to keep them."""
        self._require_writable()
        try:
            return PendingBlob(_Part(self.root), content, self._path, self._durable)
        except OSError as error:
            raise _store_error(error) from error

    async def _put_slowly(self, chunks: AsyncIterator[bytes]) -> BlobRef:
        part = _Part(self.root)  # not in a thread: a caller that is cancelled meanwhile would leave an open file
        try:
            async for chunk in chunks:
                await asyncio.to_thread(part.write, chunk)
            return await asyncio.to_thread(part.keep, self._path, self._durable)
        finally:
            part.drop()

    async def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        try:
            file = self._path(ref.hash).open("rb")  # not in a thread, as in `_put_slowly`
        except (FileNotFoundError, _InvalidHash):
            raise NotFound(f"blob {ref.hash} is not in {self.root}") from None
        hasher = hashlib.blake2b(digest_size=32)
        with file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                hasher.update(chunk)
                yield chunk
        if hasher.hexdigest() != ref.hash:
            raise Damaged(f"blob {ref.hash} is damaged: its bytes do not match its hash")

    async def has(self, hash: str) -> bool:
        try:
            return await asyncio.to_thread(self._path(hash).exists)
        except _InvalidHash:
            return False

    async def remove(self, hash: str) -> None:
        self._require_writable()
        with suppress(_InvalidHash):
            await asyncio.to_thread(self._path(hash).unlink, missing_ok=True)

    def is_old(self, hash: str, before: int) -> bool:
        """Return whether the blob is stored and was last put before this time, in microseconds."""
        try:
            return self._path(hash).stat().st_mtime_ns // 1000 < before
        except FileNotFoundError:
            return False

    def remove_old(self, hashes: Iterable[str], before: int) -> list[str]:
        """Remove those of these blobs that were last put before this time. Return their hashes."""
        with locked(self.root, alone=True):
            old = [hash for hash in hashes if self.is_old(hash, before)]
            for hash in old:
                self._path(hash).unlink()
        return old

    def renew(self, hashes: Iterable[str]) -> None:
        """Make these blobs young: a collection may not have seen that they are used."""
        with suppress(FileNotFoundError), locked(self.root):
            for hash in hashes:
                with suppress(FileNotFoundError, _InvalidHash):
                    _set_time(self._path(hash))

    def _path(self, hash: str) -> Path:
        """Return the path of a blob. A hash from a damaged log must not name a path outside the folder."""
        if not _HASH.fullmatch(hash):
            raise _InvalidHash(hash)
        return self.root / hash[:2] / hash[2:]

    def _require_writable(self) -> None:
        if self._readonly:
            raise StoreReadOnly(f"the blobs in {self.root} were opened read-only")


class _InvalidHash(Exception):
    """The text is not the hash of a blob."""


class _Part:
    """A blob that is being written."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        handle, name = tempfile.mkstemp(prefix=".part-", dir=root)
        self._path = Path(name)
        self._file: BinaryIO = os.fdopen(handle, "wb")
        self._hasher = hashlib.blake2b(digest_size=32)
        self._size = 0

    def write(self, chunk: bytes) -> None:
        self.write_unhashed(chunk)
        self.hash(chunk)

    def write_unhashed(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._size += len(chunk)

    def hash(self, chunk: bytes) -> None:
        self._hasher.update(chunk)

    def keep(self, place: Callable[[str], Path], durable: bool) -> BlobRef:
        ref = BlobRef(self._hasher.hexdigest(), self._size)
        target = place(ref.hash)
        if not (_holds(target, ref) and self._renew(target)):
            self.flush(durable)
            target.parent.mkdir(exist_ok=True)
            with locked(self._root):
                _set_time(self._path)
                os.replace(self._path, target)
        if durable:  # also for existing bytes: their writer may have died before its flush
            for folder in (target.parent, target.parent.parent, target.parent.parent.parent):
                flush(folder)
        return ref

    def _renew(self, target: Path) -> bool:
        """Set the time of a stored blob to now. False: it was collected meanwhile."""
        with locked(self._root):
            try:
                _set_time(target)
            except FileNotFoundError:
                return False
        return True

    def flush(self, durable: bool) -> None:
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())

    def drop(self) -> None:
        with suppress(OSError):  # close writes the rest of the buffer and may fail as a write does
            self._file.close()
        with suppress(OSError):
            self._path.unlink()


def _set_time(path: Path) -> None:
    """Set the time of a file to now, exactly: that of the file system is some milliseconds behind."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))


@contextmanager
def locked(root: Path, *, alone: bool = False) -> Iterator[None]:
    """Hold the lock of a folder of blobs, for a moment: a collection `alone`, those who put blobs together. So no blob is
    renewed between the check of its time and its removal."""
    if fcntl is None:
        yield
        return
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _holds(path: Path, ref: BlobRef) -> bool:
    """Return whether the blob is stored undamaged; a damaged one is written again."""
    if not path.exists() or path.stat().st_size != ref.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest() == ref.hash


class PendingBlob:
    """Bytes that one thread writes and another hashes. The caller must call `keep` or `drop`."""

    def __init__(self, part: _Part, content: bytes, place: Callable[[str], Path], durable: bool) -> None:
        self._part = part
        self._place = place
        self._durable = durable
        self._error: BaseException | None = None
        self._threads = (
            threading.Thread(target=part.hash, args=(content,), name="outlast-blob-hash"),
            threading.Thread(target=self._write, args=(content,), name="outlast-blob-write"),
        )
        try:
            for thread in self._threads:
                thread.start()  # returns when the thread runs, which soon releases the GIL
        except RuntimeError:  # too many threads
            part.drop()
            raise

    def _write(self, content: bytes) -> None:
        try:
            self._part.write_unhashed(content)
            self._part.flush(self._durable)
        except BaseException as error:
            self._error = error

    async def keep(self) -> BlobRef:
        """Make the bytes a blob; it is durable on return."""
        try:
            return await asyncio.to_thread(self.kept)
        except OSError as error:
            raise _store_error(error) from error

    def kept(self) -> BlobRef:
        """Do the same in this thread."""
        try:
            self._wait()
            if self._error is not None:
                raise self._error
            return self._part.keep(self._place, self._durable)
        finally:
            self._part.drop()

    def drop(self) -> None:
        """Delete the bytes, without waiting for the disk."""
        threading.Thread(target=self._dropped, name="outlast-blob-drop").start()

    def _dropped(self) -> None:
        self._wait()
        self._part.drop()

    def _wait(self) -> None:
        for thread in self._threads:
            thread.join()


def _store_error(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(f"no space is left for a blob: {error}")
    return OutcomeUnknown(f"could not write a blob: {error}; whether it was stored is unknown")
