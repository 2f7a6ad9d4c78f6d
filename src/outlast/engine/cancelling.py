"""Cancelling a run: its code receives CancelledError where it waits, and has a limited time to clean up.

Code that issues no further command ends with the append that cancels the run. Otherwise the driver appends
CleanupStarted at the point where the code was cancelled, with the time by which the clean-up ends: a replay cancels the
code at the same point, and a crash does not extend the time. When the time is over, or after a forced cancellation, the
run ends at once.

Nodes that the code abandons are asked to stop, and have the grace time to end before the clean-up begins. Their results
within that time are in the log. Code without a clean-up is then replayed and receives these outcomes before it is
cancelled at its next wait: it may have a clean-up there, and a later branch from that point finds the nodes completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from outlast.engine.batch import Batch
from outlast.engine.terminal_events import has_cleanup
from outlast.errors import OutlastError
from outlast.execution.attempts import GRACE
from outlast.functions.code import Code
from outlast.functions.commands import CANCELLED, ChildCommand, Command, NodeCommand
from outlast.functions.decorators import Workflow
from outlast.functions.deliveries import decode_delivery
from outlast.functions.replay import Divergence, Replay
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import RunWriter
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus
from outlast.lifecycle.status import RunStatus

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver


async def cancel(driver: RunDriver, request: e.CancelRequested) -> None:
    """Carry out a cancellation: by the clean-up of the code, or at once if a clean-up is already running or not wanted."""
    code, span = driver.code, driver.code.workflow._spec.cleanup
    if request.force or code.is_cancelled:
        await end_now(driver, "stopped" if code.is_cancelled else "none")
        return
    driver.is_pausing, driver.pause = False, None  # the cancellation takes precedence over a pause
    driver.is_winding_down = driver.worker.is_draining
    delivered = driver.deliver_outcomes()
    driver.set_time()
    if code.main is None or code.is_done() or not span:
        await driver.attempts.stop_all(driver.open_node_commands())
        await end_now(driver, "none")
        return
    abandoned = _cancel_code(driver)
    nodes = [command for command in abandoned if isinstance(command, NodeCommand)]
    await driver.attempts.stop_all(nodes, min(GRACE, span))
    batch = driver.batch
    batch.drop_starts(command for command in batch.to_begin if command.key not in code.open)
    if has_cleanup(code):
        due = driver.time + round(span * 1e6)
        batch.pending.append(e.CleanupStarted(due=due, by=request.by, reason=request.reason))
        batch.call_after_commit(lambda: watch_deadline(driver))
        _close_abandoned(driver, abandoned, CANCELLED)
        _resume_deferred(driver)
    elif any(command in abandoned for command, _, _ in driver.outcomes):
        # Nodes ended while they were stopped: the code receives their outcomes before it is cancelled.
        driver.closed += [(command, CANCELLED) for command in abandoned]
        driver.batch, batch.pending, batch.delivered = Batch(), [], delivered
        await driver.discard_and_replay(batch)
        return
    else:
        _close_abandoned(driver, abandoned, decide.cut_short(request))
    await driver.commit(delivered=delivered)


async def end_now(driver: RunDriver, cleanup: decide.Cleanup) -> None:
    """End the run as cancelled without waiting for its code."""
    driver.is_stopping = True
    driver.deliver_outcomes()
    driver.set_time()
    ending = decide.cancelled(driver.writer.state, cleanup)
    driver.close_all(decide.cut_short(ending).message)
    await driver.commit(ending)


def _cancel_code(driver: RunDriver) -> list[Command]:
    """Cancel the code and return the commands that it abandons."""
    code = driver.code
    closing, code.close, code.to_close = list(code.to_close.values()), None, {}
    code.cancel()
    abandoned, code.close, code.to_close = [*closing, *code.to_close.values()], driver.close, {}
    return abandoned


def _close_abandoned(driver: RunDriver, abandoned: Iterable[Command], reason: e.Failure) -> None:
    """Append the outcomes of abandoned commands. A node that ended meanwhile keeps its own outcome."""
    ended = {command.key: event for command, event, _ in driver.outcomes if isinstance(command, NodeCommand)}
    for command in abandoned:
        if command.key in ended:
            driver.in_flight -= 1
            driver.batch.pending.append(ended[command.key])
        elif not _has_failed_in_log(driver, command):
            driver.close(command, reason)


def _has_failed_in_log(driver: RunDriver, command: Command) -> bool:
    """Whether the log has a failure of a node that was not resumed after a replay: the end of the run had cut it
    short."""
    if not isinstance(command, NodeCommand) or command not in driver.deferred:
        return False
    node = driver.writer.state.nodes.get(command.name)
    return node is not None and node.status is NodeStatus.FAILED


def _resume_deferred(driver: RunDriver) -> None:
    """Resume the commands that a replay found in the log and that the cancelled code still waits for."""
    deferred, driver.deferred = driver.deferred, ()
    for command in deferred:
        if driver.is_waiting_for(command):
            if isinstance(command, NodeCommand) and not command.is_waiting:
                driver.in_flight -= 1
            if command.resume(driver.writer.state, driver.batch.pending):
                driver.batch.to_begin.append(command)


# --- the time of the clean-up


def is_expired(driver: RunDriver) -> bool:
    """Whether the time of the clean-up is over."""
    outline = driver.writer.state.outline
    if outline.cleanup is None or outline.extends_cleanup or driver.is_stopping:
        return False
    return driver.clock() >= outline.cleanup.due


def extend(driver: RunDriver) -> None:
    """Give the clean-up its full time again, because the run was resumed during it."""
    first = driver.writer.state.outline.cleanup
    assert first is not None
    due = driver.time + round(driver.code.workflow._spec.cleanup * 1e6)
    driver.batch.pending.append(structs.replace(first, due=due, extended=True))
    driver.batch.call_after_commit(lambda: watch_deadline(driver))


def watch_deadline(driver: RunDriver) -> None:
    """Schedule the end of the clean-up at its deadline."""
    cleanup = driver.writer.state.outline.cleanup
    if cleanup is not None and not driver.is_over:
        driver.call_at_time(cleanup.due, driver.write_soon)


async def without_cleanup(
    writer: RunWriter, created: e.RunCreated, workflow: Workflow[..., object]
) -> list[RunId] | None:
    """The children that have to end before the run does, if its cancelled code ends without issuing another command.
    None if the code has a clean-up or does not replay here: then a worker that has the code must carry out the
    cancellation."""
    code = Code(writer.run, workflow)
    replay = Replay(code, created, writer)
    try:
        await replay.run()
        await _deliver_news(code, replay, writer)
        return _children_given_up(code)
    except (Divergence, OutlastError):
        return None
    finally:
        code.dismiss()


async def _deliver_news(code: Code, replay: Replay, writer: RunWriter) -> None:
    """Deliver to the code the entries that guests appended, as its driver would."""
    if writer.state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
        return
    for entry in replay.news:
        delivery = await decode_delivery(code, entry.event, writer.store.blobs)
        if delivery is not None:
            delivery()


def _children_given_up(code: Code) -> list[RunId] | None:
    if code.main is None or not code.workflow._spec.cleanup:
        return []
    if code.is_cancelled:
        return None
    code.cancel()
    children: list[RunId] = []
    while has_cleanup(code):
        abandoned = [
            command
            for command in code.open.values()
            if isinstance(command, ChildCommand) and command.is_cancel_requested
        ]
        if code.new_commands or not abandoned:
            return None
        for command in abandoned:
            children.append(command.child)
            if code.open.pop(command.key, None) is not None:
                code.resolve_cancelled(command)
    return children
