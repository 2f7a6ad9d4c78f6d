"""A bucket in a folder: what a server does with conditions, done with the means of a file system.

An object is a file. It is written under another name, flushed, and then linked to its own name, which fails if there is
one: that is `create`. `update` and `put` hold a lock while they compare and replace, so that of two one comes second. The
folder is flushed before anything is answered for. Processes of one machine may share the folder; over a network file
system this is as good as its links, locks and flushes are.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar

from outlast.errors import BadInput, OutcomeUnknown, StoreError, StoreFull, StoreReadOnly, StoreUnusable
from outlast.stores.folder import flush_folder
from outlast.stores.objects.bucket import Found, Listed, Requests, Tag, Taken, is_name

CHUNK = 1 << 20
LOCKS = 64
"""Files that updates lock; an object has one of them by its name."""
FORGOTTEN_AFTER = 86_400
"""Seconds after which a half-written file has no writer any more."""
PRIVATE = ".outlast"
"""The folder of half-written files and of locks."""

P = ParamSpec("P")
T = TypeVar("T")


class FileBucket:
    """Objects as files below `root`."""

    is_remote = False

    def __init__(self, root: Path, *, durable: bool = True, readonly: bool = False) -> None:
        self.root = root
        self.requests = Requests()
        self._durable = durable
        self._private = root / PRIVATE
        try:
            if not readonly:
                self._private.mkdir(parents=True, exist_ok=True)
                self._tidy()
            elif not self._private.is_dir():
                raise StoreUnusable(f"there is no store at {root}")
        except OSError as error:
            raise StoreUnusable(f"could not open the folder {str(root)!r}: {error}") from error

    async def create(self, name: str, body: bytes) -> Tag:
        self.requests.create += 1
        return await _writing(self._create, name, body)

    async def update(self, name: str, body: bytes, tag: Tag) -> Tag:
        self.requests.update += 1
        return await _writing(self._replace, name, body, tag)

    async def put(self, name: str, body: bytes | Path) -> Tag:
        self.requests.put += 1
        return await _writing(self._replace, name, body, None)

    async def get(self, name: str) -> Found | None:
        self.requests.get += 1
        body = await _reading(_content, self._path(name)) if is_name(name) else None
        return None if body is None else Found(body, tag_of(body))

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        self.requests.get += 1
        file: BinaryIO = await asyncio.to_thread(self._path(name).open, "rb")
        with file:
            while chunk := await _reading(file.read, CHUNK):
                yield chunk

    async def written(self, name: str) -> int | None:
        self.requests.head += 1
        found = await _reading(_stat, self._path(name)) if is_name(name) else None
        return None if found is None else found.st_mtime_ns // 1000

    async def listing(self, folder: str, after: str = "") -> AsyncIterator[Listed]:
        found = await _reading(self._list, folder, after) if is_name(folder) else []
        self.requests.list += 1 + len(found) // 1000
        for listed in found:
            yield listed

    async def folders(self, folder: str) -> Sequence[str]:
        self.requests.list += 1
        return await _reading(_folders, self._path(folder))

    async def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        if gone:
            self.requests.delete += 1
            await _writing(self._remove, gone)

    async def close(self) -> None:
        """Nothing is held open between two requests."""

    def _tidy(self) -> None:
        """Remove what processes that died left half-written, long ago."""
        for part in self._private.glob("part-*"):
            with suppress(OSError):
                if part.stat().st_mtime < time.time() - FORGOTTEN_AFTER:
                    part.unlink()

    # --- what is done in threads

    def _path(self, name: str) -> Path:
        return self.root / name

    def _place(self, name: str) -> Path:
        if not is_name(name):
            raise BadInput(f"{name[:80]!r} cannot be the name of an object")
        return self._path(name)

    def _create(self, name: str, body: bytes) -> Tag:
        target = self._place(name)
        if target.exists():
            raise Taken(name)
        with self._part(body) as part:
            try:
                self._into_place(lambda: os.link(part, target), target)
            except FileExistsError:
                raise Taken(name) from None
        self._flush(target.parent)
        return tag_of(body)

    def _replace(self, name: str, body: bytes | Path, expected: Tag | None) -> Tag:
        target = self._place(name)
        with self._part(body) as part, self._locked(name):
            if expected is not None:
                there = _content(target)
                if there is None or tag_of(there) != expected:
                    raise Taken(name)
            self._into_place(lambda: os.replace(part, target), target)
            self._flush(target.parent)
        return tag_of(body) if isinstance(body, bytes) else ("", "")

    def _into_place(self, move: Callable[[], None], target: Path) -> None:
        """The folder may be missing, or be removed by whoever emptied it."""
        while True:
            try:
                return move()
            except FileNotFoundError:
                made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
                target.parent.mkdir(parents=True, exist_ok=True)
                for folder in made:
                    with suppress(FileNotFoundError):
                        self._flush(folder.parent)

    @contextmanager
    def _part(self, body: bytes | Path) -> Iterator[Path]:
        """A file with these bytes that nobody else knows of, durable."""
        part = self._private / f"part-{os.getpid()}-{os.urandom(8).hex()}"
        try:
            with part.open("xb") as file:
                if isinstance(body, bytes):
                    file.write(body)
                else:
                    with body.open("rb") as source:
                        shutil.copyfileobj(source, file, CHUNK)
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
            yield part
        finally:
            with suppress(OSError):
                part.unlink()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        import fcntl

        number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=2).digest(), "big") % LOCKS
        handle = os.open(self._private / f"lock-{number}", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _flush(self, folder: Path) -> None:
        if self._durable:
            flush_folder(folder)

    def _remove(self, names: Iterable[str]) -> None:
        """A removal that a power cut undoes does no harm, so nobody waits for the disk."""
        for name in names:
            path = self._place(name)
            with suppress(FileNotFoundError):
                path.unlink()
            with suppress(OSError):  # not empty, or gone
                path.parent.rmdir()

    def _list(self, folder: str, after: str) -> list[Listed]:
        names = sorted(name for name in _below(self._path(folder), folder) if name > after)
        found = [(name, _stat(self._path(name))) for name in names]
        return [_listed(name, stat) for name, stat in found if stat is not None]


def tag_of(body: bytes) -> Tag:
    return hashlib.blake2b(body, digest_size=16).hexdigest(), ""


def _below(folder: Path, prefix: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _below(folder / entry.name, f"{prefix}/{entry.name}")
        else:
            yield f"{prefix}/{entry.name}"


def _folders(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _listed(name: str, stat: os.stat_result) -> Listed:
    return Listed(name, stat.st_size, stat.st_mtime_ns // 1000, f"{stat.st_mtime_ns}-{stat.st_ino}")


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


async def _reading(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    try:
        return await asyncio.to_thread(work, *args, **named)
    except OSError as error:
        raise StoreError(f"the folder does not read: {error}") from error


async def _writing(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    try:
        return await asyncio.to_thread(work, *args, **named)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreFull(f"no space is left in the folder: {error}") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StoreReadOnly(f"the folder may not be written to: {error}") from error
        raise OutcomeUnknown(f"the folder could not be written: {error}") from error
