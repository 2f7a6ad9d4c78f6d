"""Times: parsed from the command line, shown as local time, and as ISO 8601 in JSON."""

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
    """A time in JSON: 2026-11-01T13:30:00.000000Z; None for None and for a time that datetime cannot represent."""
    if time is None:
        return None
    try:
        return (EPOCH + timedelta(microseconds=time)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        return None


def micros(time: str | None) -> int | None:
    """The microseconds of a time in JSON; None for None."""
    return None if time is None else (datetime.fromisoformat(time) - EPOCH) // timedelta(microseconds=1)


def local(time: int, *, full: bool) -> str:
    """A local time; without the year unless `full`."""
    try:
        moment = (EPOCH + timedelta(microseconds=time)).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(time)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if full else "%m-%d %H:%M:%S")


def span(time: int) -> str:
    """A duration in one unit: 12s, 5m, 3h, 9d."""
    seconds = max(0, round(time / SECOND))
    for unit, size, limit in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"
