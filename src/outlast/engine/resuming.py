"""Continues a run after a replay: after a takeover, or because its code received entries in another order than the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from outlast.engine import cancelling, inbox, result_reuse
from outlast.engine.batch import CommandOutcome
from outlast.engine.pausing import unrepeatable_node
from outlast.errors import StoreError
from outlast.functions.code import Code
from outlast.functions.commands import Command, NodeCommand
from outlast.functions.replay import Replay
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.requests import Request
from outlast.lifecycle.status import RunStatus

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver

NONE_RUNNING: Mapping[str, NodeCommand] = MappingProxyType({})


async def resume(driver: RunDriver, replay: Replay, running: Mapping[str, NodeCommand] = NONE_RUNNING) -> None:
    """Begin the commands that the log does not have, and resume those that it has open. `running` are attempts of open
    nodes that already run in this process."""
    state, code = driver.writer.state, driver.code
    version = await driver.worker.definitions.keep(code.workflow)
    driver.adoptable = await result_reuse.adoptable_by(driver.writer)
    driver.go_live()
    driver.set_time()
    if state.outline.version != version:
        reason = "the code replayed without divergence"
        driver.batch.pending.append(e.VersionChanged(version=version, previous=state.outline.version, reason=reason))
    request = decide.next_request(state)
    ends = isinstance(request, e.CancelRequested) or (code.is_cancelled and cancelling.is_expired(driver))
    if code.main is None and not ends:
        driver.batch.pending.append(e.RunStarted())
        code.begin(replay.args, replay.kwargs)
    known = [command for key, command in code.open.items() if key not in code.new_commands]
    interrupted = "" if ends else unrepeatable_node(driver, (each for each in known if each.key not in running))
    if interrupted:
        await driver.hold(decide.not_repeated(interrupted).error, interrupted)
        return
    _resume_commands(driver, known, running, defer=ends)
    closing, code.to_close = code.to_close, {}
    for command in closing.values():
        command.driver = driver
        if isinstance(command, NodeCommand):
            command.restore(state)
        driver.close(command)
    driver.schedule_commands()  # a branch may begin between an outcome and the commands that followed from it
    if driver.writer.has_missed_news:  # since the takeover
        driver.has_news, driver.writer.has_missed_news = True, False
    driver.writer.arrived.extendleft(reversed(list(replay.news)))
    if state.outline.extends_cleanup:
        cancelling.extend(driver)
    elif code.is_cancelled:
        cancelling.watch_deadline(driver)
    driver.watch_continuation()
    if request is not None and ends and state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
        await _carry_out_first(driver, request)
    await driver.write()


async def _carry_out_first(driver: RunDriver, request: Request) -> None:
    """Carry out a request in a paused or failed run, whose code receives nothing until the run continues."""
    driver.is_writing = True
    try:
        await inbox.carry_out(driver, request)
    finally:
        driver.is_writing = False


def _resume_commands(
    driver: RunDriver, known: Iterable[Command], running: Mapping[str, NodeCommand], *, defer: bool
) -> None:
    """Resume the open commands of the code, or defer them."""
    state, deferred = driver.writer.state, list[Command]()
    for command in known:
        command.driver = driver
        if isinstance(command, NodeCommand) and command.key in running:
            driver.code.open[command.key] = live = running[command.key]
            live.adopt_future(command)
            driver.in_flight += 1
        elif defer:
            deferred.append(command)
            if isinstance(command, NodeCommand):
                command.restore(state)
        elif command.resume(state, driver.batch.pending):
            driver.batch.to_begin.append(command)
    driver.deferred = [*driver.deferred, *deferred]


async def restart_code(driver: RunDriver, delivered: Sequence[CommandOutcome]) -> None:
    """Replay the log with a fresh copy of the code, without stopping attempts; their outcomes are delivered after the
    replay. Timers that have fired fire again."""
    old = driver.code
    while True:
        code = Code(driver.run, old.workflow, driver.worker.context)
        replay = Replay(code, driver.created, driver.writer)
        try:
            await replay.run()
            break
        except StoreError as error:
            await driver.worker.wait_for_store(driver.run, error, 0.5)
    if driver.is_over:
        code.dismiss()
        return
    driver.outcomes[:0] = [each for each in delivered if isinstance(each[0], NodeCommand)]
    has_ended = {id(command) for command, _, _ in driver.outcomes}
    released = [command for command, _, _ in delivered] + [command for command, _ in driver.closed]
    running: dict[str, NodeCommand] = {}
    for key, command in {command.key: command for command in (*released, *old.open.values())}.items():
        has_outcome = id(command) in has_ended
        if isinstance(command, NodeCommand) and key in code.open and (command.task is not None or has_outcome):
            running[key] = command
        else:
            command.release()
    driver.code, driver.in_flight, driver.is_stopping, driver.is_watched = code, 0, False, False
    driver.batch.pending, driver.batch.to_begin, driver.closed, driver.deferred = [], [], [], ()
    old.dismiss()
    await resume(driver, replay, running)
