"""A guest writes to a run between any two calls that its owner makes to the store, and the owner may die at any later call:
what the guest was told is in the log is obeyed, delivered, or refused by name.

The run lies ready and is taken over, as a run that was started by another program, a child or a successor is.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import outlast as ol
from outlast.client import Engine
from outlast.errors import OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger import Ledger
from outlast.ledger.reading import read_events
from outlast.lifecycle.requests import OpenRequest, left_open
from outlast.store import Store
from outlast.testing.answering import LOOK, OVER, Patience
from outlast.testing.faults import Died, Fault, Way, faulty
from outlast.testing.processes import Processes
from outlast.testing.store_factory import MemoryStoreFactory, StoreFactory
from outlast.testing.world import World, compare, read_all
from support.store_factories import ObjectStoreFactory, PostgresStoreFactory, SqliteStoreFactory

RUN = RunId("run-1")
PROCESSES = 5
"""Processes without a fault that it may take to bring the run to its end."""
SAMPLE = {"memory": 40, "sqlite": 4, "objects": 1, "postgres": 1}
CLAIM = {"objects": 30.0}
"""Seconds of a claim where nobody knows that a worker died, and the next one waits until its time has run out."""
"""Points that are tried of each story where not all of them are."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


@ol.node
async def visited_work(name: str) -> str:
    await asyncio.sleep(0.01)
    return name


@ol.workflow
async def visited() -> list[Any]:
    many, first = await ol.gather(ol.ask("How many?", int), visited_work("first"))
    return [first, many, await visited_work("second")]


# --- guests ------------------------------------------------------------------------------------------------------------


def cancels(_branch: int) -> e.AnyEvent:
    return e.CancelRequested(by="guest", reason="enough")


def pauses(_branch: int) -> e.AnyEvent:
    return e.PauseRequested(by="guest", reason="lunch")


def jumps(branch: int) -> e.AnyEvent:
    return e.JumpRequested(target=1, branch=branch + 1, by="guest")


def answers(_branch: int) -> e.AnyEvent:
    return e.InteractionAnswered(interaction="ask", answer=e.Value(b"9"), by="guest")


def signals(_branch: int) -> e.AnyEvent:
    return e.SignalReceived(signal="s-1", name="news", by="guest")


GUESTS: dict[str, Callable[[int], e.AnyEvent]] = {
    each.__name__: each for each in (cancels, pauses, jumps, answers, signals)
}


class Visitor:
    """Writes one event to the run before one call of its owner. `acknowledged` is the place of that event."""

    def __init__(self, store: Store, say: Callable[[int], e.AnyEvent], call: int) -> None:
        self._ledger, self._say, self._call = Ledger(store), say, call
        self.acknowledged = 0

    async def before(self, call: int) -> None:
        if call == self._call:
            head = await self._ledger.store.head(RUN)
            assert head is not None
            with suppress(OutlastError):  # refused, and nobody was promised anything
                self.acknowledged = await self._ledger.deliver(RUN, [self._say(head.branch)])


async def attend(client: Engine, count: Iterator[int]) -> None:
    """People who answer the question when it has stood for a while, and have the run go on when it is paused."""
    while True:
        with suppress(OutlastError):
            if (await client.get(RUN)).status == "paused":
                await client.resume(RUN, by="person")
            for wait in await client.questions(RUN):
                if next(count) > 3:
                    await client.answer(RUN, 7, interaction=wait.id)
        await asyncio.sleep(LOOK)


# --- rounds ------------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """What came of one round. `calls` are how many the first process made."""

    log: list[Entry]
    acknowledged: int
    calls: int


def play(processes: Processes, factory: StoreFactory, guest: str, visit: int, fault: Fault | None) -> Round:
    """The run is taken over, visited before a call, perhaps dies at a later one, and is brought to its end."""
    factory.reset()
    world, calls, visitor = World(), 0, None
    for number in range(PROCESSES):
        inner = processes.do(_opened(factory, is_new=not number))
        store, faults = faulty(inner, fault if not number else None)
        if not number:
            visitor = Visitor(inner, GUESTS[guest], visit)
            faults.before = visitor.before
        is_over = False
        with suppress(Died, OutlastError):
            processes.live(store, partial(_until_over, processes, inner), faults, world)
            is_over = True
        calls = calls or faults.calls
        processes.do(factory.after_death(inner, is_reachable=False))
        if is_over:
            break
    assert is_over, f"it did not come to its end, in {PROCESSES} processes"
    assert visitor is not None
    log = processes.do(_log(factory, world))
    return Round(log, visitor.acknowledged, calls)


async def _opened(factory: StoreFactory, *, is_new: bool) -> Store:
    store = factory.open()
    if is_new:
        created = e.RunCreated(workflow="visited", params=visited._arguments.pack((), {}).inputs)
        await Ledger(store).create_ready(RUN, created)
    return store


