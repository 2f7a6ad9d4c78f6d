"""The engine dies at every call to its store and goes on in a new process: P1, P2, P3 and all invariants hold.

Every example and some workflows that are nastier run once undisturbed. Then, for every call that run made to its store, it
runs again and dies there, before the call has its effect and after it. A new process goes on. Whatever happened, the outcome is
that of the undisturbed run, no node that had completed was done again, and every log is sound.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

import outlast as ol
from outlast.errors import Gone, OutlastError, StoreError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.runtime.finding import load
from outlast.store import LANDED, Append, Outcome, Query, Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.engine import Processes, Told, World, compare, read_all
from outlast.testing.faults import WAYS, Died, Fault, Faults, Way, faulty

ROOT = Path(__file__).parents[2]
RUN = RunId("run-1")
PATIENCE = 600
"""Seconds, by the clock of the little world, after which a process gives up waiting for the end."""
SAMPLE = 40
"""Points of each story at which the rarer faults are tried in the ordinary suite."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


# --- stories -----------------------------------------------------------------------------------------------------------


class Story(NamedTuple):
    """A workflow with parameters; what it returns; what people answer."""

    workflow: ol.Workflow[..., Any]
    args: tuple[Any, ...]
    expected: Any
    answers: dict[str, Any]
    nodes: Sequence[ol.Node[..., Any]]
    is_loose: bool = False
    """Whether what becomes of other runs than the first may differ, because nobody waits for them."""


PARAMETERS: dict[str, tuple[str, tuple[Any, ...], Any, dict[str, Any]]] = {
    "first_workflow": ("weather", ("Bergen",), "Bergen: 10.2 degrees", {}),
    "parallel": ("buy", ("lamp", ["Alder", "Birch & Sons", "Cedar"]), "lamp from Cedar for 5", {}),
    "many_items": ("album", (12,), 1231, {}),
    "retries": ("print_page", ("a page",), "no cellar, but a page lies in the hall", {}),
    "race": ("download", ({"Oslo": 3.0, "Lisbon": 0.1},), "mirror 1: a file from Lisbon, unpacked", {}),
    "reminder": ("remind", ("Ada", 2.5), ["to Ada: your trial begins", "to Ada: your trial is over"], {}),
    "approval": ("invite", ("tea",), "3 times: Dear all, tea is on Friday.", {"approve": True, "ask": 3}),
    "child_runs": (
        "shipment",
        ([["a lamp", "a rug"], ["a chair"]],),
        "2 parcels: a parcel with a lamp from the shelf and a rug from the shelf; a parcel with a chair from the shelf",
        {},
    ),
    "steps": ("build", (["oak", "ox", "elm"],), "oak-elm: 7 long", {}),
    "long_node": ("survey", ("Book", ["a b", "c", "d e f", "g", "h i"]), "Book: 9 words", {}),
    "plain_functions": ("juice", (["apple", "fig"],), "a bottle of 80 ml", {}),
    "typed_values": ("stay", ("Grace", date(2030, 5, 1)), None, {}),
    "long_living": ("garden", ("basil", 3), ["basil, day 1", "basil, day 2", "basil, day 3"], {}),
    "caught_errors": ("trip", ("Rome",), "no room in Rome: seat 12A to Rome given back", {}),
    "plain_asyncio": (
        "breakfast",
        (0.3,),
        ["tea", "porridge with honey", "no egg, it took too long", "a pear", "a plum"],
        {},
    ),
}
"""Workflow, parameters, result and answers for every example."""


def example(name: str) -> Story:
    module = vars(load(str(ROOT / "examples" / f"{name}.py")))
    workflow, args, expected, answers = PARAMETERS[name]
    nodes = [found for found in module.values() if isinstance(found, ol.Node)]
    return Story(module[workflow], args, expected, answers, nodes)


class Refusal(Exception):
    pass


@ol.node
async def work(name: str, seconds: float = 0.01) -> str:
    await asyncio.sleep(seconds)
    return name


