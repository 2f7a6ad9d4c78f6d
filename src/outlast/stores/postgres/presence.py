"""Proves that the workers of a process are alive: a session of the server holds a lock for each of them.

The server ends the session when the process dies, so other workers find the lock free within milliseconds, not when the
lease ends. A broken connection frees the lock too. So a free lock proves the death only after `PATIENCE_S`, in which a
living process connects again and stores a new session. If it cannot, it withdraws the lock through another connection, and
only the lease counts.

Behind PgBouncer in transaction mode a session belongs to nobody: there only the lease counts.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from weakref import WeakSet

from outlast.errors import OutlastError
from outlast.stores.postgres.connections import FIRST_PAUSE, LONGEST_PAUSE, Connection, close_gracefully, connected
from outlast.stores.postgres.database import Database
from outlast.stores.postgres.errors import DRIVERS, message_of

PATIENCE_S = 1.5
"""Seconds for which a lock must be free to prove a death. With a load of 17 on two cores, a living process had its lock
again after 0.06 s (median of 20 cuts of all connections), at most after 0.74 s."""
WITHDRAWAL_S = 0.5
"""Seconds without a connection after which a worker withdraws its lock."""
PING_S = 1.0
"""Seconds between two signs of life of the connection."""
ANSWER_S = 5.0
"""Seconds within which the connection must answer."""

_LOCK = "select {s}.lock_workers($1::text[])"
_UNLOCK = "select pg_advisory_unlock({s}.worker_key(w)) from unnest($1::text[]) as w"
_WITHDRAW = "update {s}.worker set session = 0, free_since = null where id = any($1::text[])"


class Presence:
    """The locks of the workers of one store object, on a connection of their own."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._workers: set[str] = set()
        self._held: set[str] = set()
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        self._attempted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        _presences.add(self)

    async def hold(self, worker: str) -> None:
        """Acquire the lock of a worker and keep it. Return after the first attempt."""
        if self._db.server.pgbouncer or worker in self._held:
            return
        self._workers.add(worker)
        self._attempted.clear()
        self._changed.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_forever(), name="outlast-postgres-presence")
        await self._attempted.wait()

    def drop(self, worker: str) -> None:
        """Release the lock of a worker soon."""
        self._workers.discard(worker)
        self._changed.set()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self._connection is not None:
            await close_gracefully(self._connection)
        self._attempted.set()

    async def _keep_forever(self) -> None:
        """Hold the locks until cancelled. After a broken connection, make a new one at once."""
        loop = asyncio.get_running_loop()
        lost, pause = loop.time(), FIRST_PAUSE
        while True:
            try:
                with self._db.counted():
                    self._connection = connection = await connected(self._db.server)
                connection.add_termination_listener(lambda _: self._changed.set())
                while not connection.is_closed():
                    await self._sign(connection)
                    lost, pause = loop.time(), FIRST_PAUSE
            except (*DRIVERS, ValueError) as error:
                self._db.outage.error = message_of(error)
                if self._connection is not None:
                    self._connection.terminate()
            finally:
                self._held.clear()
            self._attempted.set()
            if loop.time() - lost > WITHDRAWAL_S:
                await self._withdraw()
            if self._connection is None or loop.time() - lost > FIRST_PAUSE:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _sign(self, connection: Connection) -> None:
        """Acquire the missing locks and release the needless ones, or else only see whether the connection answers. Then
        wait for a change."""
        self._changed.clear()
        needless, missing = self._held - self._workers, self._workers - self._held
        with self._db.counted():
            if needless:
                await connection.execute(self._db.text(_UNLOCK), list(needless), timeout=ANSWER_S)
                self._held -= needless
            free = await connection.fetchval(self._db.text(_LOCK), list(missing), timeout=ANSWER_S)
            self._held |= missing - set(free)
        self._attempted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_S):
                await self._changed.wait()

    async def _withdraw(self) -> None:
        """The lock is free although the process lives: from now on only the lease counts."""
        with suppress(OutlastError, TimeoutError):
            async with asyncio.timeout(WITHDRAWAL_S):
                await self._db.write(_WITHDRAW, list(self._workers), is_repeatable=True)

    def _close_in_child(self) -> None:
        """Close the copy of the connection without a word to the server: the session is the parent's."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, connection._transport.get_extra_info("socket").fileno())
            os.close(nothing)


_presences: WeakSet[Presence] = WeakSet()


def _close_after_fork() -> None:
    """A forked child shares the connections of its parent, and would keep its workers alive after its death."""
    for presence in list(_presences):
        presence._close_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_after_fork)
