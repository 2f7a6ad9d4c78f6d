"""Processes that use one file announce their appends to each other; what is not announced, a poll finds."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.store import Claim
from outlast.stores.sqlite import SqliteStore, wakeups
from outlast.stores.sqlite.announcements import SUFFIX, Inbox, Outbox
from outlast.testing.contract.samples import BEN, A, B, begin, land

WORKER = WorkerId("worker-1")

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


@pytest.fixture
def only_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll does not help."""
    monkeypatch.setattr(wakeups, "POLL_BESIDE_PIPE", 60.0)


async def watching(store: SqliteStore) -> asyncio.Queue[frozenset[RunId]]:
    """What another connection is notified of, once it listens."""
    await store.enrol(WORKER, 60)
    news: asyncio.Queue[frozenset[RunId]] = asyncio.Queue()
    store.subscribe(news.put_nowait)
    while not pipes(store):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)  # it has looked once, and waits
    return news


def pipes(store: SqliteStore) -> list[Path]:
    return list(store.path.with_name(store.path.name + ".workers").glob(f"*{SUFFIX}"))


async def create(ledger: Ledger, name: str) -> None:
    await ledger.create_ready(RunId(name), e.RunCreated(workflow="w"))


@pytest.mark.usefixtures("only_pipes")
def test_an_append_of_another_connection_is_announced_at_once(tmp_path: Path) -> None:
    async def announced() -> None:
        store, other = (SqliteStore(tmp_path / "runs.db", durability="relaxed") for _ in range(2))
        news = await watching(store)
        theirs = Ledger(other)
        for number in range(3):
            await create(theirs, f"run-{number}")
            async with asyncio.timeout(5):
                assert await news.get() == {f"run-{number}"}
        await theirs.close()
        await other.close()
        await store.close()
        await asyncio.sleep(0)
        assert not pipes(store)

    asyncio.run(announced())


def test_what_is_written_before_the_pipe_is_known_is_found_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outbox, "announce", lambda _: None)

    async def found() -> None:
        store, other = (SqliteStore(tmp_path / "runs.db", durability="relaxed") for _ in range(2))
        news = await watching(store)
        theirs = Ledger(other)
        await create(theirs, "run-1")
        async with asyncio.timeout(5):
            assert await news.get() == {"run-1"}
        await theirs.close()
        await other.close()
        await store.close()

    asyncio.run(found())


def test_the_runs_of_a_worker_that_died_are_announced_before_its_lease_ends(tmp_path: Path) -> None:
    async def announced() -> None:
        store, other = (SqliteStore(tmp_path / "runs.db", durability="relaxed") for _ in range(2))
        await other.enrol(BEN, 3600)
        for run in (A, B):
            await land(other, begin(run, claim=BEN))
        news = await watching(store)
        assert await claim(store, WORKER, A) == []
        other.locks.close()  # as the system does when a process ends
        async with asyncio.timeout(20):
            assert await news.get() == {A, B}
        assert [each.cause for each in await claim(store, WORKER, A, B)] == ["dead", "dead"]
        await other.close()
        await store.close()

    async def claim(store: SqliteStore, worker: WorkerId, *runs: RunId) -> list[Claim]:
        return await store.claim(worker, runs=runs, limit=len(runs))

    asyncio.run(announced())


def test_a_process_that_only_writes_is_not_woken_by_its_own_appends(tmp_path: Path) -> None:
    async def woken() -> None:
        store = SqliteStore(tmp_path / "runs.db", durability="relaxed")
        news = await watching(store)
        ours = Ledger(store)
        await create(ours, "run-1")
        await asyncio.sleep(0.05)
        assert news.empty()
        assert store._outbox._handles == {}
        await ours.close()
        await store.close()

    asyncio.run(woken())


def test_the_pipe_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f"left{SUFFIX}"
    os.mkfifo(left)
    outbox = Outbox(tmp_path)
    with Inbox(tmp_path) as inbox:
        outbox.announce()
        assert [path.name for path in tmp_path.iterdir()] == [inbox.path.name]
        assert list(outbox._handles) == [inbox.path.name]
    outbox.announce()  # into a pipe that nobody reads any more
    assert outbox._handles == {}
    outbox.close()


def test_a_full_pipe_delays_nobody(tmp_path: Path) -> None:
    async def filled() -> None:
        outbox = Outbox(tmp_path)
        with Inbox(tmp_path) as inbox:
            began = time.perf_counter()
            for _ in range(200_000):
                outbox.announce()
            assert time.perf_counter() - began < 20
            await inbox.wait(5)
            began = time.perf_counter()
            await inbox.wait(0.05)  # all of them were one announcement
            assert time.perf_counter() - began > 0.04
        outbox.close()

    asyncio.run(filled())


def test_without_a_folder_or_pipes_a_process_only_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def waited() -> None:
        with Inbox(tmp_path / "none") as inbox:
            assert not inbox.is_open
            await inbox.wait(0.001)
        monkeypatch.delattr(os, "mkfifo")
        with Inbox(tmp_path) as inbox:
            assert not inbox.is_open
        Outbox(tmp_path / "none").announce()
        assert list(tmp_path.iterdir()) == []

    asyncio.run(waited())


PROGRAM = """
import asyncio, sys
from outlast.history import events as e
from outlast.ledger import Ledger
from outlast.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1], durability="relaxed")
    ledger = Ledger(store)
    await ledger.create_ready("run-1", e.RunCreated(workflow="w"))
    await ledger.close()
    await store.close()

asyncio.run(main())
"""


@pytest.mark.usefixtures("only_pipes")
def test_an_append_of_another_process_is_announced_at_once(tmp_path: Path) -> None:
    async def announced() -> None:
        store = SqliteStore(tmp_path / "runs.db", durability="relaxed")
        news = await watching(store)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(store.path))
        async with asyncio.timeout(20):
            assert await news.get() == {"run-1"}
        assert await process.wait() == 0
        await store.close()

    asyncio.run(announced())
