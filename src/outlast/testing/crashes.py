"""The crash loop: a workflow runs once undisturbed, then again with a fault at any call to its store, and ends the same.

A `Story` is a workflow with what it is given and told. `CrashLoop` plays it over a store: with the faults it is asked for,
one for each process, and then with processes that nothing happens to until everything is over. What came of it is judged
against the undisturbed round: the same outcomes, nothing asked for twice, no completed node done again, every log sound.
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
from outlast.testing.doors import Door, LateArrivals
from outlast.testing.faults import Died, Fault, Faults, bare, faulty
from outlast.testing.processes import Processes
from outlast.testing.world import Difference, OtherResult, Told, World, compare, read_all
from outlast.values.codec import fetched

RUN = RunId("run-1")
MOST_PROCESSES = 5
"""Processes without a fault that it may take to bring a story to its end."""
FOREVER = 1e9
"""Seconds of a claim that nobody has to renew, where deaths are known at once."""


class Story(Struct, frozen=True):
    """A workflow and its parameters. `answers` are what people say to its questions; a `guest` does something to it, in
    every process anew; it is over when all runs are `over`. Where it `is_loose`, only the first run and its successors have
    to end the same: nobody waits for the others. Where it `is_resumed`, somebody says of every run that is held after a
    crash that it may go on. `before_each` is called before every round."""

    workflow: Workflow[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    expected: Any = None
    answers: Answers = {}
    guest: Guest | None = None
    over: tuple[str, ...] = OVER
    is_loose: bool = False
    is_resumed: bool = False
    repeats: int = 0
    """How often a node may be done again though nothing interrupted it, because a guest asks for that."""
    same: Callable[[Any], Any] | None = None
    """What of the result has to be the same; all of it, if it is not given."""
    before_each: Callable[[], object] | None = None


# --- rounds ------------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """What came of a story. `calls` are those of the first process, by name; `hits` of the faults came to pass."""

    runs: dict[RunId, Told]
    world: World
    processes: int
    calls: list[str]
    hits: int


class CrashLoop:
    """Plays one story over one store, again and again. Made by `crash_loop`."""

    def __init__(self, story: Story, door: Door, processes: Processes) -> None:
        self.story = story
        self._door = door
        self._processes = processes
        self.whole = self.play()
        if self.whole.processes != 1:
            raise Difference("one process was not enough, though nothing happened to it", RUN)
        compare(self.whole.world, self.whole.runs)
        self._expected = self._outcomes(self.whole)
        self.output = self._output(self.whole.runs[_successors(self.whole.runs)[-1]])
        """What the undisturbed round returned, as it is stored; None if it failed."""

    def strike(self, *faults: Fault) -> int:
        """Play it with these faults, one for each process, and judge what came of it; returns how many came to pass."""
        seen = self.play(*faults)
        self.judge(seen, *faults)
        return seen.hits

    def variation(self) -> OtherResult | None:
        """What differs in a second round, to which nothing happens either."""
        try:
            self._must_end_alike(self.play(lives=1000))
        except OtherResult as difference:
            return difference
        return None

    def play(self, *faults: Fault, lives: int = 0) -> Round:
        """One round. After so many `lives` chance is another."""
        do, world = self._processes.do, World()
        self._door.anew()
        self._processes.lives = lives
        if self.story.before_each is not None:
            self.story.before_each()
        calls: list[str] = []
        hits = 0
        held_back: tuple[Store, Faults] | None = None
        for number in range(len(faults) + MOST_PROCESSES):
            fault = faults[number] if number < len(faults) else None
            inner = do(_of(self._door.open))
            store, counted = faulty(inner, fault)
            if held_back is not None:
                self._processes.loop.clock.leap(60)
                do(held_back[1].deliver_held_back("slow"))
                store = cast("Store", LateArrivals(store, held_back[1]))
            is_over = self._lives(store, counted, world, is_faulty=fault is not None)
            calls = calls or counted.names
            hits += fault is not None and counted.calls >= fault.call
            is_reachable = fault is not None and fault.way in ("late", "slow") and held_back is None
            do(self._door.bury(inner, is_reachable=is_reachable))
            if is_reachable:
                held_back = inner, counted
            if is_over:
                break
        else:
            raise Difference(f"it did not come to its end, in {number + 1} processes", RUN)
        if held_back is not None:
            do(held_back[0].close())
        return Round(do(self._reading(read_all)), world, number + 1, calls, hits)

    def _lives(self, store: Store, faults: Faults, world: World, *, is_faulty: bool) -> bool:
        """Whether all was over when this process ended."""
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
        """What every process does: start the run, or find it; answer what it asks; wait until everything is over."""
        story, patience = self.story, Patience(inner, lambda: self._processes.attempting)
        await client.start(story.workflow.options(id=RUN), *story.args, **story.kwargs)
        async with attended(client, inner, story.answers, story.guest, resumes=story.is_resumed) as trouble:
            await patience.until_over(story.over, trouble, is_resumed=story.is_resumed)

    async def _reading(self, read: Callable[[Store], Awaitable[Any]]) -> Any:
        store = self._door.open()
        try:
            return await read(store)
        finally:
            await store.close()

    # --- the judge

    def judge(self, seen: Round, *faults: Fault) -> None:
        """Whether a round with these faults is as it has to be; `Difference` if it is not."""
        self._must_end_alike(seen)
        compare(seen.world, seen.runs)
        most = seen.processes - 1 + sum(not fault.way.startswith("die") for fault in faults) + self.story.repeats
        undisturbed = self.whole.world.executed
        for (name, node), times in seen.world.executed.items():
            run = RunId(name)
            more = times - self._needed(run, node, undisturbed[name, node], seen)
            if more > most:
                raise Difference(f"node {node!r} was executed {more} times more than without a crash", run)

    def _needed(self, run: RunId, node: str, undisturbed: int, seen: Round) -> int:
        """How often a node has to be executed if nothing interrupts it: as often as in the undisturbed round, if it came to
        its end there. If it was given up there, or never begun, that was a matter of time: then once, and once more for
        every failure that was to be followed by another attempt."""
        known = self.whole.runs.get(run)
        if known is not None and node in known.ended:
            return undisturbed
        return max(undisturbed, 1 + seen.runs[run].retried[node])

    def _must_end_alike(self, seen: Round) -> None:
        outcomes = self._outcomes(seen)
        for run, (expected, asked) in self._expected.items():
            got, asked_now = outcomes.get(run, (_NOT_THERE, {}))
            if got != expected:
                kind = OtherResult if got.status == expected.status else Difference
                raise kind(_unlike(run, expected, got), _culprit(seen.runs, run))
            for (kind, name), times in asked_now.items():
                if times > max(1, asked[kind, name]) or (not self.story.is_loose and times != asked[kind, name]):
                    raise Difference(f"{kind} {name!r} is in the log {times} times, not {asked[kind, name]}", run)
            if not self.story.is_loose and asked_now != asked:
                raise Difference(f"run {run} asked for {asked_now}, not for {asked}", run)
        if not self.story.is_loose and set(outcomes) != set(self._expected):
            raise Difference(f"there are runs {sorted(outcomes)}, not {sorted(self._expected)}", RUN)

    def _outcomes(self, seen: Round) -> dict[RunId, Any]:
        """How each run that counts ended, and what it asked for on the way."""
        counted = _successors(seen.runs) if self.story.is_loose else list(seen.runs)
        return {run: (self._outcome(seen.runs[run]), seen.runs[run].asked) for run in counted}

    def _output(self, log: Told) -> bytes | None:
        match log.ending:
            case e.RunCompleted(output=output):
                return bytes(self._processes.do(self._reading(lambda store: fetched(output, store.blobs))))
            case _:
                return None

    def _outcome(self, log: Told) -> Outcome:
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
    """How a run ended: in which status, for people, and what is compared."""

    status: str
    shown: str
    value: Any


_NOT_THERE = Outcome("not there", "", None)


@contextmanager
def crash_loop(story: Story, door: Door, *, concurrency: int = 2000, claim: float = 30.0) -> Iterator[CrashLoop]:
    """The loop for a story whose undisturbed round has been played, and ended as it is expected to."""
    with Processes(concurrency=concurrency, claim=claim) as processes:
        loop = CrashLoop(story, door, processes)
        if story.expected is not None:
            ending = loop.whole.runs[_successors(loop.whole.runs)[-1]].ending
            assert isinstance(ending, e.RunCompleted), ending
            assert story.workflow._arguments.returns.decode(ending.output) == story.expected
        yield loop


def _successors(runs: dict[RunId, Told]) -> list[RunId]:
    """The first run, the one that continued it, and so on."""
    chain, run = list[RunId](), RUN
    while run in runs:
        chain.append(run)
        ending = runs[run].ending
        if not isinstance(ending, e.RunContinued):
            break
        run = RunId(ending.successor)
    return chain


def _culprit(runs: dict[RunId, Told], run: RunId) -> RunId:
    """The run whose log tells most: one that is held keeps those waiting that wait for it."""
    held = (each for each, log in runs.items() if isinstance(log.ending, e.RunFailed) and log.ending.held)
    return next(held, run)


def _unlike(run: RunId, expected: Outcome, got: Outcome) -> str:
    return f"run {run} ended otherwise\nexpected: {_said(expected)}\n     got: {_said(got)}"


def _said(outcome: Outcome) -> str:
    return f"{outcome.status}, {outcome.shown}" if outcome.shown else outcome.status


def _shown(value: bytes, most: int = 500) -> str:
    text = value[: 4 * most].decode(errors="replace")
    return text if len(text) <= most else f"{text[: most - 1]}…"


async def _of(open: Callable[[], Store]) -> Store:
    """Stores may want to be opened where a loop runs."""
    return open()
