"""The server as one process sees it: its connections, and how a statement is carried out on them.

A statement that only reads, or that may be done twice, is tried again when the line is cut, for as long as one is patient.
Any other that was cut is `OutcomeUnknown`: whoever sent it knows how to ask.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from outlast.address import Server
from outlast.errors import StoreReadOnly, StoreUnusable
from outlast.stores.outage import Outage
from outlast.stores.postgres.connections import FIRST_PAUSE, LONGEST_PAUSE, Connection, Pool
from outlast.stores.postgres.errors import DRIVERS, PASSING, is_cut, said, while_reading, while_writing
from outlast.stores.postgres.schema import check_server, create, has_schema, in_schema

Result = TypeVar("Result")
Rows: TypeAlias = list[Any]
Work: TypeAlias = Callable[[Connection], Awaitable[Result]]

SHARED = 4
"""Connections for everything but appends, which have one of their own and never wait behind a long list."""
OPENING = 3.0
"""Seconds to wait for a server that was never reached: more likely than away, it is not where one looks for it."""
STATEMENT = 60.0
"""Seconds after which a statement is given up: the server, or the way to it, hangs."""
TRIES = 10
"""How often a transaction is begun again that stood in another's way."""

_HORIZON = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Database:
    """Opened at its first use: connected to, proved to be ours, and made if it is not there."""

    def __init__(self, server: Server, *, readonly: bool, relaxed: bool, patience: float) -> None:
        self.server = server
        self.readonly = readonly
        self.relaxed = relaxed
        self.horizon = 0
        """Every transaction before this one was over when the store was opened."""
        self.in_flight = 0
        """Statements under way."""
        self._patience = patience
        self._outage = Outage(server.shown)
        self._shared = Pool(server, SHARED, self._outage)
        self._own = Pool(server, 1, self._outage)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._texts: dict[str, str] = {}

    # --- opening and closing

    async def open(self) -> None:
        async with self._opening:
            if not self._is_open:
                self.horizon = await self._with_retries(
                    self._shared, self._prepare, while_writing, OPENING, is_repeatable=True
                )
                self._is_open = True

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
        """Look at the server as it is, whether there is a store or not."""
        return await self._with_retries(self._shared, work, while_reading, OPENING, is_repeatable=True)

    async def connect(self) -> Connection:
        """A connection for the caller alone, who closes it."""
        with self.counted():
            return await self._shared.connect(asyncio.get_running_loop().time() + self._patience)

    async def close(self) -> None:
        with self.counted():
            await self._own.close()
            await self._shared.close()

    # --- statements

    def text(self, template: str) -> str:
        """The statement in our schema."""
        found = self._texts.get(template)
        if found is None:
            found = self._texts[template] = in_schema(template, self.server.schema)
        return found

    async def read(self, template: str, *values: Any) -> Rows:
        """What a statement finds; it changes nothing."""
        return await self._do(self._shared, self._fetching(template, values), while_reading, is_repeatable=True)

    async def write(self, template: str, *values: Any, is_repeatable: bool = False) -> Rows:
        """Carry out a statement that is a transaction by itself."""
        self.require_writable()
        return await self._do(
            self._shared, self._fetching(template, values), while_writing, is_repeatable=is_repeatable
        )

    async def append(self, template: str, parts: Sequence[Sequence[Any]]) -> list[Rows]:
        """The same statement for each of these parts, on the connection that appends have for themselves, all or nothing."""
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
            raise StoreReadOnly(f"{self.server.shown} was opened for reading only")

    def _fetching(self, template: str, values: Sequence[Any]) -> Work[Rows]:
        text = self.text(template)

        async def work(connection: Connection) -> Rows:
            found: Rows = await connection.fetch(text, *values, timeout=STATEMENT)
            return found

        return work

    async def _do(
        self, pool: Pool, work: Work[Result], told: Callable[..., Exception], *, is_repeatable: bool = False
    ) -> Result:
        if not self._is_open:
            await self.open()
        return await self._with_retries(pool, work, told, self._patience, is_repeatable=is_repeatable)

    async def _with_retries(
        self, pool: Pool, work: Work[Result], told: Callable[..., Exception], patience: float, *, is_repeatable: bool
    ) -> Result:
        loop, pause, tries = asyncio.get_running_loop(), FIRST_PAUSE, 0
        give_up = loop.time() + patience
        with self.counted(), self._outage.watched():
            while True:
                try:
                    async with pool.lend(give_up) as connection:
                        result = await work(connection)
                    self._outage.answered()
                    return result
                except DRIVERS as error:
                    tries += 1
                    if is_cut(error):
                        self._outage.error = said(error)
                        pool.close_idle()
                        may_try_again = is_repeatable and loop.time() < give_up
                    else:
                        may_try_again = getattr(error, "sqlstate", "") in PASSING and tries < TRIES
                    if not may_try_again:
                        raise told(error, self.server.shown) from error
                await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """An answer of the server is awaited."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
