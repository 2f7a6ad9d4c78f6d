"""W5: one long run, killed at its end and resumed by a new process.

The run has its nodes one after the other (`--nodes`), or some at a time (`--width`), and then stays in a last one.
*Resume* is the time from the end of the new process's imports until the function has passed all of them again.
"""

from __future__ import annotations

import time

from benchmarks.measures import peak_mb, store_bytes
from benchmarks.program import Found, Stage, kill, play
from benchmarks.witness import Listener, Witness

PATIENCE = 600.0


async def empty(stage: Stage) -> None:
    """A store that holds one run, so that its size can be taken off."""
    async with stage.system.opened(stage.place):
        await stage.system.sequence(1)


async def begin(stage: Stage) -> None:
    async with stage.system.opened(stage.place):
        await stage.system.begin_long(stage.nodes, stage.width)
        await stage.system.long_done()


async def restart(stage: Stage) -> None:
    system, witness = stage.system, Witness(stage.place)
    witness.tell("idle-kb", number=round(peak_mb() * 1000))
    witness.tell("up")
    async with system.opened(stage.place, is_restart=True):
        await system.long_done()
    witness.tell("peak-kb", number=round(peak_mb() * 1000))
    witness.tell("done")


def measure(stage: Stage) -> Found:
    small = _size_of_empty(stage)
    ear = Listener(stage.place)
    with stage.playing("begin") as process:
        ear.wait(lambda words: words["passed"] > 0, lambda: process.poll() is None, PATIENCE)
        time.sleep(0.3)  # the last node is on its way to the store
        kill(process)
    ear.hear()
    run_s = ear.said("passed")[0].moment - ear.said("began")[0].moment
    started = time.monotonic()
    with stage.playing("restart") as process:
        ear.wait(lambda words: words["done"] > 0, lambda: process.poll() is None, PATIENCE)
    up, passed = ear.said("up")[-1].moment, ear.said("passed")[-1]
    return {
        "nodes": stage.nodes,
        "run_s": run_s,
        "ms_per_node": run_s / stage.nodes * 1e3,
        "resume_s": passed.moment - up,
        "resume_from_process_start_s": passed.moment - started,
        "resume_peak_mb": ear.said("peak-kb")[-1].number / 1000,
        "resume_growth_mb": (ear.said("peak-kb")[-1].number - ear.said("idle-kb")[-1].number) / 1000,
        "run_again": passed.number,
        "events": _events(stage),
        "bytes_per_node": (store_bytes(stage.place) - small) / stage.nodes,
    }


def _size_of_empty(stage: Stage) -> int:
    nearby = stage.place / "empty"
    nearby.mkdir()
    stage.played("empty", nearby)
    return store_bytes(nearby)


def _events(stage: Stage) -> float:
    counted = getattr(stage.system, "events_of_long", None)
    return counted(stage.place) if counted else 0


if __name__ == "__main__":
    play({"measure": measure, "empty": empty, "begin": begin, "restart": restart})
