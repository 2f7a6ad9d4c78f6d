"""Connections to the server: few, made when they are needed, made anew when they break.

A connection is lent to one caller at a time. Whoever fails on it in a way that leaves its state in doubt, or is cancelled in
the middle of a statement, has it cut: nobody is handed a connection that still carries somebody else's answer.
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
from outlast.stores.postgres.errors import DRIVERS, is_cut, is_worth_waiting_for, said, while_connecting

Connection: TypeAlias = Any
"""asyncpg's own class has no types."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between two tries to reach the server."""
CONNECTING = 10.0
"""Seconds that one try may take."""
CLOSING = 2.0
CACHED = 200
"""Prepared statements kept for each connection."""


class Pool:
    """Up to `size` connections to one server."""

    def __init__(self, server: Server, size: int, outage: Outage) -> None:
        self.server = server
        self._outage = outage
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._turns = asyncio.Semaphore(size)
        self._is_closed = False

    @asynccontextmanager
    async def lend(self, give_up: float) -> AsyncIterator[Connection]:
        """A connection that works, as far as one can know; `StoreBusy` if there is none by that time of the loop."""
        async with self._turns:
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
                self._give_back(connection)

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _give_back(self, connection: Connection) -> None:
        if connection.is_closed():
            return
        if self._is_closed or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)

    async def connect(self, give_up: float) -> Connection:
        """A new connection, for the caller to close; the server may be coming up, or away for a moment."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while True:
            try:
                return await connected(self.server)
            except (*DRIVERS, ValueError) as error:
                self._outage.error = said(error)
                if self._is_closed or loop.time() > give_up or not is_worth_waiting_for(error):
                    raise while_connecting(error, self.server.shown) from error
            await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close_idle(self) -> None:
        """Let go of all that nobody uses: the server they led to is gone."""
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        self._is_closed = True
        for connection in list(self._lent):
            connection.terminate()
        while self._idle:
            await close_gracefully(self._idle.pop())


async def connected(server: Server) -> Connection:
    """One try to connect."""
    cached = 0 if server.pgbouncer else CACHED
    return await asyncpg.connect(server.dsn, timeout=CONNECTING, statement_cache_size=cached, command_timeout=None)


async def close_gracefully(connection: Connection) -> None:
    """Close a connection politely, if the server is there to hear it."""
    with suppress(*DRIVERS):
        await connection.close(timeout=CLOSING)
