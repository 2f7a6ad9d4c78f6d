"""The processes that the journeys start: workers, guests, and a pair that fights over one run.

Each talks in lines of JSON on its standard output and is told what to do on its standard input; none of them waits for a
time where it can wait for a word. What a worker does next is decided from the state of the run alone, so any worker can go
on where another was killed.

    python crew.py worker STORE TTL WIDTH      claims runs and advances them until it is told to stop
    python crew.py guest STORE SEED            answers and sends signals until it is told to stop
    python crew.py owner STORE TTL             creates a run, owns it, and appends when it is told to
    python crew.py taker STORE RUN             claims that run as soon as it may, takes it over and appends
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from random import Random

from msgspec import Raw

from outlast.compose import open_store
from outlast.errors import Conflict, Fenced, Overtaken, RunGone
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.status import RunStatus
from outlast.store import Claim, Due

NODES = ("n0", "n1", "n2", "n3", "n4", "n5")
ASKS_BEFORE = 3
AWAITS_BEFORE = 5
QUESTION, SIGNAL = "may-i", "go"
LABOUR = 0.02
"""Seconds that the work of a node takes at most."""
PATIENCE = 0.05
"""Seconds after which a process looks again, should it have missed the news."""


def tell(**words: object) -> None:
    print(json.dumps(words), flush=True)


# --- the story ---------------------------------------------------------------------------------------------------------


def following(state: State) -> list[e.AnyEvent]:
    """What to append next; nothing if the run is over or waits for others."""
    if state.outline.base is RunStatus.CREATED:
        return [e.RunStarted(), *_begin(NODES[0])]
    if state.outline.held:
        return decide.resume(state)
    if state.is_closed:
        return []
    for place, name in enumerate(NODES):
        node = state.nodes.get(name)
        if node is None:
            return _enter(state, place)
        if node.status is NodeStatus.SCHEDULED:
            return [e.NodeStarted(node=name, attempt=node.attempt)]
        if node.status is NodeStatus.STARTED:
            done = e.NodeCompleted(node=name, attempt=node.attempt, output=Raw(f'"{name} done"'.encode()))
            return [done, *_enter(state, place + 1)]
    return _enter(state, len(NODES))


def _enter(state: State, place: int) -> list[e.AnyEvent]:
    """What begins when all nodes before this place are done."""
    if place == len(NODES):
        return [e.RunCompleted(output=Raw(b'"all done"'))]
    if place == ASKS_BEFORE:
        asked = state.interactions.get(QUESTION)
        if asked is None:
            return [e.InteractionRequested(interaction=QUESTION, prompt="may I go on?")]
        if asked.answer is None:
            return []
    if place == AWAITS_BEFORE:
        if state.signals.get(SIGNAL) is not None:
            return [e.SignalConsumed(signal=SIGNAL, wait=SIGNAL), *_begin(NODES[place])]
        is_waiting = state.waits.get(f"signal:{SIGNAL}") is not None
        return [] if is_waiting else [e.SignalAwaited(wait=SIGNAL, name=SIGNAL)]
    return _begin(NODES[place])


def _must_have_no_orphans(state: State) -> None:
    """What an owner left in flight was scheduled again by the takeover: nobody else would ever end it."""
    orphans = [name for name, node in state.nodes.items() if node.status is NodeStatus.STARTED]
    if orphans and not state.outline.held:
        raise RuntimeError(f"a run was taken over with {orphans} in nobody's hands")


def _begin(name: str) -> list[e.AnyEvent]:
    return [e.NodeScheduled(node=name), e.NodeStarted(node=name)]


# --- processes ---------------------------------------------------------------------------------------------------------


class Process:
    """A store, a ledger, and the words of whoever started us."""

    def __init__(self, path: str) -> None:
        self.store = open_store(path)
        self.ledger = Ledger(self.store)
        self.worker = self.ledger.new_worker_id()
        self.orders: asyncio.Queue[str] = asyncio.Queue()
        self.changed = asyncio.Event()
        self._ear: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._ear = asyncio.create_task(self._hear())
        self.ledger.listen(lambda _: self.changed.set())

    async def _hear(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.orders.put_nowait(line.decode().strip())
            self.changed.set()

    async def something_new(self) -> None:
        """Until the store, a task of ours or our master has something new, or a little while has passed."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.changed.wait()
        except TimeoutError:
            pass
        self.changed.clear()

    async def close(self) -> None:
        if self._ear is not None:
            self._ear.cancel()
        await self.ledger.close()
        await self.store.close()