@ol.node(retry=ol.Retry(attempts=3, delay=0.02))
async def shaky(name: str) -> str:
    if ol.attempt() < 2:
        raise ConnectionError(name)
    return name


@ol.node(retry=ol.Retry(attempts=2, delay=0.02))
async def hopeless(name: str) -> str:
    raise Refusal(name)


@ol.node(timeout=0.05, retry=2)
async def slow(name: str) -> str:
    await asyncio.sleep(1)
    return name


async def helper(name: str, seconds: float) -> str:
    first = await work(f"{name}1", seconds)
    if name == "b":
        first += await shaky("!")
    second, third = await ol.gather(work(f"{name}2", seconds / 2), work(f"{name}3", seconds / 3))
    return f"{first}{second}{third}"


@ol.workflow
async def crash_helpers() -> list[str]:
    """Helpers that each call several nodes, all at once."""
    return await ol.gather(helper("a", 0.05), helper("b", 0.02), helper("c", 0.03))


@ol.workflow
async def crash_race() -> list[Any]:
    """Races of helpers, of a node with a timer, of nodes that fail."""
    first = await ol.race(helper("a", 0.5), helper("b", 0.02))
    second = await ol.race(work("late", 2.0), ol.sleep(0.1))
    try:
        await ol.race(work("slow", 1.0), hopeless("lost"))
    except Refusal as error:
        return [first.index, first.value, second.index, str(error), await work("end")]
    return []


@ol.workflow
async def crash_timeout() -> list[str]:
    """Timeouts around a node, around a helper, and of a node."""
    seen = []
    try:
        async with asyncio.timeout(0.2):
            await work("never", 5.0)
    except TimeoutError:
        seen.append("node")
    try:
        await asyncio.wait_for(helper("b", 0.3), 0.4)
    except TimeoutError:
        seen.append("helper")
    async with asyncio.timeout(5):
        seen.append(await work("in time"))
    try:
        await slow("never")
    except TimeoutError:
        seen.append("attempt")
    return seen


@ol.workflow
async def crash_child(name: str) -> str:
    got = await work(name)
    if name == "bad":
        await hopeless(name)
    return got


@ol.workflow
async def crash_children() -> list[str]:
    """A child that fails and is caught beside one that does not, and a child of a child."""
    good, bad = await ol.gather(crash_child("good"), crash_child("bad"), return_exceptions=True)
    again = await crash_child.options(key="again")("again")
    return [str(good), type(bad).__name__, str(bad), again]


@ol.workflow
async def crash_left_child() -> list[Any]:
    """A child that loses a race is cancelled; a run that ends in failure takes its child along."""
    won = await ol.race(crash_slow_child("x"), work("quick"))
    return [won.index, won.value]


@ol.workflow
async def crash_slow_child(name: str) -> str:
    await work(name)
    return await work(name, 2.0)


@ol.workflow
async def crash_question() -> list[Any]:
    """A guest answers while nodes run; two questions are open at once."""
    nodes = [work(f"n{number}", 0.03 * number) for number in range(1, 4)]
    *done, yes, many = await ol.gather(*nodes, ol.approve("Go on?"), ol.ask("How many?", int))
    return [*done, yes, many, await work("end")]


@ol.workflow
async def crash_failure() -> None:
    """A run that fails, with a node, a timer and a question still open."""
    async with asyncio.TaskGroup() as group:
        group.create_task(work("long", 3.0))
        group.create_task(ol.sleep(5))
        group.create_task(ol.ask("Is anybody there?"))
        group.create_task(crash_child("bad"))
        group.create_task(hopeless("lost"))


@ol.workflow
async def crash_map() -> list[str]:
    """A map over a helper of several nodes, inside a step."""
    async with ol.step("each"):
        return [found async for found in ol.map(_mapped, "abcde", limit=2)]


async def _mapped(name: str) -> str:
    return await work(name, 0.02) + await shaky(name)


