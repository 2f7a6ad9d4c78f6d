"""Says in the log that a server does not answer, and when it answers again.

A call waits for a server that is away, and a server that hangs keeps a call for a minute before it fails. Until then no
error tells anybody, so every call has a timer beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("outlast.stores")

NOTICE_S = 3.0
"""Seconds without an answer after which that is logged."""
REPEAT_S = 15.0
"""Seconds after which it is logged again."""


class Outage:
    """Watches the calls to one server. `error` is the newest reason why a call failed, empty if it only took long."""

    def __init__(self, server: str) -> None:
        self.error = ""
        self._server = server
        self._answered = 0.0
        self._logged: float | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Around a call, however often it is tried."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def notice() -> None:
            self._notice(loop.time(), began)
            timers[0] = loop.call_later(NOTICE_S, notice)

        timers = [loop.call_later(NOTICE_S, notice)]
        try:
            yield
        finally:
            timers[0].cancel()

    def answered(self) -> None:
        """The server has answered a call, if only with an error."""
        now, before = asyncio.get_running_loop().time(), self._answered
        self._answered, self.error = now, ""
        if self._logged is not None:
            self._logged = None
            log.warning("%s answers again after %.0f s", self._server, now - before)

    def _notice(self, now: float, began: float) -> None:
        """Log that nothing was heard from the server, if nothing was while this call waited."""
        if self._logged is None:
            if now - max(began, self._answered) < NOTICE_S:
                return
            self._answered = max(began, self._answered)
        elif now - self._logged < REPEAT_S:
            return
        self._logged = now
        why = f": {self.error}" if self.error else ""
        log.warning("%s has not answered for %.0f s; waiting for it%s", self._server, now - self._answered, why)
