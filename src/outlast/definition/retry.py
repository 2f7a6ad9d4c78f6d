"""How often, how soon and after which errors a node is tried again."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import force_setattr

from outlast.definition.durations import Seconds, seconds
from outlast.errors import InvalidInput
from outlast.history.events import Failure

RETRIED = frozenset({"transient", "timeout"})
"""The categories of failure that another attempt may cure."""


class Retry(Struct, frozen=True):
    """`attempts` counts the first one. Delays grow by `factor` from `delay` up to `longest`: seconds, or a
    `timedelta`."""

    attempts: int = 1
    delay: Seconds = 1.0
    factor: float = 2.0
    longest: Seconds = 300.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInput(f"a node needs at least one attempt, not {self.attempts}")
        delay, longest = seconds(self.delay, "delay"), seconds(self.longest, "longest")
        force_setattr(self, "delay", delay)
        force_setattr(self, "longest", longest)
        if not (delay >= 0 and self.factor >= 1 and longest >= 0 and 0 <= self.jitter <= 1):  # nor NaN
            raise InvalidInput("delay and longest must not be negative, factor at least 1, jitter between 0 and 1")

    def wait_us(self, failure: Failure, failed_attempts: int, chance: float) -> int | None:
        """Microseconds until the next attempt, or None if there is none. `chance`, 0 to 1, spreads the delays."""
        if failure.category not in RETRIED or failed_attempts >= self.attempts:
            return None
        delay, longest = seconds(self.delay, "delay"), seconds(self.longest, "longest")
        try:
            wait = min(delay * self.factor ** (failed_attempts - 1), longest)
        except OverflowError:
            wait = longest
        return int(wait * (1 + self.jitter * (2 * chance - 1)) * 1_000_000)


NEVER = Retry()
