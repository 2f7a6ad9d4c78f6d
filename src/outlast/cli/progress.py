"""Progress of long commands: one line on stderr, if it is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Sequence

from outlast.client import Engine
from outlast.history.ids import RunId
from outlast.lifecycle.timeline.phrases import cropped

INTERVAL_S = 0.1


class Ticker:
    """One line that is overwritten. Call `clear` before other output."""

    def __init__(self) -> None:
        self._is_on = sys.stderr.isatty()
        self._is_shown = False
        self._next = 0.0

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self._is_on and now >= self._next:
            self._next, self._is_shown = now + INTERVAL_S, True
            print(f"\r\x1b[K{cropped(text, 78)}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


async def each_run(
    engine: Engine, wanted: Sequence[RunId], ticker: Ticker, verb: str, *, unfinished: bool = False
) -> AsyncIterator[RunId]:
    """The runs that are wanted, or all runs of the store, with progress."""
    for run in wanted:
        yield run
    if wanted:
        return
    count = 0
    try:
        async for run in engine.diagnostics.run_ids(unfinished=unfinished):
            count += 1
            ticker.show(f"{verb} run {count}: {run}")
            yield run
    finally:
        ticker.clear()
