"""How a store on a server stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import StoreUnusable
from outlast.maintenance.info import Info, Worker, folder_of
from outlast.settings import Settings

if TYPE_CHECKING:
    from outlast.stores.postgres.maintenance import Contents


async def inspect_server(settings: Settings) -> Info:
    """How the store stands (U1)."""
    contents = await _look(settings)
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


async def _look(settings: Settings) -> Contents:
    from outlast.stores.postgres import PostgresStore

    store = PostgresStore(settings.store, readonly=True)
    try:
        return await store.look()
    finally:
        await store.close()
