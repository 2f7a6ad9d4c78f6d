"""A server over the test's own store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import served

from support.http_server import serving

assert served, "its workflows are known"


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    """A server over the test's own store: `async with serve() as server`."""
    return lambda **options: serving(tmp_path / "runs.db", **options)
