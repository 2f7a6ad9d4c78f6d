"""The deletion of runs from a SQLite store.

The first step removes the rows through which a run is found: its head, its summary and its slots. All reads of its other
rows join the head. `purge` removes those later, in transactions that are about as short as that of an append, and gives the
free pages back to the file system. Blobs are collected under the write lock and that of the folder, so that neither an
append nor a `put` comes between the check and the removal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import astuple

from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.store import Tombstone
from outlast.stores.blob_files import blob_files
from outlast.stores.blob_folder import FolderBlobs
from outlast.stores.shared import bounded, check_limit
from outlast.stores.sqlite.claims import ClaimRows

PURGE_ROWS, PURGE_PAGES = 20, 10
"""Rows removed, and pages returned to the file system, in one transaction."""
COLLECTED_TOGETHER = 50
"""Blobs checked and removed in one transaction."""

_FIELDS = "run, workflow, status, created, deleted, key, by, reason"
_TOMBSTONE = f"select {_FIELDS} from tombstone where run = ?"
_TOMBSTONES = f"select {_FIELDS} from tombstone where run > ? order by run limit ?"
_IS_DELETED = "select 1 from tombstone where run = ?"
_ADD = f"insert into tombstone ({_FIELDS}, id, purged) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_HEAD = "select id, version, worker from head where run = ?"
_REMOVE = (
    "insert or ignore into text_changed (id) values (?)",
    "delete from head where id = ?",
    "delete from catalogue where id = ?",
    "delete from slot where id = ?",
)
_UNPURGED = "select id from tombstone where purged = 0 and id > 0 order by id limit 1"
_PURGED = "update tombstone set purged = 1 where id = ?"
_PURGE = (
    "delete from log where id in (select id from log where run = ? limit ?)",
    "delete from line where id in (select id from line where run = ? limit ?)",
    "delete from wait where (run, name) in (select run, name from wait where run = ? limit ?)",
    "delete from tag where (tag, run) in (select tag, run from tag where run = ? limit ?)",
    """
    delete from attribute where (name, kind, value, run) in
        (select name, kind, value, run from attribute where id = ? limit ?)""",
    "delete from blob_use where (run, blob) in (select run, blob from blob_use where run = ? limit ?)",
    "delete from scratch where run in (select run from scratch where run = ? limit ?)",
)
_IS_USED = "select 1 from blob_use join head on head.id = blob_use.run where blob = ? limit 1"


def is_deleted(db: apsw.Connection, run: RunId) -> bool:
    return db.execute(_IS_DELETED, (run,)).get is not None


class DeletionRows(ClaimRows):
    """Implements the deletion."""

    blobs: FolderBlobs

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            self._db.check_version(db)
            if (stored := _stored(db, tombstone.run)) is not None:
                return stored == tombstone
            id, found, worker = db.execute(_HEAD, (tombstone.run,)).fetchone() or (None, 0, "")
            if found != version or (worker and not self._is_free(db, worker)):
                return False
            db.execute(_ADD, (*astuple(tombstone), id, id is None))
            for sql in _REMOVE if id is not None else ():
                db.execute(sql, (id,))
            return True

        return await self._db.transact_together(write)

    async def purge(self, limit: int = 1000) -> bool:
        check_limit(limit)
        remains = await self._db.transact(partial(_purged, min(limit, PURGE_ROWS)), flushed=False)
        return await self._db.shrink(PURGE_PAGES) or remains

    async def tombstone(self, run: RunId) -> Tombstone | None:
        with self._db.reading() as db:
            row = db.execute(_TOMBSTONE, (run,)).fetchone()
        return None if row is None else _tombstone(*row)

    async def tombstones(self, *, after: str = "", limit: int = 1000) -> list[Tombstone]:
        check_limit(limit)
        with self._db.reading() as db:
            rows = db.execute(_TOMBSTONES, (after, bounded(limit))).fetchall()
        return [_tombstone(*row) for row in rows]

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        self._db.require_writable()
        check_limit(limit)
        before, removed = put_before - self.skew, list[str]()
        files = await asyncio.to_thread(blob_files, self.blobs.root)
        while some := await self._db.scan(partial(self._unused, files, before, limit - len(removed))):
            removed += await self._db.transact(partial(self._remove_unused, some, before), flushed=False)
        return removed

    def _unused(self, files: Iterator[Path], before: int, limit: int, db: apsw.Connection) -> list[str]:
        """Return the next blobs that are old and that no run uses, at most `limit`: none at the end."""
        old = (hash for file in files if self.blobs.is_old(hash := file.parent.name + file.name, before))
        return list(islice((hash for hash in old if _is_unused(db, hash)), min(limit, COLLECTED_TOGETHER)))

    def _remove_unused(self, hashes: list[str], before: int, db: apsw.Connection) -> list[str]:
        return self.blobs.remove_old([hash for hash in hashes if _is_unused(db, hash)], before)


def _is_unused(db: apsw.Connection, hash: str) -> bool:
    return db.execute(_IS_USED, (hash,)).get is None


def _stored(db: apsw.Connection, run: RunId) -> Tombstone | None:
    row = db.execute(_TOMBSTONE, (run,)).fetchone()
    return None if row is None else _tombstone(*row)


def _tombstone(run: Any, workflow: Any, status: Any, *rest: Any) -> Tombstone:
    return Tombstone(RunId(run), workflow, RunStatus(status), *rest)


def _purged(limit: int, db: apsw.Connection) -> bool:
    """Remove up to `limit` rows. Return whether some remain."""
    while (id := db.execute(_UNPURGED).get) is not None:
        for sql in _PURGE:
            db.execute(sql, (id, limit))
            limit -= db.changes()
            if limit == 0:
                return True
        db.execute(_PURGED, (id,))
    return False
