"""A clock that measures how long ago something was."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
since_boot: Callable[[], float] = time.monotonic if _CLOCK is None else partial(time.clock_gettime, _CLOCK)
"""Seconds on a clock that is never set and, where the platform has one, includes the time that the machine sleeps."""
