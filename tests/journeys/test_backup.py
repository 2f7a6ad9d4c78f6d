"""A copy made while other processes write: every log in it is sound, and every blob they name is there (U2).

Run as a program, this file is one of the writers: it makes runs with large values until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Raw

from outlast.compose import open_desk
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.stores.sqlite import SqliteStore
from outlast.values.codec import INLINE_LIMIT, fetched, stored
from support import commands

OUTLAST = [sys.executable, "-m", "outlast"]
PATIENCE = 60
BEFORE = 5
"""Runs that each writer has made before the copy begins."""


def test_a_copy_made_while_others_write_is_whole(tmp_path: Path) -> None:
    store, copy = tmp_path / "runs.db", tmp_path / "copies" / "copy.db"
    writers = [
        commands.Popen(
            [sys.executable, __file__, str(store), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
        for number in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            for _ in range(BEFORE):
                assert writer.stdout.readline()
        command = [*OUTLAST, "db", "backup", str(copy), "--store", str(store), "-o", "json"]
        made = commands.run(command, capture_output=True, text=True, timeout=PATIENCE)
    finally:
        for writer in writers:
            writer.communicate(timeout=PATIENCE)  # its input ends
    assert made.returncode == 0, made.stderr
    assert [writer.returncode for writer in writers] == [0, 0]
    copied = json.loads(made.stdout)
    proved = commands.run([*OUTLAST, "verify", "--all", "--store", str(copy)], capture_output=True, timeout=PATIENCE)
    assert proved.returncode == 0, proved.stdout
    named = asyncio.run(_values(copy))
    assert 2 * BEFORE <= named == copied["runs"] <= copied["blobs"]["count"]


async def _values(path: Path) -> int:
    """How many large values the logs name; each has to be there and to hold what it did."""
    found = 0
    store = SqliteStore(path, readonly=True)
    async with open_desk(str(path), readonly=True) as desk:
        async for run in desk.iter_runs():
            async for entry in desk.events(run.run):
                if isinstance(entry.event, e.RunCreated):
                    value = await fetched(entry.event.params, store.blobs)
                    assert run.run.encode() in bytes(value)
                    found += 1
    await store.close()
    return found


async def _write(path: Path, name: str) -> None:
    store = SqliteStore(path)
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 30)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    until = time.monotonic() + PATIENCE
    number = 0
    while not ended.done() and time.monotonic() < until:
        run = RunId(f"{name}-{number}")
        params = await stored(Raw(json.dumps([run] * (INLINE_LIMIT // 4)).encode()), store.blobs)
        await ledger.create(run, [e.RunCreated(workflow="w", params=params), e.RunStarted()], worker)
        number += 1
        if number <= BEFORE:
            print(run, flush=True)
    await store.retire(worker)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1]), sys.argv[2]))
