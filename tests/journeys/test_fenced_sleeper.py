"""P3, W2: a worker that slept through its claim cannot write to a run that someone else took over.

Forced, not hoped for: the owner is stopped by the system, its time runs out by the store's clock, the other appends, and
only then may the owner go on. Where its lock can be seen, nobody takes the run: the process is there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.history.events import NodeScheduled
from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.lifecycle.invariants import violations
from outlast.stores.sqlite import SqliteStore

CREW = Path(__file__).with_name("crew.py")
TTL = 0.5


class Actor:
    """A process that says one thing after another, and does the next when it is told."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        words: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "error" not in words, words["error"]
        return words

    def order(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


@contextmanager
def acting(role: str, path: Path, *more: str) -> Iterator[Actor]:
    command = [sys.executable, str(CREW), role, str(path), *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Actor(process)
        finally:
            process.kill()


def read(path: Path, run: str) -> list[Record]:
    async def all_of_it() -> list[Record]:
        store = SqliteStore(path)
        try:
            log = await store.read(RunId(run))
            assert violations(RunId(run), log, await store.summary(RunId(run))) == []
            return log
        finally:
            await store.close()

    return asyncio.run(all_of_it())


@pytest.mark.parametrize("wakes", [1, 3])
def test_an_owner_that_slept_through_its_claim_is_fenced_off_and_the_log_is_untouched(
    wakes: int, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    with acting("owner", path, str(TTL)) as sleeper:
        owned = sleeper.hear()
        sleeper.order("append")
        assert "appended" in sleeper.hear(), "while it is awake it may write"
        path.with_name("runs.db.workers").joinpath(f"{owned['worker']}.lock").unlink()
        sleeper.freeze()
        with acting("taker", path, owned["owned"]) as taker:
            taker.hear()
            taker.order("take")
            took = taker.hear()
            assert took["cause"] == "expired", "the owner is not dead: its time ran out"
            assert took["previous"] == owned["worker"]
            before = read(path, owned["owned"])
            assert before[-1].last == took["version"]

            for _ in range(wakes):
                sleeper.order("append")
            sleeper.thaw()
            for _ in range(wakes):
                told = sleeper.hear()
                assert told["refused"] == "Fenced"
                assert "newer owner" in told["why"]
                assert told["renewed"], "it is alive again, and may work on other runs"
            assert read(path, owned["owned"]) == before


@pytest.mark.parametrize("ttl", ["60", "0"], ids=["within its time", "after its time"])
def test_nobody_takes_a_run_from_an_owner_that_is_frozen_and_holds_its_lock(ttl: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with acting("owner", path, ttl) as sleeper:
        owned = sleeper.hear()
        sleeper.freeze()
        with acting("taker", path, owned["owned"]) as taker:
            assert taker.hear()["claimed"] == 0
            sleeper.order("append")
            sleeper.thaw()
            assert "appended" in sleeper.hear()
    assert [record.epoch for record in read(path, owned["owned"])] == [1, 1]


def test_a_run_is_taken_at_once_from_an_owner_that_was_killed(tmp_path: Path) -> None:
    """The lock that the system took back proves the death, however much time the owner had left."""
    path = tmp_path / "runs.db"
    run = _track_left_running(path)
    with acting("taker", path, run) as taker:
        assert taker.hear()["claimed"] == 1
        taker.order("take")
        assert taker.hear()["cause"] == "dead"
    assert _interrupted(path, run) == ["n0"]


def test_an_interruption_is_not_forgotten_when_whoever_found_it_leaves_before_taking_over(tmp_path: Path) -> None:
    """C1: the node that the dead owner had started is done again, whoever is the first to take the run over."""
    path = tmp_path / "runs.db"
    run = _track_left_running(path)
    with acting("taker", path, run) as hasty:
        assert hasty.hear()["claimed"] == 1
        hasty.order("leave")
        assert "left" in hasty.hear()
    with acting("taker", path, run) as taker:
        assert taker.hear()["claimed"] == 1
        taker.order("take")
        assert "took" in taker.hear()
    assert _interrupted(path, run) == ["n0"]


def _track_left_running(path: Path) -> str:
    """A run whose owner was killed in the midst of a node."""
    with acting("owner", path, "3600") as owner:
        run: str = owner.hear()["owned"]
        owner.process.kill()
        owner.process.wait()
    return run


def _interrupted(path: Path, run: str) -> list[str]:
    """The nodes that were scheduled again because their owner was gone."""
    told = [event for record in read(path, run) for event in record.events()]
    return [event.node for event in told if isinstance(event, NodeScheduled) and event.cause == "crash"]
