"""A disk that is full, read-only or cannot be flushed: a clear error, nothing half-written, and work goes on afterwards."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
from msgspec import Raw

from outlast.errors import OutcomeUnknown, StoreError, StoreFull, StoreReadOnly
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import RunId
from outlast.ledger import Ledger, RunWriter
from outlast.lifecycle.invariants import violations
from outlast.store import RunFilter
from outlast.stores.blob_folder import FolderBlobs
from outlast.stores.sqlite import SqliteStore, database
from support.disk import Disk

Result = TypeVar("Result")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL", logger="outlast"):
        yield


class Bench:
    """A few runs on a disk that can fail, and every append that was acknowledged."""

    def __init__(self, path: Path) -> None:
        self.disk = Disk()
        self.store = SqliteStore(path, vfs=self.disk.name)
        self.ledger = Ledger(self.store)
        self.worker = self.ledger.new_worker_id()
        self.pens: list[RunWriter] = []
        self.acknowledged: dict[tuple[RunId, int], bytes] = {}
        self.count = 0

    async def begin(self, runs: int) -> None:
        await self.store.enrol(self.worker, 60)
        for number in range(runs):
            events: list[e.AnyEvent] = [e.RunCreated(workflow="w", title=f"run {number}"), e.RunStarted()]
            writer = await self.ledger.create(RunId(f"run-{number}"), events, self.worker)
            self.acknowledged[writer.run, 1] = encode(events)
            self.pens.append(writer)

    async def append(self, writer: RunWriter, size: int = 500) -> None:
        """One node, in one append."""
        self.count += 1
        node = f"n{self.count}"
        done = e.NodeCompleted(node=node, output=Raw(b'"' + b"x" * size + b'"'))
        events: list[e.AnyEvent] = [e.NodeScheduled(node=node), e.NodeStarted(node=node), done]
        self.acknowledged[writer.run, await writer.append(events)] = encode(events)

    async def deliver(self, run: RunId) -> None:
        """One signal, by a guest."""
        self.count += 1
        signal = e.SignalReceived(signal=f"s{self.count}", name="s")
        self.acknowledged[run, await self.ledger.deliver(run, [signal])] = encode([signal])

    async def append_to_all(self, size: int = 500) -> list[BaseException]:
        """One append to each run, in a group; returns what was raised."""
        told = await asyncio.gather(*(self.append(writer, size) for writer in self.pens), return_exceptions=True)
        return [error for error in told if error is not None]

    async def is_intact(self, *, with_doubts: bool = False) -> bool:
        """The logs are sound and hold what was acknowledged and nothing else, or, with doubts, a little more."""
        for writer in self.pens:
            log = await self.store.read(writer.run)
            assert violations(writer.run, log, await self.store.summary(writer.run)) == []
            there = {record.first: record.body for record in log}
            told = {first: body for (run, first), body in self.acknowledged.items() if run == writer.run}
            assert told.items() <= there.items() if with_doubts else told == there
        return True

    async def close(self) -> None:
        await self.ledger.close()
        await self.store.close()
        self.disk.close()


def benched(act: Callable[[Bench], Awaitable[Result]], path: Path, runs: int = 5) -> Result:
    async def all_of_it() -> Result:
        bench = Bench(path)
        try:
            await bench.begin(runs)
            return await act(bench)
        finally:
            await bench.close()

    return asyncio.run(all_of_it())


def fill(disk: Disk) -> None:
    """Leave room for a few appends more, so that the disk fills up in the midst of one."""
    disk.space = disk.used + 30_000


def make_readonly(disk: Disk) -> None:
    disk.readonly = True


Fault = tuple[Callable[[Disk], None], type[StoreError], str]
FAULTS: list[Fault] = [(fill, StoreFull, "no space is left"), (make_readonly, StoreReadOnly, "may only be read")]
faults = pytest.mark.parametrize("fault", FAULTS, ids=["full", "readonly"])


async def _until_refused(bench: Bench) -> list[BaseException]:
    for _ in range(200):
        errors = await bench.append_to_all()
        if errors:
            return errors
    raise AssertionError("the disk never refused")


async def _repeatedly(act: Callable[[], Awaitable[None]]) -> None:
    """Until it is refused, but not for ever."""
    for _ in range(200):
        await act()


# --- full and read-only ------------------------------------------------------------------------------------------------


@faults
def test_appends_are_refused_with_a_clear_message_and_nothing_is_half_written(fault: Fault, tmp_path: Path) -> None:
    """S1, S5"""
    strike, kind, words = fault

    async def act(bench: Bench) -> None:
        await bench.append_to_all()
        strike(bench.disk)
        for error in await _until_refused(bench):
            assert type(error) is kind
            assert words in str(error)
            assert "nothing was written" in str(error)
            assert str(bench.store.path) in str(error)
        assert await bench.is_intact()

    benched(act, tmp_path / "runs.db")


@faults
def test_reads_work_while_nothing_can_be_written(fault: Fault, tmp_path: Path) -> None:
    strike, _, _ = fault

    async def act(bench: Bench) -> None:
        strike(bench.disk)
        await _until_refused(bench)
        page = await bench.store.search(RunFilter(text="run 3"))
        assert [listed.summary.run for listed in page.items] == ["run-3"]
        for writer in bench.pens:
            assert await bench.store.head(writer.run) == writer.head

    benched(act, tmp_path / "runs.db")


@faults
def test_the_same_pens_go_on_without_a_gap_when_the_fault_ends(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times over, with checkpoints that meet the fault too."""
    strike, kind, _ = fault
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 20)

    async def act(bench: Bench) -> None:
        for _ in range(4):
            strike(bench.disk)
            await _until_refused(bench)
            for _ in range(20):
                errors = await bench.append_to_all(2000)
                assert {type(error) for error in errors} <= {kind}
            assert await bench.is_intact()
            bench.disk.mend()
            for _ in range(20):
                assert await bench.append_to_all() == []
        assert await bench.is_intact()

    benched(act, tmp_path / "runs.db")


