"""Facts about a store: size, schema, runs, workers, blobs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import asdict, replace

from outlast.address import BucketAddress, blobs_beside, bucket_at, file_at, real_file, server_at
from outlast.errors import InvalidInput, StoreUnusable
from outlast.settings import Settings
from outlast.stores.shared import Contents, WorkerRuns


class Info(Contents, frozen=True, kw_only=True):
    """Facts about a store. On a server `path` is a description; `library` is the version of the database, `kind` its
    type."""

    kind: str
    wal_bytes: int
    blobs: Path | str


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
    from outlast.stores.sqlite.maintenance import look

    path = file_of(settings)
    contents = look(path)
    workers = await _with_locks(path, contents.workers) if contents.workers else ()
    contents = replace(contents, path=str(path), bytes=size_of(path), workers=workers)
    wal_bytes = size_of(path.with_name(f"{path.name}-wal"))
    return _info("sqlite", contents, blobs_of(settings, path), wal_bytes=wal_bytes)


def _info(kind: str, contents: Contents, blobs: Path | str, *, wal_bytes: int = 0) -> Info:
    """The facts about a store whose blobs are in a folder, or in a place that the contents include."""
    from outlast.stores.blob_files import sizes

    facts = asdict(contents)
    if isinstance(blobs, Path):
        facts["blob_count"], facts["blob_bytes"] = sizes(blobs)
    return Info(**facts, kind=kind, wal_bytes=wal_bytes, blobs=blobs)


async def _inspect_server(settings: Settings) -> Info:
    from outlast.stores.postgres import PostgresStore

    store = PostgresStore(settings.store, readonly=True)
    try:
        contents = await store.look()
    finally:
        await store.close()
    if not contents.schema:
        raise StoreUnusable(f"there is no store at {contents.path}")
    return _info("server", contents, folder_of(settings.blobs) if settings.blobs else "the database")


async def upgrade(settings: Settings) -> tuple[int, int]:
    """Bring the schema of the configured store to the current version. Return the version that it had, and the current
    one."""
    before = 0
    if server_at(settings.store) is not None:
        from outlast.stores.postgres import PostgresStore

        store = PostgresStore(settings.store)
        try:
            before = await store.upgrade()
        finally:
            await store.close()
    now = (await inspect(settings)).schema
    return before or now, now


async def _inspect_objects(at: BucketAddress, blobs: str) -> Info:
    from outlast.stores.objects.maintenance import look
    from outlast.stores.objects.opening import open_bucket

    contents = replace(await look(open_bucket(at, readonly=True)), path=at.url)
    return _info("objects", contents, folder_of(blobs) if blobs else f"{at.url.rstrip('/')}/blobs")


async def _with_locks(path: Path, workers: Iterable[WorkerRuns]) -> tuple[WorkerRuns, ...]:
    """The workers of an SQLite store. A lock that no process holds shows that a worker died before its claims
    expired."""
    from outlast.stores.sqlite import SqliteStore

    store = SqliteStore(path, readonly=True)
    try:
        now = await store.now()
        found = []
        for each in workers:
            held = await store.holdings(each.worker, limit=1)
            found.append(each._replace(is_live=held[0].is_live if held else each.expires > now))
        return tuple(found)
    finally:
        await store.close()


def size_of(path: Path) -> int:
    """The size of a file in bytes, 0 if it does not exist."""
    try:
        return path.stat().st_size
    except OSError:  # SQLite creates and removes the WAL
        return 0
