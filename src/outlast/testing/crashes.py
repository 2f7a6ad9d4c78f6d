"""The crash loop: a workflow runs once undisturbed, then again with a fault at any call to its store, and ends the same.

A `Story` is a workflow with what it is given and told. `CrashLoop` plays it over a store: with the faults it is asked for,
one for each process, and then with processes that nothing happens to until everything is over. What came of it is judged
against the undisturbed round: the same outcomes, nothing asked for twice, no completed node done again, every log sound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, cast

from msgspec import Struct

from outlast.client import Client, Query
from outlast.errors import Gone, OutlastError, StoreError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.runtime.functions import Node, Workflow
from outlast.store import Store
from outlast.testing.doors import Door, LateArrivals
from outlast.testing.engine import Processes
from outlast.testing.faults import Died, Fault, Faults, faulty
from outlast.testing.world import Told, World, compare, read_all

RUN = RunId("run-1")
PATIENCE = 600
"""Seconds, by the clock of the little world, after which a process gives up waiting for the end."""
MOST_PROCESSES = 5
"""Processes without a fault that it may take to bring a story to its end."""
OVER = ("completed", "failed", "cancelled")

Guest = Callable[[Client], Awaitable[None]]


class Story(Struct, frozen=True):
    """A workflow and its parameters. `answers` are what people say to its questions; a `guest` does something to it, in
    every process anew; it is over when all runs are `over`. Where it `is_loose`, only the first run has to end the same:
    nobody waits for the others."""

    workflow: Workflow[..., Any]
    nodes: Sequence[Node[..., Any]]
    args: tuple[Any, ...] = ()
    expected: Any = None
    answers: dict[str, Any] = {}
    guest: Guest | None = None
    over: tuple[str, ...] = OVER
    is_loose: bool = False
    repeats: int = 0
    """How often a node may be done again though nothing interrupted it, because a guest asks for that."""


# --- rounds ------------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """What came of a story. `calls` were made by the first process; `hits` of the faults came to pass."""

    runs: dict[RunId, Told]
    world: World
    processes: int
    calls: int
    hits: int


class CrashLoop:
    """Plays one story over one store, again and again. Made by `crash_loop`."""

    def __init__(self, story: Story, door: Door, processes: Processes) -> None:
        self.story = story
        self._door = door
        self._processes = processes
        self.whole = self.play()
        assert self.whole.processes == 1, "undisturbed, one process is enough"
        compare(self.whole.world, self.whole.runs)

    def strike(self, *faults: Fault) -> int:
        """Play it with these faults, one for each process, and judge what came of it; returns how many came to pass."""
        seen = self.play(*faults)
        self._judge(seen, faults)
        return seen.hits

    def play(self, *faults: Fault) -> Round:
        """One round."""
        do, world = self._processes.do, World()
        self._door.anew()
        calls = hits = 0
        held_back: tuple[Store, Faults] | None = None
        with world.watching(self.story.nodes):
            for number in range(len(faults) + MOST_PROCESSES):
                fault = faults[number] if number < len(faults) else None
                inner = do(_of(self._door.open))
                store, counted = faulty(inner, fault)
                if held_back is not None:
                    self._processes.loop.clock.leap(60)
                    do(held_back[1].deliver_held_back("slow"))
                    store = cast("Store", LateArrivals(store, held_back[1]))
                world.faults = counted
                is_over = self._lives(store, counted)
                calls = calls or counted.calls
                hits += fault is not None and counted.calls >= fault.call
                is_reachable = fault is not None and fault.way in ("late", "slow") and held_back is None
                do(self._door.bury(inner, is_reachable=is_reachable))
                if is_reachable:
                    held_back = inner, counted
                if is_over:
                    break
            else:
                raise AssertionError(f"{faults} keep the story from its end")
        if held_back is not None:
            do(held_back[0].close())
        return Round(do(self._read()), world, number + 1, calls, hits)

    def _lives(self, store: Store, faults: Faults) -> bool:
        """Whether all was over when this process ended."""
        try:
            self._processes.live(store, self._act, faults)
        except (Died, OutlastError, TimeoutError):
            return False
        return True

    async def _act(self, client: Client) -> None:
        """What every process does: start the run, or find it; answer what it asks; wait until everything is over."""
        story = self.story
        async with asyncio.timeout(PATIENCE):
            handle = await client.start(story.workflow.options(id=RUN), *story.args)
            guests = [asyncio.create_task(self._answer(client)), asyncio.create_task(self._visit(client))]
            try:
                if story.over is OVER:
                    await _ended(handle.result())
                while True:
                    if await self._is_over(client):
                        return
                    await asyncio.sleep(0.1)
            finally:
                for guest in guests:
                    guest.cancel()

    async def _answer(self, client: Client) -> None:
        """As a person does who is told again what was asked: once for each question."""
        while self.story.answers:
            with suppress(StoreError):
                async for entry in client.watch(RUN):
                    if isinstance(entry.event, e.InteractionRequested):
                        name = entry.event.interaction
                        with suppress(Gone):
                            await client.answer(RUN, self.story.answers[name], interaction=name)
                return
            await asyncio.sleep(0.1)

    async def _visit(self, client: Client) -> None:
        while self.story.guest is not None:
            with suppress(OutlastError):
                await self.story.guest(client)
            await asyncio.sleep(0.1)

    async def _is_over(self, client: Client) -> bool:
        page = await client.list(Query(limit=1000))
        return bool(page.items) and all(listed.summary.status in self.story.over for listed in page.items)

    async def _read(self) -> dict[RunId, Told]:
        store = self._door.open()
        try:
            return await read_all(store)
        finally:
            await store.close()

    # --- the judge

    def _judge(self, seen: Round, faults: Sequence[Fault]) -> None:
        assert self._outcomes(seen) == self._outcomes(self.whole), f"{faults} change the outcome"
        compare(seen.world, seen.runs)
        most = seen.processes - 1 + sum(not fault.way.startswith("die") for fault in faults) + self.story.repeats
        again = seen.world.executed - self.whole.world.executed
        assert all(times <= most for times in again.values()), f"{faults} repeat {again}"

    def _outcomes(self, seen: Round) -> dict[RunId, Any]:
        """How each run ended, and what it asked for on the way: nothing is asked for twice."""
        is_meant = {run: run == RUN or not self.story.is_loose for run in seen.runs}
        return {run: (_outcome(log), log.asked) for run, log in seen.runs.items() if is_meant[run]}


@contextmanager
def crash_loop(story: Story, door: Door, *, concurrency: int = 2000) -> Iterator[CrashLoop]:
    """The loop for a story whose undisturbed round has been played, and ended as it is expected to."""
    with Processes(concurrency=concurrency) as processes:
        loop = CrashLoop(story, door, processes)
        ending = loop.whole.runs[RUN].ending
        while isinstance(ending, e.RunContinued):
            ending = loop.whole.runs[RunId(ending.successor)].ending
        if story.expected is not None:
            assert isinstance(ending, e.RunCompleted), ending
            assert story.workflow.arguments.returns.decode(ending.output) == story.expected
        yield loop


def _outcome(log: Told) -> tuple[Any, ...]:
    match log.ending:
        case e.RunCompleted():
            return log.status, bytes(log.ending.output)
        case e.RunFailed():
            return log.status, log.ending.error.kind, log.ending.error.message
        case e.RunContinued():
            return log.status, bytes(log.ending.carried)
        case other:
            return log.status, type(other).__name__


async def _of(open: Callable[[], Store]) -> Store:
    """Stores may want to be opened where a loop runs."""
    return open()


async def _ended(result: Awaitable[Any]) -> None:
    """Until there is an outcome, whichever."""
    try:
        await result
    except (StoreError, Died):
        raise
    except Exception:
        return
