"""What becomes of what the code asked for: it is put into words, and its outcome is told to the code.

Outcomes are told one at a time, in the order in which they stand in the log, so that a replay of the log takes the code the
same way. What nodes and timers bring is kept until the code has been told all that others wrote, and is then told right
before the append that says so.
"""

from __future__ import annotations

import asyncio
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

MAX_SLEEP_S = 60.0
"""Seconds after which the clock is looked at again, however far off a time is: it may have been set, or the machine have
slept, which the loop's own clock does not see."""


class OutcomeHandling(DriverState):
    """The part of a driver that asks, and whoever works for it, turn to."""

    __slots__ = ()

    # --- asking

    def _schedule_commands(self) -> None:
        """Put into words what the code has asked for since."""
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
        """That it was given up is durable now: until then a replay may still want it."""
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
        """Whether the code still waits for this, here."""
        return not self.is_over and self.code.open.get(command.key) is command

    # --- nodes and timers

    def completed(
        self, command: NodeCommand, attempt: int, output: e.Value, value: Any, ms: float, adopted: int = 0
    ) -> None:
        """An attempt brought a result, or it was found on another branch. What follows is to be written."""
        if not self.is_over and command.attempt == attempt:
            completed = e.NodeCompleted(node=command.name, attempt=attempt, output=output, ms=ms, adopted=adopted)
            self._outcomes.append((command, completed, value))

    def failed(self, command: NodeCommand, attempt: int, failure: e.Failure, ms: float) -> None:
        """An attempt failed: it is tried again as its policy says, or the code is told. What follows is to be written."""
        if not self.is_over and command.attempt == attempt:
            self._outcomes.append(
                (command, e.NodeFailed(node=command.name, attempt=attempt, error=failure, ms=ms), None)
            )

    def _deliver_outcomes(self) -> list[CommandOutcome]:
        """Tell the code, one by one, what nodes and timers brought, if it still waits for it; returns what it was told."""
        code = self.code
        delivered: list[CommandOutcome] = []
        brought, self._outcomes = self._outcomes, []
        for each in brought:
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
        """Whether the policy of a node that failed has it tried again; then that is to be written."""
        assert isinstance(command, NodeCommand)
        self.in_flight -= 1
        state, now, chance = self.writer.state, self._time, self.worker.chance()
        said = decide.fail_node(
            state, command.name, failed.error, command.spec.retry, now=now, chance=chance, ms=failed.ms
        )
        due = next((event.retry_at for event in said if isinstance(event, e.NodeFailed)), None)
        if due is None:
            return False
        self._facts += said
        command.is_waiting = True
        self._after_commit.append(lambda: command.wait_for_retry(due) if self.is_waiting_for(command) else None)
        return True

    async def crashed(self, command: NodeCommand, attempt: int, what: str) -> None:
        """The helper process of an attempt died: another attempt, or, after too many, a hold."""
        if self.is_over or self.is_winding_down or command.attempt != attempt or command.key not in self.code.open:
            return
        node = self.writer.state.nodes.get(command.name)
        is_tired = node is not None and node.crashes + 1 >= decide.CRASHES_BEFORE_HOLD
        if is_tired or not command.spec.repeatable:
            times = f", {decide.CRASHES_BEFORE_HOLD} times" if is_tired else ", and it is not to be repeated by itself"
            code = CRASH_LIMIT if is_tired else NODE_INTERRUPTED
            await self.hold(e.Failure(code, f"node {command.name}: {what}{times}", category="crash"), command.name)
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
        """Say something about a node under way, and return when it is durable. A task of its own writes it: the node may be
        stopped meanwhile, and what others have to say is in the same append."""
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.is_over:
            raise Fenced(f"run {self.run} is no longer driven here")
        self._set_time()
        self._facts.append(event)
        self._after_commit.append(lambda: None if landed.done() else landed.set_result(None))
        self._write_soon()
        ended = self.ended()
        either: list[asyncio.Future[Any]] = [landed, ended]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.remove(ended)
        if not landed.done():
            raise Fenced(f"run {self.run} is no longer driven here")

    def schedule_later(self, events: list[e.AnyEvent], command: Command) -> None:
        """Say something that no outcome brought about; `command` begins when it has landed."""
        if self.is_over or self._is_stopping:
            return
        self._set_time()
        self._facts += events
        self._to_begin.append(command)
        self._write_soon()

    # --- time and children

    def call_at_time(self, due: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call at a time by the ledger's clock, on the engine's loop."""
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
        self.starting += 1  # from now on, not from when that task first runs: until then the run might be given back
        self.worker.spawn(children.start(self.worker, self, command, again=again))

    async def children_started(self) -> None:
        """Wait until no child is about to be created."""
        while self.starting and not self.worker.is_closing:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(0.002)

    def cancel_child(self, command: ChildCommand) -> None:
        self.worker.spawn(children.cancel(self.worker, self, command.child))

    # --- the run

    def ended(self) -> asyncio.Future[Ending | None]:
        """How the run ends, once it has, or None if this process lets go of it before."""
        waiter: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        if self.is_over:
            waiter.set_result(None)
        else:
            while self._waiters and self._waiters[-1].cancelled():  # who waits again and again, each time for a while
                self._waiters.pop()
            self._waiters.append(waiter)
        return waiter
