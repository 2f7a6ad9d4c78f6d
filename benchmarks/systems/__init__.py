"""The systems under test, behind one set of verbs: every workload is written once and asked of each of them.

Each system does a workload in the way that is fastest for it while every node stays durable. A module of a system imports
that system, so it is loaded only in the process that measures it.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, cast

SYSTEMS = ("outlast", "raw", "dbos")


class System(Protocol):
    """One system with its store in one folder."""

    def opened(self, place: Path, *, is_restart: bool = False) -> AbstractAsyncContextManager[None]:
        """Open the store under `place` and continue its unfinished runs."""
        ...

    async def sequence(self, nodes: int) -> list[float]:
        """One run of that many trivial nodes one after the other: the moments before the first and after each."""
        ...

    async def crowd(self, runs: int, nodes: int) -> None:
        """That many runs at once, each of that many trivial nodes one after the other."""
        ...

    async def fan(self, nodes: int) -> None:
        """One run with that many trivial nodes at once."""
        ...

    async def payloads(self, payload: Any, times: int) -> None:
        """One run whose nodes return that payload, one after the other."""
        ...


class Survivor(System, Protocol):
    """A system whose process may be killed: its nodes report to a witness under `place`."""

    async def begin_slow(self, runs: int, nodes: int, seconds: float) -> None:
        """Start runs `run-0`, `run-1` … of nodes of this duration; each reports `begin` and `end` with its number."""
        ...

    async def all_done(self, runs: int) -> None:
        """Until that many runs are completed."""
        ...

    def recorded(self, place: Path) -> set[tuple[str, int]]:
        """Run and number of every slow node whose completion is in the store; no process has the store open."""
        ...

    async def begin_long(self, nodes: int, width: int) -> None:
        """Start the run `long`: it reports `began`, has this many trivial nodes, `width` at a time, reports `passed`
        with the number of node bodies that this process ran, and stays in a last node: for ever, or after a restart
        not at all."""
        ...

    async def long_done(self) -> None:
        """Until that run is completed."""
        ...


def system_of(name: str) -> Survivor:
    """The module of that system, whose functions are the verbs. Raw SQLite does not support restarts."""
    return cast("Survivor", importlib.import_module(f"benchmarks.systems.{name}"))
