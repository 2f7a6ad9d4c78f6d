"""Drives one run of a durable function: appends what its code requests, and delivers outcomes to the code.

The code receives outcomes one at a time, in the order of the log, so that a replay takes the code along the same path.
Outcomes of nodes and timers wait until the code has received all entries of guests, and are delivered right before the
append that records them.

A command begins only after the append that records it is durable. At most one append of a run is under way; events that
arise meanwhile go into the next one. The task of an attempt that ended appends the outcome and the events that follow
from it, and if the next command is a node, the same task runs that node.

The driver has what happens at each boundary. What is rare is in modules of functions that take the driver: entries of
guests (`inbox`), `pausing`, `cancelling`, `children`, `resuming`, `result_reuse`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any

from outlast.engine import cancelling, children, inbox, result_reuse
from outlast.engine.batch import Batch, CommandOutcome, is_out_of_order, redecide, without_closed
from outlast.engine.evictor import LONG_LOG
from outlast.engine.resuming import restart_code
from outlast.engine.terminal_events import Ending, cancelled, checked_for_unawaited, needs_completion, terminal_event
from outlast.errors import CRASH_LIMIT, NODE_INTERRUPTED, RUN_ENDED, Fenced, Overtaken, StoreError
from outlast.functions.code import Code
from outlast.functions.commands import CANCELLED, ChildCommand, Command, NodeCommand, Note, TimerCommand
from outlast.history import events as e
from outlast.ledger import RunWriter
from outlast.ledger.reading import Ended
from outlast.lifecycle import decide
from outlast.lifecycle.adoption import Adoptable
from outlast.lifecycle.state import NodeStatus

if TYPE_CHECKING:
    from outlast.engine.worker import Worker

log = logging.getLogger("outlast.engine")
_chance = random.SystemRandom().random  # independent of a seed that user code sets

MAX_SLEEP_S = 60.0
"""Seconds between two reads of the clock, however distant a time is: the clock may be set, or the machine may sleep,
and the loop's own clock does not notice."""
SOON_US = 2_000_000
"""Microseconds: a run that waits for less than this stays in memory."""
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 5.0
"""Seconds between two attempts of an append that the store does not take."""
CLOSE_TIMEOUT_MS = 2_000
"""Milliseconds that a closing engine waits for an append that a failing store does not take."""
NOTHING_ADOPTABLE: dict[str, Adoptable] = {}
"""Shared by all runs without branches; never modified."""