class Worker(Process):
    """Claims runs, advances them, and lets go of those that wait."""

    def __init__(self, path: str, ttl: float, width: int) -> None:
        super().__init__(path)
        self.rng = Random(self.worker)
        self.ttl = ttl
        self.width = width
        self.completed = self.appended = self.fenced = self.overtaken = 0

    async def run(self) -> None:
        await self.open()
        await self.store.enrol(self.worker, self.ttl)
        tell(ready=self.worker)
        async with asyncio.TaskGroup() as tasks:
            heart = tasks.create_task(self._live())
            running: set[asyncio.Task[None]] = set()
            while self.orders.empty():
                room = self.width - len(running)
                claims = await self.store.claim(self.worker, limit=room) if room else []
                for claim in claims:
                    task = tasks.create_task(self._advance(claim))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(lambda _: self.changed.set())
                if not claims:
                    await self.something_new()
            await asyncio.gather(*running)
            heart.cancel()
        await self.store.retire(self.worker)
        tell(
            report={
                "completed": self.completed,
                "appended": self.appended,
                "fenced": self.fenced,
                "overtaken": self.overtaken,
            }
        )
        await self.close()

    async def _live(self) -> None:
        while True:
            if not await self.store.renew(self.worker, self.ttl):
                raise RuntimeError("the store does not know this worker any more")
            await asyncio.sleep(self.ttl / 4)

    async def _advance(self, claim: Claim) -> None:
        try:
            writer = await self.ledger.take_over(claim)
            _must_have_no_orphans(writer.state)
            while True:
                events = following(writer.state)
                if not events:
                    if await writer.release():
                        tell(waits=claim.run)
                        return
                    continue
                is_over = isinstance(events[-1], e.RunCompleted)
                # whoever asks may leave at once: the answer cannot have come before the question
                leaves = is_over or isinstance(events[-1], e.InteractionRequested)
                try:
                    await writer.append(events, release=leaves)
                except Overtaken:
                    self.overtaken += 1
                    continue
                self.appended += 1
                if leaves:
                    self.completed += is_over
                    tell(**{"completed" if is_over else "waits": claim.run})
                    return
                if isinstance(events[-1], e.NodeStarted):
                    await asyncio.sleep(self.rng.uniform(0, LABOUR))
        except Fenced:
            self.fenced += 1
            tell(fenced=claim.run)


class Guest(Process):
    """Answers every question and sends every signal that is awaited, and some before they are."""

    def __init__(self, path: str, seed: int) -> None:
        super().__init__(path)
        self.rng = Random(seed)
        self.answered = self.sent = self.late = 0
        self._seen: set[tuple[RunId, str]] = set()

    async def run(self) -> None:
        await self.open()
        tell(ready="guest")
        while self.orders.empty():
            found = [due for due in await self._waits() if (due.run, due.wait.name) not in self._seen]
            self.rng.shuffle(found)
            await asyncio.gather(*(self._tend(due) for due in found[:50]))
            if not found:
                await self.something_new()
        tell(report={"answered": self.answered, "sent": self.sent, "late": self.late})
        await self.close()

    async def _waits(self) -> list[Due]:
        found: list[Due] = []
        after = ""
        while True:
            page, after = await self.store.waits(after=after, limit=500)
            found += page
            if not after:
                return found

    async def _tend(self, due: Due) -> None:
        self._seen.add((due.run, due.wait.name))
        try:
            if due.wait.kind == "interaction":
                answer = e.InteractionAnswered(interaction=due.wait.id, answer=Raw(b"true"), by="guest")
                await self.ledger.deliver(due.run, [answer])
                self.answered += 1
            if due.wait.kind == "signal" or self.rng.random() < 0.5:
                await self.ledger.deliver(due.run, [e.SignalReceived(signal=SIGNAL, name=SIGNAL, by="guest")])
                self.sent += 1
        except RunGone:
            self.late += 1


class Owner(Process):
    """Creates a run and owns it, and appends to it at each order until it is fenced off."""

    async def run(self, ttl: float) -> None:
        await self.open()
        await self.store.enrol(self.worker, ttl)
        begun: list[e.AnyEvent] = [e.RunCreated(workflow="contested"), e.RunStarted(), *_begin("n0")]
        writer = await self.ledger.create(self.ledger.new_run_id(), begun, self.worker)
        tell(owned=writer.run, worker=self.worker)
        while await self.orders.get() != "stop":
            renewed = await self.store.renew(self.worker, ttl)
            try:
                at = await writer.append(following(writer.state))
                tell(appended=at, renewed=renewed)
            except Conflict as error:
                tell(refused=type(error).__name__, why=str(error), renewed=renewed)
        await self.close()


class Taker(Process):
    """Claims one run as soon as nobody alive holds it, and goes on with it, unless it is told to leave before."""

    async def run(self, run: RunId) -> None:
        await self.open()
        await self.store.enrol(self.worker, 60)
        claims = await self.store.claim(self.worker, runs=[run])
        tell(ready=self.worker, claimed=len(claims))
        if await self.orders.get() == "take":
            while not claims:
                await self.something_new()
                claims = await self.store.claim(self.worker, runs=[run])
            (claim,) = claims
            writer = await self.ledger.take_over(claim)
            await writer.append(following(writer.state))
            tell(took=claim.epoch, cause=claim.cause, previous=claim.previous, version=writer.head.version)
            await self.orders.get()
        await self.store.retire(self.worker)
        tell(left=self.worker)
        await self.close()


async def main(role: str, path: str, *more: str) -> None:
    logging.getLogger("outlast").setLevel(logging.ERROR)
    match role:
        case "worker":
            await Worker(path, float(more[0]), int(more[1])).run()
        case "guest":
            await Guest(path, int(more[0])).run()
        case "owner":
            await Owner(path).run(float(more[0]))
        case "taker":
            await Taker(path).run(RunId(more[0]))
        case _:
            raise ValueError(role)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except BaseException:
        tell(error=traceback.format_exc())
        sys.exit(1)
