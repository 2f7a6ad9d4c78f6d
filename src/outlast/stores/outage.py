"""Logs when a server does not answer, and when it answers again.

A call waits for an unavailable server, and a server that hangs blocks a call for a minute before it fails. Until then
there is no error to log, so every call has a timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("outlast.stores")

NOTICE_S = 3.0
"""Seconds without an answer before the first log message."""
REPEAT_S = 15.0
"""Seconds between log messages."""


class Outage:
    """Watches the calls to one server. `error` is the newest reason for a failed call, empty if calls only took long."""

    def __init__(self, server: str) -> None:
        self.error = ""
        self._server = server
        self._answered = 0.0
        self._logged: float | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch one call, including its retries."""
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
        """Record that the server answered a call, even with an error."""
        now, before = asyncio.get_running_loop().time(), self._answered
        self._answered, self.error = now, ""
        if self._logged is not None:
            self._logged = None
            log.warning("%s answers again after %.0f s", self._server, now - before)

    def _notice(self, now: float, began: float) -> None:
        """Log that the server is silent, unless it answered another call while this one waited."""
        if self._logged is None:
            if now - max(began, self._answered) < NOTICE_S:
                return
            self._answered = max(began, self._answered)
        elif now - self._logged < REPEAT_S:
            return
        self._logged = now
        why = f": {self.error}" if self.error else ""
        log.warning("%s has not answered for %.0f s; waiting for it%s", self._server, now - self._answered, why)
