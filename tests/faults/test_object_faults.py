"""A server that fails in every way a server can: nothing acknowledged is lost, nothing is written twice, work goes on.

The server is real; a proxy on loopback stands before it, and refuses requests, loses answers, answers half of them or much
too late. What writers were told is compared with what the log holds (P1, P3, S5).
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import TypeVar

import msgspec
import pytest

import outlast as ol
from outlast.compose import open_store
from outlast.errors import RunGone, StoreError
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import RunId
from outlast.ledger import Ledger, RunWriter
from outlast.lifecycle.invariants import violations
from outlast.store import LANDED, Lost, Store
from outlast.testing.contract.fencing import must_be_gapless
from outlast.testing.contract.samples import ANN, BEN, A, begin, follow, land, summary
from outlast.testing.processes import engine_over
from support.servers import s3
from support.servers.proxy import DEEDS, Deed, FaultProxy, Request

RUNS, NODES = 5, 12
SHARE = 0.15
"""Of the requests, how many go wrong."""
WRITERS, ROUNDS = 100, 8
T = TypeVar("T")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


def through(proxy: FaultProxy, timeout: float = 1) -> str:
    """A fresh prefix of the real server, behind the proxy; whoever waits too long gives up."""
    return s3.address(proxy.port, f"faults/{os.urandom(8).hex()}") + f"&timeout={timeout:g}"


class Chance:
    """Makes some requests go wrong, the same ones every time as far as they come in the same order."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.is_on = False

    def __call__(self, request: Request) -> Deed:
        return self.rng.choice(DEEDS) if self.is_on and self.rng.random() < SHARE else "pass"


# --- appends through a bad line


class Witness:
    """What was acknowledged, by run and place."""

    def __init__(self) -> None:
        self.told: dict[tuple[RunId, int], bytes] = {}
        self.doubts = 0

    async def insist(self, writer: RunWriter, events: list[e.AnyEvent]) -> None:
        """Append until it is certain; the same list may be given again."""
        while True:
            try:
                self.told[writer.run, await writer.append(events)] = encode(events)
                return
            except StoreError:
                self.doubts += 1


def node(name: str) -> list[e.AnyEvent]:
    return [e.NodeScheduled(node=name), e.NodeStarted(node=name), e.NodeCompleted(node=name)]


async def created(ledger: Ledger, run: RunId, witness: Witness) -> RunWriter:
    writer = ledger.begin(run, ANN)
    await witness.insist(writer, [e.RunCreated(workflow="w"), e.RunStarted()])
    return writer


async def story(ledger: Ledger, run: RunId, witness: Witness) -> None:
    writer = await created(ledger, run, witness)
    for number in range(NODES):
        await witness.insist(writer, node(f"n{number}"))
    await witness.insist(writer, [e.RunCompleted()])


async def judge(store: Store, witness: Witness) -> None:
    for run in {run for run, _ in witness.told}:
        log = await store.read(run)
        assert violations(run, log, await store.summary(run)) == []
        assert len({record.id for record in log}) == len(log), "an append is there twice"
        there = {record.first: record.body for record in log}
        assert there == {first: body for (of, first), body in witness.told.items() if of == run}


@pytest.mark.parametrize("seed", range(2))
def test_what_is_acknowledged_through_a_bad_line_is_in_the_log_once(seed: int) -> None:
    """P1, S5"""
    chance, witness = Chance(seed), Witness()

    async def play(address: str) -> None:
        store = open_store(address)
        await store.enrol(ANN, 600)
        chance.is_on = True
        ledger = Ledger(store)
        await asyncio.gather(*(story(ledger, RunId(f"r{number}"), witness) for number in range(RUNS)))
        chance.is_on = False
        await ledger.close()
        await store.close()
        fresh = open_store(address)
        await judge(fresh, witness)
        await fresh.close()

    with FaultProxy(s3.shared().port, chance, pause=1.5) as proxy:
        asyncio.run(play(through(proxy)))
    print(f"\n{dict(proxy.done)}, {witness.doubts} in doubt")
    assert len(witness.told) == RUNS * (NODES + 2)
    assert sum(proxy.done[deed] for deed in DEEDS) > 10


# --- one request goes wrong


class Once:
    """One request, by its number, goes wrong."""

    def __init__(self, deed: Deed, number: int) -> None:
        self.deed, self.number, self.seen, self.is_on = deed, number, 0, False

    def __call__(self, _: Request) -> Deed:
        self.seen += self.is_on
        return self.deed if self.is_on and self.seen == self.number else "pass"


async def insisted(attempt: Callable[[], Awaitable[T]]) -> T:
    """Ask again while the store says that it failed: once is all that goes wrong."""
    for _ in range(5):
        try:
            return await attempt()
        except StoreError:
            continue
    raise AssertionError("the store keeps failing")


