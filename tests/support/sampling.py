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
