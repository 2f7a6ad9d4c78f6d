"""Times: as people type them, as they read them, and as programs do."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from outlast.errors import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(?:[0-9]{1,9}[smhdw])+")
_PART = re.compile(r"([0-9]+)([smhdw])")


def parse_time(text: str, now: int) -> int:
    """Microseconds of `2h` (ago), `1h30m`, `2026-11-01` or `2026-11-01T14:30+01:00`; without a zone it is local time."""
    wanted = text.strip()
    if _AGO.fullmatch(wanted):
        ago = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(wanted))
        return max(0, now - ago * SECOND)
    try:
        return (datetime.fromisoformat(wanted).astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"{text[:80]!r} is not a time: write how long ago (90s, 30m, 2h, 7d, 1w) or when (2026-11-01, 2026-11-01T14:30)"
        ) from None


def iso(time: int | None) -> str | None:
    """A time for programs: 2026-11-01T13:30:00.000000Z; None stays None, and so does what no calendar holds."""
    if time is None:
        return None
    try:
        return (EPOCH + timedelta(microseconds=time)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        return None


def micros(time: str | None) -> int | None:
    """The microseconds of a time for programs; None stays None."""
    return None if time is None else (datetime.fromisoformat(time) - EPOCH) // timedelta(microseconds=1)


def local(time: int, *, full: bool) -> str:
    """A time for people, in their zone; without the year if it has to be short."""
    try:
        moment = (EPOCH + timedelta(microseconds=time)).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(time)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if full else "%m-%d %H:%M:%S")


def span(time: int) -> str:
    """A length of time in one unit: 12s, 5m, 3h, 9d."""
    seconds = max(0, round(time / SECOND))
    for unit, size, limit in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"


def until(due: int, now: int) -> str:
    """When something is due, seen from `now`."""
    return f"in {span(due - now)}" if due > now else f"due {span(now - due)} ago"


def took(ms: float) -> str:
    """How long a node worked."""
    if ms < 1000:
        return f"{ms:.3g} ms"
    return f"{ms / 1000:.3g} s" if ms < 60_000 else span(int(ms * 1000))