async def _until_over(processes: Processes, inner: Store, _client: Engine) -> None:
    attending = asyncio.create_task(attend(Engine(Ledger(inner), None), itertools.count()))
    try:
        await Patience(inner, lambda: processes.attempting).until_over(OVER, attending, resumes_held=False)
    finally:
        attending.cancel()


async def _log(factory: StoreFactory, world: World) -> list[Entry]:
    store = factory.open()
    try:
        runs = await read_all(store)  # which proves that they are sound
        compare(world, runs)
        head = await store.head(RUN)
        assert head is not None
        return [entry async for entry in read_events(store, RUN, [(1, head.version)])]
    finally:
        await store.close()


def judge(seen: Round) -> None:
    """Whether what was acknowledged was obeyed, delivered, or refused by name."""
    if not seen.acknowledged:
        return
    said = seen.log[seen.acknowledged - 1].event
    outcome = next(
        entry.event for entry in reversed(seen.log) if isinstance(entry.event, e.RunCompleted | e.RunCancelled)
    )
    match said:
        case e.InteractionAnswered():
            assert isinstance(outcome, e.RunCompleted)
            assert bytes(outcome.output) == b'["first",9,"second"]'
        case e.SignalReceived():
            assert said in [entry.event for entry in seen.log]
        case e.CancelRequested() | e.PauseRequested() | e.JumpRequested():
            settled = _settled_by(seen, OpenRequest(seen.acknowledged, said))
            assert settled is not None, f"{said} is neither obeyed nor refused"
            if isinstance(said, e.CancelRequested):
                assert isinstance(outcome, e.RunCancelled) is isinstance(settled, e.RunCancelled)
                assert outcome == e.RunCancelled(by="guest", reason="enough") or isinstance(settled, e.RequestRefused)


def _settled_by(seen: Round, request: OpenRequest) -> e.AnyEvent | None:
    later = (entry.event for entry in seen.log[request.seq :])
    return next((event for event in later if not left_open((request,), event)), None)


# --- the tests ---------------------------------------------------------------------------------------------------------

FACTORIES = {"memory": MemoryStoreFactory, "sqlite": SqliteStoreFactory, "objects": ObjectStoreFactory}
WHOLE = ("memory", "sqlite")
"""Where `make faults` tries all points. Of the others it tries a larger sample."""
DEATHS: tuple[Way, ...] = ("die_before", "die_after")


def points(calls: int) -> Iterator[tuple[int, Fault | None]]:
    """Every call that is visited, with no death and with a death at each call from it on."""
    for visit in range(1, calls + 1):
        yield visit, None
        for call, way in itertools.product(range(visit, calls + 1), DEATHS):
            yield visit, Fault(way, call)


@pytest.fixture(params=[*FACTORIES, "postgres"])
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, StoreFactory]:
    """A store, and its name."""
    kind: str = request.param
    return kind, PostgresStoreFactory(
        request.getfixturevalue("empty_postgres_url")
    ) if kind == "postgres" else FACTORIES[kind](tmp_path)


def cross(kind: str, guest: str, factory: StoreFactory, size: int | None = None) -> None:
    with Processes(claim=CLAIM.get(kind, 1e9)) as processes:
        calls = play(processes, factory, guest, 0, None).calls
        chosen = list(points(calls))
        if size is not None:
            chosen = random.Random(f"{kind}, {guest}").sample(chosen, min(size, len(chosen)))
        acknowledged = 0
        for visit, fault in chosen:
            seen = play(processes, factory, guest, visit, fault)
            try:
                judge(seen)
            except AssertionError as error:
                story = "\n".join(f"{entry.seq:3} {type(entry.event).__name__}" for entry in seen.log)
                raise AssertionError(f"before call {visit} of {calls}, {fault}: {error}\n{story}") from error
            acknowledged += seen.acknowledged > 0
        assert acknowledged or size is not None
    print(f"\n{kind}, a guest who {guest}: {len(chosen)} points, {acknowledged} acknowledged")


@pytest.mark.parametrize("guest", GUESTS)
def test_what_a_guest_was_told_is_in_the_log_is_kept_wherever_it_came_and_the_owner_died(
    factory: tuple[str, StoreFactory], guest: str
) -> None:
    """A sample of the points; `make faults` tries more."""
    cross(factory[0], guest, factory[1], SAMPLE[factory[0]])


@pytest.mark.soak
@pytest.mark.parametrize("guest", GUESTS)
def test_what_a_guest_was_told_is_in_the_log_is_kept_at_every_point(
    factory: tuple[str, StoreFactory], guest: str
) -> None:
    cross(factory[0], guest, factory[1], None if factory[0] in WHOLE else 60)
