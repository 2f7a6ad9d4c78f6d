"""Executors run nodes outside the engine's own process: the contract, and the executors of a worker.

An executor has a name, which nodes pass as `run_in`, and is created for the first node that needs it: helper processes
here, clusters in `integrations`. Tests check the promises for the processes and for each cluster.

X1  `run` returns the encoded result of the function, or its failure; nothing else is an outcome.
X2  If the attempt may have begun and there will be no answer, `run` raises `ProcessDied`: the attempt counts as a crash.
    An attempt that has certainly not begun is begun elsewhere, or raises an error that permits another attempt.
X3  A cancelled `run` stops the attempt, or asks it to stop, and ends only when the attempt certainly does not run.
X4  After `close` nothing begins, and pending calls raise `PoolClosed`.
X5  `run` awaits `confirm` right before the attempt begins, after it has waited for a free place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Raw

from outlast.errors import NotSetUp
from outlast.execution.process_helper import Confirm, OnMessage, no_confirmation
from outlast.execution.process_wire import Call
from outlast.history.events import Failure


class StoredResult(NamedTuple):
    """A result that is already in the engine's blob store, with the reference to record in the log."""

    reference: Raw


class Executor(Protocol):
    """Runs functions that are named by their entry."""

    async def run(
        self, call: Call, inputs: bytes, *, on_message: OnMessage | None = None, confirm: Confirm = no_confirmation
    ) -> bytes | StoredResult | Failure:
        """Run a function with these encoded inputs."""
        ...

    async def close(self) -> None:
        """End all attempts and release all resources."""
        ...


ExecutorFactory: TypeAlias = Callable[[], Executor]


class Executors:
    """The executors of a worker, each created on first use."""

    def __init__(self, factories: Mapping[str, ExecutorFactory]) -> None:
        self._factories = factories
        self._made: dict[str, Executor] = {}

    def executor_for(self, place: str) -> Executor:
        if place not in self._made:
            if place not in self._factories:
                raise NotSetUp(f'run_in="{place}" needs a cluster, and none is set: name it in the setting {place}')
            self._made[place] = self._factories[place]()
        return self._made[place]

    async def close(self) -> None:
        for executor in self._made.values():
            await executor.close()
