"""Inspects, checks and copies a database file while other processes write.

All functions use a read-only connection. If a process was killed while it created the file, they first finish the creation.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import apsw

from outlast.errors import Damaged
from outlast.history.ids import WorkerId
from outlast.stores.shared import Contents, WorkerRuns
from outlast.stores.sqlite.database import complete_creation, translating
from outlast.stores.sqlite.schema import has_schema

BUSY_TIMEOUT_MS = 10_000
PAGES = 1000
"""Pages copied per step, about 4 MB. The caller gets control between steps."""

_RUNS = "select status, count(*) from catalogue group by status order by status"
_WORKERS = """
select id, expires, (select count(*) from head where head.worker != '' and head.worker = worker.id)
from worker order by id"""


def look(path: Path) -> Contents:
    """Return the contents of the file at `path`, without sizes. The locks of its workers are not checked."""
    with translating(f"look into {path}"), closing(_reader(path)) as db:
        if not has_schema(db):
            return Contents(schema=0, library=apsw.sqlite_lib_version())
        runs = {str(status): int(count) for status, count in db.execute(_RUNS)}
        rows = db.execute(_WORKERS)
        workers = tuple(WorkerRuns(WorkerId(str(id)), False, int(until), int(held)) for id, until, held in rows)
        deleted = int(str(db.execute("select count(*) from tombstone").get))
        return Contents(library=apsw.sqlite_lib_version(), runs=runs, deleted=deleted, workers=workers)


def copy(path: Path, target: Path) -> Generator[tuple[int, int], None, None]:
    """Copy a snapshot of the file into a new one while other processes write. Yield the number of copied pages and of all
    pages. The caller flushes the new file."""
    with (
        translating(f"copy {path} to {target}"),
        closing(_reader(path)) as old,
        closing(apsw.Connection(str(target))) as new,
    ):
        has_schema(old)
        # Open until the end: without its own transaction, the backup restarts after each write of another process.
        old.execute("begin; select count(*) from sqlite_schema").fetchall()
        new.pragma("synchronous", "off")
        with new.backup("main", old, "main") as backup:
            while not backup.done:
                backup.step(PAGES)
                yield backup.page_count - backup.remaining, backup.page_count


def check(path: Path) -> None:
    """Raise `Damaged` if the file does not open or its pages are inconsistent."""
    with translating(f"check {path}"), closing(_reader(path)) as db:
        has_schema(db)
        verdict = db.execute("pragma quick_check(1)").get
        if verdict != "ok":
            raise Damaged(f"the pages of {path} are inconsistent: {verdict}")


def _reader(path: Path) -> apsw.Connection:
    try:
        return _opened(path)
    except (apsw.ReadOnlyError, apsw.CantOpenError):
        complete_creation(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE))
        return _opened(path)


def _opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("select count(*) from sqlite_schema").fetchall()  # fails if there is a journal to roll back
    return connection
