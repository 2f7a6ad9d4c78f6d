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

from outlast.engine.page import Brought
from outlast.engine.requests import Requests
from outlast.engine.retry import Patience, decided_again, without_what_is_over
from outlast.engine.terminal_events import Ending, cancelled, checked_for_unawaited, concluded, has_duties
from outlast.errors import Fenced, Overtaken, StoreError
from outlast.functions.commands import Ask, ChildAsk, NodeAsk, TimerAsk
from outlast.history import events as e
from outlast.history.ids import question_of
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus

log = logging.getLogger("outlast.engine")

NEAR = 2_000_000
"""Microseconds: a run that waits for less than this keeps its place in memory."""
_NONE: Sequence[Brought] = ()


class Writing(Requests):
    """The part of a driver that holds the pen."""

    __slots__ = ()

    def _has_more(self) -> bool:
        if self.is_over:
            return False
        if self._brought or self._pending or self._facts or self._has_news:
            return True
        if self._request() is not None or self._held is not None:
            return True
        if self.pen.arrived or self._pause is not None or self.code.is_done():
            return True
        return (self.code.is_cancelled and self._has_overrun()) or self._has_outlived()

    def _has_outlived(self) -> bool:
        """Whether code that called `continue_as_new` goes on beyond the time it has for that."""
        due = self.code.continues_by
        return due is not None and not self._is_stopping and self._clock() >= due

    def _watch_continuation(self) -> None:
        """See that code which called `continue_as_new` ends in time."""
        due = self.code.continues_by
        if due is not None and not self._is_watched:
            self._is_watched = True
            self.at(due, self._write_soon)

    def _write_soon(self) -> None:
        if not self._is_writing and not self.is_over:
            self.worker.spawn(self.write())

    async def write(self, *, carrying: bool = False) -> NodeAsk | None:
        """Append what there is to say, and what comes of it, until there is nothing more. One task at a time does. A caller
        that is `carrying` is given a node that may begin now, if there is one, and begins it."""
        if self._is_writing:
            return None
        self._is_writing = True
        following: NodeAsk | None = None
        try:
            while self._has_more():
                if following is not None:
                    following.begin()  # it shall not wait for what else there is to say
                    following = None
                if self._held is not None:
                    await self._hold(self._held)
                elif self._has_news or self.pen.arrived:
                    await self._hear()
                elif self.code.is_cancelled and self._has_overrun():
                    await self._end_at_once("expired")
                elif (request := self._request()) is not None:
                    await self._obey(request)
                elif self._pause is not None and not (self._brought or self.code.is_done()):
                    await self._commit(self._pause)
                else:
                    following = await self._commit(carrying=carrying)
        except Fenced:
            self.leave()
        except asyncio.CancelledError as error:  # a node had its own task cancelled; what was to begin nobody begins
            self.leave()
            self.worker.arrivals.take_up_again(self.run, error)
            raise
        except Exception as error:
            self.fall(error)
        finally:
            self._is_writing = False
        return following

    def fall(self, error: Exception) -> None:
        """Something went wrong that nobody foresaw: what is in memory is not to be trusted, the log is."""
        log.error("run %s: the driver failed, the run is taken up again from its log", self.run, exc_info=error)
        self.leave()
        self.worker.arrivals.take_up_again(self.run, error)

    async def _commit(
        self, ending: Ending | None = None, *, carrying: bool = False, told: Sequence[Brought] | None = None
    ) -> NodeAsk | None:
        """One append, and what follows from its having landed; `told` are outcomes that the code was told for it already. If
        the caller is `carrying`, the first node that follows is not begun but returned."""
        if self.in_flight - len(self._brought) > len(self._begins) and ending is None and told is None:
            await asyncio.sleep(0)  # nodes that run may be about to end: their outcomes can share the append
            if self._has_news or self.pen.arrived:
                return None  # the code is told of that first
        code = self.code
        if self._brought:
            told = [*(told or _NONE), *self._tell_brought()]
        if code.fresh:
            self._ask_aloud()
        # Code that was stopped is not told what nodes still bring home: it has nothing open, and is not at its end.
        if code.continued is not None:
            self._watch_continuation()
        if ending is None and (not (code.open or self._is_stopping) or code.is_done() or self._has_outlived()):
            ending = await self._conclude()
        begins, then, time = self._begins, self._then, self._time
        events, self._pending, self._begins, self._then = self._pending, [], [], []
        facts = self._facts
        if facts:
            events, self._facts = facts + events, []
        if self._closed:
            events[:] = without_what_is_over(events, self.pen.state)
        if not events and ending is None:  # nothing is left: others have ended what the code no longer waits for
            self._stop_closed()
            for call in then:
                call()
            return None
        if ending is not None:
            events += [*decide.refusals(self.pen.state, ending), ending]
            release = not has_duties(ending, events, self.pen.state, self.created)
        else:
            is_busy = self.in_flight or self.starting or self.is_winding_down or self._is_stopping
            release = not is_busy and self._wants_to_rest(begins)
        try:
            await self.pen.append(events, release=release, time=time, in_place=bool(told))
        except (Overtaken, StoreError) as error:
            if not await self._append_again(error, events, release, time, told or _NONE):
                await self._take_back(told or _NONE, facts, begins, then)
                return None
            release = release and bool(events)
        if self._closed:
            self._stop_closed()
        following: NodeAsk | None = None
        if ending is not None:
            await self.worker.finish(self, ending, is_released=release)
        elif release:
            self.leave()
            if self._has_news:  # it came after this append, and was announced while the run still was ours
                self.worker.wanted.set()
        elif not self.is_winding_down:
            carrying = carrying and not (self.adoptable or self._is_stopping)
            for ask in begins:
                if ask.key not in code.open:
                    continue
                if carrying and type(ask) is NodeAsk:
                    following, carrying = ask, False
                else:
                    ask.begin()
        for call in then:
            call()
        return following

    async def _append_again(
        self, trouble: Exception, events: list[e.AnyEvent], release: bool, time: int, told: Sequence[Brought] = _NONE
    ) -> bool:
        """Append after all, as long as the store is troubled: results that are there must not be lost to that. Events that
        end what others have ended are left out; if none is left, nothing is appended. False if what the code was `told` is
        not in the order of the log any more."""
        patience = Patience(self.pen, partial(self.worker.in_trouble, self.run))
        while True:
            if isinstance(trouble, StoreError):
                await patience.bear(trouble)
            else:
                if told and self._is_out_of_order(told):
                    return False
                events[:] = decided_again(events, self.pen.state)
                if not events:
                    return True
            try:
                await self.pen.append(events, release=release, time=time, in_place=bool(told))
                return True
            except (Overtaken, StoreError) as error:
                trouble = error

    def _is_out_of_order(self, told: Sequence[Brought]) -> bool:
        """Whether others have ended, before the outcomes that the code was told, something that it waited for then: an
        answer, or the end of a child that it gave up because of them or that a timer competes with. The end of another child
        is told later than it stands in the log, and NewsHeard says when."""
        given_up = {ask.key for ask, _ in self._closed}
        is_timed = any(isinstance(ask, TimerAsk) for ask, _, _ in told)
        for entry in self.pen.arrived:
            match entry.event:
                case e.InteractionAnswered(interaction=name):
                    key = f"interaction:{question_of(name)}"
                    if key in given_up or key in self.code.open:
                        return True
                case e.ChildEnded(child=child):
                    key = f"child:{child}"
                    if key in given_up or (is_timed and key in self.code.open):
                        return True
                case _:
                    pass
        return False

    async def _take_back(
        self, told: Sequence[Brought], facts: list[e.AnyEvent], begins: list[Ask], then: Sequence[Callable[[], object]]
    ) -> None:
        """Others wrote before this append what the code should have been told before. Only the facts are appended; then the
        code is replayed, and told in the order of the log."""
        log.info("run %s: something ended just before; its code is replayed", self.run)
        if facts:
            try:
                await self.pen.append(facts, time=self._time)
            except (Overtaken, StoreError) as error:
                await self._append_again(error, facts, False, self._time)
            for ask in begins:
                if isinstance(ask, NodeAsk) and self._is_started(ask) and not self.is_winding_down:
                    ask.begin()
        for call in then:
            call()
        await self._replay_again(told)

    def _is_started(self, ask: NodeAsk) -> bool:
        node = self.pen.state.nodes.get(ask.name)
        return node is not None and node.status is NodeStatus.STARTED and node.attempt == ask.attempt

    async def _turn(self) -> None:
        """Someone wants to go back. Write what nodes still brought home, and leave the run to whoever drives it next, which
        begins with opening the branch."""
        self._tell_brought()
        events, self._facts, self._pending = self._facts + self._pending, [], []
        if events:
            try:
                await self.pen.append(events, time=self._time)
            except (Overtaken, StoreError) as error:
                await self._append_again(error, events, False, self._time)
        await self.children_started()  # one that is not there yet could not be cancelled
        self.leave()
        self.worker.spawn(self.worker.arrivals.go_on_with(self.pen))

    # --- endings

    async def _conclude(self) -> Ending:
        """The last word, after all that is still open was closed."""
        self._is_stopping = True
        self._date()
        if not self.code.is_done():
            self.code.broken = self.code.deadlock()
        self._close_all("the run ended")
        if self.code.is_cancelled:
            cleaned_up = cancelled(self.code, self.pen.state, self._pending)
            return checked_for_unawaited(cleaned_up, self.code, self.worker.unawaited)
        created = self.pen.state.outline.created or self._time
        ms = round((self._time - created) / 1000, 1) or e.NO_TIME
        ending = await concluded(self.code, self.worker.store.blobs, ms)
        return checked_for_unawaited(ending, self.code, self.worker.unawaited)

    async def hold(self, failure: e.Failure, node: str = "") -> None:
        """Stop here and let a person decide. Nothing of what there is changes."""
        self._is_stopping = True
        self._held = decide.held(failure, node)
        await self.write()

    async def _hold(self, ending: e.RunFailed) -> None:
        self._brought, self._facts, self._pending, self._begins, self._then = [], [], [], [], []
        self.code.fresh.clear()  # what code that diverged asks for is none of the log's business
        self._date()
        await self._commit(ending)

    def leave(self, ending: Ending | None = None) -> None:
        """This process has nothing to do with the run any more."""
        if self.is_over:
            return
        self.is_over = True
        for ask in (*self.code.open.values(), *(ask for ask, _ in self._closed)):
            ask.let_go()
        self.code.dismiss()
        self.pen.news = None
        self.worker.forget(self)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(ending)

    # --- rests

    def _wants_to_rest(self, begins: list[Ask]) -> bool:
        """Whether the run is to be given back with this append, because it only waits and there is no room to keep it."""
        if not self.worker.is_crowded or self._is_watched or any(type(ask) is ChildAsk for ask in begins):
            return False
        return not self._is_due_soon()

    def _is_due_soon(self) -> bool:
        soon = self.worker.ledger.clock() + NEAR
        return any(isinstance(ask, TimerAsk) and ask.due <= soon for ask in self.code.open.values())
