"""The one place where a command begins and ends: errors become words and exit codes here and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import typer

from outlast.cli import streams
from outlast.cli.console import notice
from outlast.errors import Damaged, NotFound, OutlastError, StoreError, StoreUnusable

SOUND, VIOLATED, MISUSED, FAILED, INTERRUPTED, UNHEARD, TERMINATED = 0, 1, 2, 3, 130, 141, 143
RUN_FAILED, RUN_HELD, RUN_CANCELLED, RUN_PAUSED = 4, 5, 6, 7
DIFFERS = VIOLATED
"""As `diff` has it; a damaged log is no finding to whoever compares, but a failure."""

EXIT_CODES = {
    SOUND: "all is well",
    VIOLATED: "a log is damaged or breaks an invariant; the doctor found something; `--exit-code` found a difference",
    MISUSED: "a mistake in the command, or no such run",
    FAILED: "the store could not be opened or read, or the output not written",
    RUN_FAILED: "the run that was waited for failed",
    RUN_HELD: "the run that was waited for is held: a person has to decide",
    RUN_CANCELLED: "the run that was waited for was cancelled",
    RUN_PAUSED: "the run that was waited for was paused",
    INTERRUPTED: "interrupted by Ctrl+C; `run` and `resume` have paused their runs",
    UNHEARD: "the program that read the output went away",
    TERMINATED: "ended by SIGTERM; `run` and `resume` have paused their runs",
}


def carry_out(begin: Callable[[], Coroutine[Any, Any, int]], *, damaged: int = VIOLATED) -> NoReturn:
    """Run a command to its exit code, whatever happens to it. What may block for long belongs into `begin`: on the loop,
    a first Ctrl+C waits until the loop has its turn. `damaged` is the code if a log turns out to be. What cannot be written
    is raised, as `Unwritable`."""
    try:
        code = asyncio.run(begin())
        streams.flush()
    except OutlastError as error:
        code = refused(error, damaged)
    except KeyboardInterrupt:
        notice("outlast: interrupted")
        code = INTERRUPTED
    raise typer.Exit(code)


def refused(error: OutlastError, damaged: int = VIOLATED) -> int:
    """Say what was wrong; the exit code that says the same."""
    notice(f"outlast: {error}", advice(error), style="red")
    return damaged if isinstance(error, Damaged) and error.run else code_of(error)


def unwritten(trouble: streams.Unwritable) -> int:
    """The exit code of a command whose output could not be written, and why, unless its reader just went away."""
    if trouble.is_unheard:
        return UNHEARD
    notice(f"outlast: {trouble}", style="red")
    return FAILED


def code_of(error: OutlastError) -> int:
    """Damage that has a place is a finding; a file that does not read at all is a failure."""
    if isinstance(error, Damaged):
        return VIOLATED if error.run else FAILED
    return FAILED if isinstance(error, StoreError) else MISUSED


def advice(error: OutlastError) -> str:
    """What to do about it, where the error itself does not say."""
    if isinstance(error, StoreUnusable):
        return "Choose another store with --store PATH or the variable OUTLAST_STORE."
    if isinstance(error, NotFound):
        return "`outlast ps` lists the runs of the store; the beginning of an id is enough."
    if isinstance(error, Damaged) and error.run:
        return f"`outlast verify {error.run}` shows all that is wrong; `--everything --after N` reads on."
    return ""
