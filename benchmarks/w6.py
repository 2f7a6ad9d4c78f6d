"""W6: how long importing takes, and how long a cold process takes to its first durable result.

Importing is timed inside the process, over what a program of this kind has imported anyway. The first result is timed from
the start of the process by a program of a few lines (`benchmarks/first/`), with a store that is not there yet.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.measures import folder
from benchmarks.program import Found, Stage, play

REPEATS = 5
OVER = {"outlast": "asyncio, msgspec", "raw": "asyncio, msgspec", "dbos": "asyncio"}
NAMES = {
    "outlast": "from outlast import node, open, run, workflow",
    "raw": "import apsw",
    "dbos": "from dbos import DBOS",
}
"""Names and not only the package: what is loaded at first use counts too."""


def measure(stage: Stage) -> Found:
    known, names = OVER[stage.name], NAMES[stage.name]
    package = names.split()[1]
    return {
        "import_ms": median(_import_ms(known, f"import {package}") for _ in range(REPEATS)),
        "names_ms": median(_import_ms(known, names) for _ in range(REPEATS)),
        "bare_ms": median(_first_ms("bare") for _ in range(REPEATS)),
        "first_result_ms": median(_first_ms(stage.name) for _ in range(REPEATS)),
    }


def _import_ms(known: str, statement: str) -> float:
    code = f"import {known}, time\nbegan = time.perf_counter()\n{statement}\nprint(time.perf_counter() - began)"
    return float(_output([sys.executable, "-c", code])) * 1e3


def _first_ms(name: str) -> float:
    """The program prints the time of its result; all processes of a machine share the monotonic clock."""
    program = Path(__file__).parent / "first" / f"with_{name}.py"
    with folder() as place:
        began = time.monotonic()
        return (float(_output([sys.executable, str(program), str(place / "runs.db")])) - began) * 1e3


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


if __name__ == "__main__":
    play({"measure": measure})
