"""What outlives every process, and what the logs say of it: which attempts of nodes were really made.

A `World` sees nodes begin from outside. `read_all` reads and proves all logs of a store, `compare` holds one against the
other: no attempt is made twice, none without its start being in the log, none after its node has completed.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec.structs import replace

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.proof import verify
from outlast.ledger.reading import head_of, lineage_of, told
from outlast.runtime.functions import Node
from outlast.runtime.inside import attempt, token
from outlast.store import Query, Store
from outlast.testing.faults import Died, Faults


class Attempted(NamedTuple):
    """One attempt of a node, as the world saw it begin."""

    run: str
    node: str
    attempt: int


class World:
    """What outlives every process: which attempts of nodes were made, and how often."""

    def __init__(self) -> None:
        self.attempts: Counter[Attempted] = Counter()
        self.faults: Faults | None = None

    @contextmanager
    def watching(self, nodes: Iterable[Node[..., Any]]) -> Iterator[World]:
        """See every attempt of these nodes, which must not run in processes of their own."""
        specs = [(node, node.spec) for node in nodes]
        for node, spec in specs:
            node.spec = replace(spec, fn=self._seen(spec.fn))
        try:
            yield self
        finally:
            for node, spec in specs:
                node.spec = spec

    def _seen(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def begun(*args: Any, **kwargs: Any) -> Any:
                self._see()
                return await fn(*args, **kwargs)
        else:

            @functools.wraps(fn)
            def begun(*args: Any, **kwargs: Any) -> Any:
                self._see()
                return fn(*args, **kwargs)

        return begun

    def _see(self) -> None:
        if self.faults is not None and self.faults.is_dead:
            raise Died("a node does not begin in a dead process")
        self.note(token(), attempt())

    def note(self, token: str, attempt: int) -> None:
        """This attempt of the node of this token was made."""
        run, _, rest = token.partition("/")
        self.attempts[Attempted(run, rest.rpartition("/")[0], attempt)] += 1

    @property
    def executed(self) -> Counter[tuple[str, str]]:
        """How often each node was begun."""
        counted: Counter[tuple[str, str]] = Counter()
        for made, times in self.attempts.items():
            counted[made.run, made.node] += times
        return counted


class Told(NamedTuple):
    """What the log of one run tells."""

    status: str
    ending: e.AnyEvent | None
    completed: dict[str, int]
    started: set[tuple[str, int]]
    asked: Counter[tuple[str, str]]
    """Timers, questions, children, steps and decisions, and how often each was said."""


async def read_all(store: Store) -> dict[RunId, Told]:
    """What all runs of a store tell; each log has been proved sound."""
    found: dict[RunId, Told] = {}
    page = await store.search(Query(limit=10_000))
    for listed in page.items:
        run = listed.summary.run
        proof = await verify(store, run)
        assert proof.is_sound, f"{run}: {proof.violations}"
        found[run] = await _read(store, run, str(listed.summary.status))
    return found


async def _read(store: Store, run: RunId, status: str) -> Told:
    told_here = Told(status, None, {}, set(), Counter())
    async for entry in told(store, run, await lineage_of(store, await head_of(store, run))):
        match entry.event:
            case e.NodeStarted(node=node, attempt=number):
                told_here.started.add((node, number))
            case e.NodeCompleted(node=node, attempt=number):
                told_here.completed[node] = number
            case e.RunCompleted() | e.RunFailed() | e.RunCancelled() | e.RunContinued():
                told_here = told_here._replace(ending=entry.event)
            case e.TimerSet(timer=name) | e.InteractionRequested(interaction=name) | e.ChildStarted(node=name):
                told_here.asked[type(entry.event).__name__, name] += 1
            case e.StepStarted(step=name) | e.StepCompleted(step=name) | e.DecisionRecorded(key=name):
                told_here.asked[type(entry.event).__name__, name] += 1
            case _:
                pass
    return told_here


def compare(world: World, runs: dict[RunId, Told]) -> None:
    """No attempt was made twice or without its start being in the log, and none after its node had completed."""
    for made, times in world.attempts.items():
        log = runs.get(RunId(made.run))
        assert log is not None, f"{made} was made for a run that is not there"
        assert times == 1, f"{made} was made {times} times"
        assert (made.node, made.attempt) in log.started, f"{made} is not in the log"
        assert made.attempt <= log.completed.get(made.node, made.attempt), f"{made} was made though the node was done"
    for run, log in runs.items():
        for node, number in log.completed.items():
            assert Attempted(run, node, number) in world.attempts, f"{node} of {run} completed without having been done"
