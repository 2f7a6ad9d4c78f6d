"""From what there is to say of a run to the log, one append per boundary.

Nothing that was asked for begins before the append that says so has landed. At most one append of a run is under way; what
happens meanwhile goes into the next one. Whoever brings an outcome carries it to the log: the task of the attempt that ended
goes on to append what follows from it, and if that is a node, to work on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from outlast.engine.driver_state import CommandOutcome
from outlast.engine.request_handling import RequestHandling
from outlast.engine.retry import Backoff, redecide, without_closed
from outlast.engine.terminal_events import Ending, cancelled, checked_for_unawaited, needs_completion, terminal_event
from outlast.errors import Fenced, Overtaken, StoreError
from outlast.functions.commands import ChildCommand, Command, NodeCommand, TimerCommand
from outlast.history import events as e
from outlast.history.ids import question_of
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus

log = logging.getLogger("outlast.engine")

SOON_US = 2_000_000
"""Microseconds: a run that waits for less than this keeps its place in memory."""
_NO_OUTCOMES: Sequence[CommandOutcome] = ()


class Committing(RequestHandling):
    """The part of a driver that holds the pen."""

    __slots__ = ()

    def _has_more(self) -> bool:
        if self.is_over:
            return False
        if self._outcomes or self._pending or self._facts or self._has_news:
            return True
        if self._pending_request() is not None or self._hold_ending is not None:
            return True
        if self.writer.arrived or self._pause is not None or self.code.is_done():
            return True
        return (self.code.is_cancelled and self._cleanup_expired()) or self._has_outlived()

    def _has_outlived(self) -> bool:
        """Whether code that called `continue_as_new` goes on beyond the time it has for that."""
        due = self.code.continues_by
        return due is not None and not self._is_stopping and self._clock() >= due

    def _watch_continuation(self) -> None:
        """See that code which called `continue_as_new` ends in time."""
        due = self.code.continues_by
        if due is not None and not self._is_watched:
            self._is_watched = True
            self.call_at_time(due, self._write_soon)

    def _write_soon(self) -> None:
        if not self._is_writing and not self.is_over:
            self.worker.spawn(self.write())

    async def write(self, *, take_next: bool = False) -> NodeCommand | None:
        """Append what there is to say, and what comes of it, until there is nothing more. One task at a time does. A caller
        that is `take_next` is given a node that may begin now, if there is one, and begins it."""
        if self._is_writing:
            return None
        self._is_writing = True
        following: NodeCommand | None = None
        try:
            while self._has_more():
                if following is not None:
                    following.begin()  # it shall not wait for what else there is to say
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
        except asyncio.CancelledError as error:  # a node had its own task cancelled; what was to begin nobody begins
            self.leave()
            self.worker.takeovers.retry_takeover(self.run, error)
            raise
        except Exception as error:
            self.abandon_run(error)
        finally:
            self._is_writing = False
        return following

    def abandon_run(self, error: Exception) -> None:
        """Something went wrong that nobody foresaw: what is in memory is not to be trusted, the log is."""
        log.error("run %s: the driver failed, the run is taken up again from its log", self.run, exc_info=error)
        self.leave()
        self.worker.takeovers.retry_takeover(self.run, error)

    async def _commit(
        self,
        ending: Ending | None = None,
        *,
        take_next: bool = False,
        delivered: Sequence[CommandOutcome] | None = None,
    ) -> NodeCommand | None:
        """One append, and what follows from its having landed; `delivered` are outcomes that the code was told for it
        already. If
        the caller is `take_next`, the first node that follows is not begun but returned."""
        if self.in_flight - len(self._outcomes) > len(self._to_begin) and ending is None and delivered is None:
            await asyncio.sleep(0)  # nodes that run may be about to end: their outcomes can share the append
            if self._has_news or self.writer.arrived:
                return None  # the code is told of that first
        code = self.code
        if self._outcomes:
            delivered = [*(delivered or _NO_OUTCOMES), *self._deliver_outcomes()]
        if code.new_commands:
            self._schedule_commands()
        # Code that was stopped is not told what nodes still bring home: it has nothing open, and is not at its end.
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
        if not events and ending is None:  # nothing is left: others have ended what the code no longer waits for
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
            if self._has_news:  # it came after this append, and was announced while the run still was ours
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
        trouble: Exception,
        events: list[e.AnyEvent],
        release: bool,
        time: int,
        delivered: Sequence[CommandOutcome] = _NO_OUTCOMES,
    ) -> bool:
        """Append after all, as long as the store is troubled: results that are there must not be lost to that. Events that
        end what others have ended are left out; if none is left, nothing is appended. False if what the code was
        `delivered` is
        not in the order of the log any more."""
        backoff = Backoff(self.writer, partial(self.worker.wait_for_store, self.run))
        while True:
            if isinstance(trouble, StoreError):
                await backoff.wait_after(trouble)
            else:
                if delivered and self._is_out_of_order(delivered):
                    return False
                events[:] = redecide(events, self.writer.state)
                if not events:
                    return True
            try:
                await self.writer.append(events, release=release, time=time, in_place=bool(delivered))
                return True
            except (Overtaken, StoreError) as error:
                trouble = error

    def _is_out_of_order(self, delivered: Sequence[CommandOutcome]) -> bool:
        """Whether others have ended, before the outcomes that the code was told, something that it waited for then: an
        answer, or the end of a child that it gave up because of them or that a timer competes with. The end of another child
        is told later than it stands in the log, and NewsHeard says when."""
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
        """Others wrote before this append what the code should have been told before. Only the facts are appended; then the
        code is replayed, and told in the order of the log."""
        log.info("run %s: something ended just before; its code is replayed", self.run)
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
        """Someone wants to go back. Write what nodes still brought home, and leave the run to whoever drives it next, which
        begins with opening the branch."""
        self._deliver_outcomes()
        events, self._facts, self._pending = self._facts + self._pending, [], []
        if events:
            try:
                await self.writer.append(events, time=self._time)
            except (Overtaken, StoreError) as error:
                await self._retry_append(error, events, False, self._time)
        await self.children_started()  # one that is not there yet could not be cancelled
        self.leave()
        self.worker.spawn(self.worker.takeovers.resume_owned(self.writer))

    # --- endings

    async def _conclude(self) -> Ending:
        """The last word, after all that is still open was closed."""
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
        """Stop here and let a person decide. Nothing of what there is changes."""
        self._is_stopping = True
        self._hold_ending = decide.held(failure, node)
        await self.write()

    async def _hold(self, ending: e.RunFailed) -> None:
        self._outcomes, self._facts, self._pending, self._to_begin, self._after_commit = [], [], [], [], []
        self.code.new_commands.clear()  # what code that diverged asks for is none of the log's business
        self._set_time()
        await self._commit(ending)

    def leave(self, ending: Ending | None = None) -> None:
        """This process has nothing to do with the run any more."""
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

    # --- rests

    def _should_release(self, to_begin: list[Command]) -> bool:
        """Whether the run is to be given back with this append, because it only waits and there is no room to keep it."""
        if not self.worker.is_crowded or self._is_watched or any(type(command) is ChildCommand for command in to_begin):
            return False
        return not self._is_due_soon()

    def _is_due_soon(self) -> bool:
        soon = self.worker.ledger.clock() + SOON_US
        return any(isinstance(command, TimerCommand) and command.due <= soon for command in self.code.open.values())
