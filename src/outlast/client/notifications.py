"""Waiting for something to happen to one run, among all the news of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from outlast.history.ids import RunId
from outlast.ledger import Ledger


class RunNotifications:
    """Wakes whoever waits for news of a run. One listener serves all who wait."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: dict[RunId, set[asyncio.Future[None]]] = {}
        self._end: Callable[[], None] | None = None

    async def wait_for(self, run: RunId, timeout: float, *, unless: asyncio.Future[None] | None = None) -> None:
        """Return when there may be news of the run, and after the timeout anyhow."""
        heard = unless or self.subscribed(run)
        try:
            await asyncio.wait({heard}, timeout=timeout)
        finally:
            self.unsubscribe(run, heard)

    def subscribed(self, run: RunId) -> asyncio.Future[None]:
        """Something that is done when there are news from now on. Subscribe, look, then wait: so nothing is missed."""
        if self._end is None:
            self._end = self._ledger.listen(self._on_changes)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run, set()).add(future)
        return future

    def unsubscribe(self, run: RunId, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(run)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[run]

    def count(self, run: RunId) -> int:
        """How many wait for news of a run here."""
        return len(self._waiting.get(run, ()))

    def close(self) -> None:
        if self._end is not None:
            self._end()
            self._end = None

    def _on_changes(self, runs: frozenset[RunId]) -> None:
        for run in runs:
            for future in self._waiting.get(run, ()):
                if not future.done():
                    future.set_result(None)
