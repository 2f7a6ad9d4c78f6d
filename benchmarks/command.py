"""How long the commands `outlast --help` and `outlast ps` take as processes, in milliseconds, on an SQLite store of some
runs. `--nodes` is the number of runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import outlast as ol
from benchmarks.program import Found, Stage, play
from benchmarks.systems.outlast import few

REPEATS = 11


async def measure(stage: Stage) -> Found:
    store = stage.place / "runs.db"
    async with ol.open(store) as engine:
        for _ in range(stage.nodes):
            await (await engine.start(few, nodes=1)).result()
    command = [str(Path(sys.executable).with_name("outlast"))]
    taken = {name: [_ms([*command, word], store) for _ in range(REPEATS)] for name, word in COMMANDS.items()}
    return {f"{name}_ms": median(each) for name, each in taken.items()}


COMMANDS = {"help": "--help", "ps": "ps"}


def _ms(command: list[str], store: Path) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "OUTLAST_STORE": str(store)}, timeout=60
    )
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    play({"measure": measure})
