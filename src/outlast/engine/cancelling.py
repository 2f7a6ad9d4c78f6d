"""Cancelling a run: its code receives CancelledError where it waits, and has a limited time to clean up.

Code that asks for nothing more ends with the append that cancels the run. Otherwise CleanupStarted stands in the log where
the code was cancelled, and names the time by which its clean-up ends: a replay cancels the code at the same place, and a
crash does not extend the time. When it is over, or somebody cancels the run by force, the run ends at once.

Nodes that the code gives up are told to stop, and have the grace time to end, before its clean-up begins. What they complete
within it is in the log. Code without clean-up is replayed then and receives that outcome, before it is cancelled where it
waits next: it may have a clean-up there, and whoever goes back to that place later finds the work done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from outlast.engine import pausing
from outlast.engine.page import Brought
from outlast.engine.terminal_events import has_cleanup
from outlast.engine.writing import Writing
from outlast.execution.attempts import GRACE
from outlast.functions.commands import CANCELLED, Ask, NodeAsk
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus


class Cancelling(Writing):
    """The part of a driver that cancels."""

    __slots__ = ()

    async def _cancel(self, request: e.CancelRequested) -> None:
        """Obey a cancellation: by the code's clean-up, or at once if that is under way or not wanted."""
        code, span = self.code, self.code.workflow._spec.cleanup
        if request.force or code.is_cancelled:
            await self._end_at_once("stopped" if code.is_cancelled else "none")
            return
        self._take_back_pause()
        told = self._tell_brought()
        self._date()
        if code.main is None or code.is_done() or not span:
            await self.attempts.stop_all(self.nodes_open())
            await self._end_at_once("none")
            return
        given_up = self._give_up()
        await self.attempts.stop_all([ask for ask in given_up if isinstance(ask, NodeAsk)], min(GRACE, span))
        begins = [ask for ask in self._begins if ask.key not in code.open]
        self._facts = pausing.without_starts(self._facts, begins)
        self._pending = pausing.without_starts(self._pending, begins)
        if has_cleanup(code):
            due = self._time + round(span * 1e6)
            self._pending.append(e.CleanupStarted(due=due, by=request.by, reason=request.reason))
            self._then.append(self.watch_cleanup)
            self._close_given_up(given_up, CANCELLED)
            self._go_on_with_deferred()
        elif any(ask in given_up for ask, _, _ in self._brought):
            await self._cancel_later(told, given_up)
            return
        else:
            self._close_given_up(given_up, decide.cut_short(request))
        await self._commit(told=told)

    async def _cancel_later(self, told: Sequence[Brought], given_up: Sequence[Ask]) -> None:
        """Nodes ended while they were stopped. The code is replayed and receives their outcomes before it is cancelled."""
        self._closed += [(ask, CANCELLED) for ask in given_up]
        facts, begins, then = self._facts, self._begins, self._then
        self._facts, self._begins, self._then = [], [], []
        await self._take_back(told, facts, begins, then)

    async def _end_at_once(self, cleanup: decide.Cleanup) -> None:
        """End the run as cancelled, whatever its code waits for."""
        self._is_stopping = True
        self._tell_brought()
        self._date()
        ending = decide.cancelled(self.pen.state, cleanup)
        self._close_all(decide.cut_short(ending).message)
        await self._commit(ending)

    def _give_up(self) -> list[Ask]:
        """Cancel the code; returns what it no longer waits for."""
        code = self.code
        before, code.close, code.closing = list(code.closing.values()), None, {}
        code.cancel()
        given_up, code.close, code.closing = [*before, *code.closing.values()], self._close, {}
        return given_up

    def _close_given_up(self, asks: Iterable[Ask], reason: e.Failure) -> None:
        """Write the outcomes of what the code gave up: that of a node which ended meanwhile is its own."""
        ended = {ask.key: event for ask, event, _ in self._brought if isinstance(ask, NodeAsk)}
        for ask in asks:
            if ask.key in ended:
                self.in_flight -= 1
                self._pending.append(ended[ask.key])
            elif not self._is_over(ask):
                self._close(ask, reason)

    def _is_over(self, ask: Ask) -> bool:
        """Whether a node that did not go on after a replay has failed in the log: the end of the run had cut it short."""
        node = self.pen.state.nodes.get(ask.name) if ask in self._deferred and isinstance(ask, NodeAsk) else None
        return node is not None and node.status is NodeStatus.FAILED

    def _go_on_with_deferred(self) -> None:
        """What was found in the log and is still wanted by code that was cancelled goes on after all."""
        deferred, self._deferred = self._deferred, []
        for ask in deferred:
            if self.wants(ask):
                if isinstance(ask, NodeAsk) and not ask.is_waiting:
                    self.in_flight -= 1
                if ask.go_on(self.pen.state, self._pending):
                    self._begins.append(ask)

    def _take_back_pause(self) -> None:
        """A pause that has begun gives way to the cancellation."""
        self.is_pausing, self._pause = False, None
        self.is_winding_down = self.worker.is_draining

    def _extend_cleanup(self) -> None:
        """A person had the run go on amid its clean-up, which has the whole time again."""
        first = self.pen.state.outline.cleanup
        assert first is not None
        due = self._time + round(self.code.workflow._spec.cleanup * 1e6)
        self._pending.append(structs.replace(first, due=due, extended=True))
        self._then.append(self.watch_cleanup)

    def watch_cleanup(self) -> None:
        """See that the clean-up ends in time."""
        cleanup = self.pen.state.outline.cleanup
        if cleanup is not None and not self.is_over:
            self.at(cleanup.due, self._write_soon)
