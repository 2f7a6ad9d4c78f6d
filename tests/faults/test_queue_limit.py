"""Processes that are killed and frozen at random execute the runs of one queue, together never more than its limit (S11).

The log shows who executed a run when: from a takeover until its owner released the run, or until the next takeover. A slot
belongs to a run that a living worker holds, except for the time that another worker needs to take the run over.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import outlast as ol
from outlast.client.facade import Engine
from outlast.compose import open_desk, open_store
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.ledger.reading import records
from outlast.store import Store

QUEUE, LIMIT = "limited", 3
CLAIM_S = 3.0
PROCESSES = 4
WARM_S = 3.0
"""Seconds after its start, or after the end of its freeze, from which a process counts as one that can take over runs: a
worker whose lease had lapsed claims nothing for half a lease."""
LONGEST_S = 500.0
Interval = tuple[int, int, str]
"""The beginning, the end, and the run and epoch."""


@ol.node
async def limited_step(number: int, part: int) -> int:
    await asyncio.sleep(random.uniform(0.0, 0.06))
    return number + part


@ol.workflow(queue=QUEUE)
async def limited_run(number: int) -> int:
    total = await limited_step(number, 1)
    if number % 20 == 0:
        await ol.sleep(2.2)  # it gives back its slot
    if number % 33 == 0:
        total += await limited_child(number)
    return total + await limited_step(number, 2)


@ol.workflow(queue=QUEUE)
async def limited_child(number: int) -> int:
    return await limited_step(number, 3)


def expected(number: int) -> int:
    return 2 * number + 3 + (number + 3 if number % 33 == 0 else 0)


async def work(address: str) -> None:
    """A process that executes runs until it is killed."""
    async with ol.open(address, claim=CLAIM_S, queue_limits={QUEUE: LIMIT}, durability="relaxed"):
        await asyncio.Event().wait()


class Crew:
    """The processes, and what happens to them."""

    def __init__(self, address: str, seed: int) -> None:
        self._address = address
        self._chance = random.Random(seed)
        self._processes: list[tuple[subprocess.Popen[bytes], float]] = []
        self._frozen: dict[int, float] = {}
        self.kills = self.freezes = 0

    def begin(self) -> None:
        for _ in range(PROCESSES):
            self._start()

    def _start(self) -> None:
        command = [sys.executable, __file__, self._address]
        self._processes.append((subprocess.Popen(command, stderr=subprocess.DEVNULL), time.monotonic()))

    async def trouble(self) -> None:
        """Kill or freeze processes, one after the other; one that can take over their runs is left."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 0.9))
            self._thaw()
            now = time.monotonic()
            awake = [each for each in self._processes if each[0].pid not in self._frozen]
            warm = [each for each in awake if now - each[1] > WARM_S]
            exposed = [each for each in awake if any(other is not each for other in warm)]
            if not exposed:
                continue
            victim = self._chance.choice(exposed)
            if self._chance.random() < 0.5:
                self.kills += 1
                self._kill(victim)
                self._start()
            else:
                self.freezes += 1
                os.kill(victim[0].pid, signal.SIGSTOP)
                self._frozen[victim[0].pid] = now + self._chance.uniform(0.1, 2 * CLAIM_S)

    def _thaw(self) -> None:
        now = time.monotonic()
        for pid in [pid for pid, until in self._frozen.items() if until < now]:
            del self._frozen[pid]
            os.kill(pid, signal.SIGCONT)
            self._processes = [(each, now if each.pid == pid else since) for each, since in self._processes]

    def _kill(self, victim: tuple[subprocess.Popen[bytes], float]) -> None:
        self._processes.remove(victim)
        self._frozen.pop(victim[0].pid, None)
        victim[0].kill()
        victim[0].wait()

    def end(self) -> None:
        for each in list(self._processes):
            self._kill(each)


