"""Runs the plan: every program in its own process, systems in turns; a failure is noted and not fatal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

from benchmarks import peers
from benchmarks.measures import ROOT, pace
from benchmarks.plan import Job, Results
from benchmarks.program import Found


class Failed(Exception):
    """A program that failed."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def collect(jobs: Iterable[Job], results: Results) -> Results:
    missing = _set_up()
    for job in jobs:
        for number in range(job.rounds):
            for system in job.systems:
                if system in missing:
                    note(results, job.name, system, missing[system])
                elif system not in results.failures.get(job.name, {}):
                    _round(results, job, system, number)
    return results


def _set_up() -> dict[str, str]:
    """Create the peers' environments; returns those that failed, with the reason."""
    missing: dict[str, str] = {}
    for peer in peers.PEERS:
        try:
            peers.interpreter_of(peer)
        except (OSError, subprocess.SubprocessError) as error:
            missing[peer] = f"its environment could not be set up: {error}"
    return missing


def _round(results: Results, job: Job, system: str, number: int) -> None:
    results.pace.append(pace())
    began = time.perf_counter()
    try:
        found = _run(job, system)
    except Failed as failure:
        note(results, job.name, system, str(failure))
        return
    results.found.setdefault(job.name, {}).setdefault(system, []).append(found)
    say(f"{job.name}, {system}, round {number + 1} of {job.rounds}: {time.perf_counter() - began:.1f} s")


def note(results: Results, job: str, system: str, reason: str) -> None:
    """The reason why there is no result; the page shows it."""
    if system not in results.failures.setdefault(job, {}):
        say(f"{job}, {system}: failed: {reason}")
    results.failures[job][system] = reason


def _run(job: Job, system: str) -> Found:
    command = [sys.executable, *shlex.split(job.command(system))[1:]]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        answer, errors = process.communicate(timeout=job.seconds)
        if process.returncode:
            raise Failed(_last_line(errors))
        found: Found = json.loads(answer)
        return found
    except subprocess.TimeoutExpired:
        raise Failed(f"not done within {job.seconds:.0f} s") from None
    except ValueError as error:
        raise Failed(f"its answer does not read: {error}") from error
    finally:
        if process.poll() is None:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()  # it ends its own processes then
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(errors: str) -> str:
    lines = [line for line in errors.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"
