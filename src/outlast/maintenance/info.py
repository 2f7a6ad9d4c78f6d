"""Facts about a store: size, schema, runs, workers, blobs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from outlast.address import BucketAddress, blobs_beside, bucket_at, file_at, real_file, server_at
from outlast.errors import InvalidInput, StoreUnusable
from outlast.settings import Settings

if TYPE_CHECKING:
    from outlast.stores.sqlite.maintenance import Enrolled


class Worker(Struct, frozen=True):
    """A worker that the store knows; `is_live` as other workers judge it."""

    id: str
    is_live: bool
    expires: int
    runs: int


class Info(Struct, frozen=True, kw_only=True):
    """Facts about a store. On a server `path` is a description; `library` is the version of the database, `kind` its
    type."""

    kind: str = "sqlite"
    path: Path | str
    bytes: int
    wal_bytes: int
    schema: int
    library: str
    runs: dict[str, int]
    workers: tuple[Worker, ...]
    blobs: Path | str
    blob_count: int
    blob_bytes: int


def file_of(settings: Settings) -> Path:
    """The file of the configured store; it must exist."""
    path = file_at(settings.store)
    if server_at(settings.store) is not None:
        raise InvalidInput("a PostgreSQL store has no file")
    if bucket_at(settings.store) is not None:
        raise InvalidInput(
            "back up a bucket with the tools of its server: turn on versioning or replication, or copy the whole prefix "
            "while no worker runs"
        )
    if path is None:
        raise InvalidInput("a store in memory has no file: it ends with its process")
    place = Path(os.path.abspath(path))
    if not os.path.isfile(place):
        raise StoreUnusable(f"there is no store at {place}")
    return real_file(place)


def blobs_of(settings: Settings, path: Path) -> Path:
    """The folder of the blobs of that file."""
    return folder_of(settings.blobs) if settings.blobs else blobs_beside(path)


def folder_of(blobs: str) -> Path:
    """The configured folder for blobs."""
    return Path(os.path.abspath(os.path.expanduser(blobs)))


async def inspect(settings: Settings) -> Info:
    """The facts about the configured store (U1)."""
    if server_at(settings.store) is not None:
        return await _inspect_server(settings)
    if (bucket := bucket_at(settings.store)) is not None:
        return await _inspect_objects(bucket, settings.blobs)
    from outlast.stores.blob_files import sizes
    from outlast.stores.sqlite.maintenance import look

    path = file_of(settings)
    blobs = blobs_of(settings, path)
    contents = look(path)
    count, size = sizes(blobs)
    return Info(
        path=path,
        bytes=size_of(path),
        wal_bytes=size_of(path.with_name(f"{path.name}-wal")),
        schema=contents.version,
        library=contents.library,
        runs=contents.runs,
        workers=await _workers(path, contents.workers) if contents.workers else (),
        blobs=blobs,
        blob_count=count,
        blob_bytes=size,
    )


async def _inspect_server(settings: Settings) -> Info:
    from outlast.stores.postgres import PostgresStore

    store = PostgresStore(settings.store, readonly=True)
    try:
        contents = await store.look()
    finally:
        await store.close()
    if not contents.version:
        raise StoreUnusable(f"there is no store at {contents.shown}")
    blobs, count, size = "the database", contents.blob_count, contents.blob_bytes
    if settings.blobs:
        from outlast.stores.blob_files import sizes

        folder = folder_of(settings.blobs)
        blobs, (count, size) = str(folder), sizes(folder)
    return Info(
        kind="server",
        path=contents.shown,
        bytes=contents.bytes,
        wal_bytes=0,
        schema=contents.version,
        library=contents.library,
        runs=contents.runs,
        workers=tuple(Worker(*each) for each in contents.workers),
        blobs=blobs,
        blob_count=count,
        blob_bytes=size,
    )


async def _inspect_objects(at: BucketAddress, blobs: str) -> Info:
    from outlast.stores.blob_files import sizes
    from outlast.stores.objects.maintenance import look
    from outlast.stores.objects.opening import open_bucket
    from outlast.stores.shared import VERSION

    contents = await look(open_bucket(at, readonly=True))
    folder = folder_of(blobs) if blobs else None
    count, size = (contents.blob_count, contents.blob_bytes) if folder is None else sizes(folder)
    return Info(
        path=at.url,
        kind="objects",
        bytes=contents.bytes,
        wal_bytes=0,
        schema=VERSION,
        library=contents.library,
        runs=contents.runs,
        workers=tuple(Worker(each.worker, each.is_live, each.expires, each.runs) for each in contents.workers),
        blobs=folder or f"{at.url.rstrip('/')}/blobs",
        blob_count=count,
        blob_bytes=size,
    )


async def _workers(path: Path, enrolled: Iterable[Enrolled]) -> tuple[Worker, ...]:
    """The workers of an SQLite store. A lock that no process holds shows that a worker died before its claims
    expired."""
    from outlast.stores.sqlite import SqliteStore

    store = SqliteStore(path, readonly=True)
    try:
        now = await store.now()
        found = []
        for each in enrolled:
            held = await store.holdings(each.worker, limit=1)
            is_live = held[0].is_live if held else each.expires > now
            found.append(Worker(each.worker, is_live, each.expires, each.runs))
        return tuple(found)
    finally:
        await store.close()


def size_of(path: Path) -> int:
    """The size of a file in bytes, 0 if it does not exist."""
    try:
        return path.stat().st_size
    except OSError:  # SQLite creates and removes the WAL
        return 0
