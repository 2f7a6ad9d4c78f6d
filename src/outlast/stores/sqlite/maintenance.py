"""Looking after the file: what is in it, and a copy of it while others write.

Everything here uses a connection that cannot change the file. Only a creation that was killed is completed first.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import apsw
from msgspec import Struct

from outlast.errors import Damaged
from outlast.history.ids import WorkerId
from outlast.stores.shared import VERSION
from outlast.stores.sqlite.database import _told as told
from outlast.stores.sqlite.database import complete_creation
from outlast.stores.sqlite.schema import has_schema

PATIENCE_MS = 10_000
PAGES = 1000
"""Copied at a time, about 4 MB: between two such pieces the caller has its turn."""

_RUNS = "select status, count(*) from catalogue group by status order by status"
_WORKERS = """
select id, expires, (select count(*) from claim where claim.worker = worker.id) from worker order by id"""


class Enrolled(Struct, frozen=True):
    """A worker that the file knows, and how many runs it holds."""

    worker: WorkerId
    expires: int
    runs: int


class Contents(Struct, frozen=True):
    """What is in a file; version 0 if it is empty."""

    version: int
    library: str
    runs: dict[str, int] = {}
    workers: tuple[Enrolled, ...] = ()


def look(path: Path) -> Contents:
    """What is in the file at `path`."""
    with told(f"look into {path}"), closing(_reader(path)) as db:
        if not has_schema(db):
            return Contents(0, apsw.sqlite_lib_version())
        runs = {str(status): int(count) for status, count in db.execute(_RUNS)}
        workers = tuple(Enrolled(WorkerId(str(id)), int(until), int(held)) for id, until, held in db.execute(_WORKERS))
        return Contents(VERSION, apsw.sqlite_lib_version(), runs, workers)


def copy(path: Path, target: Path) -> Generator[tuple[int, int], None, None]:
    """Copy the file as it is when this begins into a new one, whatever others write meanwhile; yields how many pages are
    done, and of how many. The caller flushes the new file."""
    with told(f"copy {path} to {target}"), closing(_reader(path)) as old, closing(apsw.Connection(str(target))) as new:
        has_schema(old)
        # Held to the end: without a transaction of its own, a copy starts over whenever somebody else has written.
        old.execute("begin; select count(*) from sqlite_schema").fetchall()
        new.pragma("synchronous", "off")
        with new.backup("main", old, "main") as backup:
            while not backup.done:
                backup.step(PAGES)
                yield backup.page_count - backup.remaining, backup.page_count


def check(path: Path) -> None:
    """`Damaged` if the file does not open or its pages do not fit together."""
    with told(f"check {path}"), closing(_reader(path)) as db:
        has_schema(db)
        verdict = db.execute("pragma quick_check(1)").get
        if verdict != "ok":
            raise Damaged(f"the pages of {path} do not fit together: {verdict}")


def _reader(path: Path) -> apsw.Connection:
    try:
        return _opened(path)
    except (apsw.ReadOnlyError, apsw.CantOpenError):
        complete_creation(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE))
        return _opened(path)


def _opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(PATIENCE_MS)
    connection.execute("select count(*) from sqlite_schema").fetchall()  # fails if there is a journal to roll back
    return connection
