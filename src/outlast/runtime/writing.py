"""From what there is to say of a run to the log, one append per boundary.

Nothing that was asked for begins before the append that says so has landed. At most one append of a run is under way; what
happens meanwhile goes into the next one. Whoever brings an outcome carries it to the log: the task of the attempt that ended
goes on to append what follows from it, and if that is a node, to work on it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from outlast.errors import Fenced, NotDurable, Overtaken, StoreError
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.runtime.appending import Patience, decided_again, without_what_is_over
from outlast.runtime.asks import Ask, ChildAsk, NodeAsk, TimerAsk
from outlast.runtime.endings import Ending, checked_for_unawaited, concluded, has_duties, held
from outlast.runtime.requests import Requests

log = logging.getLogger("outlast.runtime")

NEAR = 2_000_000
"""Microseconds: a run that waits for less than this keeps its place in memory."""


class Writing(Requests):
    """The part of a driver that holds the pen."""

    __slots__ = ()

    def _has_more(self) -> bool:
        if self.is_over:
            return False
        if self._pending or self._has_news or self._request() is not None or self._held is not None:
            return True
        main = self.code.main
        if self.pen.arrived or self._pause is not None or (main is not None and main.done()):
            return True
        return self.code.broken is not None

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
                elif (request := self._request()) is not None:
                    await self._obey(request)
                elif self._pause is not None and not self.code.is_done():
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

    async def _commit(self, ending: Ending | None = None, *, carrying: bool = False) -> NodeAsk | None:
        """One append, and what follows from its having landed. If the caller is `carrying`, the first node that follows is
        not begun but returned."""
        if self.in_flight > len(self._begins) and ending is None:
            await asyncio.sleep(0)  # nodes that run may be about to end: their outcomes can share the append
        code = self.code
        if code.fresh:
            self._ask_aloud()
        # Code that was stopped is not told what nodes still bring home: it has nothing open, and is not at its end.
        if ending is None and (not (code.open or self._is_stopping) or code.is_done()):
            ending = await self._conclude()
        begins, then, time = self._begins, self._then, self._time
        events, self._pending, self._begins, self._then = self._pending, [], [], []
        if self._has_closed:
            self._has_closed = False
            events[:] = without_what_is_over(events, self.pen.state)
            if not events and ending is None:  # others have ended all that the code no longer waits for
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
            await self.pen.append(events, release=release, time=time)
        except (Overtaken, StoreError) as error:
            release = await self._append_again(error, events, release, time)
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

    async def _append_again(self, trouble: Exception, events: list[e.AnyEvent], release: bool, time: int) -> bool:
        """Append after all, as long as the store is troubled: results that are there must not be lost to that. Returns
        whether the run is given back: not if nothing was left to say."""
        patience = Patience(self.pen, partial(self.worker.in_trouble, self.run))
        while True:
            if isinstance(trouble, StoreError):
                await patience.bear(trouble)
            else:
                events[:] = decided_again(events, self.pen.state)
                if not events:
                    return False
            try:
                await self.pen.append(events, release=release, time=time)
                return release
            except (Overtaken, StoreError) as error:
                trouble = error

    async def _turn(self) -> None:
        """Someone wants to go back. Write what nodes still brought home, and leave the run to whoever drives it next, which
        begins with opening the branch."""
        events, self._pending = self._pending, []
        if events:
            try:
                await self.pen.append(events, time=self._time)
            except (Overtaken, StoreError) as error:
                await self._append_again(error, events, False, self._time)
        self.leave()
        self.worker.spawn(self.worker.arrivals.go_on_with(self.pen))

    # --- endings

    async def _conclude(self) -> Ending:
        """The last word, after all that is still open was closed."""
        self._is_stopping = True
        self._date()
        if not self.code.is_done():
            self.code.broken = NotDurable(
                "the workflow waits for something that is not durable and will never come. Do this in a node."
            )
        self._close_all("the run ended")
        created = self.pen.state.outline.created or self._time
        ms = round((self._time - created) / 1000, 1) or e.NO_TIME
        ending = await concluded(self.code, self.worker.store.blobs, ms)
        return checked_for_unawaited(ending, self.code, self.worker.unawaited)

    async def hold(self, failure: e.Failure, node: str = "") -> None:
        """Stop here and let a person decide. Nothing of what there is changes."""
        self._is_stopping = True
        self._held = held(failure, node)
        await self.write()

    async def _hold(self, ending: e.RunFailed) -> None:
        self._pending, self._begins, self._then = [], [], []
        self.code.fresh.clear()  # what code that diverged asks for is none of the log's business
        self._date()
        await self._commit(ending)

    def leave(self, ending: Ending | None = None) -> None:
        """This process has nothing to do with the run any more."""
        if self.is_over:
            return
        self.is_over = True
        for ask in self.code.open.values():
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
        if not self.worker.is_crowded or any(type(ask) is ChildAsk for ask in begins):
            return False
        return not self._is_due_soon()

    def _is_due_soon(self) -> bool:
        soon = self.worker.ledger.clock() + NEAR
        return any(isinstance(ask, TimerAsk) and ask.due <= soon for ask in self.code.open.values())
