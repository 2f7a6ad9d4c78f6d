"""Writes the latest progress of each run to the store, at most twice a second. Progress is not an event."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from contextvars import Context
from typing import Any

import msgspec

from outlast.errors import OutlastError
from outlast.history.ids import RunId
from outlast.store import Catalog

log = logging.getLogger("outlast.engine")
INTERVAL_S = 0.5
"""Seconds between two writes."""


class Progress:
    """Collects and writes progress. Use it on the engine's loop."""

    def __init__(self, store: Catalog) -> None:
        self._store = store
        self._latest: dict[RunId, dict[str, dict[str, Any]]] = {}
        self._changed: set[RunId] = set()
        self._task: asyncio.Task[None] | None = None

    def update(self, run: RunId, progress: dict[str, Any]) -> None:
        """Record the progress of a node."""
        self._latest.setdefault(run, {})[progress["node"]] = progress
        self._changed.add(run)
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._write_soon(), name="outlast-progress", context=Context())

    def forget(self, run: RunId) -> None:
        self._latest.pop(run, None)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _write_soon(self) -> None:
        while self._changed:
            changed, self._changed = self._changed, set()
            notes = {run: msgspec.json.encode(list(self._latest.get(run, {}).values())) for run in changed}
            try:
                await self._store.note(notes)
            except OutlastError as error:
                log.info("progress could not be written: %s", error)
            await asyncio.sleep(INTERVAL_S)
        self._task = None
