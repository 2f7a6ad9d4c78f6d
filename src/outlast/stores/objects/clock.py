"""The clock of whoever keeps the objects, as far as it can be told from here.

A server says when an object was written, in whole seconds. So an object is written and its time asked for: the server's
clock was that far along at some moment between the two, which leaves a second or so in which it may differ from ours.
Ours is believed as far as it does not contradict that. It is asked again after a while, and when our own clock was set.
"""

from __future__ import annotations

import time

from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket
from outlast.stores.objects.run_index import fresh

TRUSTED_S = 120.0
"""Seconds after which the server is asked again."""
SECOND = 1_000_000


class Clock:
    """The time of a bucket, in microseconds."""

    def __init__(self, bucket: Bucket, *, readonly: bool) -> None:
        self._bucket = bucket
        self._is_ours = readonly  # who may not write cannot ask
        self._offset = 0
        self._asked = -TRUSTED_S
        self._drift = 0.0

    async def now(self) -> int:
        if not self._is_ours and self._is_old():
            await self._ask()
        return time.time_ns() // 1000 + self._offset

    def _is_old(self) -> bool:
        mono = time.monotonic()
        return mono - self._asked >= TRUSTED_S or abs(time.time() - mono - self._drift) > 1

    async def _ask(self) -> None:
        before = time.time_ns() // 1000
        await self._bucket.put(keys.CLOCK, fresh().encode())
        written = await self._bucket.written(keys.CLOCK)
        after = time.time_ns() // 1000
        if written is not None:
            self._offset = nearest(written - after, written + SECOND - before)
        self._asked = time.monotonic()
        self._drift = time.time() - self._asked


def nearest(low: int, high: int) -> int:
    """The number between two that is nearest to 0."""
    return max(low, min(high, 0))
