"""Appends the pending events of a run, one append per boundary.

A command begins only after the append that records it is durable. At most one append of a run is under way; events that
arise meanwhile go into the next one. The task of an attempt that ended appends the outcome and the events that follow
from it, and if the next command is a node, the same task runs that node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from outlast.engine.driver_state import CommandOutcome
from outlast.engine.request_handling import RequestHandling
from outlast.engine.retry import redecide, without_closed
from outlast.engine.terminal_events import Ending, cancelled, checked_for_unawaited, needs_completion, terminal_event
from outlast.errors import Fenced, Overtaken, StoreError
from outlast.functions.commands import ChildCommand, Command, NodeCommand, TimerCommand
from outlast.history import events as e
from outlast.history.ids import question_of
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus

log = logging.getLogger("outlast.engine")

SOON_US = 2_000_000
"""Microseconds: a run that waits for less than this stays in memory."""
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 5.0
"""Seconds between two attempts of an append that the store does not take."""
_NO_OUTCOMES: Sequence[CommandOutcome] = ()


class Committing(RequestHandling):
    """Adds the appends to a driver."""

    __slots__ = ()

    def _has_more(self) -> bool:
        if self.is_over:
            return False
        if self._outcomes or self._pending or self._facts or self._closed or self._has_news:
            return True
        if self._pending_request() is not None or self._hold_ending is not None:
            return True
        if self.writer.arrived or self._pause is not None or self.code.is_done():
            return True
        return (self.code.is_cancelled and self._cleanup_expired()) or self._has_outlived()

    def _has_outlived(self) -> bool:
        """Whether code that called `continue_as_new` has exceeded the time it has to end."""
        due = self.code.continues_by
        return due is not None and not self._is_stopping and self._clock() >= due

    def _watch_continuation(self) -> None:
        """Schedule a check that code which called `continue_as_new` ends in time."""
        due = self.code.continues_by
        if due is not None and not self._is_watched:
            self._is_watched = True
            self.call_at_time(due, self._write_soon)

    def _write_soon(self) -> None:
        if not self._is_writing and not self.is_over:
            self.worker.spawn(self.write())

    async def write(self, *, take_next: bool = False) -> NodeCommand | None:
        """Append pending events, and those that follow from them, until none are left. One task at a time writes. A
        caller with `take_next` receives a node that may begin now, if there is one, and must begin it."""
        if self._is_writing:
            return None
        self._is_writing = True
        following: NodeCommand | None = None
        try:
            while self._has_more():
                if following is not None:
                    following.begin()  # it must not wait for the next append
                    following = None
                if self._hold_ending is not None:
                    await self._hold(self._hold_ending)
                elif self._has_news or self.writer.arrived:
                    await self._deliver_news()
                elif self.code.is_cancelled and self._cleanup_expired():
                    await self._end_now("expired")
                elif (request := self._pending_request()) is not None:
                    await self._handle_request(request)
                elif self._pause is not None and not (self._outcomes or self.code.is_done()):
                    await self._commit(self._pause)
                else:
                    following = await self._commit(take_next=take_next)
        except Fenced:
            self.leave()
        except asyncio.CancelledError as error:  # a node cancelled its own task: the commands would never begin
            self.leave()
            self.worker.takeovers.retry_takeover(self.run, error)
            raise
        except Exception as error:
            self.abandon_run(error)
        finally:
            self._is_writing = False
        return following

    def abandon_run(self, error: Exception) -> None:
        """An unexpected error occurred: discard the driver and resume the run from its log."""
        log.error("run %s: the driver failed; the run is resumed from its log", self.run, exc_info=error)
        self.leave()
        self.worker.takeovers.retry_takeover(self.run, error)

    async def _commit(
        self,
        ending: Ending | None = None,
        *,
        take_next: bool = False,
        delivered: Sequence[CommandOutcome] | None = None,
    ) -> NodeCommand | None:
        """Make one append, then begin the commands it records. `delivered` are outcomes that the code has already
        received for this append. With `take_next`, the first node among the commands is returned instead of begun."""
        if self.in_flight - len(self._outcomes) > len(self._to_begin) and ending is None and delivered is None:
            await asyncio.sleep(0)  # other nodes may be about to end: their outcomes can share the append
            if self._has_news or self.writer.arrived:
                return None  # the code receives those entries first
        code = self.code
        if self._outcomes:
            delivered = [*(delivered or _NO_OUTCOMES), *self._deliver_outcomes()]
        if code.new_commands:
            self._schedule_commands()
        if code.continued is not None:
            self._watch_continuation()
        if ending is None and (not (code.open or self._is_stopping) or code.is_done() or self._has_outlived()):
            ending = await self._conclude()
        to_begin, after_commit, time = self._to_begin, self._after_commit, self._time
        events, self._pending, self._to_begin, self._after_commit = self._pending, [], [], []
        facts = self._facts
        if facts:
            events, self._facts = facts + events, []
        if self._closed:
            events[:] = without_closed(events, self.writer.state)
        if not events and ending is None:  # guests have already ended everything that the code abandoned
            self._stop_closed()
            for call in after_commit:
                call()
            return None
        if ending is not None:
            events += [*decide.refusals(self.writer.state, ending), ending]
            release = not needs_completion(ending, events, self.writer.state, self.created)
        else:
            is_busy = self.in_flight or self.starting or self.is_winding_down or self._is_stopping
            release = not is_busy and self._should_release(to_begin)
        try:
            await self.writer.append(events, release=release, time=time, in_place=bool(delivered))
        except (Overtaken, StoreError) as error:
            if not await self._retry_append(error, events, release, time, delivered or _NO_OUTCOMES):
                await self._discard_and_replay(delivered or _NO_OUTCOMES, facts, to_begin, after_commit)
                return None
            release = release and bool(events)
        if self._closed:
            self._stop_closed()
        following: NodeCommand | None = None
        if ending is not None:
            await self.worker.finish(self, ending, is_released=release)
        elif release:
            self.leave()
            if self._has_news:  # announced after this append, while this worker still owned the run
                self.worker.claim_wakeup.set()
        elif not self.is_winding_down:
            take_next = take_next and not (self.adoptable or self._is_stopping)
            for command in to_begin:
                if command.key not in code.open:
                    continue
                if take_next and type(command) is NodeCommand:
                    following, take_next = command, False
                else:
                    command.begin()
        for call in after_commit:
            call()
        return following

    async def _retry_append(
        self,
        error: Exception,
        events: list[e.AnyEvent],
        release: bool,
        time: int,
        delivered: Sequence[CommandOutcome] = _NO_OUTCOMES,
    ) -> bool:
        """Retry an append until the store takes it, so that results are not lost. Events that end waits which guests
        have already ended are left out; if none are left, nothing is appended. False if the log has entries that the
        code had to receive before the outcomes in `delivered`."""
        pause = FIRST_PAUSE_S
        while True:
            if isinstance(error, StoreError):
                if self.writer.head.version == 0:  # the start of the run was not confirmed to its caller yet
                    raise error
                await self.worker.wait_for_store(self.run, error, pause)
                pause = min(pause * 2, MAX_PAUSE_S)
            else:
                if delivered and self._is_out_of_order(delivered):
                    return False
                events[:] = redecide(events, self.writer.state)
                if not events:
                    return True
            try:
                await self.writer.append(events, release=release, time=time, in_place=bool(delivered))
                return True
            except (Overtaken, StoreError) as next_error:
                error = next_error

    def _is_out_of_order(self, delivered: Sequence[CommandOutcome]) -> bool:
        """Whether guests ended, before these outcomes, a wait that the code was still waiting for: a question, or a
        child that the code gave up because of these outcomes or that a timer competes with. The end of any other child
        may be delivered later than its place in the log: NewsHeard records when."""
        abandoned = {command.key for command, _ in self._closed}
        is_timed = any(isinstance(command, TimerCommand) for command, _, _ in delivered)
        for entry in self.writer.arrived:
            match entry.event:
                case e.InteractionAnswered(interaction=name):
                    key = f"interaction:{question_of(name)}"
                    if key in abandoned or key in self.code.open:
                        return True
                case e.ChildEnded(child=child):
                    key = f"child:{child}"
                    if key in abandoned or (is_timed and key in self.code.open):
                        return True
                case _:
                    pass
        return False

    async def _discard_and_replay(
        self,
        delivered: Sequence[CommandOutcome],
        facts: list[e.AnyEvent],
        to_begin: list[Command],
        after_commit: Sequence[Callable[[], object]],
    ) -> None:
        """Guests appended entries that the code had to receive before this append. Append only the facts, then replay
        the code, which receives everything in the order of the log."""
        log.info("run %s: another event came first in the log; the code is replayed", self.run)
        if facts:
            try:
                await self.writer.append(facts, time=self._time)
            except (Overtaken, StoreError) as error:
                await self._retry_append(error, facts, False, self._time)
            for command in to_begin:
                if isinstance(command, NodeCommand) and self._is_started(command) and not self.is_winding_down:
                    command.begin()
        for call in after_commit:
            call()
        await self._restart_code(delivered)

    def _is_started(self, command: NodeCommand) -> bool:
        node = self.writer.state.nodes.get(command.name)
        return node is not None and node.status is NodeStatus.STARTED and node.attempt == command.attempt

    async def _hand_over_for_branch(self) -> None:
        """A jump was requested: append the outcomes of nodes that have ended, and pass the run to a takeover, which
        first opens the branch."""
        self._deliver_outcomes()
        events, self._facts, self._pending = self._facts + self._pending, [], []
        if events:
            try:
                await self.writer.append(events, time=self._time)
            except (Overtaken, StoreError) as error:
                await self._retry_append(error, events, False, self._time)
        await self.children_started()  # a child that does not exist yet cannot be cancelled
        self.leave()
        self.worker.spawn(self.worker.takeovers.resume_owned(self.writer))

    # --- endings

    async def _conclude(self) -> Ending:
        """The terminal event, after all open commands have been closed."""
        self._is_stopping = True
        self._set_time()
        if not self.code.is_done():
            self.code.fatal_error = self.code.deadlock()
        self._close_all("the run ended")
        if self.code.is_cancelled:
            cleaned_up = cancelled(self.code, self.writer.state, self._pending)
            return checked_for_unawaited(cleaned_up, self.code, self.worker.unawaited)
        created = self.writer.state.outline.created or self._time
        ms = round((self._time - created) / 1000, 1) or e.NO_TIME
        ending = await terminal_event(self.code, self.worker.store.blobs, ms)
        return checked_for_unawaited(ending, self.code, self.worker.unawaited)

    async def hold(self, failure: e.Failure, node: str = "") -> None:
        """Hold the run until a person decides how it continues."""
        self._is_stopping = True
        self._hold_ending = decide.held(failure, node)
        await self.write()

    async def _hold(self, ending: e.RunFailed) -> None:
        self._outcomes, self._facts, self._pending, self._to_begin, self._after_commit = [], [], [], [], []
        self.code.new_commands.clear()  # the commands of diverged code must not reach the log
        self._set_time()
        await self._commit(ending)

    def leave(self, ending: Ending | None = None) -> None:
        """Stop driving the run in this process."""
        if self.is_over:
            return
        self.is_over = True
        for command in (*self.code.open.values(), *(command for command, _ in self._closed)):
            command.release()
        self.code.dismiss()
        self.writer.news = None
        self.worker.forget(self)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(ending)

    # --- idle runs

    def _should_release(self, to_begin: list[Command]) -> bool:
        """Whether to release the run with this append, because it only waits and memory is crowded."""
        if not self.worker.is_crowded or self._is_watched or any(type(command) is ChildCommand for command in to_begin):
            return False
        return not self._is_due_soon()

    def _is_due_soon(self) -> bool:
        soon = self.worker.ledger.clock() + SOON_US
        return any(isinstance(command, TimerCommand) and command.due <= soon for command in self.code.open.values())
