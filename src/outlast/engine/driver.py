"""Drives one run of a durable function: from what its code asks to the log, and from outcomes back to the code.

A driver is made of parts, each over the one before: what is about to be written (`driver_state`), what becomes of
what was asked for
(`outcomes`), what others write (`request_handling`), how all of it comes to the log (`committing`), and here how a
run begins in this
process, goes on after a replay, and is given back.
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
"""Milliseconds that an engine which closes waits for an append that a troubled store does not take."""


class Driver(Cancelling):
    """One run in this process. A new one is begun by `start`; one that was taken over goes on by `resume`, after a
    replay."""

    __slots__ = ()

    # --- beginnings

    async def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a new run: its first append makes it. Returns when that has landed."""
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
        """After a replay: what the code asked for and the log does not have begins, what was open goes on. Attempts that are
        `running` here already are those of the nodes that are found open."""
        state, code = self.writer.state, self.code
        version = await self.worker.definitions.keep(code.workflow)
        self.adoptable = await result_reuse.adoptable_by(self.writer)
        self._go_live()
        self._set_time()
        if state.outline.version != version:
            self._pending.append(
                e.VersionChanged(
                    version=version, previous=state.outline.version, reason="it replayed without a difference"
                )
            )
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
        self._schedule_commands()  # a branch may have been cut between an outcome and what the code asked for then
        self._has_news = True  # what came between the takeover and now was announced to nobody
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
        """Obey in a run that stands still: until it goes on, its code is told of nothing."""
        self._is_writing = True
        try:
            await self._handle_request(request)
        finally:
            self._is_writing = False

    def _resume_commands(self, known: Iterable[Command], running: Mapping[str, NodeCommand], *, defer: bool) -> None:
        """What the code waits for goes on, or is put off."""
        state = self.writer.state
        for command in known:
            command.driver = self
            if isinstance(command, NodeCommand) and command.key in running:
                self.code.open[command.key] = own = running[command.key]
                own.adopt_future(command)
                self.in_flight += 1
            elif defer:
                self._deferred.append(command)
                if isinstance(command, NodeCommand):
                    command.restore(state)
            elif command.resume(state, self._pending):
                self._to_begin.append(command)

    async def _restart_code(self, delivered: Sequence[CommandOutcome]) -> None:
        """A fresh copy of the code is told what the log holds; attempts go on, and what they brought is told after that.
        Timers that have fired do so again."""
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
        left = {
            command.key: command
            for command in (
                *(command for command, _, _ in delivered),
                *(command for command, _ in self._closed),
                *old.open.values(),
            )
        }
        running = {
            key: command
            for key, command in left.items()
            if isinstance(command, NodeCommand)
            and (command.task is not None or id(command) in has_ended)
            and key in code.open
        }
        for key, command in left.items():
            if key not in running:
                command.release()
        self.code, self.in_flight, self._is_stopping, self._is_watched = code, 0, False, False
        self._pending, self._to_begin, self._closed, self._deferred = [], [], [], []
        old.dismiss()
        await self.resume(replay.news, replay.args, replay.kwargs, running)

    def _unrepeatable_node(self, node_commands: list[Command]) -> str:
        """The name of a node that somebody began, did not finish, and that must not simply be begun again."""
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

    # --- requests, pauses and rests

    async def _handle_request(self, request: Request) -> None:
        """Begin to pause or to cancel the run, or stop its nodes and go back. What nodes complete meanwhile is kept."""
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
        """Its nodes have stopped: say so, and leave the run. If one of them must not simply be done again, it is held. A run
        that was cancelled meanwhile is not paused."""
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
        """Whether it only waits for others, or for a time that is not near."""
        is_busy = self._is_writing or self._is_watched or self.in_flight or self.starting or self.is_winding_down
        return not (is_busy or self._has_more() or self._is_due_soon())

    async def release_if_idle(self) -> None:
        """Give the run back while it waits, if it still does: whoever saw it idle may have looked at others since."""
        if self.is_over or not self.is_idle:
            return
        self._is_writing = True
        try:
            if await self.writer.release():
                self.leave()
        except Fenced:
            self.leave()
        except StoreError as error:
            log.warning("run %s could not be given back: %s", self.run, error)
        finally:
            self._is_writing = False
        if self._has_more():
            self._write_soon()

    async def stop(self) -> None:
        """Let nothing more begin, and wait until nothing is being written."""
        self.wind_down()
        for _ in range(CLOSE_TIMEOUT_MS):  # once, at the end of an engine: not worth an event at every append
            if not self._is_writing:
                break
            await asyncio.sleep(0.001)
