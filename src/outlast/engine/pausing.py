"""Pauses runs, and winds down the runs of a worker that stops.

A run that winds down is still driven: the code receives outcomes, they are appended, and the commands that follow are
appended as scheduled but do not begin. So a replay of the log needs no special case. Running nodes have the grace time
to end or to reach a checkpoint, where they stop; the remaining ones are cancelled. The result of a node that was asked
to stop does not count: it gets another attempt when the run resumes.

A node that must not be repeated does not stop at a checkpoint. If the pause has to cancel it, the run is held instead
of paused.
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
    """Begin to pause a run. A second request changes nothing."""
    if not driver.is_pausing:
        driver.is_pausing = True
        driver.wind_down()
        driver.worker.spawn(_pause(driver, request))


async def _pause(driver: Driver, request: e.PauseRequested) -> None:
    await wait_for_nodes([driver])
    if not driver.is_over:
        await driver.pause(request)


async def drain(worker: Worker) -> None:
    """Adopt no more runs, begin no more nodes, and wait for running nodes. Other workers claim the runs afterwards."""
    worker.is_draining = True
    await worker.wait_for_takeovers()
    winding = [driver for driver in worker.drivers.values() if not driver.is_pausing]
    for driver in winding:
        driver.wind_down()
    await wait_for_nodes(winding)


def top_level_runs(worker: Worker) -> list[Driver]:
    """The drivers of runs whose parent is not advanced by this worker."""
    return [driver for driver in worker.drivers.values() if driver.created.parent not in worker.drivers]


async def wait_for_nodes(drivers: Sequence[Driver]) -> None:
    """Wait until no node is running. Nodes that do not end within the grace time are stopped."""
    tasks = [command.task for driver in drivers for command in driver.open_node_commands() if command.task is not None]
    if not tasks:
        return
    await asyncio.wait(tasks, timeout=drivers[0].worker.grace)
    await asyncio.gather(*(each.attempts.stop_all(each.open_node_commands()) for each in drivers if not each.is_over))


def drop_start(pending: list[e.AnyEvent]) -> None:
    """Remove the last event if it starts a node, which then is only scheduled."""
    if isinstance(pending[-1], e.NodeStarted):
        pending.pop()


def without_starts(pending: list[e.AnyEvent], to_begin: Iterable[Command]) -> list[e.AnyEvent]:
    """The events without the starts of nodes that have not begun."""
    names = {command.name for command in to_begin}
    return [event for event in pending if not (isinstance(event, e.NodeStarted) and event.node in names)]