@ol.workflow
async def crash_dice() -> list[str]:
    """What is random or has a date is the same again."""
    before = ol.now()
    first = await work(f"{ol.random():.6f}")
    await ol.sleep(0.1)
    second = await work(str(ol.uuid()))
    return [first, second, str((ol.now() - before).total_seconds() >= 0.1)]


@ol.workflow
async def crash_generations(left: int, seen: list[str]) -> list[str]:
    """Successors that each have a child."""
    seen = [*seen, await crash_child(f"g{left}")]
    if left:
        await ol.continue_as(left - 1, seen)
    return seen


OWN_NODES = (work, shaky, hopeless, slow)
NASTY: dict[str, Story] = {
    "helpers": Story(crash_helpers, (), ["a1a2a3", "b1!b2b3", "c1c2c3"], {}, OWN_NODES),
    "races": Story(crash_race, (), [1, "b1!b2b3", 1, "lost", "end"], {}, OWN_NODES),
    "timeouts": Story(crash_timeout, (), ["node", "helper", "in time", "attempt"], {}, OWN_NODES),
    "children": Story(crash_children, (), ["good", "Refusal", "bad", "again"], {}, OWN_NODES),
    "a child left behind": Story(crash_left_child, (), [1, "quick"], {}, OWN_NODES, True),
    "questions": Story(crash_question, (), ["n1", "n2", "n3", True, 7, "end"], {"approve": True, "ask": 7}, OWN_NODES),
    "failure": Story(crash_failure, (), None, {}, OWN_NODES, True),
    "a map of helpers": Story(crash_map, (), ["aa", "bb", "cc", "dd", "ee"], {}, OWN_NODES),
    "dice": Story(crash_dice, (), None, {}, OWN_NODES),
    "generations": Story(crash_generations, (2, []), ["g2", "g1", "g0"], {}, OWN_NODES),
}
STORIES = [*PARAMETERS, *NASTY]


def story_of(name: str) -> Story:
    return NASTY[name] if name in NASTY else example(name)


# --- stores ------------------------------------------------------------------------------------------------------------


class Door:
    """Opens one store again and again. `is_proved` says whether the death of a process is known at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> Store:
        raise NotImplementedError

    def anew(self) -> None:
        """Empty it."""
        raise NotImplementedError

    async def bury(self, store: Store, *, is_reachable: bool) -> None:
        """The process is dead: its files are closed, unless calls of it are still on their way."""
        raise NotImplementedError


class MemoryDoor(Door):
    def anew(self) -> None:
        self.memory = Memory()

    def open(self) -> Store:
        return MemoryStore(self.memory)

    async def bury(self, store: Store, *, is_reachable: bool) -> None:
        self.memory.listeners.clear()
        self.memory.workers.clear()


class SqliteDoor(Door):
    """A process's death does not lose what the system has: the power cut has its own tests, with full durability."""

    number = 0

    def anew(self) -> None:
        shutil.rmtree(self.folder / str(self.number), ignore_errors=True)
        self.number += 1
        (self.folder / str(self.number)).mkdir()

    def open(self) -> Store:
        return SqliteStore(self.folder / str(self.number) / "runs.db", durability="relaxed", commit="inline")

    async def bury(self, store: Store, *, is_reachable: bool) -> None:
        if not is_reachable:
            await store.close()


DOORS = {"memory": MemoryDoor, "sqlite": SqliteDoor}


# --- one round ---------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    runs: dict[RunId, Told]
    world: World
    processes: int
    calls: int
    hit: bool


def begin(story: Story) -> Callable[[ol.Client], Awaitable[Any]]:
    """What every process does: start the run, or find it; answer what it asks; wait until everything is over."""

    async def act(client: ol.Client) -> Any:
        async with asyncio.timeout(PATIENCE):
            handle = await client.start(story.workflow.options(id=RUN), *story.args)
            guest = asyncio.create_task(_answer(client, story.answers))
            try:
                result = await handle.result()
            except (StoreError, Died):
                raise
            except Exception as error:
                result = error
            finally:
                guest.cancel()
            while not await _is_all_over(client):
                await asyncio.sleep(0.1)
            return result

    return act


