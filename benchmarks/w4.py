"""W4: 500 runs of 5 nodes that take 2 s each; kill -9 in the midst of it; start the process again.

Killed at the moment when two fifths of all nodes have ended, so that many of them are just being recorded. *Going again* is
the time from the new process being up (imports done) until every run that had nodes left has begun one. *Beyond the ideal*
counts from the start of the new process to the end of the last run, less what the run with the fewest ended nodes still
needs if none of them is run again.
"""

from __future__ import annotations

import shutil
import time

from benchmarks.measures import folder
from benchmarks.program import Found, Stage, kill, play
from benchmarks.witness import Listener, Witness

RUNS = 500
NODES = 5
SECONDS = 2.0
PATIENCE = 180.0


async def begin(stage: Stage) -> None:
    async with stage.system.opened(stage.place):
        await stage.system.begin_slow(RUNS, NODES, SECONDS)
        Witness(stage.place).tell("begun")
        await stage.system.all_done(RUNS)


async def restart(stage: Stage) -> None:
    system, witness = stage.system, Witness(stage.place)
    witness.tell("up")
    async with system.opened(stage.place, is_restart=True):
        await system.all_done(RUNS)
        witness.tell("done")


def measure(stage: Stage) -> Found:
    ear = Listener(stage.place)
    with stage.playing("begin") as process:
        enough = RUNS * NODES * 2 // 5
        ear.wait(lambda words: words["begun"] > 0 and words["end"] >= enough, lambda: process.poll() is None, PATIENCE)
        kill(process)
    ear.hear()
    killed = len(ear.lines)
    recorded = _recorded(stage)
    started = time.monotonic()
    with stage.playing("restart") as process:
        ear.wait(lambda words: words["done"] > 0, lambda: process.poll() is None, PATIENCE)
    return _judged(ear, killed, recorded, started)


def _recorded(stage: Stage) -> set[tuple[str, int]]:
    """Read from a copy: opening the files of a killed process cleans them up, which is part of the measured restart."""
    with folder() as copy:
        for path in stage.place.glob("runs.db*"):
            if path.is_file():
                shutil.copy2(path, copy)
        return stage.system.recorded(copy)


def _judged(ear: Listener, killed: int, recorded: set[tuple[str, int]], started: float) -> Found:
    ended = {(line.run, line.number) for line in ear.said("end")}
    ended_before = {(line.run, line.number) for line in ear.lines[:killed] if line.word == "end"}
    begun_again = [(line.run, line.number) for line in ear.said("begin", killed)]
    left = {f"run-{number}": NODES for number in range(RUNS)}
    for run, _ in ended_before:
        left[run] -= 1
    first: dict[str, float] = {}
    for line in ear.said("begin", killed):
        first.setdefault(line.run, line.moment)
    waiting = {run for run in left if sum(1 for number in range(NODES) if (run, number) in recorded) < NODES}
    up = ear.said("up")[-1].moment
    done = ear.said("done")[-1].moment
    return {
        "recorded_at_kill": len(recorded),
        "ended_at_kill": len(ended_before),
        "going_s": max(first.values()) - up,
        "stuck_runs": len(waiting - set(first)),
        "beyond_s": done - started - max(left.values()) * SECONDS,
        "recorded_run_again": sum(1 for node in begun_again if node in recorded),
        "ended_run_again": sum(1 for node in begun_again if node in ended_before),
        "begun_twice_after": len(begun_again) - len(set(begun_again)),
        "lost_nodes": RUNS * NODES - len(ended),
    }


if __name__ == "__main__":
    play({"measure": measure, "begin": begin, "restart": restart})
