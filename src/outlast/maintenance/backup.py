"""Backup of an SQLite store while other processes write to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec import Struct

from outlast.address import blobs_beside, bucket_at, file_at, real_file, server_at
from outlast.atomic_file import flush
from outlast.errors import Damaged, InvalidInput, StoreError, StoreUnusable
from outlast.history.record import entries
from outlast.maintenance.info import blobs_of, file_of, size_of
from outlast.settings import Settings

Tell: TypeAlias = Callable[[str, int, int], None]
"""Called with what is copied, the amount done and the total."""
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Copied(Struct, frozen=True, kw_only=True):
    """A finished copy. `damaged` has the hashes of blobs whose content does not match, `missing` those of blobs that
    a log names and that do not exist."""

    path: Path
    bytes: int
    runs: int
    blobs: Path
    blob_count: int
    blob_bytes: int
    damaged: tuple[str, ...]
    missing: tuple[str, ...]


async def back_up(settings: Settings, target: str, tell: Tell = lambda _what, _done, _of: None) -> Copied:
    """Copy the configured store, database and blobs, to the file `target` and the folder beside it (U2, U3). The copy
    yields to the event loop between small pieces."""
    if (server := server_at(settings.store)) is not None:
        raise InvalidInput(
            f"use pg_dump to back up a PostgreSQL store: pg_dump --schema={server.schema} --format=custom --file=… and the "
            "address; the schema contains the blobs, and workers may run meanwhile"
        )
    path = file_of(settings)
    wanted = file_at(target)
    if server_at(target) is not None or bucket_at(target) is not None:
        raise InvalidInput("the backup of an SQLite store is a file: give the path of a new file")
    if wanted is None:
        raise InvalidInput("a backup cannot be in memory: give the path of a new file")
    place = Path(os.path.abspath(wanted))
    try:
        _must_be_free(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place = real_file(place.parent) / place.name
        staging = Path(tempfile.mkdtemp(prefix=f".{place.name[:100]}.part-", dir=place.parent))
        try:
            copied = await _copy(path, blobs_of(settings, path), staging, place, tell)
            _put_in_place(staging, place)
            return copied
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except (OSError, ValueError) as error:
        raise StoreError(f"the backup to {str(place)[:200]!r} failed: {error}; its files were removed") from error


def _must_be_free(place: Path) -> None:
    for taken in (place, place.with_name(f"{place.name}-wal"), blobs_beside(place)):
        try:
            taken.lstat()
        except FileNotFoundError:
            continue
        raise InvalidInput(f"{taken} already exists and a backup overwrites nothing: give another path")


async def _copy(path: Path, blobs: Path, staging: Path, place: Path, tell: Tell) -> Copied:
    from outlast.stores.sqlite.maintenance import check, copy, look

    database = staging / "database"
    await _driven(copy(path, database), lambda pages: tell("database", *pages))
    flush(database)
    count, size, damaged, gone = await _copy_blobs(blobs, staging / "blobs", tell)
    check(database)
    missing = await _missing(database, staging / "blobs")
    if lost := gone.intersection(missing):
        raise StoreError(f"blob {min(lost)} was removed meanwhile, because its run was deleted: repeat the backup")
    return Copied(
        path=place,
        bytes=size_of(database),
        runs=sum(look(database).runs.values()),
        blobs=blobs_beside(place),
        blob_count=count,
        blob_bytes=size,
        damaged=damaged,
        missing=missing,
    )


async def _missing(database: Path, blobs: Path) -> tuple[str, ...]:
    """The hashes of blobs that the logs of a copy name and that its folder lacks."""
    from outlast.ledger.reading import records, runs_of
    from outlast.stores.sqlite import SqliteStore
    from outlast.values.codec import damaged_blobs

    found: dict[str, None] = {}
    try:
        store = SqliteStore(database, blobs=blobs, readonly=True)
    except StoreUnusable:  # a file of another version is copied as it is
        return ()
    try:
        async for run in runs_of(store):
            with suppress(Damaged):  # `verify` reports an unreadable log
                async for record in records(store, run):
                    faults = damaged_blobs(store.blobs, entries(record), content=False)
                    found |= {ref.hash: None async for _, ref, _ in faults}
    finally:
        await store.close()
    return tuple(found)


async def _copy_blobs(blobs: Path, target: Path, tell: Tell) -> tuple[int, int, tuple[str, ...], set[str]]:
    """Returns the number of blobs copied, their bytes, the hashes of damaged ones, and of those that were removed."""
    from outlast.stores.blob_files import blob_files, copy_blob, flush_folders

    pieces: list[int] = []
    damaged: list[str] = []
    gone: set[str] = set()
    files = sorted(blob_files(blobs))
    for number, file in enumerate(files):
        tell("blobs", number, len(files))
        try:
            is_sound = await _driven(copy_blob(file, target), pieces.append)
        except FileNotFoundError:
            gone.add(file.parent.name + file.name)
            continue
        if not is_sound:
            damaged.append(file.parent.name + file.name)
    if files:
        flush_folders(target)
    return len(files) - len(gone), sum(pieces), tuple(damaged), gone


def _put_in_place(staging: Path, place: Path) -> None:
    """Rename the blobs first, then the database: when the database exists, its blobs do."""
    _must_be_free(place)  # another backup may have finished first
    blobs = staging / "blobs"
    if blobs.is_dir():
        blobs = blobs.rename(blobs_beside(place))
        flush(place.parent)
    try:
        (staging / "database").rename(place)
    except OSError:
        shutil.rmtree(blobs, ignore_errors=True)
        raise
    flush(place.parent)


async def _driven(steps: Generator[Piece, None, Result], on_piece: Callable[[Piece], object]) -> Result:
    """Run all steps, yield to the event loop after each, and return their result."""
    try:
        while True:
            on_piece(next(steps))
            await asyncio.sleep(0)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        steps.close()
