"""The news of other processes: LISTEN and NOTIFY for speed, a look at the log for certainty.

A NOTIFY inside the transaction of an append would make all appends of all processes wait for each other, each for the disk.
So it is sent after the append has landed, by itself, for all that landed meanwhile. Who dies between the two has told
nobody: therefore everyone also looks now and then what is new in the log, and at once when its line was cut. Behind
PgBouncer there is no LISTEN, and one only looks, but often.

What is new is told by the number of the transaction. All before the oldest that was still under way at the last look have
been seen; from there on one looks again, and some things are announced twice.
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

log = logging.getLogger("outlast.stores.postgres")

GATHERED = 0.01
"""Seconds between two announcements: what lands meanwhile is told together."""
SWEEP = 10.0
"""Seconds between two looks at the log where announcements arrive."""
PING = 5.0
"""Seconds within which the line that listens has to answer."""
POLL = 0.25
"""Seconds between two looks where they do not."""
PAYLOAD = 7000
"""Bytes of one announcement; the server takes 8000."""
FIRST_LOOK, LATER_LOOK = 5_000, 100_000
"""Transactions that a look goes back at most, whatever stranger keeps an old one open."""

_NEWS = """
select s.oldest, n.run, n.version
from (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest,
             pg_snapshot_xmax(pg_current_snapshot())::text::bigint as newest) s
left join lateral (
    select h.run, max(l.first + l.count - 1) as version from {s}.log l join {s}.head h on h.id = l.run
    where l.tx >= greatest($1::bigint, s.newest - $2::bigint) group by h.run) n on true"""
_TELL = "select pg_notify($1, told) from unnest($2::text[]) as told"


class ChangeFeed:
    """Tells others what landed here, and hears what landed elsewhere."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._name = os.urandom(6).hex()
        self._channel = f"outlast_{database.server.schema}"
        self._notifies: list[Notify] = []
        self._listener: asyncio.Task[None] | None = None
        self._teller: asyncio.Task[None] | None = None
        self._untold: set[RunId] = set()
        self._own: dict[RunId, int] = {}
        self._horizon = 0
        self._look_back = FIRST_LOOK

    # --- telling

    def tell(self, landed: Sequence[Append]) -> None:
        """These have landed: let others know, soon."""
        if not landed:
            return
        self._untold.update(append.record.run for append in landed)
        if self._notifies:
            self._own.update((append.record.run, append.record.last) for append in landed)
        if self._teller is None and not self._db.server.pgbouncer:
            self._teller = asyncio.get_running_loop().create_task(self._tell(), name="outlast-postgres-teller")

    async def _tell(self) -> None:
        try:
            while self._untold:
                runs, self._untold = self._untold, set()
                with suppress(OutlastError):  # they look by themselves
                    await self._db.write(_TELL, self._channel, list(self._payloads(runs)), is_repeatable=True)
                await asyncio.sleep(GATHERED)
        finally:
            self._teller = None

    def _payloads(self, runs: Iterable[RunId]) -> Iterable[str]:
        said, size = [self._name], 0
        for run in runs:
            said.append(run)
            size += len(run) + 1
            if size > PAYLOAD:
                yield ",".join(said)
                said, size = [self._name], 0
        if size:
            yield ",".join(said)

    # --- hearing

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        self._notifies.append(notify)
        if self._listener is None:
            self._look_back = FIRST_LOOK
            self._listener = asyncio.get_running_loop().create_task(self._listen(), name="outlast-postgres-listener")

        def unsubscribe() -> None:
            if notify in self._notifies:
                self._notifies.remove(notify)
            if not self._notifies and self._listener is not None:
                self._listener.cancel()
                self._listener = None

        return unsubscribe

    async def _listen(self) -> None:
        """Listen for ever. Whatever happens to the line, another one is made, and one look makes up for what was missed."""
        while True:
            try:
                await self._db.open()
                await (self._keep_looking() if self._db.server.pgbouncer else self._listen_until_lost())
            except (*DRIVERS, OutlastError) as error:
                log.debug("news of %s are interrupted: %s", self._db.server.shown, error)
                await asyncio.sleep(POLL)

    async def _keep_looking(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(POLL)

    async def _listen_until_lost(self) -> None:
        """Listen until the line is lost."""
        connection, lost = await self._db.connect(), asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(self._channel, self._heard)
            while not lost.is_set():
                with self._db.counted():  # a line may be dead without a word
                    await connection.execute("select 1", timeout=PING)
                await self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(SWEEP):
                        await lost.wait()
        finally:
            connection.terminate()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        name, *runs = payload.split(",")
        if name != self._name and runs:
            self._announce(frozenset(map(RunId, runs)))

    async def _look(self) -> None:
        """What others have written since the last look."""
        own, self._own = self._own, {}
        since = self._horizon or self._db.horizon
        rows = await self._db.read(_NEWS, since, self._look_back)
        self._horizon, self._look_back = rows[0][0], LATER_LOOK
        own |= self._own
        runs = frozenset(RunId(run) for _, run, version in rows if run is not None and own.get(run) != version)
        if runs:
            self._announce(runs)

    def _announce(self, runs: frozenset[RunId]) -> None:
        for notify in list(self._notifies):
            notify(runs)

    async def close(self) -> None:
        """Stop listening, and tell what is still untold."""
        self._notifies.clear()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])
        if self._teller is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.wait([self._teller])
            if self._teller is not None:
                self._teller.cancel()
