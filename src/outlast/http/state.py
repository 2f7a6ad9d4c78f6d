"""What the parts of one server share: the engine, the authentication, and whether it is ready or shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.client import Engine
from outlast.errors import OutlastError
from outlast.http.audit import Audit
from outlast.http.auth import Auth
from outlast.http.problems import unavailable
from outlast.store import Store

if TYPE_CHECKING:
    from outlast.http.metrics import Metrics
    from outlast.http.rate_limit import RateLimit
    from outlast.http.streams.feed import Feeds

STORE_TIMEOUT_S = 2.0
"""How long /readyz waits for the store."""


class ServerState:
    """One server. `engine` and `store` are refused until the store is open; `is_ready` once recovery is done; `is_draining`
    from the first sign of shutdown on. Streams register a callback in `wakers`: it is called when the server drains."""

    def __init__(self, auth: Auth, *, max_body: int = 1_048_576, body_timeout_s: float = 30.0) -> None:
        self.auth = auth
        self.audit = Audit()
        self.max_body = max_body
        self.body_timeout_s = body_timeout_s
        self.is_ready = False
        self.is_draining = False
        self.drained = asyncio.Event()
        self.wakers: set[Callable[[], None]] = set()
        self.stream_clients = 0
        self.starting: set[str] = set()
        """Idempotency keys whose start is in progress in this process."""
        self.tasks: set[asyncio.Task[object]] = set()
        self.metrics: Metrics | None = None
        self.limit: RateLimit | None = None
        self.feeds: Feeds | None = None
        """What streams follow, once one is open."""
        self._engine: Engine | None = None

    def attach(self, engine: Engine) -> None:
        """The engine is open; requests are served as soon as `is_ready` is set too."""
        self._engine = engine
        self.auth.store = self.audit.store = engine._store

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise unavailable("the server is starting: its store is not open yet")
        return self._engine

    @property
    def store(self) -> Store:
        return self.engine._store

    def drain(self) -> None:
        """Refuse new requests and wake all streams, so that they end."""
        self.is_draining = True
        self.drained.set()
        for wake in list(self.wakers):
            wake()

    async def store_answers(self) -> bool:
        """Whether the store can be reached now."""
        with suppress(OutlastError, TimeoutError, OSError):
            async with asyncio.timeout(STORE_TIMEOUT_S):
                await self.store.now()
                return True
        return False
