"""Connections to the server: a small pool that opens them on demand and replaces broken ones.

One caller uses a connection at a time. If a statement fails in a way that leaves the connection's state unknown, or is
cancelled, the pool closes the connection, so that no caller receives the answer to another caller's statement.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import asyncpg

from outlast.address import Server
from outlast.stores.outage import Outage
from outlast.stores.postgres.errors import DRIVERS, is_cut, is_worth_waiting_for, message_of, while_connecting

Connection: TypeAlias = Any
"""The connection class of asyncpg is untyped."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between attempts to connect."""
CONNECTING = 10.0
"""Seconds for one attempt."""
CLOSING = 2.0
CACHED = 200
"""Prepared statements cached per connection."""
SETTINGS = {"jit": "off", "enable_hashjoin": "off", "random_page_cost": "1.1"}
"""Lists are short and come from indexes. Behind PgBouncer the settings of the database hold."""


class Pool:
    """Up to `size` connections to one server."""

    def __init__(self, server: Server, size: int, outage: Outage) -> None:
        self.server = server
        self._outage = outage
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._slots = asyncio.Semaphore(size)
        self._is_closed = False

    @asynccontextmanager
    async def lend(self, give_up: float) -> AsyncIterator[Connection]:
        """Yield a connection that is believed to work. Raise `StoreBusy` if there is none by the loop time `give_up`."""
        async with self._slots:
            connection = self._take() or await self.connect(give_up)
            self._lent.add(connection)
            try:
                yield connection
            except BaseException as error:
                if is_cut(error) or not isinstance(error, Exception):
                    connection.terminate()
                raise
            finally:
                self._lent.discard(connection)
                self._put_back(connection)

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _put_back(self, connection: Connection) -> None:
        if connection.is_closed():
            return
        if self._is_closed or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)

    async def connect(self, give_up: float) -> Connection:
        """Return a new connection, which the caller closes. Wait if the server is starting or briefly unavailable."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while True:
            try:
                return await connected(self.server)
            except (*DRIVERS, ValueError) as error:
                self._outage.error = message_of(error)
                if self._is_closed or loop.time() > give_up or not is_worth_waiting_for(error):
                    raise while_connecting(error, self.server.shown) from error
            await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close_idle(self) -> None:
        """Close all unused connections: their server is gone."""
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        self._is_closed = True
        for connection in list(self._lent):
            connection.terminate()
        while self._idle:
            await close_gracefully(self._idle.pop())


async def connected(server: Server) -> Connection:
    """Try once to connect."""
    cached, settings = (0, None) if server.pgbouncer else (CACHED, SETTINGS)
    return await asyncpg.connect(
        server.dsn, timeout=CONNECTING, statement_cache_size=cached, server_settings=settings, command_timeout=None
    )


async def close_gracefully(connection: Connection) -> None:
    """Close a connection properly, if the server still answers."""
    with suppress(*DRIVERS):
        await connection.close(timeout=CLOSING)
