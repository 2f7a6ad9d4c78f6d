"""Notifies of other processes' appends: LISTEN and NOTIFY for speed, polling for reliability.

A NOTIFY in the transaction of an append would serialize the flushes of all processes. So a separate statement sends one
NOTIFY for all recent appends. A process may die between append and NOTIFY, so every process also polls the log from time to
time, and at once after its connection broke. Behind PgBouncer there is no LISTEN, only frequent polling.

New rows are found by their transaction id. A poll starts at the oldest transaction that was running at the last poll, so
some runs are reported twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from outlast.errors import OutlastError
from outlast.history.ids import RunId
from outlast.store import Append, Notify
from outlast.stores.postgres.database import Database
from outlast.stores.postgres.errors import DRIVERS
from outlast.stores.shared import Subscriptions

log = logging.getLogger("outlast.stores.postgres")

NOTIFY_PAUSE = 0.01
"""Seconds between two NOTIFY statements; each names all runs since the last one."""
SWEEP = 10.0
"""Seconds between polls of the log with LISTEN."""
PING = 5.0
"""Seconds within which the listening connection must answer."""
POLL = 0.25
"""Seconds between polls without LISTEN."""
PAYLOAD = 7000
"""Bytes of one NOTIFY payload; the server allows 8000."""
FIRST_LOOK_BACK, LOOK_BACK = 5_000, 100_000
"""The most transactions that a poll covers, even if another program keeps an old one open."""

_NEW_RUNS = """
select s.oldest, n.run, n.version
from (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest,
             pg_snapshot_xmax(pg_current_snapshot())::text::bigint as newest) s
left join lateral (
    select h.run, max(l.first + l.count - 1) as version from {s}.log l join {s}.head h on h.id = l.run
    where l.tx >= greatest($1::bigint, s.newest - $2::bigint) group by h.run) n on true"""
_NOTIFY = "select pg_notify($1, payload) from unnest($2::text[]) as payload"


class ChangeFeed:
    """Notifies other processes of appends, and reports theirs."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._name = os.urandom(6).hex()
        self._channel = f"outlast_{database.server.schema}"
        self._subscriptions = Subscriptions(self._listen, "outlast-postgres-listener")
        self._notifier: asyncio.Task[None] | None = None
        self._pending: set[RunId] = set()
        self._own: dict[RunId, int] = {}
        self._horizon = 0
        self._look_back = FIRST_LOOK_BACK

    # --- sending

    def publish(self, landed: Sequence[Append]) -> None:
        """Notify other processes of these appends soon."""
        if not landed:
            return
        self._pending.update(append.record.run for append in landed)
        if self._subscriptions:
            self._own.update((append.record.run, append.record.last) for append in landed)
        if self._notifier is None and not self._db.server.pgbouncer:
            self._notifier = asyncio.get_running_loop().create_task(
                self._notify_others(), name="outlast-postgres-notify"
            )

    async def _notify_others(self) -> None:
        try:
            while self._pending:
                runs, self._pending = self._pending, set()
                with suppress(OutlastError):  # other processes poll
                    await self._db.write(_NOTIFY, self._channel, list(self._payloads(runs)), is_repeatable=True)
                await asyncio.sleep(NOTIFY_PAUSE)
        finally:
            self._notifier = None

    def _payloads(self, runs: Iterable[RunId]) -> Iterable[str]:
        names, size = [self._name], 0
        for run in runs:
            names.append(run)
            size += len(run) + 1
            if size > PAYLOAD:
                yield ",".join(names)
                names, size = [self._name], 0
        if size:
            yield ",".join(names)

    # --- receiving

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        if not self._subscriptions:
            self._look_back = FIRST_LOOK_BACK
        return self._subscriptions.add(notify)

    def announce(self, runs: frozenset[RunId]) -> None:
        """Report a change that this process has found by itself."""
        self._subscriptions.notify(runs)

    async def _listen(self) -> None:
        """Listen until cancelled. After a broken connection, make a new one and poll once for missed appends."""
        while True:
            try:
                await self._db.open()
                await (self._poll_forever() if self._db.server.pgbouncer else self._listen_until_lost())
            except (*DRIVERS, OutlastError) as error:
                log.debug("notifications from %s are interrupted: %s", self._db.server.shown, error)
                await asyncio.sleep(POLL)

    async def _poll_forever(self) -> None:
        while True:
            await self._poll()
            await asyncio.sleep(POLL)

    async def _listen_until_lost(self) -> None:
        """Listen until the connection breaks."""
        connection, lost = await self._db.connect(), asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(self._channel, self._receive)
            while not lost.is_set():
                with self._db.counted():  # a dead connection may raise no error
                    await connection.execute("select 1", timeout=PING)
                await self._poll()
                with suppress(TimeoutError):
                    async with asyncio.timeout(SWEEP):
                        await lost.wait()
        finally:
            connection.terminate()

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        name, *runs = payload.split(",")
        if name != self._name and runs:
            self._subscriptions.notify(frozenset(map(RunId, runs)))

    async def _poll(self) -> None:
        """Report the runs that other processes changed since the last poll."""
        own, self._own = self._own, {}
        since = self._horizon or self._db.horizon
        rows = await self._db.read(_NEW_RUNS, since, self._look_back)
        self._horizon, self._look_back = rows[0][0], LOOK_BACK
        own |= self._own
        runs = frozenset(RunId(run) for _, run, version in rows if run is not None and own.get(run) != version)
        if runs:
            self._subscriptions.notify(runs)

    async def close(self) -> None:
        """Stop listening, and send pending notifications."""
        listener = self._subscriptions.stop()
        if listener is not None:
            await asyncio.wait([listener])
        if self._notifier is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.wait([self._notifier])
            if self._notifier is not None:
                self._notifier.cancel()
