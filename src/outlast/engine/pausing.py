"""Pausing a run, and winding down what a process advances.

A run that winds down is still driven: outcomes are told to its code and written, and what the code then asks for goes into
the log, in its place, but does not begin. So a replay finds the log as it would find any other. Nodes at work have the grace
time to end, or to reach a checkpoint, where they are ended; what is left then is told to stop, as by a cancellation. What a
node brings home after it was told to stop no longer counts: it has another attempt when the run goes on.

A node that is not to be repeated is not ended at a checkpoint. If the pause had to stop it, the run is held and not paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from outlast.history import events as e

if TYPE_CHECKING:
    from outlast.engine.driver import Driver
    from outlast.engine.worker import Worker
    from outlast.functions.commands import Command


def begin(driver: Driver, request: e.PauseRequested) -> None:
    """Begin to pause a run; asked for again, it is the same pause."""
    if not driver.is_pausing:
        driver.is_pausing = True
        driver.wind_down()
        driver.worker.spawn(_pause(driver, request))


async def _pause(driver: Driver, request: e.PauseRequested) -> None:
    await wait_for_nodes([driver])
    if not driver.is_over:
        await driver.pause(request)


async def drain(worker: Worker) -> None:
    """Take on no more runs, let nothing more begin in those there are, and see that what is at work ends. They are left to
    whoever claims them."""
    worker.is_draining = True
    await worker.wait_for_takeovers()
    winding = [driver for driver in worker.drivers.values() if not driver.is_pausing]
    for driver in winding:
        driver.wind_down()
    await wait_for_nodes(winding)


def top_level_runs(worker: Worker) -> list[Driver]:
    """The runs it advances that no other of its runs has started."""
    return [driver for driver in worker.drivers.values() if driver.created.parent not in worker.drivers]


async def wait_for_nodes(drivers: Sequence[Driver]) -> None:
    """Return when none of the nodes is at work: those that do not end within the grace time are stopped."""
    tasks = [command.task for driver in drivers for command in driver.open_node_commands() if command.task is not None]
    if not tasks:
        return
    await asyncio.wait(tasks, timeout=drivers[0].worker.grace)
    await asyncio.gather(*(each.attempts.stop_all(each.open_node_commands()) for each in drivers if not each.is_over))


def drop_start(pending: list[e.AnyEvent]) -> None:
    """Take back that a node has started, if that was the last thing said: it is scheduled, and that is all."""
    if isinstance(pending[-1], e.NodeStarted):
        pending.pop()


def without_starts(pending: list[e.AnyEvent], to_begin: Iterable[Command]) -> list[e.AnyEvent]:
    """The events but for the starts of nodes that have not begun."""
    names = {command.name for command in to_begin}
    return [event for event in pending if not (isinstance(event, e.NodeStarted) and event.node in names)]
