"""The crash loop: a workflow runs once undisturbed, then with a fault at any of its store calls, and must end the
same.

A `Story` is a workflow with its parameters and answers. `CrashLoop` runs it over a store: one process for each given
fault, then processes without faults until everything is over. The round is compared with the undisturbed one: the
same outcomes, the same requests, no completed node executed again, every log sound.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from msgspec import Struct

from outlast.client import Engine
from outlast.errors import OutlastError
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.store import Store
from outlast.testing.answering import OVER, Answers, Guest, Patience, Stuck, attended
from outlast.testing.faults import Died, Fault, Faults, bare, faulty
from outlast.testing.processes import Processes
from outlast.testing.store_factory import LateCalls, StoreFactory
from outlast.testing.world import (
    Difference,
    OtherResult,
    RunLog,
    World,
    check_slots_and_tombstones,
    compare,
    read_all,
)
from outlast.values.codec import fetched

RUN = RunId("run-1")
MOST_PROCESSES = 5
"""Processes without a fault that may be needed to end a story."""
FOREVER = 1e9
"""Seconds of a claim that is never renewed, where deaths are known at once."""
RECOVERY_S = 100.0
"""Seconds that the recovery from one death may take: a claim expires, and calls that were held back are late."""


class Story(Struct, frozen=True):
    """A workflow and its parameters. `answers` answer its questions; a `guest` acts on it, once in every process; it
    is over when all runs are `over`. If it `first_run_only`, only the first run and its successors must end the same: the
    others are not awaited. If it `resumes_held`, every run that a crash held is resumed. `before_each` is called before
    every round."""

    workflow: Workflow[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    expected: Any = None
    answers: Answers = {}
    guest: Guest | None = None
    over: tuple[str, ...] = OVER
    first_run_only: bool = False
    resumes_held: bool = False
    repeats: int = 0
    """How often a node may be executed again without an interruption, because a guest requests it."""
    same: Callable[[Any], Any] | None = None
    """The part of the result that must be equal (default: all of it)."""
    before_each: Callable[[], object] | None = None
    queue_limits: dict[str, int] = {}


# --- rounds ------------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """The result of one round. `calls` are the store calls of the first process, by name; `hits` is the number of
    faults that happened; `seconds` is the simulated time it took."""

    runs: dict[RunId, RunLog]
    world: World
    processes: int
    calls: list[str]
    hits: int
    seconds: float


class CrashLoop:
    """Runs one story over one store, again and again. Made by `crash_loop`."""

    def __init__(self, story: Story, factory: StoreFactory, processes: Processes) -> None:
        self.story = story
        self._factory = factory
        self._processes = processes
        self.whole = self.play()
        if self.whole.processes != 1:
            raise Difference("one process without a fault was not enough", RUN)
        compare(self.whole.world, self.whole.runs)
        self._expected = self._outcomes(self.whole)
        self.output = self._output(self.whole.runs[_successors(self.whole.runs)[-1]])
        """The stored return value of the undisturbed round; None if it failed."""

    def strike(self, *faults: Fault) -> int:
        """Run the story with these faults, one per process, and check the round; returns how many faults happened."""
        seen = self.play(*faults)
        self.judge(seen, *faults)
        return seen.hits

    def variation(self) -> OtherResult | None:
        """The difference between the undisturbed round and a second undisturbed one."""
        try:
            self._must_end_alike(self.play(lives=1000))
        except OtherResult as difference:
            return difference
        return None

    def play(self, *faults: Fault, lives: int = 0) -> Round:
        """One round. `lives` selects the seed of the random numbers."""
        do, world, clock = self._processes.do, World(), self._processes.loop.clock
        self._factory.reset()
        began = clock.seconds()
        self._processes.lives = lives
        if self.story.before_each is not None:
            self.story.before_each()
        calls: list[str] = []
        hits = 0
        held_back: tuple[Store, Faults] | None = None
        for number in range(len(faults) + MOST_PROCESSES):
            fault = faults[number] if number < len(faults) else None
            inner = do(_of(self._factory.open))
            store, counted = faulty(inner, fault)
            if held_back is not None:
                clock.skip(60)
                do(held_back[1].deliver_held_back("slow"))
                store = cast("Store", LateCalls(store, held_back[1]))
            is_over = self._run_process(store, counted, world, is_faulty=fault is not None)
            calls = calls or counted.names
            hits += fault is not None and counted.calls >= fault.call
            is_reachable = fault is not None and fault.way in ("late", "slow") and held_back is None
            do(self._factory.after_death(inner, is_reachable=is_reachable))
            if is_reachable:
                held_back = inner, counted
            if is_over:
                break
        else:
            raise Difference(f"the run did not end in {number + 1} processes", RUN)
        if held_back is not None:
            do(held_back[0].close())
        do(self._reading(check_slots_and_tombstones))
        return Round(do(self._reading(read_all)), world, number + 1, calls, hits, clock.seconds() - began)

    def _run_process(self, store: Store, faults: Faults, world: World, *, is_faulty: bool) -> bool:
        """Run one process; whether everything was over when it ended."""
        try:
            self._processes.live(store, lambda client: self._act(client, bare(store)), faults, world)
        except (Died, OutlastError):
            return False
        except Stuck as stuck:
            if is_faulty:
                return False
            raise Difference(str(stuck), stuck.run) from None
        return True

    async def _act(self, client: Engine, inner: Store) -> None:
        """The work of every process: start the run, or find it; answer its questions; wait until everything is over."""
        story, patience = self.story, Patience(inner, lambda: self._processes.attempting)
        await client.start(story.workflow.options(id=RUN), *story.args, **story.kwargs)
        async with attended(client, inner, story.answers, story.guest, resumes=story.resumes_held) as trouble:
            await patience.until_over(story.over, trouble, resumes_held=story.resumes_held)

    async def _reading(self, read: Callable[[Store], Awaitable[Any]]) -> Any:
        store = self._factory.open()
        try:
            return await read(store)
        finally:
            await store.close()

    # --- the judge

    def judge(self, seen: Round, *faults: Fault) -> None:
        """Check a round with these faults; `Difference` if it is wrong."""
        self._must_end_alike(seen)
        compare(seen.world, seen.runs)
        if seen.seconds > seen.processes * (self.whole.seconds + RECOVERY_S):
            message = f"the runs took {seen.seconds:.0f} s, and {self.whole.seconds:.0f} s without a crash"
            raise Difference(message, RUN)
        most = seen.processes - 1 + sum(not fault.way.startswith("die") for fault in faults) + self.story.repeats
        undisturbed = self.whole.world.executed
        for (name, node), times in seen.world.executed.items():
            run = RunId(name)
            more = times - self._needed(run, node, undisturbed[name, node], seen)
            if more > most:
                raise Difference(f"node {node!r} was executed too often: {more} beyond those without a crash", run)

    def _needed(self, run: RunId, node: str, undisturbed: int, seen: Round) -> int:
        """How many executions a node needs without interruptions: as many as in the undisturbed round, if it ended
        there. A node that was cancelled or never begun there depends on timing: it needs one, and one more for every
        failure with a retry."""
        known = self.whole.runs.get(run)
        if known is not None and node in known.ended:
            return undisturbed
        return max(undisturbed, 1 + seen.runs[run].retried[node])

    def _must_end_alike(self, seen: Round) -> None:
        outcomes = self._outcomes(seen)
        for run, (expected, asked) in self._expected.items():
            got, asked_now = outcomes.get(run, (_MISSING, {}))
            if got != expected:
                kind = OtherResult if got.status == expected.status else Difference
                raise kind(_difference(run, expected, got), _culprit(seen.runs, run))
            for (kind, name), times in asked_now.items():
                if times > max(1, asked[kind, name]) or (not self.story.first_run_only and times != asked[kind, name]):
                    raise Difference(f"{kind} {name!r} is in the log {times} times, not {asked[kind, name]}", run)
            if not self.story.first_run_only and asked_now != asked:
                raise Difference(f"run {run} requested {asked_now}, not {asked}", run)
        if not self.story.first_run_only and set(outcomes) != set(self._expected):
            raise Difference(f"the runs are {sorted(outcomes)}, not {sorted(self._expected)}", RUN)

    def _outcomes(self, seen: Round) -> dict[RunId, Any]:
        """How each run that counts ended, and its requests."""
        counted = _successors(seen.runs) if self.story.first_run_only else list(seen.runs)
        return {run: (self._outcome(seen.runs[run]), seen.runs[run].asked) for run in counted}

    def _output(self, log: RunLog) -> bytes | None:
        match log.ending:
            case e.RunCompleted(output=output):
                return bytes(self._processes.do(self._reading(lambda store: fetched(output, store.blobs))))
            case _:
                return None

    def _outcome(self, log: RunLog) -> Outcome:
        value = self._output(log)
        match log.ending:
            case e.RunCompleted() if value is not None:
                if self.story.same is None:
                    return Outcome(log.status, _shown(value), value)
                result = self.story.same(self.story.workflow._arguments.returns.decode(value))
                return Outcome(log.status, repr(result), result)
            case e.RunFailed(error=error, held=held):
                status = f"{log.status}, held" if held else log.status
                shown = f"{error.kind.rpartition(':')[2]}: {error.message}"
                return Outcome(status, shown, (error.kind, error.message))
            case e.RunContinued(carried=carried):
                return Outcome("continued", _shown(bytes(carried)), bytes(carried))
            case e.RunCancelled(cleanup=cleanup):
                return Outcome(log.status, f"clean-up: {cleanup}", cleanup)
            case other:
                return Outcome(log.status, "", type(other).__name__)


class Outcome(NamedTuple):
    """How a run ended: its status, the text in reports, and the compared value."""

    status: str
    shown: str
    value: Any


_MISSING = Outcome("missing", "", None)


@contextmanager
def crash_loop(
    story: Story, factory: StoreFactory, *, concurrency: int = 2000, claim: float = 30.0
) -> Iterator[CrashLoop]:
    """The crash loop for a story whose undisturbed round ended as expected."""
    with Processes(concurrency=concurrency, claim=claim, queue_limits=story.queue_limits) as processes:
        loop = CrashLoop(story, factory, processes)
        if story.expected is not None:
            ending = loop.whole.runs[_successors(loop.whole.runs)[-1]].ending
            assert isinstance(ending, e.RunCompleted), ending
            assert story.workflow._arguments.returns.decode(ending.output) == story.expected
        yield loop


def _successors(runs: dict[RunId, RunLog]) -> list[RunId]:
    """The first run, its successor, and so on."""
    chain, run = list[RunId](), RUN
    while run in runs:
        chain.append(run)
        ending = runs[run].ending
        if not isinstance(ending, e.RunContinued):
            break
        run = RunId(ending.successor)
    return chain


def _culprit(runs: dict[RunId, RunLog], run: RunId) -> RunId:
    """The run whose log explains a difference best: a held run blocks the runs that wait for it."""
    held = (each for each, log in runs.items() if isinstance(log.ending, e.RunFailed) and log.ending.held)
    return next(held, run)


def _difference(run: RunId, expected: Outcome, got: Outcome) -> str:
    return f"run {run} ended differently\nexpected: {_text(expected)}\n     got: {_text(got)}"


def _text(outcome: Outcome) -> str:
    return f"{outcome.status}, {outcome.shown}" if outcome.shown else outcome.status


def _shown(value: bytes, most: int = 500) -> str:
    text = value[: 4 * most].decode(errors="replace")
    return text if len(text) <= most else f"{text[: most - 1]}…"


async def _of(open: Callable[[], Store]) -> Store:
    """Open a store inside a running loop, which some stores need."""
    return open()
