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
from outlast.engine.page import Brought, Page
from outlast.engine.terminal_events import Ending
from outlast.errors import CRASH_LIMIT, NODE_INTERRUPTED, RUN_ENDED, Fenced
from outlast.functions.commands import CANCELLED, Ask, ChildAsk, NodeAsk, Note, TimerAsk
from outlast.history import events as e
from outlast.lifecycle import decide

LOOK = 60.0
"""Seconds after which the clock is looked at again, however far off a time is: it may have been set, or the machine have
slept, which the loop's own clock does not see."""


class Outcomes(Page):
    """The part of a driver that asks, and whoever works for it, turn to."""

    __slots__ = ()

    # --- asking

    def _ask_aloud(self) -> None:
        """Put into words what the code has asked for since."""
        fresh, pending = self.code.fresh, self._pending
        for ask in fresh.values():
            ask.say(pending)
            kind = type(ask)
            if kind is not Note:
                ask.driver = self
                if self.is_winding_down or self._is_stopping:
                    pausing.put_off(pending)
                else:
                    self._begins.append(ask)
                if kind is NodeAsk:
                    self.in_flight += 1
        fresh.clear()

    def _close(self, ask: Ask, reason: e.Failure = CANCELLED) -> None:
        ask.driver = self
        self._date()
        ask.close(self._pending, reason)
        self._closed.append((ask, reason))

    def _stop_closed(self) -> None:
        """That it was given up is durable now: until then a replay may still want it."""
        closed, self._closed = self._closed, []
        for ask, reason in closed:
            ask.given_up(reason)

    def _close_all(self, reason: str) -> None:
        cut_short = e.Failure(RUN_ENDED, reason, category="cancelled")
        code = self.code
        for key, ask in list(code.open.items()):
            if key not in code.fresh:
                self._close(ask, cut_short)
        code.open.clear()
        code.fresh.clear()

    def nodes_open(self) -> list[NodeAsk]:
        """The nodes that the code waits for."""
        return [ask for ask in self.code.open.values() if isinstance(ask, NodeAsk)]

    def wants(self, ask: Ask) -> bool:
        """Whether the code still waits for this, here."""
        return not self.is_over and self.code.open.get(ask.key) is ask

    # --- nodes and timers

    def completed(self, ask: NodeAsk, attempt: int, output: e.Value, value: Any, ms: float, adopted: int = 0) -> None:
        """An attempt brought a result, or it was found on another branch. What follows is to be written."""
        if not self.is_over and ask.attempt == attempt:
            completed = e.NodeCompleted(node=ask.name, attempt=attempt, output=output, ms=ms, adopted=adopted)
            self._brought.append((ask, completed, value))

    def failed(self, ask: NodeAsk, attempt: int, failure: e.Failure, ms: float) -> None:
        """An attempt failed: it is tried again as its policy says, or the code is told. What follows is to be written."""
        if not self.is_over and ask.attempt == attempt:
            self._brought.append((ask, e.NodeFailed(node=ask.name, attempt=attempt, error=failure, ms=ms), None))

    def _tell_brought(self) -> list[Brought]:
        """Tell the code, one by one, what nodes and timers brought, if it still waits for it; returns what it was told."""
        code = self.code
        told: list[Brought] = []
        brought, self._brought = self._brought, []
        for each in brought:
            ask, event, value = each
            if code.open.get(ask.key) is not ask:
                continue
            self._date()
            if type(event) is e.NodeFailed and self._has_another_chance(ask, event):
                continue
            told.append(each)
            del code.open[ask.key]
            self._pending.append(event)
            if type(event) is e.NodeCompleted:
                self.in_flight -= 1
                code.tell(ask, value)
            elif type(event) is e.NodeFailed:
                code.tell_failure(ask, event.error)
            else:
                code.tell_fired(ask)  # type: ignore[arg-type]  # only a timer fires
            if code.fresh:
                self._ask_aloud()
        return told

    def _has_another_chance(self, ask: Ask, failed: e.NodeFailed) -> bool:
        """Whether the policy of a node that failed has it tried again; then that is to be written."""
        assert isinstance(ask, NodeAsk)
        self.in_flight -= 1
        state, now, chance = self.pen.state, self._time, self.worker.chance()
        said = decide.fail_node(state, ask.name, failed.error, ask.spec.retry, now=now, chance=chance, ms=failed.ms)
        due = next((event.retry_at for event in said if isinstance(event, e.NodeFailed)), None)
        if due is None:
            return False
        self._facts += said
        ask.is_waiting = True
        self._then.append(lambda: ask.wait_for_retry(due) if self.wants(ask) else None)
        return True

    async def crashed(self, ask: NodeAsk, attempt: int, what: str) -> None:
        """The helper process of an attempt died: another attempt, or, after too many, a hold."""
        if self.is_over or self.is_winding_down or ask.attempt != attempt or ask.key not in self.code.open:
            return
        node = self.pen.state.nodes.get(ask.name)
        is_tired = node is not None and node.crashes + 1 >= decide.CRASHES_BEFORE_HOLD
        if is_tired or not ask.spec.repeatable:
            times = f", {decide.CRASHES_BEFORE_HOLD} times" if is_tired else ", and it is not to be repeated by itself"
            code = CRASH_LIMIT if is_tired else NODE_INTERRUPTED
            await self.hold(e.Failure(code, f"node {ask.name}: {what}{times}", category="crash"), ask.name)
            return
        self._date()
        ask.attempt += 1
        self._facts += (e.NodeScheduled(node=ask.name, attempt=ask.attempt, cause="crash"), ask.started())
        self._begins.append(ask)
        await self.write()

    def fired(self, ask: TimerAsk) -> None:
        """The time of a timer has come."""
        if not self._is_stopping and self.wants(ask):
            self._brought.append((ask, e.TimerFired(timer=ask.name), None))
            self._write_soon()

    async def record(self, event: e.AnyEvent) -> None:
        """Say something about a node under way, and return when it is durable. A task of its own writes it: the node may be
        stopped meanwhile, and what others have to say is in the same append."""
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.is_over:
            raise Fenced(f"run {self.run} is no longer driven here")
        self._date()
        self._facts.append(event)
        self._then.append(lambda: None if landed.done() else landed.set_result(None))
        self._write_soon()
        ended = self.ended()
        either: list[asyncio.Future[Any]] = [landed, ended]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.remove(ended)
        if not landed.done():
            raise Fenced(f"run {self.run} is no longer driven here")

    def say_later(self, events: list[e.AnyEvent], ask: Ask) -> None:
        """Say something that no outcome brought about; `ask` begins when it has landed."""
        if self.is_over or self._is_stopping:
            return
        self._date()
        self._facts += events
        self._begins.append(ask)
        self._write_soon()

    # --- time and children

    def at(self, due: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call at a time by the ledger's clock, on the engine's loop."""
        delay = max(0, due - self.worker.ledger.clock()) / 1e6
        return self.worker.loop.call_later(min(delay, LOOK), self._when_due, due, call, context=Context())

    def _when_due(self, due: int, call: Callable[[], None]) -> None:
        if self.is_over:
            return
        if self.worker.ledger.clock() < due:
            self.at(due, call)
        else:
            call()

    def start_child(self, ask: ChildAsk, *, again: bool = False) -> None:
        self.starting += 1  # from now on, not from when that task first runs: until then the run might be given back
        self.worker.spawn(children.start(self.worker, self, ask, again=again))

    async def children_started(self) -> None:
        """Wait until no child is about to be created."""
        while self.starting and not self.worker.is_closing:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(0.002)

    def cancel_child(self, ask: ChildAsk) -> None:
        self.worker.spawn(children.cancel(self.worker, self, ask.child))

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
