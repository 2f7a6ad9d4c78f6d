"""Notifications about one run, filtered from all changes of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outlast.history.ids import RunId
from outlast.ledger import Ledger


class RunNotifications:
    """Wakes the callers that wait for changes of a run. One listener serves all of them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: dict[RunId, set[asyncio.Future[None]]] = {}
        self._end: Callable[[], None] | None = None

    @contextmanager
    def next_change(self, run: RunId) -> Iterator[asyncio.Future[None]]:
        """A future that is done at the next change of the run. Inside the block, read first, then wait: no change is
        missed."""
        if self._end is None:
            self._end = self._ledger.listen(self._on_changes)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run, set()).add(future)
        try:
            yield future
        finally:
            self._waiting[run].discard(future)
            if not self._waiting[run]:
                del self._waiting[run]

    def count(self, run: RunId) -> int:
        """How many callers wait for changes of a run here."""
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
