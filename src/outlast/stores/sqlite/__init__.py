"""Runs in one SQLite file, safe for several processes on it.

WAL mode with synchronous=FULL, so an acknowledged append survives a power cut; `durability="relaxed"` (synchronous=NORMAL)
survives the death of the process but may lose the last moments to a power cut, and is the caller's choice. The library is
the one apsw brings along: the one in many Python builds can corrupt a WAL that several connections checkpoint.

How it is kept:

- `log` has one row per append in order of arrival, so pages fill up and a process can ask what others added; a small unique
  index finds a run's rows. `head` is one narrow row per run without an index on what changes. `catalogue` is written only
  when what people search for changes.
- A short commit is done on the caller's loop (a hop to a thread costs about as much as the flush); when commits turn out
  slow, a writer thread does them.
- `begin immediate` never blocks the loop: if another process writes, we sleep and try again, up to `busy_timeout`.
- Lines of attempts are written on the writer thread and without a flush of their own: the next append brings it.
- Checkpoints are made by a thread of their own, off the commit path.
- Other processes' appends are noticed by polling `data_version` on a reading connection.
- A worker holds an operating-system lock on a file beside the database while it lives: who can take the lock has proof that
  the worker is dead and need not wait for its time to run out.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from outlast.stores.blob_folder import FolderBlobs
from outlast.stores.sqlite.catalog import CatalogRows
from outlast.stores.sqlite.claims import ClaimRows
from outlast.stores.sqlite.database import Database
from outlast.stores.sqlite.documents import DocumentRows
from outlast.stores.sqlite.journal import JournalRows
from outlast.stores.sqlite.lines import LineRows
from outlast.stores.sqlite.wakeups import WakeupRows

__all__ = ["SqliteStore"]


class SqliteStore(JournalRows, CatalogRows, ClaimRows, WakeupRows, LineRows, DocumentRows):
    """A store in the file `path`, with its blobs in a folder beside it."""

    def __init__(
        self,
        path: str | Path,
        *,
        blobs: str | Path | None = None,
        durability: Literal["full", "relaxed"] = "full",
        commit: Literal["auto", "inline", "thread"] = "auto",
        busy_timeout: float = 10.0,
        readonly: bool = False,
        vfs: str | None = None,
    ) -> None:
        file = Path(path)
        database = Database(
            file, durability=durability, commit=commit, busy_timeout=busy_timeout, readonly=readonly, vfs=vfs
        )
        super().__init__(database)
        self._reopen = partial(
            type(self), path, blobs=blobs, durability=durability, busy_timeout=busy_timeout, readonly=readonly, vfs=vfs
        )
        folder = Path(blobs) if blobs is not None else file.with_name(file.name + ".blobs")
        self.blobs = FolderBlobs(folder, durable=durability == "full", readonly=readonly)

    @property
    def path(self) -> Path:
        return self._db.path

    async def now(self) -> int:
        return self._now()

    def reopen(self) -> SqliteStore:
        other = self._reopen()
        other.skew = self.skew
        return other

    async def close(self) -> None:
        self._stop_watching()
        self._let_go_of_workers()
        await self._db.close()
