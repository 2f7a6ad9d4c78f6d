"""Compares the attempts of nodes that were really made with those in the logs.

A `World` observes the start of every attempt. `read_all` reads and verifies all logs of a store. `compare` checks one
against the other: no attempt is made twice, none without its start in the log, none after its node has completed.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from outlast.execution.attempts import Attempts
from outlast.execution.node_context import NodeContext, context
from outlast.functions.commands import NodeCommand
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.reading import head_of, lineage_of, read_events
from outlast.ledger.verification import verify
from outlast.store import RunFilter, Store
from outlast.testing.faults import Died, Faults


class Difference(AssertionError):
    """A check failed. `run` is the run whose log shows it."""

    def __init__(self, what: str, run: RunId) -> None:
        super().__init__(what)
        self.run = run


class OtherResult(Difference):
    """A run ended with the right status and another result or error."""


class Attempted(NamedTuple):
    """One observed attempt of a node."""

    run: str
    node: str
    attempt: int
    generation: int = 0
    """The newest branch that a person had opened then; behind its cutoff attempts are counted from 1 again."""


class World:
    """The observed attempts of nodes, across all processes."""

    def __init__(self) -> None:
        self.attempts: Counter[Attempted] = Counter()
        self.faults: Faults | None = None

    def watch(self, attempts: Attempts) -> None:
        """Observe every attempt of a worker. Nodes that want a process or a cluster run in a thread, which dies with
        the process."""
        attempt = attempts._attempt  # not `begin`, which does not start a node that follows another in its task

        async def seen(command: NodeCommand, context: NodeContext) -> None:
            spec = command.spec
            if not hasattr(spec.fn, "__seen__"):
                place = "loop" if spec.run_in == "loop" else "thread"
                command.spec = replace(spec, fn=self._seen(spec.fn), run_in=place)
            await attempt(command, context)

        attempts._attempt = seen  # type: ignore[method-assign]

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

        begun.__seen__ = True  # type: ignore[attr-defined]
        return begun

    def _see(self) -> None:
        if self.faults is not None and self.faults.is_dead:
            raise Died("no node starts in a dead process")
        made = context()
        self.note(made.idempotency_key, made.attempt)

    def note(self, key: str, attempt: int) -> None:
        """Count an attempt of the node with this idempotency key."""
        run, _, rest = key.partition("/")
        node, _, generation = rest.rpartition("/")
        self.attempts[Attempted(run, node, attempt, int(generation))] += 1

    @property
    def executed(self) -> Counter[tuple[str, str]]:
        """How often each node was started."""
        counted: Counter[tuple[str, str]] = Counter()
        for made, times in self.attempts.items():
            counted[made.run, made.node] += times
        return counted


class RunLog(NamedTuple):
    """The content of one log: its current lineage, and the attempts on all branches."""

    status: str
    ending: e.AnyEvent | None
    completed: dict[tuple[str, int], tuple[int, int]]
    """The attempt with which each node completed, in each generation, and the seq of the event."""
    started: set[tuple[str, int, int]]
    """Nodes with the attempts that were started, and their generation."""
    ended: set[str]
    """Nodes that completed or failed without being cancelled."""
    retried: Counter[str]
    """Nodes that failed and got another attempt, and how often."""
    asked: Counter[tuple[str, str]]
    """Timers, questions, children, steps, decisions and changes of attributes, and how often each is in the log."""


async def read_all(store: Store) -> dict[RunId, RunLog]:
    """The content of all logs of a store, each verified."""
    found: dict[RunId, RunLog] = {}
    page = await store.search(RunFilter(limit=10_000))
    for listed in page.items:
        run = listed.summary.run
        proof = await verify(store, run)
        if not proof.is_sound:
            broken = "; ".join(f"{found.invariant} at event {found.seq}: {found.message}" for found in proof.violations)
            raise Difference(f"the log of run {run} is not sound: {broken}", run)
        found[run] = await _read(store, run, str(listed.summary.status))
    return found


async def check_slots_and_tombstones(store: Store) -> None:
    """No slot has outlived its claim or its run, and no deleted run is in a list."""
    for held in await store.slot_holders():
        stored = await store.derived(held.run)
        is_over = stored.head is None or stored.head.closed
        is_unclaimed = held.until == "claim" and await store.holding(held.run) is None and not stored.interrupted
        if is_unclaimed or (is_over and held.until == "run"):
            raise Difference(f"slot {held.name!r} of run {held.run} leaked", held.run)
    deleted = {each.run for each in await store.tombstones()}
    runs, _ = await store.runs(limit=10_000)
    listed = [*runs, *(each.run for each in await store.search(RunFilter(limit=10_000)))]
    waits, _ = await store.waits(limit=10_000)
    waiting = [each.run for each in [*waits, *await store.due(10_000)]]
    if shown := deleted.intersection([*listed, *waiting, *(each.run for each in await store.holdings())]):
        raise Difference(f"deleted runs are in a list: {sorted(shown)}", min(shown))


async def _read(store: Store, run: RunId, status: str) -> RunLog:
    log = RunLog(status, None, {}, set(), set(), Counter(), Counter())
    head = await head_of(store, run)
    generations = {0: 0}
    async for entry in read_events(store, run, [(1, head.version)]):
        match entry.event:
            case e.BranchOpened(branch=branch, parent=parent, cause=cause):
                generations[branch] = generations[parent] if cause == "recovery" else branch
            case e.NodeStarted(node=node, attempt=number):
                log.started.add((node, number, generations[entry.branch]))
            case e.NodeCompleted(node=node, attempt=number, adopted=0, by=""):
                log.completed[node, generations[entry.branch]] = number, entry.seq
                log.ended.add(node)
            case e.NodeFailed(node=node, retry_at=None, error=error):
                if error.category != "cancelled":
                    log.ended.add(node)
            case e.NodeFailed(node=node):
                log.retried[node] += 1
            case _:
                pass
    async for entry in read_events(store, run, await lineage_of(store, head)):
        match entry.event:
            case e.RunCompleted() | e.RunFailed() | e.RunCancelled() | e.RunContinued():
                log = log._replace(ending=entry.event)
            case e.TimerSet(timer=name) | e.InteractionRequested(interaction=name) | e.ChildStarted(node=name):
                log.asked[type(entry.event).__name__, name] += 1
            case e.AttributesSet(attributes=changes):
                log.asked["AttributesSet", ", ".join(f"{name}={value}" for name, value in changes.items())] += 1
            case e.StepStarted(step=name) | e.StepCompleted(step=name) | e.DecisionRecorded(key=name):
                log.asked[type(entry.event).__name__, name] += 1
            case _:
                pass
    return log


def compare(world: World, runs: dict[RunId, RunLog]) -> None:
    """No attempt was made twice or without its start being in the log, and none after its node had completed."""
    for made, times in world.attempts.items():
        run = RunId(made.run)
        log, what = runs.get(run), f"attempt {made.attempt} of node {made.node!r} of run {run}"
        if log is None:
            raise Difference(f"{what} was made, but the run does not exist", run)
        if (made.node, made.attempt, made.generation) not in log.started:
            raise Difference(f"{what} was made, but its start is not in the log", run)
        done, seq = log.completed.get((made.node, made.generation), (made.attempt, 0))
        if made.attempt > done:
            completed = f"it completed at event {seq} with attempt {done}"
            raise Difference(
                f"node {made.node!r} was executed again, as attempt {made.attempt}, though {completed}", run
            )
        if times != 1:
            raise Difference(f"{what} was made {times} times", run)
