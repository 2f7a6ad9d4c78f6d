"""Measure everything and write `docs/benchmarks.md`; or run some workloads and print their results.

The results are stored in `.make/bench.json`; `--page` writes the page from them without measuring.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import apsw
import msgspec

from benchmarks import kernel
from benchmarks.collect import collect, note, say
from benchmarks.measures import MADE, ROOT
from benchmarks.page import Machine, page
from benchmarks.plan import PLAN, Job, Results
from outlast.errors import OutlastError

PAGE = ROOT / "docs" / "benchmarks.md"
KEPT = MADE / "bench.json"


class Everything(msgspec.Struct):
    machine: Machine
    results: Results
    kernel: kernel.Kernel | None


def main() -> int:
    asked = _asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also end the started processes
    if asked.only:
        return _some([job for job in _plan(asked.rounds) if job.name in asked.only])
    if not asked.page:
        _measure(_plan(asked.rounds))
    found = msgspec.json.decode(KEPT.read_bytes(), type=Everything)
    text = page(found.machine, found.results, found.kernel)
    PAGE.write_text(text)
    print(text)
    say(f"written to {PAGE}")
    return 1 if found.results.failures else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[job.name for job in PLAN], help="measure these and write no page")
    parser.add_argument("--rounds", type=int, help="as many rounds instead of the planned ones")
    parser.add_argument("--page", action="store_true", help="write the page from the stored results")
    return parser.parse_args()


def _plan(rounds: int | None) -> list[Job]:
    return [msgspec.structs.replace(job, rounds=rounds or job.rounds) for job in PLAN]


def _some(jobs: list[Job]) -> int:
    results = collect(jobs, Results())
    print(msgspec.json.format(msgspec.json.encode(results.found), indent=1).decode())
    return 1 if results.failures else 0


def _measure(jobs: list[Job]) -> None:
    began = time.perf_counter()
    results = Results()
    try:
        of_kernel = kernel.measure()
    except (OutlastError, subprocess.SubprocessError) as error:
        of_kernel = None
        note(results, "kernel", "outlast", str(error))
    for job in jobs:  # what was measured is kept if a later job is interrupted
        collect([job], results)
        machine = _machine(time.perf_counter() - began)
        KEPT.write_bytes(msgspec.json.encode(Everything(machine, results, of_kernel)))


def _machine(seconds: float) -> Machine:
    locked = (ROOT / "requirements" / "peer-dbos.txt").read_text()
    version = re.search(r"^dbos==(\S+)", locked, re.MULTILINE)
    return Machine(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        seconds=seconds,
        cores=os.cpu_count(),
        system=platform.system(),
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        dbos=version[1] if version else "",
    )


if __name__ == "__main__":
    sys.exit(main())
