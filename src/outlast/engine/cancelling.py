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

from collections.abc import Iterable, Sequence

from msgspec import structs

from outlast.engine import pausing
from outlast.engine.committing import Committing
from outlast.engine.driver_state import CommandOutcome
from outlast.engine.terminal_events import has_cleanup
from outlast.execution.attempts import GRACE
from outlast.functions.commands import CANCELLED, Command, NodeCommand
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus


class Cancelling(Committing):
    """Adds cancellation to a driver."""

    __slots__ = ()

    async def _cancel(self, request: e.CancelRequested) -> None:
        """Carry out a cancellation: by the clean-up of the code, or at once if a clean-up is already running or not
        wanted."""
        code, span = self.code, self.code.workflow._spec.cleanup
        if request.force or code.is_cancelled:
            await self._end_now("stopped" if code.is_cancelled else "none")
            return
        self._revoke_pause()
        delivered = self._deliver_outcomes()
        self._set_time()
        if code.main is None or code.is_done() or not span:
            await self.attempts.stop_all(self.open_node_commands())
            await self._end_now("none")
            return
        abandoned = self._cancel_code()
        await self.attempts.stop_all(
            [command for command in abandoned if isinstance(command, NodeCommand)], min(GRACE, span)
        )
        to_begin = [command for command in self._to_begin if command.key not in code.open]
        self._facts = pausing.without_starts(self._facts, to_begin)
        self._pending = pausing.without_starts(self._pending, to_begin)
        if has_cleanup(code):
            due = self._time + round(span * 1e6)
            self._pending.append(e.CleanupStarted(due=due, by=request.by, reason=request.reason))
            self._after_commit.append(self.watch_cleanup)
            self._close_abandoned(abandoned, CANCELLED)
            self._resume_deferred()
        elif any(command in abandoned for command, _, _ in self._outcomes):
            await self._replay_before_cancelling(delivered, abandoned)
            return
        else:
            self._close_abandoned(abandoned, decide.cut_short(request))
        await self._commit(delivered=delivered)

    async def _replay_before_cancelling(
        self, delivered: Sequence[CommandOutcome], abandoned: Sequence[Command]
    ) -> None:
        """Nodes ended while they were stopped: replay the code, so that it receives their outcomes before it is
        cancelled."""
        self._closed += [(command, CANCELLED) for command in abandoned]
        facts, to_begin, after_commit = self._facts, self._to_begin, self._after_commit
        self._facts, self._to_begin, self._after_commit = [], [], []
        await self._discard_and_replay(delivered, facts, to_begin, after_commit)

    async def _end_now(self, cleanup: decide.Cleanup) -> None:
        """End the run as cancelled without waiting for its code."""
        self._is_stopping = True
        self._deliver_outcomes()
        self._set_time()
        ending = decide.cancelled(self.writer.state, cleanup)
        self._close_all(decide.cut_short(ending).message)
        await self._commit(ending)

    def _cancel_code(self) -> list[Command]:
        """Cancel the code and return the commands that it abandons."""
        code = self.code
        closing, code.close, code.to_close = list(code.to_close.values()), None, {}
        code.cancel()
        abandoned, code.close, code.to_close = [*closing, *code.to_close.values()], self._close, {}
        return abandoned

    def _close_abandoned(self, node_commands: Iterable[Command], reason: e.Failure) -> None:
        """Append the outcomes of abandoned commands. A node that ended meanwhile keeps its own outcome."""
        ended = {command.key: event for command, event, _ in self._outcomes if isinstance(command, NodeCommand)}
        for command in node_commands:
            if command.key in ended:
                self.in_flight -= 1
                self._pending.append(ended[command.key])
            elif not self._has_failed_in_log(command):
                self._close(command, reason)

    def _has_failed_in_log(self, command: Command) -> bool:
        """Whether the log has a failure of a node that was not resumed after a replay: the end of the run had cut it
        short."""
        if not isinstance(command, NodeCommand) or command not in self._deferred:
            return False
        node = self.writer.state.nodes.get(command.name)
        return node is not None and node.status is NodeStatus.FAILED

    def _resume_deferred(self) -> None:
        """Resume the commands that a replay found in the log and that the cancelled code still waits for."""
        deferred, self._deferred = self._deferred, []
        for command in deferred:
            if self.is_waiting_for(command):
                if isinstance(command, NodeCommand) and not command.is_waiting:
                    self.in_flight -= 1
                if command.resume(self.writer.state, self._pending):
                    self._to_begin.append(command)

    def _revoke_pause(self) -> None:
        """End a pause that has begun: the cancellation takes precedence."""
        self.is_pausing, self._pause = False, None
        self.is_winding_down = self.worker.is_draining

    def _extend_cleanup(self) -> None:
        """Give the clean-up its full time again, because the run was resumed during it."""
        first = self.writer.state.outline.cleanup
        assert first is not None
        due = self._time + round(self.code.workflow._spec.cleanup * 1e6)
        self._pending.append(structs.replace(first, due=due, extended=True))
        self._after_commit.append(self.watch_cleanup)

    def watch_cleanup(self) -> None:
        """Schedule the end of the clean-up at its deadline."""
        cleanup = self.writer.state.outline.cleanup
        if cleanup is not None and not self.is_over:
            self.call_at_time(cleanup.due, self._write_soon)
