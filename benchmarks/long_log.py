"""One log of a million events: does any cost grow faster than the log?

Run as a program with a number of events, it writes the log, reads it in a new process and prints one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measures import folder
from benchmarks.workload import BIRTH, boundary
from outlast.history.ids import RunId
from outlast.history.record import Record, entries
from outlast.ledger import Ledger, verification
from outlast.ledger.reading import head_of, lineage_of, records, state_of
from outlast.lifecycle.fold import fold
from outlast.lifecycle.state import State
from outlast.stores.sqlite import SqliteStore

RUN = RunId("long")


def measure(events: int) -> dict[str, float]:
    """Write in one process, read in another, so that the memory is the reader's alone."""
    with folder() as place:
        written = _in_process("write", place, events)
        read = _in_process("read", place, events)
        fold_only = _in_process("fold", place, events)
        verified = _in_process("verify", place, events)
    return {**written, **read, **fold_only, **verified}


def _in_process(what: str, place: Path, events: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.long_log", what, str(place), str(events)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


async def write(place: Path, events: int) -> dict[str, float]:
    """Appends without waiting for the disk, so that only the growth of the log could slow them down."""
    store = SqliteStore(place / "runs.db", durability="relaxed")
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 3600)
    writer = await ledger.create(RUN, BIRTH, worker)
    boundaries = events // 3
    tenth = boundaries // 10
    times = [time.perf_counter()]
    for part in range(10):
        for i in range(part * tenth, (part + 1) * tenth):
            await writer.append(boundary(i))
        times.append(time.perf_counter())
    await store.close()
    return {
        "events": 3 * 10 * tenth + len(BIRTH),
        "first_tenth_appends_per_s": tenth / (times[1] - times[0]),
        "last_tenth_appends_per_s": tenth / (times[10] - times[9]),
        "file_mb": store.path.stat().st_size / 1e6,
        "writer_mb": _resident(),
    }


async def read(place: Path, _: int) -> dict[str, float]:
    """The reading part of a takeover: read the lineage and fold it."""
    before = _resident()
    store = SqliteStore(place / "runs.db", readonly=True)
    head = await head_of(store, RUN)
    began = time.perf_counter()
    state = await state_of(store, RUN, await lineage_of(store, head))
    taken = time.perf_counter() - began
    assert state.outline.seq == head.version
    await store.close()
    return {"load_s": taken, "load_events_per_s": head.version / taken, "load_mb": _resident() - before}


async def fold_alone(place: Path, _: int) -> dict[str, float]:
    """The fold by itself, over events that are decoded already."""
    store = SqliteStore(place / "runs.db", readonly=True)
    log: list[Record] = [record async for record in records(store, RUN)]
    await store.close()
    read_events = [entry for record in log for entry in entries(record)]
    began = time.perf_counter()
    fold(State(), read_events)
    return {"fold_events_per_s": len(read_events) / (time.perf_counter() - began)}


async def verify(place: Path, _: int) -> dict[str, float]:
    """All invariants over the whole log."""
    before = _resident()
    store = SqliteStore(place / "runs.db", readonly=True)
    began = time.perf_counter()
    verified = await verification.verify(store, RUN, b"")
    taken = time.perf_counter() - began
    assert not verified.violations
    await store.close()
    return {"verify_s": taken, "verify_mb": _resident() - before}


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    act = {"write": write, "read": read, "fold": fold_alone, "verify": verify}[sys.argv[1]]
    print(json.dumps(asyncio.run(act(Path(sys.argv[2]), int(sys.argv[3])))))
