"""A workflow that writes files is interrupted again and again, in every way there is, and a watcher looks on.

No file is ever seen half-written under its final name, whatever is killed when; in the end every file is there, whole, the
run has completed and its log proves itself (P1, P2, V1 to V11).

Run as a program, this file is nothing; `outlast run` finds the workflow in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import outlast as ol
from support import commands

PATIENCE = 60
ROUNDS = 5
SOAK_ROUNDS = 60
PIECES = 6
BUSY = 0.03
"""Seconds between two pieces of a file."""


# --- the workflow ------------------------------------------------------------------------------------------------------


def piece(name: str, number: int) -> bytes:
    return hashlib.sha256(f"{name} {number}".encode()).hexdigest().encode() * 200 + b"\n"


def whole(name: str) -> bytes:
    return b"".join(piece(name, number) for number in range(PIECES))


def write_slowly(name: str) -> int:
    with ol.output_path(f"out/{name}.txt") as path, path.open("wb") as file:
        for number in range(PIECES):
            file.write(piece(name, number))
            file.flush()
            time.sleep(BUSY)
            ol.checkpoint(number)
    return PIECES


@ol.node
def in_a_thread(name: str) -> int:
    return write_slowly(name)


@ol.node(run_in="process")
def in_a_process(name: str) -> int:
    return write_slowly(name)


@ol.node
async def on_the_loop(name: str) -> int:
    async with ol.output_path(f"out/{name}.txt") as path:
        with path.open("wb") as file:
            for number in range(PIECES):
                file.write(piece(name, number))
                file.flush()
                await asyncio.sleep(BUSY)
                await ol.checkpoint(number)
    return PIECES


@ol.workflow
async def writing(rounds: int) -> int:
    done = 0
    for number in range(rounds):
        done += sum(
            await ol.gather(
                on_the_loop(f"loop-{number}"), in_a_thread(f"thread-{number}"), in_a_process(f"process-{number}")
            )
        )
    return done


# --- its masters -------------------------------------------------------------------------------------------------------


class Watcher:
    """Reads every file under its final name, all the time, and remembers what was not whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.torn: list[str] = []
        self.seen: set[str] = set()

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.002):
            self.look()

    def look(self) -> None:
        for file in self._folder.glob("[!.]*.txt"):
            if "_interrupted" not in file.stem:
                self.seen.add(file.stem)
                if file.read_bytes() != whole(file.stem):
                    self.torn.append(file.stem)


class Journey:
    """One run in a folder, begun and interrupted until it is told to end."""

    def __init__(self, folder: Path, seed: int, rounds: int) -> None:
        shutil.copy(__file__, folder / "files.py")
        (folder / "outlast.toml").write_text("grace = 5\n")
        self.folder, self.rounds = folder, rounds
        self.chance = random.Random(seed)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("OUTLAST_")}
        self.environment["PYTHONPATH"] = str(Path(__file__).parents[1])

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "outlast", *arguments]

    def begun(self) -> subprocess.Popen[str]:
        words = ("resume", "r") if self.has_begun() else ("run", "files:writing", f"rounds={self.rounds}", "--id", "r")
        return commands.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def has_begun(self) -> bool:
        return (self.folder / "out").exists()

    def interrupt(self, how: str) -> tuple[int, str]:
        """Let it work for a while, then interrupt it; its exit code and what it said."""
        before = self.written()
        with self.begun() as process:
            try:
                give_up = time.monotonic() + PATIENCE
                while self.written() == before and process.poll() is None:  # until something of it was seen to happen
                    assert time.monotonic() < give_up, "it does nothing"
                    time.sleep(0.005)
                time.sleep(self.chance.uniform(0, 2 * PIECES * BUSY))
                for number in HOW[how]:
                    process.send_signal(number)
                    time.sleep(self.chance.uniform(0, BUSY))
                _, said = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        return process.returncode, said

    def written(self) -> set[tuple[str, int]]:
        """The files there are, hidden ones included, and how large they are."""
        found = set()
        for file in (self.folder / "out").glob("*.txt"):
            try:
                found.add((file.name, file.stat().st_size))
            except FileNotFoundError:
                continue
        return found

    def to_the_end(self) -> str:
        with self.begun() as process:
            out, said = process.communicate(timeout=2 * PATIENCE)
        assert process.returncode == 0, said
        return out

    def outlast(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return commands.run(
            self.command(*arguments), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )


HOW = {
    "once": [signal.SIGINT],
    "twice": [signal.SIGINT, signal.SIGINT],
    "term": [signal.SIGTERM],
    "kill": [signal.SIGKILL],
}
CODES = {"once": {130}, "twice": {130}, "term": {143}, "kill": {-signal.SIGKILL}}


def travel(folder: Path, ways: list[str], seed: int) -> None:
    journey = Journey(folder, seed, rounds=2 + len(ways) // 4)
    with Watcher(folder / "out") as watcher:
        for how in ways:
            code, said = journey.interrupt(how)
            assert code in CODES[how] | {0}, said  # it may have completed before, or within the grace time
            assert "Traceback" not in said, said
            if code in (130, 143) and how in ("once", "term"):
                assert "run r is paused" in said
            if code == 0:
                break
        else:
            assert journey.to_the_end().strip() == str(journey.rounds * 3 * PIECES)
        watcher.look()
    assert watcher.torn == []
    names = {f"{place}-{number}" for place in ("loop", "thread", "process") for number in range(journey.rounds)}
    assert watcher.seen == names
    hidden = [name for name, _ in journey.written() if name.startswith(".")]
    assert hidden == [], "a completed run leaves no hidden files"
    verified = journey.outlast("verify", "r")
    assert verified.returncode == 0, verified.stdout


def test_no_interruption_leaves_a_half_written_file_and_the_run_completes(tmp_path: Path) -> None:
    ways = list(HOW)
    random.Random(7).shuffle(ways)
    travel(tmp_path, ways, seed=7)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_ROUNDS // ROUNDS))
def test_many_interruptions_in_any_order_leave_no_half_written_file(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    travel(tmp_path, chance.choices(list(HOW), k=ROUNDS), seed)
