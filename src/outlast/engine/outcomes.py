"""Schedules the commands of the code, and delivers their outcomes to it.

The code receives outcomes one at a time, in the order of the log, so that a replay takes the code along the same path.
Outcomes of nodes and timers wait until the code has received all entries of guests, and are delivered right before the
append that records them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from typing import Any

from outlast.engine import children, pausing
from outlast.engine.driver_state import CommandOutcome, DriverState
from outlast.engine.terminal_events import Ending
from outlast.errors import CRASH_LIMIT, NODE_INTERRUPTED, RUN_ENDED, Fenced
from outlast.functions.commands import CANCELLED, ChildCommand, Command, NodeCommand, Note, TimerCommand
from outlast.history import events as e
from outlast.lifecycle import decide

_chance = random.SystemRandom().random  # independent of a seed that user code sets

MAX_SLEEP_S = 60.0
"""Seconds between two reads of the clock, however distant a time is: the clock may be set, or the machine may sleep,
and the loop's own clock does not notice."""


class OutcomeHandling(DriverState):
    """Adds scheduling and outcomes to a driver. Commands and attempts call it."""

    __slots__ = ()

    def _schedule_commands(self) -> None:
        """Turn the new commands of the code into pending events."""
        fresh, pending = self.code.new_commands, self._pending
        for command in fresh.values():
            command.schedule(pending)
            kind = type(command)
            if kind is not Note:
                command.driver = self
                if self.is_winding_down or self._is_stopping:
                    pausing.drop_start(pending)
                else:
                    self._to_begin.append(command)
                if kind is NodeCommand:
                    self.in_flight += 1
        fresh.clear()

    def _close(self, command: Command, reason: e.Failure = CANCELLED) -> None:
        command.driver = self
        self._set_time()
        command.close(self._pending, reason)
        self._closed.append((command, reason))

    def _stop_closed(self) -> None:
        """Stop abandoned commands. Only now is their end durable: until then a replay might still need them."""
        closed, self._closed = self._closed, []
        for command, reason in closed:
            command.on_close_committed(reason)

    def _close_all(self, reason: str) -> None:
        cut_short = e.Failure(RUN_ENDED, reason, category="cancelled")
        code = self.code
        for key, command in list(code.open.items()):
            if key not in code.new_commands:
                self._close(command, cut_short)
        code.open.clear()
        code.new_commands.clear()

    def open_node_commands(self) -> list[NodeCommand]:
        """The nodes that the code waits for."""
        return [command for command in self.code.open.values() if isinstance(command, NodeCommand)]

    def is_waiting_for(self, command: Command) -> bool:
        """Whether the code of this driver still waits for a command."""
        return not self.is_over and self.code.open.get(command.key) is command

    # --- nodes and timers

    def completed(
        self, command: NodeCommand, attempt: int, output: e.Value, value: Any, ms: float, adopted: int = 0
    ) -> None:
        """An attempt returned a result, or a result of another branch is reused. The caller must call `write`."""
        if not self.is_over and command.attempt == attempt:
            completed = e.NodeCompleted(node=command.name, attempt=attempt, output=output, ms=ms, adopted=adopted)
            self._outcomes.append((command, completed, value))

    def failed(self, command: NodeCommand, attempt: int, failure: e.Failure, ms: float) -> None:
        """An attempt failed: its retry policy applies, or the code receives the failure. The caller must call `write`."""
        if not self.is_over and command.attempt == attempt:
            self._outcomes.append(
                (command, e.NodeFailed(node=command.name, attempt=attempt, error=failure, ms=ms), None)
            )

    def _deliver_outcomes(self) -> list[CommandOutcome]:
        """Deliver outcomes of nodes and timers, one by one, to code that still waits for them; return those that were
        delivered."""
        code = self.code
        delivered: list[CommandOutcome] = []
        outcomes, self._outcomes = self._outcomes, []
        for each in outcomes:
            command, event, value = each
            if code.open.get(command.key) is not command:
                continue
            self._set_time()
            if type(event) is e.NodeFailed and self._schedule_retry(command, event):
                continue
            delivered.append(each)
            del code.open[command.key]
            self._pending.append(event)
            if type(event) is e.NodeCompleted:
                self.in_flight -= 1
                code.resolve(command, value)
            elif type(event) is e.NodeFailed:
                code.resolve_failure(command, event.error)
            else:
                code.resolve_timer(command)  # type: ignore[arg-type]  # only a timer fires
            if code.new_commands:
                self._schedule_commands()
        return delivered

    def _schedule_retry(self, command: Command, failed: e.NodeFailed) -> bool:
        """Whether the retry policy of a failed node allows another attempt, which is then scheduled."""
        assert isinstance(command, NodeCommand)
        self.in_flight -= 1
        state, now, chance = self.writer.state, self._time, _chance()
        events = decide.fail_node(
            state, command.name, failed.error, command.spec.retry, now=now, chance=chance, ms=failed.ms
        )
        due = next((event.retry_at for event in events if isinstance(event, e.NodeFailed)), None)
        if due is None:
            return False
        self._facts += events
        command.is_waiting = True
        self._after_commit.append(lambda: command.wait_for_retry(due) if self.is_waiting_for(command) else None)
        return True

    async def crashed(self, command: NodeCommand, attempt: int, what: str) -> None:
        """The helper process of an attempt died: begin another attempt, or after too many crashes hold the run."""
        if self.is_over or self.is_winding_down or command.attempt != attempt or command.key not in self.code.open:
            return
        node = self.writer.state.nodes.get(command.name)
        is_limit_reached = node is not None and node.crashes + 1 >= decide.CRASHES_BEFORE_HOLD
        if is_limit_reached or not command.spec.repeatable:
            why, code = "; the node must not be repeated automatically", NODE_INTERRUPTED
            if is_limit_reached:
                why, code = f", {decide.CRASHES_BEFORE_HOLD} times", CRASH_LIMIT
            await self.hold(e.Failure(code, f"node {command.name}: {what}{why}", category="crash"), command.name)
            return
        self._set_time()
        command.attempt += 1
        self._facts += (e.NodeScheduled(node=command.name, attempt=command.attempt, cause="crash"), command.started())
        self._to_begin.append(command)
        await self.write()

    def fired(self, command: TimerCommand) -> None:
        """The time of a timer has come."""
        if not self._is_stopping and self.is_waiting_for(command):
            self._outcomes.append((command, e.TimerFired(timer=command.name), None))
            self._write_soon()

    async def record(self, event: e.AnyEvent) -> None:
        """Append an event about a running node, and return when it is durable. A separate task writes, because the node
        may be stopped meanwhile; the append is shared with other events."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.is_over:
            self._set_time()
            self._facts.append(event)
            self._after_commit.append(lambda: None if durable.done() else durable.set_result(None))
            self._write_soon()
            ended = self.ended()
            either: list[asyncio.Future[Any]] = [durable, ended]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiters.remove(ended)
        if not durable.done():
            raise Fenced(f"this worker does not drive run {self.run} any more")

    def schedule_later(self, events: list[e.AnyEvent], command: Command) -> None:
        """Append events that follow from no outcome; `command` begins when they are durable."""
        if self.is_over or self._is_stopping:
            return
        self._set_time()
        self._facts += events
        self._to_begin.append(command)
        self._write_soon()

    # --- time and children

    def call_at_time(self, due: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call at a time of the ledger's clock, on the engine's loop."""
        delay = max(0, due - self.worker.ledger.clock()) / 1e6
        return self.worker.loop.call_later(min(delay, MAX_SLEEP_S), self._when_due, due, call, context=Context())

    def _when_due(self, due: int, call: Callable[[], None]) -> None:
        if self.is_over:
            return
        if self.worker.ledger.clock() < due:
            self.call_at_time(due, call)
        else:
            call()

    def start_child(self, command: ChildCommand, *, again: bool = False) -> None:
        self.starting += 1  # before the task first runs: the run must not be released until then
        self.worker.spawn(children.start(self.worker, self, command, again=again))

    async def children_started(self) -> None:
        """Wait until no child is being created."""
        while self.starting and not self.worker.is_closing:  # noqa: ASYNC110 - rare and short
            await asyncio.sleep(0.002)

    def cancel_child(self, command: ChildCommand) -> None:
        self.worker.spawn(children.cancel(self.worker, self, command.child))

    # --- the run

    def ended(self) -> asyncio.Future[Ending | None]:
        """A future of the terminal event; None if this process stops driving the run before it ends."""
        waiter: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        if self.is_over:
            waiter.set_result(None)
        else:
            while self._waiters and self._waiters[-1].cancelled():  # left by a caller that waits repeatedly
                self._waiters.pop()
            self._waiters.append(waiter)
        return waiter