@faults
def test_a_guest_is_refused_and_delivers_once_when_the_fault_ends(fault: Fault, tmp_path: Path) -> None:
    strike, kind, _ = fault

    async def act(bench: Bench) -> None:
        strike(bench.disk)
        await _until_refused(bench)
        run = bench.pens[0].run
        with pytest.raises(kind):
            await _repeatedly(lambda: bench.deliver(run))
        assert await bench.is_intact()
        bench.disk.mend()
        await bench.deliver(run)
        await bench.append(bench.pens[0])
        assert await bench.is_intact()

    benched(act, tmp_path / "runs.db", runs=1)


@faults
def test_a_refused_claim_leaves_the_run_to_whoever_comes_later(fault: Fault, tmp_path: Path) -> None:
    strike, kind, _ = fault

    async def act(bench: Bench) -> None:
        (writer,) = bench.pens
        await writer.release(ready=True)
        strike(bench.disk)
        with pytest.raises(kind):
            await _repeatedly(lambda: bench.store.note({writer.run: bench.disk.operations.to_bytes(4000, "big")}))
        with pytest.raises(kind):
            await bench.store.claim(bench.worker, runs=[writer.run])
        bench.disk.mend()
        (claim,) = await bench.store.claim(bench.worker, limit=5)
        later = await bench.ledger.take_over(claim)
        await later.append([e.RunCompleted()], release=True)
        assert violations(writer.run, await bench.store.read(writer.run), await bench.store.summary(writer.run)) == []

    benched(act, tmp_path / "runs.db", runs=1)


def test_a_store_that_was_full_when_the_power_went_holds_what_was_acknowledged(tmp_path: Path) -> None:
    """S3 and a full disk together: what the refused appends left behind the end of the WAL is not taken for a fact."""
    path = tmp_path / "runs.db"

    async def act(bench: Bench) -> Bench:
        fill(bench.disk)
        await _until_refused(bench)
        await bench.append_to_all(20)
        bench.disk.cut_power(Random(7))
        return bench

    bench = benched(act, path)

    async def after() -> None:
        bench.store = SqliteStore(path)
        assert await bench.is_intact()
        await bench.store.close()

    asyncio.run(after())


# --- flushes that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_append_whose_flush_fails_is_settled_and_lands_once(times: int, tmp_path: Path) -> None:
    """W1"""

    async def act(bench: Bench) -> None:
        for _ in range(10):
            bench.disk.fail_sync_after(1, times=times)
            await bench.append(bench.pens[0])
            bench.disk.fail_sync_after(1, times=times)
            assert await bench.append_to_all() == []
            bench.disk.fail_sync_after(1, times=times)
            await bench.deliver(bench.pens[1].run)
        assert bench.ledger.measures.unknown > 0
        assert await bench.is_intact()

    benched(act, tmp_path / "runs.db")


@pytest.mark.parametrize("together", [False, True], ids=["alone", "grouped"])
def test_an_append_that_stays_in_doubt_is_said_to_be_and_the_pen_goes_on_soundly(
    together: bool, tmp_path: Path
) -> None:
    """W1"""

    async def act(bench: Bench) -> None:
        for _ in range(5):
            bench.disk.fail_sync_after(1, times=50)
            if together:
                errors = await bench.append_to_all()
                assert len(errors) == len(bench.pens)
            else:
                errors = [error for writer in bench.pens for error in await _raised(bench.append(writer))]
            assert {type(error) for error in errors} == {OutcomeUnknown}
            bench.disk.mend()
            assert await bench.append_to_all() == []
            assert await bench.is_intact(with_doubts=True)

    benched(act, tmp_path / "runs.db")