class RunDriver:
    """One run in this process. `start` begins a new run; `resuming.resume` continues one after a replay."""

    def __init__(self, worker: Worker, code: Code, created: e.RunCreated, writer: RunWriter) -> None:
        self.worker = worker
        self.code = code
        self.created = created
        self.writer = writer
        self.run = code.run
        self.attempts = worker.attempts
        self.clock = worker.ledger.clock
        self.time = 0
        """The date of the pending events. All events of one append have one date, and `now` in the code is that date."""
        self.batch = Batch()
        self.outcomes: list[CommandOutcome] = []
        """Outcomes of nodes and timers that the code has not received, in order of arrival."""
        self.closed: list[tuple[Command, e.Failure]] = []
        """Commands that the code abandoned since the last append, and why: stopped once that is durable."""
        self.deferred: Sequence[Command] = ()
        """Open commands that a replay found and that are not resumed, because the run is being cancelled."""
        self.adoptable = NOTHING_ADOPTABLE
        """Results of another branch that nodes of this one may reuse."""
        self.in_flight = 0
        """Nodes that have begun and have no outcome."""
        self.starting = 0
        """Children that are being created."""
        self.hold_ending: e.RunFailed | None = None
        self.pause: e.RunPaused | e.RunFailed | None = None
        """The event that pauses the run, once its nodes have stopped."""
        self.has_news = False
        self.is_over = False
        self.is_writing = False
        self.is_pausing = False
        self.is_winding_down = False
        """Whether nothing more begins, though outcomes are still delivered and appended."""
        self.is_stopping = False
        self.is_limited = created.queue in worker.slots
        """Whether the run holds a slot of its queue, which others need while it only waits."""
        self.is_watched = False
        """Whether a check is scheduled that code which called `continue_as_new` ends in time."""
        self._waiters: list[asyncio.Future[Ending | None]] = []

    async def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a new run with its first append. Returns when that is durable."""
        self.go_live()
        self.set_time()
        self.batch.pending += (self.created, e.RunStarted())
        self.code.attributes = self.created.attributes
        self.code.begin(args, kwargs)
        self.is_writing = True
        try:
            await self.commit()
        except BaseException:
            self.leave()
            raise
        finally:
            self.is_writing = False
        if self._has_more():
            self.write_soon()

    def go_live(self) -> None:
        """Connect the code and the writer with this driver."""
        self.writer.news = self._on_news
        self.code.close = self.close
        self.code.silencer.on = False
        self.code.on_progress = self._show_progress
        if self.code.progress is not None:
            self._show_progress(self.code.progress)

    def _on_news(self) -> None:
        """Guests have appended to this run."""
        self.has_news = True
        self.write_soon()

    def _show_progress(self, progress: dict[str, Any]) -> None:
        worker = self.worker
        worker.loop.call_soon_threadsafe(worker.progress.update, self.run, progress)

    # --- commands

    def set_time(self) -> None:
        """Date the pending events."""
        code, batch = self.code, self.batch
        if not batch.pending and not batch.facts:
            self.time = max(self.clock(), code.now_us)
        code.now_us = self.time

    def schedule_commands(self) -> None:
        """Turn the new commands of the code into pending events."""
        fresh, pending = self.code.new_commands, self.batch.pending
        for command in fresh.values():
            command.schedule(pending)
            kind = type(command)
            if kind is not Note:
                command.driver = self
                if not (self.is_winding_down or self.is_stopping):
                    self.batch.to_begin.append(command)
                elif isinstance(pending[-1], e.NodeStarted):
                    pending.pop()  # the node is only scheduled
                if kind is NodeCommand:
                    self.in_flight += 1
        fresh.clear()

    def begin_attempt(self, command: NodeCommand) -> None:
        """The start of a node is durable: reuse a result, or begin its attempt."""
        if not (self.adoptable and result_reuse.adopt(self, command)):
            self.attempts.begin(command)

    def start_child(self, command: ChildCommand, *, again: bool = False) -> None:
        self.starting += 1  # before the task first runs: the run must not be released until then
        self.worker.spawn(children.start(self.worker, self, command, again=again))

    def cancel_child(self, command: ChildCommand) -> None:
        self.worker.spawn(children.cancel(self.worker, self, command.child))

    async def children_started(self) -> None:
        """Wait until no child is being created."""
        while self.starting and not self.worker.is_closing:  # noqa: ASYNC110 - rare and short
            await asyncio.sleep(0.002)

    def close(self, command: Command, reason: e.Failure = CANCELLED) -> None:
        """Append that the code no longer waits for a command."""
        command.driver = self
        self.set_time()
        command.close(self.batch.pending, reason)
        self.closed.append((command, reason))

    def close_all(self, reason: str) -> None:
        cut_short = e.Failure(RUN_ENDED, reason, category="cancelled")
        code = self.code
        for key, command in list(code.open.items()):
            if key not in code.new_commands:
                self.close(command, cut_short)
        code.open.clear()
        code.new_commands.clear()

    def _stop_closed(self) -> None:
        """Stop abandoned commands. Only now is their end durable: until then a replay might still need them."""
        closed, self.closed = self.closed, []
        for command, reason in closed:
            command.on_close_committed(reason)

    def open_node_commands(self) -> list[NodeCommand]:
        """The nodes that the code waits for."""
        return [command for command in self.code.open.values() if isinstance(command, NodeCommand)]

    def is_waiting_for(self, command: Command) -> bool:
        """Whether the code of this driver still waits for a command."""
        return not self.is_over and self.code.open.get(command.key) is command

    def schedule_later(self, events: list[e.AnyEvent], command: Command) -> None:
        """Append events that follow from no outcome; `command` begins when they are durable."""
        if self.is_over or self.is_stopping:
            return
        self.set_time()
        self.batch.facts += events
        self.batch.to_begin.append(command)
        self.write_soon()

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

    # --- outcomes

    def completed(
        self, command: NodeCommand, attempt: int, output: e.Value, value: Any, ms: float, adopted: int = 0
    ) -> None:
        """An attempt returned a result, or a result of another branch is reused. The caller must call `write`."""
        if not self.is_over and command.attempt == attempt:
            completed = e.NodeCompleted(node=command.name, attempt=attempt, output=output, ms=ms, adopted=adopted)
            self.outcomes.append((command, completed, value))

    def failed(self, command: NodeCommand, attempt: int, failure: e.Failure, ms: float) -> None:
        """An attempt failed: its retry policy applies, or the code receives the failure. The caller must call `write`."""
        if not self.is_over and command.attempt == attempt:
            failed = e.NodeFailed(node=command.name, attempt=attempt, error=failure, ms=ms)
            self.outcomes.append((command, failed, None))

    def fired(self, command: TimerCommand) -> None:
        """The time of a timer has come."""
        if not self.is_stopping and self.is_waiting_for(command):
            self.outcomes.append((command, e.TimerFired(timer=command.name), None))
            self.write_soon()

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
        self.set_time()
        command.attempt += 1
        again = e.NodeScheduled(node=command.name, attempt=command.attempt, cause="crash")
        self.batch.facts += (again, command.started())
        self.batch.to_begin.append(command)
        await self.write()

    async def record(self, event: e.AnyEvent) -> None:
        """Append an event about a running node, and return when it is durable. A separate task writes, because the node
        may be stopped meanwhile; the append is shared with other events."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.is_over:
            self.set_time()
            self.batch.facts.append(event)
            self.batch.call_after_commit(lambda: None if durable.done() else durable.set_result(None))
            self.write_soon()
            ended = self.ended()
            either: list[asyncio.Future[Any]] = [durable, ended]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiters.remove(ended)
        if not durable.done():
            raise Fenced(f"this worker does not drive run {self.run} any more")

    def deliver_outcomes(self) -> list[CommandOutcome]:
        """Deliver outcomes of nodes and timers, one by one, to code that still waits for them; return those that were
        delivered."""
        code = self.code
        delivered: list[CommandOutcome] = []
        outcomes, self.outcomes = self.outcomes, []
        for each in outcomes:
            command, event, value = each
            key = command.key
            if code.open.get(key) is not command:
                continue
            self.set_time()
            if type(event) is e.NodeFailed and self._schedule_retry(command, event):
                continue
            delivered.append(each)
            del code.open[key]
            self.batch.pending.append(event)
            if type(event) is e.NodeCompleted:
                self.in_flight -= 1
                code.resolve(command, value)
            elif type(event) is e.NodeFailed:
                code.resolve_failure(command, event.error)
            else:
                code.resolve_timer(command)  # type: ignore[arg-type]  # only a timer fires
            if code.new_commands:
                self.schedule_commands()
        return delivered

    def _schedule_retry(self, command: Command, failed: e.NodeFailed) -> bool:
        """Whether the retry policy of a failed node allows another attempt, which is then scheduled."""
        assert isinstance(command, NodeCommand)
        self.in_flight -= 1
        state, now, chance = self.writer.state, self.time, _chance()
        events = decide.fail_node(
            state, command.name, failed.error, command.spec.retry, now=now, chance=chance, ms=failed.ms
        )
        due = next((event.retry_at for event in events if isinstance(event, e.NodeFailed)), None)
        if due is None:
            return False
        self.batch.facts += events
        command.is_waiting = True
        self.batch.call_after_commit(lambda: command.wait_for_retry(due) if self.is_waiting_for(command) else None)
        return True

    # --- appends

    def write_soon(self) -> None:
        """Call `write` in a task of its own."""
        if not self.is_writing and not self.is_over:
            self.worker.spawn(self.write())

    async def write(self, *, take_next: bool = False) -> NodeCommand | None:
        """Append pending events, and those that follow from them, until none are left. One task at a time writes. A
        caller with `take_next` receives a node that may begin now, if there is one, and must begin it."""
        if self.is_writing:
            return None
        self.is_writing = True
        following: NodeCommand | None = None
        try:
            while self._has_more():
                if following is not None:
                    following.begin()  # it must not wait for the next append
                    following = None
                if self.hold_ending is not None:
                    await self._hold(self.hold_ending)
                elif self.has_news or self.writer.arrived:
                    await inbox.deliver(self)
                elif self.code.is_cancelled and cancelling.is_expired(self):
                    await cancelling.end_now(self, "expired")
                elif self.writer.state.outline.requests and (request := inbox.open_request(self)) is not None:
                    await inbox.carry_out(self, request)
                elif self.pause is not None and not (self.outcomes or self.code.is_done()):
                    await self.commit(self.pause)
                else:
                    following = await self.commit(take_next=take_next)
        except Fenced:
            self.leave()
        except asyncio.CancelledError as error:  # a node cancelled its own task: the commands would never begin
            self.leave()
            self.worker.takeovers.retry_takeover(self.run, error)
            raise
        except Exception as error:
            self.abandon_run(error)
        finally:
            self.is_writing = False
        if self.is_limited:
            self.free_slots()
        return following

    def _has_more(self) -> bool:
        if self.is_over:
            return False
        batch, code, writer = self.batch, self.code, self.writer
        if self.outcomes or batch.pending or batch.facts or self.closed or self.has_news or writer.arrived:
            return True
        if self.hold_ending is not None or self.pause is not None or code.is_done():
            return True
        if writer.state.outline.requests and inbox.open_request(self) is not None:
            return True
        return (code.is_cancelled and cancelling.is_expired(self)) or (
            code.continued is not None and self.watch_continuation()
        )

    async def commit(
        self,
        ending: Ending | None = None,
        *,
        take_next: bool = False,
        delivered: Sequence[CommandOutcome] | None = None,
    ) -> NodeCommand | None:
        """Make one append, then begin the commands it records. `delivered` are outcomes that the code has already
        received for this append. With `take_next`, the first node among the commands is returned instead of begun."""
        if ending is None and delivered is None and self.in_flight - len(self.outcomes) > len(self.batch.to_begin):
            await asyncio.sleep(0)  # other nodes may be about to end: their outcomes can share the append
            if self.has_news or self.writer.arrived:
                return None  # the code receives those entries first
        code = self.code
        if self.outcomes:
            outcomes = self.deliver_outcomes()
            delivered = [*delivered, *outcomes] if delivered else outcomes
        if code.new_commands:
            self.schedule_commands()
        is_outlived = code.continued is not None and self.watch_continuation()
        if ending is None and (is_outlived or code.is_done() or not (code.open or self.is_stopping)):
            ending = await self._conclude()
        batch = self._complete_batch(ending, delivered or ())
        if not batch.events:  # guests have already ended everything that the code abandoned
            self._stop_closed()
            batch.committed()
            return None
        try:
            await self.writer.append(batch.events, release=batch.release, time=batch.time, in_place=bool(delivered))
        except (Overtaken, StoreError) as error:
            if not await self._retry_append(error, batch):
                await self.discard_and_replay(batch)
                return None
        if self.closed:
            self._stop_closed()
        following: NodeCommand | None = None
        if ending is not None:
            await self.worker.finish(self, ending, is_released=batch.release)
        elif batch.release:
            self._leave_released()
        elif not self.is_winding_down:
            following = self._begin(batch.to_begin, take_next=take_next)
        if batch.after_commit is not None:
            batch.committed()
        return following

    def _complete_batch(self, ending: Ending | None, delivered: Sequence[CommandOutcome]) -> Batch:
        """The batch to append. Events that arise from now on go into the next one."""
        batch, self.batch = self.batch, Batch()
        batch.delivered, batch.time = delivered, self.time
        events = batch.events = batch.facts + batch.pending if batch.facts else batch.pending
        state = self.writer.state
        if self.closed:
            events[:] = without_closed(events, state)
        if ending is not None:
            events += [*decide.refusals(state, ending), ending]
            batch.release = not needs_completion(ending, events, state, self.created)
        elif not (self.in_flight or self.starting or self.is_winding_down or self.is_stopping):
            batch.release = bool(events) and self._should_release(batch.to_begin)
        return batch

    def _begin(self, commands: Sequence[Command], *, take_next: bool) -> NodeCommand | None:
        """Begin commands whose events are durable; with `take_next`, return the first node instead."""
        following: NodeCommand | None = None
        take_next = take_next and not (self.adoptable or self.is_stopping)
        for command in commands:
            if command.key not in self.code.open:
                continue
            if take_next and type(command) is NodeCommand:
                following, take_next = command, False
            else:
                command.begin()
        return following

    async def _retry_append(self, error: Exception, batch: Batch) -> bool:
        """Retry an append until the store takes it, so that results are not lost. Events that end waits which guests
        have already ended are left out; if none are left, nothing is appended. False if the log has entries that the
        code had to receive before the outcomes in the batch."""
        pause, delivered = FIRST_PAUSE_S, batch.delivered
        while True:
            if isinstance(error, StoreError):
                if self.writer.head.version == 0:  # the start of the run was not confirmed to its caller yet
                    raise error
                await self.worker.wait_for_store(self.run, error, pause)
                pause = min(pause * 2, MAX_PAUSE_S)
            else:
                abandoned = {command.key for command, _ in self.closed}
                if delivered and is_out_of_order(delivered, self.writer.arrived, abandoned, self.code.open):
                    return False
                batch.events = redecide(batch.events, self.writer.state)
                if not batch.events:
                    batch.release = False
                    return True
            try:
                await self.writer.append(batch.events, release=batch.release, time=batch.time, in_place=bool(delivered))
                return True
            except (Overtaken, StoreError) as next_error:
                error = next_error

    async def append_always(self, events: list[e.AnyEvent]) -> None:
        """Append events that guests do not affect."""
        if not events:
            return
        try:
            await self.writer.append(events, time=self.time)
        except (Overtaken, StoreError) as error:
            batch = Batch()
            batch.events, batch.time = events, self.time
            await self._retry_append(error, batch)

    async def discard_and_replay(self, batch: Batch) -> None:
        """Guests appended entries that the code had to receive before this append. Append only the facts, then replay
        the code, which receives everything in the order of the log."""
        log.info("run %s: another event came first in the log; the code is replayed", self.run)
        await self.append_always(batch.facts)
        for command in batch.to_begin if batch.facts else ():
            if isinstance(command, NodeCommand) and self._is_started(command) and not self.is_winding_down:
                command.begin()
        batch.committed()
        await restart_code(self, batch.delivered)

    def _is_started(self, command: NodeCommand) -> bool:
        node = self.writer.state.nodes.get(command.name)
        return node is not None and node.status is NodeStatus.STARTED and node.attempt == command.attempt

    def watch_continuation(self) -> bool:
        """Schedule a check that code which called `continue_as_new` ends in time; whether it has exceeded that time."""
        due = self.code.continues_by
        if due is not None and not self.is_watched:
            self.is_watched = True
            self.call_at_time(due, self.write_soon)
        return due is not None and not self.is_stopping and self.clock() >= due

    # --- endings

    async def _conclude(self) -> Ending:
        """The terminal event, after all open commands have been closed."""
        self.is_stopping = True
        self.set_time()
        if not self.code.is_done():
            self.code.fatal_error = self.code.deadlock()
        self.close_all("the run ended")
        ending: Ended
        if self.code.is_cancelled:
            ending = cancelled(self.code, self.writer.state, self.batch.pending)
        else:
            created = self.writer.state.outline.created or self.time
            ms = round((self.time - created) / 1000, 1) or e.NO_TIME
            ending = await terminal_event(self.code, self.worker.store.blobs, ms)
        return checked_for_unawaited(ending, self.code, self.worker.settings.unawaited)

    async def hold(self, failure: e.Failure, node: str = "") -> None:
        """Hold the run until a person decides how it continues."""
        self.is_stopping = True
        self.hold_ending = decide.held(failure, node)
        await self.write()

    async def _hold(self, ending: e.RunFailed) -> None:
        self.outcomes, self.batch = [], Batch()
        self.code.new_commands.clear()  # the commands of diverged code must not reach the log
        self.set_time()
        await self.commit(ending)

    def wind_down(self) -> None:
        """Begin nothing more. Pending starts are removed; those nodes begin when the run resumes."""
        self.is_winding_down = True
        self.batch.drop_starts(self.batch.to_begin)
        self.batch.to_begin = []

    def abandon_run(self, error: Exception) -> None:
        """An unexpected error occurred: discard the driver and resume the run from its log."""
        log.error("run %s: the driver failed; the run is resumed from its log", self.run, exc_info=error)
        self.leave()
        self.worker.takeovers.retry_takeover(self.run, error)

    def leave(self, ending: Ending | None = None) -> None:
        """Stop driving the run in this process."""
        if self.is_over:
            return
        self.is_over = True
        for command in (*self.code.open.values(), *(command for command, _ in self.closed)):
            command.release()
        self.code.dismiss()
        self.writer.news = None
        self.worker.forget(self)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(ending)

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

    async def stop(self) -> None:
        """Begin nothing more, and wait until no append is under way."""
        self.wind_down()
        for _ in range(CLOSE_TIMEOUT_MS):  # polled: an event at every append would cost more than this rare wait
            if not self.is_writing:
                break
            await asyncio.sleep(0.001)

    # --- idle runs

    def _should_release(self, to_begin: list[Command]) -> bool:
        """Whether to release the run with this append, because it only waits, and memory is crowded or others
        need its slot."""
        if (
            not (self.worker.is_crowded or self.is_limited)
            or self.is_watched
            or any(type(command) is ChildCommand for command in to_begin)
        ):
            return False
        if self.writer.head.version < LONG_LOG:
            return not self._is_due_soon()
        other = self.worker.long_runs.keep(self)
        if other is not None:
            self.worker.spawn(other.release_if_idle())
        return False

    def _is_due_soon(self) -> bool:
        soon = self.worker.ledger.clock() + SOON_US
        return any(isinstance(command, TimerCommand) and command.due <= soon for command in self.code.open.values())

    def _leave_released(self) -> None:
        self.leave()
        if self.has_news:  # announced after this append, while this worker still owned the run
            self.worker.claim_wakeup.set()

    @property
    def is_idle(self) -> bool:
        """Whether the run only waits for others, or for a distant time."""
        is_busy = self.is_writing or self.is_watched or self.in_flight or self.starting or self.is_winding_down
        return not (is_busy or self._has_more() or self._is_due_soon())

    def free_slots(self) -> None:
        """Release a run of a limited queue at once if it only waits."""
        if self.is_limited and not self.is_over and self.is_idle:
            self.worker.spawn(self._release_until_busy())

    async def _release_until_busy(self) -> None:
        while not self.is_over and self.is_idle:
            await self.release_if_idle()
            await asyncio.sleep(FIRST_PAUSE_S)  # another try is needed only if the store failed

    async def release_if_idle(self) -> None:
        """Release the run if it is still idle."""
        if self.is_over or not self.is_idle:
            return
        self.is_writing = True
        try:
            if await self.writer.release():
                self.leave()
        except Fenced:
            self.leave()
        except StoreError as error:
            log.warning("run %s could not be released: %s", self.run, error)
        finally:
            self.is_writing = False
        if self._has_more():
            self.write_soon()
