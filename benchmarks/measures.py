"""Measurements with the standard library only, so that every peer's interpreter can run them."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
MADE = ROOT / ".make"
"""Where environments and scratch folders live: ignored by git, removed by `make clean`."""


@contextmanager
def folder() -> Iterator[Path]:
    """A fresh folder on the same disk for all, so that ratios compare like with like."""
    MADE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=MADE, ignore_cleanup_errors=True) as name:
        yield Path(name)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, and the range it was taken from; a single value stands alone."""
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"{middle:,.{digits}f}"
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def gaps(moments: Sequence[float]) -> list[float]:
    """From each moment to the next."""
    return [later - earlier for earlier, later in pairwise(moments)]


def pace() -> float:
    """Milliseconds for a fixed piece of work: how fast the machine is right now."""

    def work(number: int) -> tuple[int, list[int]]:
        return number + 1, [number]

    began, kept = time.perf_counter(), {}
    for number in range(200_000):
        kept[number & 1023] = work(number)
    return (time.perf_counter() - began) * 1e3


def resident_mb() -> float:
    """Memory of this process now, garbage included; where the system does not report it, the peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_mb()
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    """The most memory that this process ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def device_flushes(place: Path) -> int | None:
    """Flushes of the device under `place` since it started, by all processes; None where the system does not count
    them."""
    device = place.stat().st_dev
    wanted = [str(os.major(device)), str(os.minor(device))]
    try:
        rows = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    except OSError:
        return None
    return next((int(row[18]) for row in rows if row[:2] == wanted and len(row) > 18), None)


def store_bytes(place: Path) -> int:
    """All that the store `runs.db` takes: the file, those beside it that bear its name, and what such folders hold."""
    beside = list(place.glob("runs.db*"))
    inside = [path for folder in beside if folder.is_dir() for path in folder.rglob("*")]
    return sum(path.stat().st_size for path in (*beside, *inside) if path.is_file())
