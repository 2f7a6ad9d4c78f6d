"""A store in one SQLite file, which several processes can use at once.

The file is in WAL mode with synchronous=FULL, so an acknowledged append survives a power cut. With `durability="relaxed"`
(synchronous=NORMAL) it survives the death of the process, but a power cut may lose the last moments. The store uses the
SQLite library of apsw: that of many Python builds can corrupt a WAL that several connections checkpoint.

- `log` has one row per append in order of arrival, so pages fill up and a process can query the rows that others added. A
  small unique index finds a run's rows. `head` is one narrow row per run; no index has `version` or
  `digest`, which every append changes. `catalogue` changes only with the searchable fields.
- Short commits run on the caller's event loop: a thread switch costs about as much as the flush. If commits are slow, they
  move to a writer thread.
- `begin immediate` never blocks the loop: while another process writes, the store sleeps and tries again, up to
  `busy_timeout`.
- Lines of attempts are written on the writer thread without their own flush: the next append flushes them.
- A separate thread makes checkpoints, outside the commit path, and indexes the texts of runs.
- Who holds a run, and what decides when it is claimed, are columns of `head`: partial indexes contain the runs that may be
  claimed, those of each worker, and the timers that may wake a run, so a claim reads no other runs.
- `auto_vacuum` is incremental: after a deletion, free pages return to the file system in small steps.
- Other processes announce their appends through a named pipe; polling `data_version` finds what a pipe has lost.
- A live worker holds an operating-system lock on a file beside the database. If another process can take the lock, the
  worker is dead, and its runs are free before its lease expires.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from outlast.stores.blob_folder import FolderBlobs
from outlast.stores.sqlite.catalog import CatalogRows
from outlast.stores.sqlite.database import Database
from outlast.stores.sqlite.deletion import DeletionRows
from outlast.stores.sqlite.documents import DocumentRows
from outlast.stores.sqlite.journal import JournalRows
from outlast.stores.sqlite.lines import LineRows
from outlast.stores.sqlite.slots import SlotRows
from outlast.stores.sqlite.wakeups import WakeupRows

__all__ = ["SqliteStore"]


class SqliteStore(JournalRows, CatalogRows, DeletionRows, SlotRows, WakeupRows, LineRows, DocumentRows):
    """A store in the file `path`; its blobs are in a folder beside it."""

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
        self._subscriptions.stop()
        self._outbox.close()
        self.locks.close()
        await self._db.close()
