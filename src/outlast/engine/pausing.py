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

from outlast.engine import result_reuse
from outlast.functions.commands import Command, NodeCommand
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver
    from outlast.engine.worker import Worker


def begin(driver: RunDriver, request: e.PauseRequested) -> None:
    """Begin to pause a run. A second request changes nothing."""
    if not driver.is_pausing:
        driver.is_pausing = True
        driver.wind_down()
        driver.worker.spawn(_pause(driver, request))


async def _pause(driver: RunDriver, request: e.PauseRequested) -> None:
    """Append RunPaused once the nodes have stopped, and leave the run. The run is held instead if a stopped node must
    not be repeated automatically. A run that was cancelled meanwhile is not paused."""
    await wait_for_nodes([driver])
    if driver.is_over or not driver.is_pausing:
        return
    has_ended = {id(command) for command, _, _ in driver.outcomes}
    interrupted = unrepeatable_node(driver, (each for each in driver.code.open.values() if id(each) not in has_ended))
    driver.pause = decide.not_repeated(interrupted, "stopped by a pause") if interrupted else decide.paused(request)
    driver.set_time()
    await driver.write()


async def drain(worker: Worker) -> None:
    """Adopt no more runs, begin no more nodes, and wait for running nodes. Other workers claim the runs afterwards."""
    worker.is_draining = True
    await worker.wait_for_takeovers()
    winding = [driver for driver in worker.drivers.values() if not driver.is_pausing]
    for driver in winding:
        driver.wind_down()
    await wait_for_nodes(winding)


def top_level_runs(worker: Worker) -> list[RunDriver]:
    """The drivers of runs whose parent is not advanced by this worker."""
    return [driver for driver in worker.drivers.values() if driver.created.parent not in worker.drivers]


async def wait_for_nodes(drivers: Sequence[RunDriver]) -> None:
    """Wait until no node is running. Nodes that do not end within the grace time are stopped."""
    tasks = [command.task for driver in drivers for command in driver.open_node_commands() if command.task is not None]
    if not tasks:
        return
    await asyncio.wait(tasks, timeout=drivers[0].worker.settings.grace)
    await asyncio.gather(*(each.attempts.stop_all(each.open_node_commands()) for each in drivers if not each.is_over))


def unrepeatable_node(driver: RunDriver, commands: Iterable[Command]) -> str:
    """The name of a node that was started, has no outcome, and must not be repeated automatically; empty if there is
    none."""
    for command in commands:
        node = driver.writer.state.nodes.get(command.name) if isinstance(command, NodeCommand) else None
        if node is None or node.status is not NodeStatus.STARTED or node.is_repeatable:
            continue
        if isinstance(command, NodeCommand) and result_reuse.reusable_result(driver, command, node) is None:
            return command.name
    return ""
