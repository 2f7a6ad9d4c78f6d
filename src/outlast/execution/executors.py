"""Where nodes run that do not run in the engine's own process, and what such a place has to promise.

A place has a name, which nodes give as `run_in`, and is made when the first node wants it: helper processes here, a cluster
in `integrations`. What the promises are worth, tests say: those of the processes and those of each cluster.

X1  `run` answers with what the function brought, as bytes of ours, or with its failure; nothing else counts as an outcome.
X2  If the attempt may have begun and there will be no answer, `run` raises `ProcessDied`: the attempt counts as a crash.
    What has certainly not begun is begun elsewhere, or raises an error that is worth another attempt.
X3  `run` that is cancelled stops the attempt, or asks it to stop, and ends only when it is certain that it no longer runs.
X4  After `close` nothing is begun, and whoever still waits gets `PoolClosed`.
X5  `run` awaits `confirm` right before the attempt begins, after it has waited for a place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Raw

from outlast.errors import NotSetUp
from outlast.execution.process_helper import Confirm, OnMessage, no_confirmation
from outlast.execution.process_wire import AttemptInfo
from outlast.history.events import Failure


class StoredResult(NamedTuple):
    """A result that lies in the engine's blob store already; what the log is to hold for it."""

    reference: Raw


class Executor(Protocol):
    """A place for functions that are named by their entry."""

    async def run(
        self,
        entry: str,
        main: str,
        inputs: bytes,
        attempt: AttemptInfo,
        *,
        on_message: OnMessage | None = None,
        confirm: Confirm = no_confirmation,
    ) -> bytes | StoredResult | Failure:
        """Run the function that is found as `entry`, in a module or in the script `main`, with these encoded inputs."""
        ...

    async def close(self) -> None:
        """Leave nothing behind."""
        ...


ExecutorFactory: TypeAlias = Callable[[], Executor]


class Executors:
    """Those of a worker, each made when it is first wanted."""

    def __init__(self, makers: Mapping[str, ExecutorFactory]) -> None:
        self._factories = makers
        self._made: dict[str, Executor] = {}

    def executor_for(self, place: str) -> Executor:
        if place not in self._made:
            if place not in self._factories:
                raise NotSetUp(f'run_in="{place}" needs a cluster, and none is set: name it in the setting {place}')
            self._made[place] = self._factories[place]()
        return self._made[place]

    async def close(self) -> None:
        for made in self._made.values():
            await made.close()
