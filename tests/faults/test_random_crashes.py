"""Two hundred rounds of helpers that take as long as they like and are interrupted when nobody expects it.

A round gathers helpers of random duration, each calling several nodes that are called alike. It is interrupted at
random calls to its store, several times in most rounds. What every node returns says which call it answers: so a result
that is paired with the wrong call is seen, and so is code that goes another way than its log.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.history.ids import RunId
from outlast.store import Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.faults import Died, Fault, Way, faulty
from outlast.testing.processes import Processes, engine_over
from outlast.testing.world import World, compare, read_all

ROUNDS = 200
ON_FILES = 20
"""How many of them are on SQLite."""
KILLS = 6
"""How many rounds with real processes the soak has."""
RUN = RunId("round")
DEATHS: tuple[Way, ...] = ("die_before", "die_after")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


# --- what is interrupted -----------------------------------------------------------------------------------------------


@ol.node
async def labour(helper: int, place: int, part: int, seconds: float) -> list[int]:
    """Says which call it answers."""
    await asyncio.sleep(seconds)
    note = os.environ.get("LABOUR_NOTE")
    if note:
        _note(Path(note), f"{ol.idempotency_key()} {ol.context().attempt}")
    return [helper, place, part]


@ol.node(retry=ol.Retry(max_attempts=4, delay=0.005, max_delay=0.01))
async def labour_that_fails(helper: int, place: int, fails: int) -> list[int]:
    if ol.context().attempt <= fails:
        raise ConnectionError(f"{helper}, {place}")
    return [helper, place]


async def busy_helper(number: int, seed: int) -> list[Any]:
    """Calls nodes one after the other, at once, in a race with time, in a timeout, as chance will have it."""
    chance = random.Random(seed * 1000 + number)
    seen: list[Any] = []
    for place in range(chance.randint(1, 4)):
        kind = chance.choice(("one", "three", "retry", "race", "timeout", "sleep"))
        pauses = [chance.choice((0, 0.001, 0.004, 0.02)) for _ in range(3)]
        match kind:
            case "one":
                answers = [await labour(number, place, 0, pauses[0])]
            case "three":
                answers = await ol.gather(*(labour(number, place, part, pauses[part]) for part in range(3)))
            case "retry":
                answers = [[*await labour_that_fails(number, place, chance.randint(0, 2)), 0]]
            case "race":
                won = await ol.race(labour(number, place, 0, pauses[0]), labour(number, place, 1, 30.0))
                answers = [won.value]
            case "timeout":
                async with asyncio.timeout(3600):
                    answers = [await labour(number, place, 0, pauses[0])]
            case _:
                await ol.sleep(pauses[0])
                answers = [await labour(number, place, 0, pauses[1])]
        for part, answer in enumerate(answers):
            assert answer == [number, place, part], f"{answer} was told to helper {number}, place {place}, part {part}"
        seen.append([kind, answers])
    return seen


@ol.workflow
async def busy_helpers(helpers: int, seed: int) -> list[Any]:
    return await ol.gather(*(busy_helper(number, seed) for number in range(helpers)))


# --- rounds in this process --------------------------------------------------------------------------------------------


async def _advance(client: ol.Engine, helpers: int, seed: int) -> Any:
    async with asyncio.timeout(600):
        handle = await client.start(busy_helpers.options(id=RUN), helpers, seed)
        return await handle.result()


def play(processes: Processes, seed: int, folder: Path | None) -> tuple[Any, World, dict[RunId, Any], int]:
    """One round; returns what came of it and how often it was interrupted."""
    chance = random.Random(seed)
    helpers, crashes = chance.randint(2, 6), chance.randint(1, 4)
    memory, world = Memory(), World()

    def opened() -> Store:
        if folder is None:
            memory.workers.clear()
            memory.listeners.clear()
            return MemoryStore(memory)
        return SqliteStore(folder / f"{seed}.db", durability="relaxed", commit="inline")

    async def factory() -> Store:
        return opened()

    died = 0
    for number in itertools.count():
        assert number < 12, f"round {seed} does not come to its end"
        inner = processes.do(factory())
        fault = Fault(chance.choice(DEATHS), chance.randint(1, 25)) if number < crashes else None
        store, faults = faulty(inner, fault)
        try:
            result = processes.live(store, lambda client: _advance(client, helpers, seed), faults, world)
            break
        except Died:
            died += 1
        finally:
            processes.do(inner.close())
    check = processes.do(factory())
    runs = processes.do(read_all(check))
    processes.do(check.close())
    return result, world, runs, died


def test_two_hundred_interrupted_rounds_pair_every_result_with_its_call(tmp_path: Path) -> None:
    began, died, nodes = time.perf_counter(), 0, 0
    for seed in range(ROUNDS):
        with Processes(seed=seed) as processes:
            result, world, runs, interruptions = play(processes, seed, tmp_path if seed % 10 == 0 else None)
        _judge(seed, result, world, runs)
        died += interruptions
        nodes += len(world.attempts)
    print(f"\n{ROUNDS} rounds, {died} interruptions, {nodes} attempts, {time.perf_counter() - began:.1f} s")
    assert died > ROUNDS


def _judge(seed: int, result: list[Any], world: World, runs: dict[RunId, Any]) -> None:
    compare(world, runs)
    assert set(runs) == {RUN}
    assert runs[RUN].status == "completed"
    for number, seen in enumerate(result):
        for place, (_, answers) in enumerate(seen):
            assert answers == [[number, place, part] for part in range(len(answers))], f"round {seed}"


# --- rounds with real processes ----------------------------------------------------------------------------------------


def _note(path: Path, line: str) -> None:
    """One line at the end of a file, whoever else writes there."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode() + b"\n")
    finally:
        os.close(handle)


