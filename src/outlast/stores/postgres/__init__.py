"""A store in a PostgreSQL database, for any number of processes and machines.

The server has flushed every acknowledged append to its disk: an append sets synchronous_commit if the database has it off.
`durability="relaxed"` sets it off.

- `log` has one row per append with the exact bytes of its body; the view `event` shows one row per event. `head` is one
  narrow row per run, without an index on columns that every append changes and with a fill factor of 50 %, so appends
  update it in place (HOT). `catalogue` changes only with the searchable fields.
- A batch of appends is one call of one function (`functions.sql`), one round trip and one flush. It locks the heads in the
  order of their ids, so two batches cannot deadlock. It returns each losing append with the reason.
- Appends have their own connection; all other statements share a few (`connections`). The store replaces a broken
  connection and retries within its patience, so the server can restart at any time.
- If the connection breaks during an append, the outcome is open (`errors`); the ledger looks for the append's id.
- One call claims many runs and skips those that other workers are claiming. Leases use the server's clock, and a lock on
  the server proves that a worker lives (`presence`).
- Other processes learn of appends by NOTIFY and by polling (`change_feed`).
- Blobs are in the database too (`blobs`), or in a folder.
- Tables and functions are in their own schema (`schema`), which the first process creates.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from outlast.address import server_at
from outlast.errors import InvalidInput, StoreUnusable
from outlast.store import Blobs
from outlast.stores.blob_folder import FolderBlobs

if find_spec("asyncpg") is None:
    raise StoreUnusable("a PostgreSQL store needs asyncpg, which is not installed: pip install 'outlast[postgres]'")

from outlast.stores.postgres.blobs import DatabaseBlobs
from outlast.stores.postgres.catalog import CatalogRows
from outlast.stores.postgres.claims import ClaimRows
from outlast.stores.postgres.database import Database
from outlast.stores.postgres.deletion import DeletionRows
from outlast.stores.postgres.documents import DocumentRows
from outlast.stores.postgres.journal import JournalRows
from outlast.stores.postgres.lines import LineRows
from outlast.stores.postgres.maintenance import MaintenanceRows
from outlast.stores.postgres.slots import SlotRows
from outlast.stores.postgres.wakeups import WakeupRows

__all__ = ["PostgresStore"]


class PostgresStore(
    JournalRows, CatalogRows, ClaimRows, SlotRows, DeletionRows, LineRows, DocumentRows, MaintenanceRows, WakeupRows
):
    """A store in the database at `url`. It connects at its first use, or in `open`.

    `patience` is the time in seconds that a call waits for an unavailable server."""

    def __init__(
        self,
        url: str,
        *,
        blobs: str | Path | None = None,
        durability: Literal["full", "relaxed"] = "full",
        patience: float = 10.0,
        readonly: bool = False,
    ) -> None:
        server = server_at(url)
        if server is None:
            raise InvalidInput("this is not a PostgreSQL URL: write postgresql://user@host:5432/database")
        database = Database(server, readonly=readonly, relaxed=durability == "relaxed", patience=patience)
        super().__init__(database)
        self._reopen = partial(
            type(self), url, blobs=blobs, durability=durability, patience=patience, readonly=readonly
        )
        self.blobs: Blobs = DatabaseBlobs(database)
        if blobs is not None:
            self.blobs = FolderBlobs(Path(blobs), durable=durability == "full", readonly=readonly)

    @property
    def shown(self) -> str:
        """The URL of the store without a password."""
        return self._db.server.shown

    @property
    def in_flight(self) -> int:
        """The number of running statements."""
        return self._db.in_flight

    async def open(self) -> None:
        """Connect, and create the schema if it is absent. Errors of the URL or the server occur here."""
        await self._db.open()

    def reopen(self) -> PostgresStore:
        other = self._reopen()
        other.skew = self.skew
        return other

    async def close(self) -> None:
        await self._stop_claiming()
        await self._change_feed.close()
        await self._db.close()
