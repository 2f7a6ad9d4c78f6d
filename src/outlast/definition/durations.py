"""Durations in arguments: a number of seconds or a `timedelta`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeAlias

from outlast.errors import InvalidInput

Seconds: TypeAlias = float | timedelta


def seconds(given: Any, what: str) -> float:
    """The seconds of a duration. `InvalidInput` names the argument `what` if it is not one."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:
        raise InvalidInput(f"{what} must be a number of seconds or a timedelta, not {given!r}")
    return given


def seconds_or_none(given: Any, what: str) -> float | None:
    """The same for an optional argument."""
    return None if given is None else seconds(given, what)