async def life(address: str, plan: Once) -> None:
    """A run is created, goes on, is answered, given back, claimed by another and finished; then a fresh door looks at it."""
    store = open_store(address)
    await store.enrol(ANN, 600)
    await store.enrol(BEN, 600)
    plan.is_on = True
    witness, ledger = Witness(), Ledger(store)
    writer = await created(ledger, A, witness)
    await witness.insist(writer, node("a"))
    asked: list[e.AnyEvent] = [e.InteractionRequested(interaction="q", kind="ask", prompt="ok?")]
    await witness.insist(writer, asked)
    answer = e.InteractionAnswered(interaction="q", answer=msgspec.Raw(b"1"))
    with suppress(RunGone):  # an answer whose acknowledgement was lost is not taken a second time
        await insisted(lambda: ledger.deliver(A, [answer]))
    await insisted(writer.catch_up)
    assert await insisted(writer.release) is not None
    (claim,) = await insisted(lambda: store.claim(BEN, runs=[A]))
    other = await insisted(lambda: ledger.take_over(claim))
    await witness.insist(other, node("b"))
    await witness.insist(other, [e.RunCompleted()])
    plan.is_on = False
    await ledger.close()
    await store.close()
    fresh = open_store(address)
    log = await fresh.read(A)
    assert violations(A, log, await fresh.summary(A)) == []
    told = [event for record in log for event in record.events()]
    assert told.count(answer) == 1
    assert sum(isinstance(event, e.NodeCompleted) for event in told) == 2
    assert all(
        {record.first: record.body for record in log}[first] == body for (_, first), body in witness.told.items()
    )
    await fresh.close()


def one_by_one(deed: Deed, numbers: Iterable[int]) -> int:
    """Let each of these requests of a life go wrong; how many came to pass."""
    plan = Once("pass", 0)
    hit = 0
    with FaultProxy(s3.shared().port, lambda request: plan(request), pause=0.6) as proxy:
        for number in numbers:
            plan = Once(deed, number)
            asyncio.run(life(through(proxy, timeout=0.4), plan))
            if plan.seen < number:
                break
            hit += 1
    return hit


@pytest.mark.parametrize("deed", DEEDS)
def test_a_life_goes_on_whichever_request_goes_wrong(deed: Deed) -> None:
    """P1, S5: a sample of the requests; `make faults` tries them all."""
    assert one_by_one(deed, sorted(Random(deed).sample(range(1, 31), 4))) == 4


@pytest.mark.soak
@pytest.mark.parametrize("deed", DEEDS)
def test_a_life_goes_on_whatever_happens_to_any_request(deed: Deed) -> None:
    """P1, S5"""
    assert one_by_one(deed, itertools.count(1)) > 30


# --- an engine behind a bad line


@ol.node(retry=ol.Retry(max_attempts=3, delay=0.01))
async def double(number: int) -> int:
    return 2 * number


@ol.workflow
async def doublings(number: int) -> int:
    for _ in range(4):
        number = await double(number)
    some = await ol.gather(*(double(each) for each in range(number % 5)))
    return number + sum(some)


def test_an_engine_behind_a_bad_line_ends_its_runs() -> None:
    """P1, P6: services stumble and go on"""
    chance = Chance(7)

    async def play(address: str) -> None:
        store = open_store(address)
        async with engine_over(store) as engine:
            chance.is_on = True
            for number in range(4):
                result = await resulting(engine, number)
                assert result == 16 * number + 2 * sum(range(16 * number % 5))
            chance.is_on = False
        await store.close()

    async def resulting(engine: ol.Engine, number: int) -> int:
        handle = None
        while handle is None:
            with suppress(StoreError):
                handle = await engine.start(doublings.options(id=f"r{number}"), number)
        while True:
            with suppress(StoreError):
                return await handle.result()

    with FaultProxy(s3.shared().port, chance, pause=1.5) as proxy:
        asyncio.run(asyncio.wait_for(play(through(proxy)), 60))


# --- many at once


def test_of_a_hundred_that_write_at_one_place_one_wins_every_time() -> None:
    """S2, P3: the log has no gap and nothing twice"""
    address = s3.shared("ministack").address(f"race/{os.urandom(8).hex()}")

    async def play() -> None:
        doors = [open_store(address) for _ in range(10)]
        head = await land(doors[0], begin(A, summary=summary(A)))
        for _ in range(ROUNDS):
            rivals = [follow(head, body=b"[%d]" % number) for number in range(WRITERS)]
            answers = await asyncio.gather(*(doors[at % 10].append([each]) for at, each in enumerate(rivals)))
            won = [each for each, (outcome,) in zip(rivals, answers, strict=True) if outcome is LANDED]
            assert len(won) == 1
            losses = [outcome for (outcome,) in answers if isinstance(outcome, Lost)]
            assert all(loss.tail[0] == won[0].record for loss in losses)
            head = won[0].head
        await must_be_gapless(doors[3], A, ROUNDS + 1)
        for factory in doors:
            await factory.close()

    asyncio.run(play())
