"""Drives one run of a durable function: appends what its code requests, and delivers outcomes to the code.

A driver is built from classes, each derived from the one before: the state of the next append (`driver_state`),
outcomes of commands (`outcomes`), entries of guests (`request_handling`), appends (`committing`), cancellation
(`cancelling`), and here the start of a run in this process, its resumption after a replay, and its release.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from outlast.engine import pausing, result_reuse
from outlast.engine.cancelling import Cancelling
from outlast.engine.driver_state import CommandOutcome
from outlast.errors import Fenced, StoreError
from outlast.functions.code import Code
from outlast.functions.commands import Command, NodeCommand
from outlast.functions.replay import Replay
from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle import decide
from outlast.lifecycle.requests import Request
from outlast.lifecycle.state import NodeStatus
from outlast.lifecycle.status import RunStatus

log = logging.getLogger("outlast.engine")

NONE_RUNNING: Mapping[str, NodeCommand] = MappingProxyType({})
CLOSE_TIMEOUT_MS = 2_000
"""Milliseconds that a closing engine waits for an append that a failing store does not take."""


class Driver(Cancelling):
    """One run in this process. `start` begins a new run; `resume` continues a run after a takeover and a replay."""

    __slots__ = ()

    async def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a new run with its first append. Returns when that is durable."""
        self._go_live()
        self._set_time()
        self._pending += (self.created, e.RunStarted())
        self.code.begin(args, kwargs)
        self._is_writing = True
        try:
            await self._commit()
        except BaseException:
            self.leave()
            raise
        finally:
            self._is_writing = False
        if self._has_more():
            self._write_soon()

    async def resume(
        self,
        news: Iterable[Entry],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        running: Mapping[str, NodeCommand] = NONE_RUNNING,
    ) -> None:
        """Continue after a replay: begin the commands that the log does not have, and resume those that it has open.
        `running` are attempts of open nodes that already run in this process."""
        state, code = self.writer.state, self.code
        version = await self.worker.definitions.keep(code.workflow)
        self.adoptable = await result_reuse.adoptable_by(self.writer)
        self._go_live()
        self._set_time()
        if state.outline.version != version:
            reason = "the code replayed without divergence"
            self._pending.append(e.VersionChanged(version=version, previous=state.outline.version, reason=reason))
        request = decide.next_request(state)
        ends = isinstance(request, e.CancelRequested) or (code.is_cancelled and self._cleanup_expired())
        if code.main is None and not ends:
            self._pending.append(e.RunStarted())
            code.begin(args, kwargs)
        known = [command for key, command in code.open.items() if key not in code.new_commands]
        interrupted = (
            "" if ends else self._unrepeatable_node([command for command in known if command.key not in running])
        )
        if interrupted:
            await self.hold(decide.not_repeated(interrupted).error, interrupted)
            return
        self._resume_commands(known, running, defer=ends)
        closing, code.to_close = code.to_close, {}
        for command in closing.values():
            command.driver = self
            if isinstance(command, NodeCommand):
                command.restore(state)
            self._close(command)
        self._schedule_commands()  # a branch may begin between an outcome and the commands that followed from it
        self._has_news = True  # entries since the takeover were not announced to this driver
        self.writer.arrived.extendleft(reversed(list(news)))
        if state.outline.extends_cleanup:
            self._extend_cleanup()
        elif code.is_cancelled:
            self.watch_cleanup()
        self._watch_continuation()
        if request is not None and ends and state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
            await self._handle_first_request(request)
        await self.write()

    async def _handle_first_request(self, request: Request) -> None:
        """Carry out a request in a paused or failed run, whose code receives nothing until the run continues."""
        self._is_writing = True
        try:
            await self._handle_request(request)
        finally:
            self._is_writing = False

    def _resume_commands(self, known: Iterable[Command], running: Mapping[str, NodeCommand], *, defer: bool) -> None:
        """Resume the open commands of the code, or defer them."""
        state = self.writer.state
        for command in known:
            command.driver = self
            if isinstance(command, NodeCommand) and command.key in running:
                self.code.open[command.key] = live = running[command.key]
                live.adopt_future(command)
                self.in_flight += 1
            elif defer:
                self._deferred.append(command)
                if isinstance(command, NodeCommand):
                    command.restore(state)
            elif command.resume(state, self._pending):
                self._to_begin.append(command)

    async def _restart_code(self, delivered: Sequence[CommandOutcome]) -> None:
        """Replay the log with a fresh copy of the code, without stopping attempts; their outcomes are delivered after
        the replay. Timers that have fired fire again."""
        old = self.code
        while True:
            code = Code(self.run, old.workflow, self.worker.context)
            replay = Replay(code, self.created, self.writer)
            try:
                await replay.run()
                break
            except StoreError as error:
                await self.worker.wait_for_store(self.run, error, 0.5)
        if self.is_over:
            code.dismiss()
            return
        self._outcomes[:0] = [each for each in delivered if isinstance(each[0], NodeCommand)]
        has_ended = {id(command) for command, _, _ in self._outcomes}
        released = [command for command, _, _ in delivered] + [command for command, _ in self._closed]
        running: dict[str, NodeCommand] = {}
        for key, command in {command.key: command for command in (*released, *old.open.values())}.items():
            has_outcome = id(command) in has_ended
            if isinstance(command, NodeCommand) and key in code.open and (command.task is not None or has_outcome):
                running[key] = command
            else:
                command.release()
        self.code, self.in_flight, self._is_stopping, self._is_watched = code, 0, False, False
        self._pending, self._to_begin, self._closed, self._deferred = [], [], [], []
        old.dismiss()
        await self.resume(replay.news, replay.args, replay.kwargs, running)

    def _unrepeatable_node(self, node_commands: list[Command]) -> str:
        """The name of a node that was started, has no outcome, and must not be repeated automatically; empty if there
        is none."""
        for command in node_commands:
            node = self.writer.state.nodes.get(command.name) if isinstance(command, NodeCommand) else None
            if node is None or node.status is not NodeStatus.STARTED or node.is_repeatable:
                continue
            if isinstance(command, NodeCommand) and result_reuse.reusable_result(self, command, node) is None:
                return command.name
        return ""

    def _go_live(self) -> None:
        self.writer.news = self.on_news
        self.code.close = self._close
        self.code.silencer.on = False
        self.code.on_progress = self._show_progress
        if self.code.progress is not None:
            self._show_progress(self.code.progress)

    def _show_progress(self, progress: dict[str, Any]) -> None:
        worker = self.worker
        worker.loop.call_soon_threadsafe(worker.progress.update, self.run, progress)

    # --- requests, pauses and releases

    async def _handle_request(self, request: Request) -> None:
        """Begin to pause or to cancel the run; for a jump, stop its nodes and hand the run over. Results of nodes that
        end meanwhile are recorded."""
        if isinstance(request, e.PauseRequested):
            pausing.begin(self, request)
            return
        if isinstance(request, e.CancelRequested):
            await self._cancel(request)
            return
        self._is_stopping = True
        await self.attempts.stop_all(self.open_node_commands())
        self._deliver_outcomes()
        self._set_time()
        await self._hand_over_for_branch()

    async def pause(self, request: e.PauseRequested) -> None:
        """Append RunPaused once the nodes have stopped, and leave the run. The run is held instead if a stopped node
        must not be repeated automatically. A run that was cancelled meanwhile is not paused."""
        if not self.is_pausing:
            return
        has_ended = {id(command) for command, _, _ in self._outcomes}
        interrupted = self._unrepeatable_node(
            [command for command in self.code.open.values() if id(command) not in has_ended]
        )
        self._pause = decide.not_repeated(interrupted, "stopped by a pause") if interrupted else decide.paused(request)
        self._set_time()
        await self.write()

    @property
    def is_idle(self) -> bool:
        """Whether the run only waits for others, or for a distant time."""
        is_busy = self._is_writing or self._is_watched or self.in_flight or self.starting or self.is_winding_down
        return not (is_busy or self._has_more() or self._is_due_soon())

    async def release_if_idle(self) -> None:
        """Release the run if it is still idle."""
        if self.is_over or not self.is_idle:
            return
        self._is_writing = True
        try:
            if await self.writer.release():
                self.leave()
        except Fenced:
            self.leave()
        except StoreError as error:
            log.warning("run %s could not be released: %s", self.run, error)
        finally:
            self._is_writing = False
        if self._has_more():
            self._write_soon()

    async def stop(self) -> None:
        """Begin nothing more, and wait until no append is under way."""
        self.wind_down()
        for _ in range(CLOSE_TIMEOUT_MS):  # polled: an event at every append would cost more than this rare wait
            if not self._is_writing:
                break
            await asyncio.sleep(0.001)
