"""Exports a run as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import singledispatch

from outlast import maintenance
from outlast.client import Engine
from outlast.history.ids import RunId


@singledispatch
def exported(engine: Engine, run: RunId) -> AsyncIterator[bytes]:
    """The whole log of a run with all its branches and values, line by line, without line ends."""
    return maintenance.exported(engine._store, run)
