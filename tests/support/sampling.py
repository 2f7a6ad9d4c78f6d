"""Random samples of points: another sample at every commit, the same one for the same seed."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

GIVEN = "OUTLAST_TEST_SEED"
WHOLE = "OUTLAST_TEST_WHOLE"
"""`make faults` sets it: nothing is left out."""
T = TypeVar("T")


@cache
def seed() -> str:
    """The given seed, or the commit that is checked out."""
    found = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return os.environ.get(GIVEN) or found.stdout.strip() or "no-commit"


def sample(points: Sequence[T], size: int, name: str) -> list[T]:
    """At most `size` of the points, for the test with this name."""
    return random.Random(f"{seed()} {name}").sample(points, min(size, len(points)))


def is_whole() -> bool:
    return bool(os.environ.get(WHOLE))


def spot_check(points: Sequence[T], size: int, name: str) -> list[T]:
    """A sample of the points; all of them in `make faults`."""
    return list(points) if is_whole() else sample(points, size, name)


def share(points: Sequence[T], part: int, name: str) -> list[T]:
    """One of so many parts of the points, chosen by the seed; all of them in `make faults`."""
    return spot_check(points, -(-len(points) // part), name)


def examples(count: int) -> int:
    """How many examples Hypothesis tries: a third of this number, and all of them in `make faults`."""
    return count if is_whole() else max(10, count // 3)
