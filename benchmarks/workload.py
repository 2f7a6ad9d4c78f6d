"""What is measured with: the trivial node boundary, and a place on the disk."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Raw

from outlast.history import events as e
from outlast.history.codec import encode

BIRTH: tuple[e.AnyEvent, ...] = (
    e.RunCreated(workflow="bench"),
    e.RunStarted(),
    e.NodeScheduled(node="work#0"),
    e.NodeStarted(node="work#0", hash="9f3a2b9f3a2b9f3a", code="a1b2c3d4"),
)


def boundary(number: int) -> list[e.AnyEvent]:
    """One node completes, the next is scheduled and starts: what every step of a run costs."""
    following = f"work#{number + 1}"
    return [
        e.NodeCompleted(node=f"work#{number}", output=Raw(b"12"), ms=0.1),
        e.NodeScheduled(node=following),
        e.NodeStarted(node=following, hash="9f3a2b9f3a2b9f3a", code="a1b2c3d4"),
    ]


ROW = encode(boundary(12)).decode()
"""The same boundary as text, for the raw comparison."""


@contextmanager
def folder() -> Iterator[Path]:
    """A fresh folder on the same disk for all, so that ratios compare like with like."""
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=Path.cwd()) as name:
        yield Path(name)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, and the range it was taken from."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"
