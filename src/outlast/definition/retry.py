"""Retry policies: how often and how soon a node is tried again, and after which errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from outlast.definition.durations import Seconds, seconds
from outlast.errors import InvalidInput
from outlast.history.events import Failure

RETRIED = frozenset({"transient", "timeout"})
"""The categories of failure after which a node is tried again."""
Errors: TypeAlias = tuple[type[BaseException], ...]


class Retry(Struct, frozen=True):
    """When a failed node is tried again. `max_attempts` counts the first attempt; None means no limit. The delay before the
    next attempt starts at `delay` and is multiplied by `backoff` each time, up to `max_delay`; both are seconds or a
    `timedelta`. `jitter` varies each delay by up to that fraction. Errors of the classes `retry_on` are tried again, except
    those of the classes `give_up_on`."""

    max_attempts: int | None = 1
    delay: Seconds = 1.0
    backoff: float = 2.0
    max_delay: Seconds = 300.0
    jitter: float = 0.1
    retry_on: type[BaseException] | Errors = (Exception,)
    give_up_on: type[BaseException] | Errors = ()

    def __post_init__(self) -> None:
        if self.max_attempts is not None and self.max_attempts < 1:
            raise InvalidInput(f"max_attempts must be at least 1, or None for no limit, not {self.max_attempts}")
        delay, longest = seconds(self.delay, "delay"), seconds(self.max_delay, "max_delay")
        force_setattr(self, "delay", delay)
        force_setattr(self, "max_delay", longest)
        if not (delay >= 0 and self.backoff >= 1 and longest >= 0 and 0 <= self.jitter <= 1):  # nor NaN
            raise InvalidInput(
                "delay and max_delay must not be negative, backoff must be at least 1, jitter between 0 and 1"
            )
        force_setattr(self, "retry_on", _classes("retry_on", self.retry_on))
        force_setattr(self, "give_up_on", _classes("give_up_on", self.give_up_on))

    @property
    def classes(self) -> tuple[Errors, Errors]:
        """The error classes of `retry_on` and of `give_up_on`."""
        return self.retry_on, self.give_up_on  # type: ignore[return-value]  # tuples since it was created

    def wait_us(self, failure: Failure, failed_attempts: int, chance: float) -> int | None:
        """Microseconds until the next attempt, or None if there is none. `chance`, 0 to 1, spreads the delays."""
        if failure.category not in RETRIED or not self.allows_another(failed_attempts):
            return None
        delay, longest = seconds(self.delay, "delay"), seconds(self.max_delay, "max_delay")
        try:
            wait = min(delay * self.backoff ** (failed_attempts - 1), longest)
        except OverflowError:
            wait = longest
        return int(wait * (1 + self.jitter * (2 * chance - 1)) * 1_000_000)

    def allows_another(self, failed_attempts: int) -> bool:
        """Whether another attempt is left after so many failures."""
        return self.max_attempts is None or failed_attempts < self.max_attempts


def _classes(option: str, given: Any) -> Errors:
    if callable(given) and not isinstance(given, type):
        raise InvalidInput(
            f"{option} takes exception classes, not a function: for example {option}=(ConnectionError,). An error can "
            "also have an attribute `retryable`, True or False"
        )
    classes = tuple(given) if isinstance(given, Iterable) and not isinstance(given, type) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidInput(f"{option} takes exception classes, and {each!r} is not one")
    return classes


NEVER = Retry()