async def _answer(client: ol.Client, answers: dict[str, Any]) -> None:
    if not answers:
        return
    while True:
        with suppress(StoreError):
            async for entry in client.watch(RUN):
                if isinstance(entry.event, e.InteractionRequested):
                    name = entry.event.interaction
                    with suppress(Gone):
                        await client.answer(RUN, answers[name.partition("~")[0]], interaction=name)
        await asyncio.sleep(0.1)


async def _is_all_over(client: ol.Client) -> bool:
    page = await client.list(Query(limit=1000))
    return bool(page.items) and all(
        listed.summary.status in ("completed", "failed", "cancelled", "continued") for listed in page.items
    )


class LateArrivals:
    """Lets the dead process's last call arrive right after its successor's takeover has landed."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self.__dict__.update(_store=store, _faults=faults)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes: list[Outcome] = await self._store.append(batch)
        if batch[0].record.kind is Kind.TAKEOVER and outcomes[0] is LANDED:
            await self._faults.deliver_held_back("late")
        return outcomes


def play(processes: Processes, door: Door, story: Story, fault: Fault | None) -> Round:
    """One round: with a fault, if there is to be one, then processes without until all is over."""
    door.anew()
    world = World()
    is_reachable = fault is not None and fault.way in ("late", "slow")
    with world.watching(story.nodes):
        inner = processes.do(_opened(door))
        store, faults = faulty(inner, fault)
        world.faults = faults
        is_over = attempt(processes, store, story, faults)
        number = 1
        processes.do(door.bury(inner, is_reachable=is_reachable and not is_over))
        world.faults = None
        while not is_over:
            number += 1
            assert number < 6, f"{fault} keeps the run from its end"
            if is_reachable:
                processes.loop.clock.leap(60)
                processes.do(faults.deliver_held_back("slow"))
            successor = processes.do(_opened(door))
            watched = cast("Store", LateArrivals(successor, faults))
            is_over = attempt(processes, watched, story, None)
            processes.do(door.bury(successor, is_reachable=False))
        if is_reachable and not is_over:
            processes.do(inner.close())
    check = processes.do(_opened(door))
    runs = processes.do(read_all(check))
    processes.do(check.close())
    return Round(runs, world, number, faults.calls, fault is not None and faults.calls >= fault.call)


async def _opened(door: Door) -> Store:
    return door.open()


def attempt(processes: Processes, store: Store, story: Story, faults: Faults | None) -> bool:
    """Whether all was over when this process ended."""
    try:
        processes.live(store, begin(story), faults)
    except (Died, OutlastError, TimeoutError):
        return False
    return True


# --- the oracle --------------------------------------------------------------------------------------------------------


def outcomes(story: Story, runs: dict[RunId, Told]) -> dict[RunId, Any]:
    return {run: _outcome(log) for run, log in runs.items() if run == RUN or not story.is_loose}


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


def judge(story: Story, whole: Round, seen: Round, fault: Fault) -> None:
    assert outcomes(story, seen.runs) == outcomes(story, whole.runs), f"{fault} changes the outcome"
    compare(seen.world, seen.runs)
    again = seen.world.executed - whole.world.executed
    assert all(times < seen.processes + (fault.way not in ("die_before", "die_after")) for times in again.values()), (
        f"{fault} repeats {again}"
    )


def undisturbed(processes: Processes, door: Door, story: Story) -> Round:
    whole = play(processes, door, story, None)
    assert whole.processes == 1
    compare(whole.world, whole.runs)
    if story.expected is not None:
        ending = whole.runs[RUN].ending
        if isinstance(ending, e.RunCompleted):
            assert story.workflow.arguments.returns.decode(ending.output) == story.expected
    return whole


@contextmanager
def counted(kind: str, name: str, record_property: Callable[[str, object], None]) -> Iterator[list[bool]]:
    began = time.perf_counter()
    points: list[bool] = []
    yield points
    record_property("crash_points", sum(points))
    print(f"\n{kind}, {name}: {sum(points)} crash points, {time.perf_counter() - began:.1f} s")


def cross(kind: str, name: str, folder: Path, faults: Callable[[int], Iterator[Fault]], points: list[bool]) -> None:
    story, door = story_of(name), DOORS[kind](folder)
    with Processes() as processes:
        whole = undisturbed(processes, door, story)
        for fault in faults(whole.calls):
            seen = play(processes, door, story, fault)
            judge(story, whole, seen, fault)
            points.append(seen.hit)


# --- the tests ---------------------------------------------------------------------------------------------------------

DEATHS: tuple[Way, ...] = ("die_before", "die_after")
RARER: tuple[Way, ...] = tuple(way for way in WAYS if way not in DEATHS)


@pytest.mark.parametrize("kind", DOORS)
@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_ends_the_same_wherever_its_process_dies(
    kind: str, name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    def deaths(calls: int) -> Iterator[Fault]:
        return (Fault(way, call) for way, call in itertools.product(DEATHS, range(1, calls + 1)))

    with counted(kind, name, record_property) as points:
        cross(kind, name, tmp_path, deaths, points)


@pytest.mark.parametrize("kind", DOORS)
@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_ends_the_same_though_answers_are_lost_and_calls_come_twice_or_late(
    kind: str, name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A seeded sample of the points; `make faults` tries them all."""

    def sample(calls: int) -> Iterator[Fault]:
        points = list(itertools.product(RARER, range(1, calls + 1)))
        chosen = random.Random(name).sample(points, min(SAMPLE, len(points)))
        return (Fault(way, call) for way, call in chosen)

    with counted(kind, name, record_property) as points:
        cross(kind, name, tmp_path, sample, points)