class Slots:
    """Looks at the slots of the queue: how many are held, and how long by runs that no living worker holds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since: dict[RunId, float] = {}
        self.most = 0
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.05)

    async def look(self) -> None:
        holders = {each.run for each in await self._store.slot_holders(f"queue/{QUEUE}")}
        self.most = max(self.most, len(holders))
        now = time.monotonic()
        for run in holders:
            holding = await self._store.holding(run)
            if holding is not None and holding.is_live:
                self._since.pop(run, None)
            else:
                self.longest = max(self.longest, now - self._since.setdefault(run, now))
        self._since = {run: since for run, since in self._since.items() if run in holders}


def owned(log: Sequence[Record]) -> Iterator[Interval]:
    """When a worker owned the run, by the times of its appends. An owner that was interrupted held the slot until the next
    takeover; the log shows that only if no other claim was granted in between."""
    appends: dict[int, list[int]] = defaultdict(list)
    takeovers: dict[int, e.RunTakenOver] = {}
    for record in log:
        if record.epoch:
            appends[record.epoch].append(record.time)
            first = record.events()[0]
            if isinstance(first, e.RunTakenOver):
                takeovers[record.epoch] = first
    for epoch, times in appends.items():
        after = takeovers.get(epoch + 1)
        was_interrupted = after is not None and after.previous == takeovers[epoch].worker
        yield times[0], appends[epoch + 1][0] if was_interrupted else times[-1], f"{log[0].run} epoch {epoch}"


def most_at_once(intervals: Sequence[Interval]) -> list[Interval]:
    """The ownerships at the time at which there were most."""
    most: list[Interval] = []
    for moment, _, _ in intervals:
        at_once = [each for each in intervals if each[0] <= moment < each[1]]
        most = max(most, at_once, key=len)
    return most


async def until_all_end(engine: Engine, runs: Sequence[RunId]) -> None:
    left = set(runs)
    while left:
        left -= {run for run in list(left)[:50] if (await engine.get(run)).status == "completed"}
        await asyncio.sleep(0.1)


async def play(address: str, count: int, seed: int) -> str:
    store, crew = open_store(address), Crew(address, seed)
    slots = Slots(store)
    try:
        async with open_desk(address) as desk:
            runs = [(await desk.start(limited_run, number)).run for number in range(count)]
            began = time.monotonic()
            crew.begin()
            others = [asyncio.create_task(crew.trouble()), asyncio.create_task(slots.watch())]
            async with asyncio.timeout(LONGEST_S):
                await until_all_end(desk, runs)
            took = time.monotonic() - began
            for task in others:
                task.cancel()
            ended = await asyncio.gather(*others, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
            crew.end()
            assert [await desk.result(run) for run in runs] == [expected(number) for number in range(count)]
        intervals: list[Interval] = []
        every, after = await store.runs(limit=100_000)
        assert after == ""
        for run in every:
            intervals += owned([record async for record in records(store, run)])
        most = most_at_once(intervals)
        assert await store.slot_holders() == []
    finally:
        crew.end()
        await store.close()
    assert len(most) <= LIMIT, sorted(most)
    assert slots.most <= LIMIT
    assert slots.longest <= CLAIM_S
    return (
        f"{len(every)} runs, {len(intervals)} ownerships, at most {len(most)} at once, {crew.kills} kills, {crew.freezes} "
        f"freezes, a slot without a living holder for at most {slots.longest:.2f} s, {took:.1f} s"
    )


def test_no_more_runs_of_a_queue_than_its_limit_in_processes_that_die(tmp_path: Path) -> None:
    print(asyncio.run(play(str(tmp_path / "runs.db"), 40, seed=1)))


@pytest.mark.soak
def test_five_hundred_runs_on_sqlite(tmp_path: Path) -> None:
    print(asyncio.run(play(str(tmp_path / "runs.db"), 500, seed=2)))


@pytest.mark.soak
def test_five_hundred_runs_on_postgresql(postgres_url: str) -> None:
    print(asyncio.run(play(postgres_url, 500, seed=3)))


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
