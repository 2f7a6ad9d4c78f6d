"""A workload as a program: `python -m benchmarks.w1 --system outlast` prints one JSON object of numbers.

A workload has one or more acts. `measure` is run first; it may run others in separate processes and kill them. The
acts of a peer are run by the peer's interpreter.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import peers
from benchmarks.measures import ROOT, folder
from benchmarks.systems import SYSTEMS, Survivor, system_of

Found: TypeAlias = dict[str, float]


@dataclass
class Stage:
    """The surroundings of an act: a system, a folder for its store, and the amount of work."""

    name: str
    place: Path
    nodes: int
    width: int

    @cached_property
    def system(self) -> Survivor:
        """Loaded on first use, so that an act that only runs others stays small."""
        return system_of(self.name)

    @contextmanager
    def playing(self, act: str, place: Path | None = None) -> Iterator[subprocess.Popen[str]]:
        """Another act of this workload in its own process, killed at the end of the block if it still runs."""
        place = place or self.place
        choices = ["--system", self.name, "--nodes", str(self.nodes), "--width", str(self.width)]
        command = [sys.executable, "-m", _own_name(), *choices, act, str(place)]
        with (place / "errors.log").open("a+") as errors:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, start_new_session=True
            )
            try:
                yield process
            except (RuntimeError, TimeoutError) as error:
                errors.seek(0)
                raise RuntimeError(f"{error}; its last output:\n{errors.read()[-2000:]}") from error
            finally:
                kill(process)

    def played(self, act: str, place: Path | None = None, seconds: float = 600) -> Found:
        """The result of another act of this workload, run in its own process."""
        with self.playing(act, place) as process:
            try:
                answer, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"{act} was not done within {seconds:.0f} s") from None
            if process.returncode:
                raise RuntimeError(f"{act} failed")
            found: Found = json.loads(answer or "{}")
            return found


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the process and all that it started, without warning."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


Act: TypeAlias = Callable[[Stage], Found | Awaitable[Found | None] | None]


def play(acts: Mapping[str, Act]) -> None:
    """Run the act named on the command line, and print its result."""
    asked = _asked(acts)
    if asked.system in peers.PEERS and not peers.is_home(asked.system):
        interpreter = str(peers.interpreter_of(asked.system))
        os.execv(interpreter, [interpreter, "-m", _own_name(), *sys.argv[1:]])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes of other acts are ended too
    with folder() if asked.place is None else nullcontext(asked.place) as place:
        found = acts[asked.act](Stage(asked.system, place, asked.nodes, asked.width))
        if inspect.isawaitable(found):
            found = asyncio.run(_waited(found))
    if found is not None:
        print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # threads that a peer left behind are not waited for


def _asked(acts: Mapping[str, Act]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules["__main__"]))
    parser.add_argument("--system", choices=SYSTEMS, default="outlast")
    parser.add_argument("--nodes", type=int, default=10_000, help="how many, where the workload lets one choose")
    parser.add_argument("--width", type=int, default=1, help="how many at a time, likewise")
    parser.add_argument("act", nargs="?", choices=sorted(acts), default=next(iter(acts)))
    parser.add_argument("place", nargs="?", type=Path, help="the folder of the store (default: a fresh one)")
    return parser.parse_intermixed_args()


async def _waited(found: Awaitable[Any]) -> Any:
    return await found


def _own_name() -> str:
    spec = sys.modules["__main__"].__spec__
    assert spec is not None, "a workload is started with python -m"
    return spec.name
