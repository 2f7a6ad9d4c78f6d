"""The time of a bucket: that of its server."""

from __future__ import annotations

import time

from outlast.clock import since_boot
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket
from outlast.stores.objects.run_index import fresh

TRUSTED_S = 120.0
"""Seconds until the server's time is read again."""
SECOND = 1_000_000


class Clock:
    """The time of a bucket, in microseconds.

    A server reports the time of an object's last write in whole seconds. So the store writes an object and reads its
    time: this was the server's time at some moment between the two requests, which leaves an uncertainty of about a
    second. Within it, the local clock is used. The store repeats this after a while, and when the local clock was set."""

    def __init__(self, bucket: Bucket, *, readonly: bool) -> None:
        self._bucket = bucket
        self._is_local = readonly  # it requires a write
        self._offset = 0
        self._measured = -TRUSTED_S
        self._drift = 0.0

    async def now(self) -> int:
        if not self._is_local and self._is_stale():
            await self._measure()
        return time.time_ns() // 1000 + self._offset

    def _is_stale(self) -> bool:
        mono = since_boot()
        return mono - self._measured >= TRUSTED_S or abs(time.time() - mono - self._drift) > 1

    async def _measure(self) -> None:
        before = time.time_ns() // 1000
        await self._bucket.put(keys.CLOCK, fresh().encode())
        written = await self._bucket.written(keys.CLOCK)
        after = time.time_ns() // 1000
        if written is not None:
            self._offset = nearest(written - after, written + SECOND - before)
        self._measured = since_boot()
        self._drift = time.time() - self._measured


def nearest(low: int, high: int) -> int:
    """Return the number in a range that is nearest to 0."""
    return max(low, min(high, 0))