@pytest.mark.soak
@pytest.mark.parametrize("kind", DOORS)
@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_ends_the_same_whatever_happens_to_any_of_its_calls(
    kind: str, name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    def all_of_them(calls: int) -> Iterator[Fault]:
        return (Fault(way, call) for way, call in itertools.product(RARER, range(1, calls + 1)))

    with counted(kind, name, record_property) as points:
        cross(kind, name, tmp_path, all_of_them, points)


def test_every_example_has_its_crash_points() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"one_run"}
    assert names == set(PARAMETERS)


# --- the oracle can fail -----------------------------------------------------------------------------------------------


class Forgetful(MemoryStore):
    """Answers without keeping the fourth append."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        log = self.memory.logs.get(RUN, [])
        outcomes = await super().append(batch)
        if len(log) == 3:
            self.memory.logs[RUN] = log[:2]
        return outcomes


class ForgetfulDoor(MemoryDoor):
    def open(self) -> Store:
        return Forgetful(self.memory)


def test_the_loop_notices_a_store_that_answers_without_keeping(tmp_path: Path) -> None:
    """P1."""
    story = example("first_workflow")
    with Processes() as processes, pytest.raises((AssertionError, OutlastError)):
        for call in range(1, 10):
            seen = play(processes, ForgetfulDoor(tmp_path), story, Fault("die_after", call))
            compare(seen.world, seen.runs)


def test_the_loop_notices_a_node_that_is_done_again(tmp_path: Path) -> None:
    story = example("first_workflow")
    with Processes() as processes:
        seen = play(processes, MemoryDoor(tmp_path), story, None)
    made = next(iter(seen.world.attempts))
    seen.world.attempts[made._replace(attempt=2)] = 1
    with pytest.raises(AssertionError, match="is not in the log"):
        compare(seen.world, seen.runs)
    seen.runs[RUN].started.add((made.node, 2))
    with pytest.raises(AssertionError, match="though the node was done"):
        compare(seen.world, seen.runs)
