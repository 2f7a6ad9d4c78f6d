"""How many requests a sender may send: a token bucket for each token, session or, without one, address."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from outlast.http.problems import HttpError

if TYPE_CHECKING:
    from outlast.http.auth import Principal

MOST_SENDERS = 10_000


class RateLimit:
    """A token bucket for each sender: `rate` requests a second, with bursts of `burst`."""

    def __init__(self, rate: float, burst: float = 0.0) -> None:
        self.rate = rate
        self._burst = burst or max(1.0, 2 * rate)
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait_s(self, sender: str) -> float:
        """Take one; 0 if there was one, else the seconds until there is."""
        now = time.monotonic()
        left = self._left(*self._buckets.get(sender, (self._burst, now)), now)
        if len(self._buckets) >= MOST_SENDERS:
            self._forget(now)
        wait = 0.0 if left >= 1 else (1 - left) / self.rate
        self._buckets[sender] = (left - 1 if left >= 1 else left, now)
        return wait

    def _left(self, left: float, at: float, now: float) -> float:
        return min(self._burst, left + (now - at) * self.rate)

    def _forget(self, now: float) -> None:
        """Forget the full buckets, which are as good as none; if all senders are busy, the older half."""
        self._buckets = {each: kept for each, kept in self._buckets.items() if self._left(*kept, now) < self._burst}
        if len(self._buckets) >= MOST_SENDERS:
            newest = sorted(self._buckets.items(), key=lambda item: item[1][1])[MOST_SENDERS // 2 :]
            self._buckets = dict(newest)

    def check(self, connection: HTTPConnection, principal: Principal | None) -> None:
        """Refuse a request if its sender has sent too many. One who names no valid token or session is an address."""
        client = connection.client.host if connection.client is not None else ""
        is_known = principal is not None and principal.id
        wait = self.wait_s(f"{principal.kind} {principal.id}" if principal is not None and is_known else client)
        if wait:
            detail = "too many requests from this " + ("token or session" if is_known else "address")
            raise HttpError("http.rate_limited", detail, headers={"Retry-After": str(int(wait) + 1)})