def test_what_a_crash_after_a_failed_flush_leaves_is_sound(tmp_path: Path) -> None:
    """The frames of an append in doubt may be in the WAL: after a crash it is there whole, or not at all."""

    async def act(bench: Bench) -> None:
        bench.disk.fail_sync_after(1, times=50)
        await bench.append_to_all()
        after = await _after_a_crash(bench, tmp_path / "image")
        assert await bench.is_intact(with_doubts=True)
        await after.close()

    benched(act, tmp_path / "runs.db")


def test_an_append_in_doubt_is_not_said_to_be_unwritten_because_the_second_try_is_refused(tmp_path: Path) -> None:
    """S5, W1: the flush fails and the disk turns read-only, so the outcome cannot be settled: it stays unknown."""

    async def act(bench: Bench) -> None:
        (writer,) = bench.pens
        version = writer.head.version
        bench.disk.fail_sync_after(1, then_readonly=True)
        (error,) = await _raised(bench.append(writer))
        after = await _after_a_crash(bench, tmp_path / "image")
        head = await after.head(writer.run)
        await after.close()
        assert head is not None
        assert head.version > version, "the crash should find the append in the WAL: nothing is tested otherwise"
        assert type(error) is OutcomeUnknown, f"the append is in the log, and its caller was told: {error}"

    benched(act, tmp_path / "runs.db", runs=1)


async def _raised(work: Awaitable[None]) -> list[BaseException]:
    try:
        await work
    except StoreError as error:
        return [error]
    return []


async def _after_a_crash(bench: Bench, folder: Path) -> SqliteStore:
    """The store as a new process would find it if this one were killed now."""
    folder.mkdir()
    for name in ("runs.db", "runs.db-wal"):
        shutil.copy(bench.store.path.with_name(name), folder / name)
    return SqliteStore(folder / "runs.db")


# --- flushes counted ---------------------------------------------------------------------------------------------------


def test_a_lone_append_costs_one_flush_and_a_group_shares_one(tmp_path: Path) -> None:
    """S4"""

    async def act(bench: Bench) -> None:
        before = bench.disk.syncs
        for _ in range(20):
            await bench.append(bench.pens[0], 10)
        assert bench.disk.syncs - before == 20
        before = bench.disk.syncs
        await bench.append_to_all(10)
        assert bench.disk.syncs - before <= 2, "the first may find nobody to wait for; the others share one"

    benched(act, tmp_path / "runs.db", runs=20)


# --- blobs -------------------------------------------------------------------------------------------------------------

LIMITED = """
import asyncio, resource, sys
from pathlib import Path
from outlast.stores.blob_folder import FolderBlobs

root, count, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

async def chunks():
    for _ in range(count):
        yield b"x" * size

async def main():
    blobs = FolderBlobs(root)
    small = await blobs.put(b"small")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        await blobs.put(chunks())
    except Exception as error:
        print(type(error).__name__, "|", error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    left = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    print(left == [f"{small.hash[:2]}/{small.hash[2:]}"] or left)
    print(b"".join([chunk async for chunk in blobs.open(small)]).decode())
    print((await blobs.put(chunks())).size)

asyncio.run(main())
"""


@pytest.mark.parametrize(("count", "size"), [(1, 300_000), (64, 5000), (300, 1000), (1, 100_001), (3, 34_000)])
def test_a_blob_that_outgrows_the_space_leaves_nothing_behind(count: int, size: int, tmp_path: Path) -> None:
    """A real limit on the size of files, which the system enforces in mid-write, in whatever chunks the bytes come."""
    arguments = [str(tmp_path / "blobs"), str(count), str(size)]
    done = subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    told, left, small, again = done.stdout.splitlines()
    assert told.startswith("StoreFull | no space is left for a blob: ")
    assert (left, small, again) == ("True", "small", str(count * size))


async def _one_chunk() -> AsyncIterator[bytes]:
    yield b"x" * 5000


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", ["mkstemp", "fsync", "replace"])
def test_a_blob_on_a_full_disk_is_refused_wherever_the_disk_refuses(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "blobs"
    blobs = FolderBlobs(root)
    with monkeypatch.context() as fault:
        fault.setattr(tempfile if place == "mkstemp" else os, place, _no_space)
        with pytest.raises(StoreFull, match="no space"):
            asyncio.run(blobs.put(b"x" * 5000))
    assert [path for path in root.rglob("*") if path.is_file()] == []
    ref = asyncio.run(blobs.put(_one_chunk()))
    assert asyncio.run(blobs.has(ref.hash))
