"""Many nodes in one run: a thousand at once, and more items than anybody would keep in memory."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import outlast as ol
from outlast.ledger.verification import verify
from outlast.store import RunFilter
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.processes import engine_over

LIMIT = 50
"""Items of a map that are under way at once."""


@ol.node
async def doubled(number: int) -> int:
    return number * 2


@ol.workflow
async def all_at_once(count: int) -> int:
    return sum(await ol.gather(*(doubled(number) for number in range(count))))


@ol.workflow
async def one_by_one(count: int) -> int:
    total = 0
    async for number in ol.map(doubled, range(count), concurrency=LIMIT):
        total += number
    return total


def test_a_thousand_nodes_run_at_once_and_each_is_in_the_log(tmp_path: Path) -> None:
    async def act() -> None:
        store = SqliteStore(tmp_path / "runs.db")
        async with engine_over(store) as engine:
            run = await engine.start(all_at_once, 1000)
            assert await run.result() == 999_000
            summary = await run.get()
            assert summary.done_nodes == 1000
            assert (await verify(store, run.run)).is_sound
        await store.close()

    asyncio.run(act())


def test_no_more_items_of_a_map_are_under_way_than_its_limit() -> None:
    under_way = most = 0

    async def body(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return number

    counted = ol.node(name="counted")(body)
    items = iter(range(500))

    @ol.workflow(name="counted_map")
    async def counted_map() -> int:
        async for _ in ol.map(counted, items, concurrency=7):
            pass
        return most

    async def act() -> None:
        store = MemoryStore()
        async with engine_over(store) as engine:
            assert await (await engine.start(counted_map)).result() == 7

    asyncio.run(act())


# --- memory ------------------------------------------------------------------------------------------------------------


def peak_of(count: int, folder: Path) -> tuple[int, float]:
    """Kilobytes that a process of its own takes at most for a map over so many items, and the seconds."""
    began = time.perf_counter()
    command = [sys.executable, __file__, str(folder / f"{count}.db"), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(done.stdout), time.perf_counter() - began


def must_be_bounded(few: int, many: int, folder: Path, *, bytes_each: int) -> None:
    """What is kept of an item that is over would cost more than `bytes_each`."""
    small, _ = peak_of(few, folder)
    large, seconds = peak_of(many, folder)
    per_item = (large - small) * 1024 / (many - few)
    print(f"\n{few} items: {small / 1024:.1f} MB, {many}: {large / 1024:.1f} MB in {seconds:.1f} s")
    assert per_item < bytes_each, f"each of {many - few} further items took {per_item:.0f} bytes"


def test_a_map_over_a_hundred_thousand_items_takes_the_memory_of_those_under_way(tmp_path: Path) -> None:
    must_be_bounded(10_000, 100_000, tmp_path, bytes_each=300)


@pytest.mark.soak
def test_the_memory_of_a_map_does_not_grow_at_all_beyond_what_its_store_takes(tmp_path: Path) -> None:
    must_be_bounded(100_000, 400_000, tmp_path, bytes_each=20)


async def _measure(path: str, count: int) -> int:
    async with ol.open(path, durability="relaxed") as engine:
        run = await engine.start(one_by_one, count)
        assert await run.result() == count * (count - 1)
        assert len((await engine.list_runs(RunFilter())).items) == 1
    return _peak()


def _peak() -> int:
    """Kilobytes that this program has taken at most. What `getrusage` says counts what its parent took as well."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    scale = 1024 if sys.platform == "darwin" else 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // scale


if __name__ == "__main__":
    print(asyncio.run(_measure(sys.argv[1], int(sys.argv[2]))))
