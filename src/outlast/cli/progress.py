"""How far long work has come, on stderr, if a person is looking."""

from __future__ import annotations

import sys
import time

from outlast.views.texts import cropped

EVERY = 0.1


class Ticker:
    """One line that is written over. It is cleared before anything else is printed, and silent where nobody looks."""

    def __init__(self) -> None:
        self._is_watched = sys.stderr.isatty()
        self._is_shown = False
        self._next = 0.0

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self._is_watched and now >= self._next:
            self._next, self._is_shown = now + EVERY, True
            print(f"\r\x1b[K{cropped(text, 78)}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
