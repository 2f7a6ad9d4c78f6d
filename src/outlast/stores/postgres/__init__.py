"""Runs in a PostgreSQL database, for as many processes on as many machines as reach it.

An acknowledged append has been flushed to the server's disk: synchronous_commit is switched on for every append where the
database has it off; `durability="relaxed"` switches it off, and is the caller's choice.

How it is kept:

- `log` has one row per append, its body in its exact bytes; the view `event` shows one row per event. `head` is one narrow
  row per run, half of each of its pages left free, without an index on what every append changes: so an append writes over
  it in place. `catalogue` is written only when what people search for changes.
- A batch of appends is one call of one function (`schema.sql`), one round trip and one flush. It locks the heads in the
  order of their numbers, so that two batches never wait for each other; what loses is left out, and comes back with why.
- Appends have a connection of their own; everything else shares a few (`connections`). One that breaks is made anew, for as
  long as one is patient: the server may be restarted at any time.
- A line that is cut while an append is under way leaves its outcome open (`trouble`); the ledger finds out by its id.
- Many runs are claimed in one call that skips what others are claiming. Leases are by the server's clock.
- Others hear of what landed by NOTIFY, and by looking (`news`).
- Blobs are in the database too (`blobs`), unless they are given a folder.
- Tables and functions are in a schema of their own (`schema`), made by whoever comes first.
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
    raise StoreUnusable("a store in PostgreSQL needs its driver: pip install 'outlast[postgres]'")

from outlast.stores.postgres.blobs import DatabaseBlobs
from outlast.stores.postgres.catalog import CatalogRows
from outlast.stores.postgres.claims import ClaimRows
from outlast.stores.postgres.database import Database
from outlast.stores.postgres.documents import DocumentRows
from outlast.stores.postgres.journal import JournalRows
from outlast.stores.postgres.lines import LineRows
from outlast.stores.postgres.maintenance import MaintenanceRows
from outlast.stores.postgres.wakeups import WakeupRows

__all__ = ["PostgresStore"]


class PostgresStore(JournalRows, CatalogRows, ClaimRows, LineRows, DocumentRows, MaintenanceRows, WakeupRows):
    """A store in the database that `url` names. Nothing is connected to before it is used, or opened with `open`.

    `patience` is how many seconds a call waits for a server that is away."""

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
            raise InvalidInput("this is not a PostgreSQL address; write postgresql://user@host:5432/database")
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
        """Where the store is, for people: without a password."""
        return self._db.server.shown

    @property
    def in_flight(self) -> int:
        """Statements under way."""
        return self._db.in_flight

    async def open(self) -> None:
        """Connect, and make the schema if it is not there; what is wrong with the address or the server shows here."""
        await self._db.open()

    def reopen(self) -> PostgresStore:
        other = self._reopen()
        other.skew = self.skew
        return other

    async def close(self) -> None:
        await self._news.close()
        await self._db.close()
