"""Executes statements on the connections of one process.

If the connection breaks, a statement that only reads or is repeatable is retried until the patience ends. Any other
statement raises `OutcomeUnknown`; its caller resolves the outcome.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from outlast.address import Server
from outlast.errors import StoreReadOnly, StoreUnusable
from outlast.stores.outage import Outage
from outlast.stores.postgres.connections import FIRST_PAUSE, LONGEST_PAUSE, Connection, Pool
from outlast.stores.postgres.errors import CONFLICTS, DRIVERS, DROPPED, is_cut, message_of, while_reading, while_writing
from outlast.stores.postgres.schema import check_server, create, has_schema, in_schema

Result = TypeVar("Result")
Rows: TypeAlias = list[Any]
Work: TypeAlias = Callable[[Connection], Awaitable[Result]]

SHARED = 4
"""Connections for all statements but appends, which have their own and never wait for a long query."""
OPENING = 3.0
"""Seconds to wait for a server that never answered: its address is probably wrong."""
STATEMENT = 60.0
"""Timeout of a statement in seconds: the server or the network hangs."""
TRIES = 10
"""Attempts of a transaction that conflicts with another one."""

_HORIZON = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Database:
    """A database. The first use connects, checks the schema and creates it if it is absent."""

    def __init__(self, server: Server, *, readonly: bool, relaxed: bool, patience: float) -> None:
        self.server = server
        self.readonly = readonly
        self.relaxed = relaxed
        self.horizon = 0
        """Every transaction before this one had ended when the store was opened."""
        self.skew = 0
        """Microseconds added to the server's clock."""
        self.in_flight = 0
        """The number of running statements."""
        self._patience = patience
        self.outage = Outage(server.shown)
        self._shared = Pool(server, SHARED, self.outage)
        self._own = Pool(server, 1, self.outage)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._texts: dict[str, str] = {}

    # --- opening and closing

    async def open(self) -> None:
        async with self._opening:
            if self._is_open:
                return
            try:
                self.horizon = await self._with_retries(
                    self._shared, self._prepare, while_writing, OPENING, is_repeatable=True
                )
                self._is_open = True
            finally:
                if not self._is_open:
                    self._shared.close_idle()  # a store that was refused has nothing to close

    async def _prepare(self, connection: Connection) -> int:
        await check_server(connection)
        schema = self.server.schema
        if not await has_schema(connection, schema):
            if self.readonly:
                raise StoreUnusable(f"there is no store at {self.server.shown}")
            await create(connection, schema)
        horizon: int = await connection.fetchval(_HORIZON)
        return horizon

    async def inspect(self, work: Work[Result]) -> Result:
        """Run a read that does not need a store."""
        return await self._with_retries(self._shared, work, while_reading, OPENING, is_repeatable=True)

    async def connect(self) -> Connection:
        """Return a connection for this caller alone, which closes it."""
        with self.counted():
            return await self._shared.connect(asyncio.get_running_loop().time() + self._patience)

    async def close(self) -> None:
        with self.counted():
            await self._own.close()
            await self._shared.close()

    # --- statements

    def text(self, template: str) -> str:
        """Return the statement with the schema's name."""
        found = self._texts.get(template)
        if found is None:
            found = self._texts[template] = in_schema(template, self.server.schema)
        return found

    async def read(self, template: str, *values: Any, is_planned: bool = False) -> Rows:
        """Execute a statement that only reads. Return its rows. With `is_planned` it is planned for these values."""
        work = self._fetching(template, values, is_planned=is_planned)
        return await self._do(self._shared, work, while_reading, is_repeatable=True)

    async def write(self, template: str, *values: Any, is_repeatable: bool = False) -> Rows:
        """Execute a statement as its own transaction. Return its rows."""
        self.require_writable()
        return await self._do(
            self._shared, self._fetching(template, values), while_writing, is_repeatable=is_repeatable
        )

    async def append(self, template: str, parts: Sequence[Sequence[Any]]) -> list[Rows]:
        """Execute the same statement for each part, in one transaction, on the connection for appends."""
        self.require_writable()
        text = self.text(template)

        async def work(connection: Connection) -> list[Rows]:
            if len(parts) == 1:
                return [await connection.fetch(text, *parts[0], timeout=STATEMENT)]
            async with connection.transaction():
                return [await connection.fetch(text, *part, timeout=STATEMENT) for part in parts]

        return await self._do(self._own, work, while_writing)

    def require_writable(self) -> None:
        if self.readonly:
            raise StoreReadOnly(f"{self.server.shown} was opened read-only")

    def _fetching(self, template: str, values: Sequence[Any], *, is_planned: bool = False) -> Work[Rows]:
        text = self.text(template)

        async def work(connection: Connection) -> Rows:
            if is_planned and not self.server.pgbouncer:
                statement = await connection.prepare(text, timeout=STATEMENT)
                return list(await statement.fetch(*values, timeout=STATEMENT))
            found: Rows = await connection.fetch(text, *values, timeout=STATEMENT)
            return found

        return work

    async def _do(
        self, pool: Pool, work: Work[Result], translate: Callable[..., Exception], *, is_repeatable: bool = False
    ) -> Result:
        if not self._is_open:
            await self.open()
        return await self._with_retries(pool, work, translate, self._patience, is_repeatable=is_repeatable)

    async def _with_retries(
        self,
        pool: Pool,
        work: Work[Result],
        translate: Callable[..., Exception],
        patience: float,
        *,
        is_repeatable: bool,
    ) -> Result:
        loop, pause, tries = asyncio.get_running_loop(), FIRST_PAUSE, 0
        give_up = loop.time() + patience
        with self.counted(), self.outage.watched():
            while True:
                try:
                    async with pool.lend(give_up) as connection:
                        result = await work(connection)
                    self.outage.answered()
                    return result
                except DRIVERS as error:
                    tries += 1
                    if is_cut(error):
                        self.outage.error = message_of(error)
                        pool.close_idle()
                        may_try_again = is_repeatable and loop.time() < give_up
                    else:
                        may_try_again = getattr(error, "sqlstate", "") in CONFLICTS and tries < TRIES
                    if not may_try_again:
                        if getattr(error, "sqlstate", "") in DROPPED:
                            await self._check_schema(pool, give_up)
                        raise translate(error, self.server.shown) from error
                await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _check_schema(self, pool: Pool, give_up: float) -> None:
        """Raise `StoreUnusable` if the schema has another version by now, or lacks a part."""
        with suppress(*DRIVERS):
            async with pool.lend(give_up) as connection:
                await has_schema(connection, self.server.schema)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one running statement."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