@pytest.mark.soak
def test_rounds_of_real_processes_that_are_killed_pair_every_result_with_its_call(tmp_path: Path) -> None:
    kills = 0
    for seed in range(KILLS):
        path, note = tmp_path / f"{seed}.db", tmp_path / f"{seed}.note"
        chance = random.Random(seed)
        result: Any = None
        for _ in range(40):
            result = _process(path, note, seed, chance.uniform(0.01, 0.25))
            if result is not None:
                break
            kills += 1
        assert result is not None, "it never came to its end"
        asyncio.run(_examine(path, note, seed, result))
    print(f"\n{KILLS} rounds, {kills} processes killed")


def _process(path: Path, note: Path, seed: int, seconds: float) -> Any:
    """What a process says, or None if it was killed before it could. It is killed some time after it has begun to work."""
    command = [sys.executable, __file__, str(path), str(seed)]
    environment = os.environ | {"LABOUR_NOTE": str(note)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            said, _ = process.communicate(timeout=seconds)
            assert process.returncode == 0
            return json.loads(said)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return None
        finally:
            process.kill()


async def _examine(path: Path, note: Path, seed: int, result: list[Any]) -> None:
    store = SqliteStore(path)
    world = World()
    for line in note.read_text().splitlines():
        key, attempt = line.rsplit(" ", 1)
        world.note(key, int(attempt))
    runs = await read_all(store)
    await store.close()
    for made, times in world.attempts.items():
        assert times == 1, f"{made} was made {times} times"
        done, _ = runs[RUN].completed.get((made.node, made.generation), (made.attempt, 0))
        assert made.attempt <= done, f"{made} was made though its node was done"
    for number, seen in enumerate(result):
        for place, (_, answers) in enumerate(seen):
            assert answers == [[number, place, part] for part in range(len(answers))], f"round {seed}"


async def _main(path: str, seed: int) -> None:
    store = SqliteStore(path)
    try:
        async with engine_over(store) as engine:
            print("begun", flush=True)
            result = await _advance(engine, 60, seed)
        print(json.dumps(result), flush=True)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
