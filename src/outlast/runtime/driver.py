"""Drives one run of a durable function: from what its code asks to the log, and from outcomes back to the code.

What the code asked for becomes events; they are appended together with the outcome that set the code going, one append per
boundary; nothing that was asked for begins before that append has landed. Outcomes are told to the code one at a time, in
the order in which they stand in the log, so that a replay of the log takes the code the same way.

Whoever brings an outcome carries it to the log: the task of the attempt that ended goes on to append what follows from it.
At most one append of a run is under way; what happens meanwhile goes into the next one. All of it is dated alike, and `now`
is that date.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from outlast.errors import BadInput, Diverged, Fenced, Held, NotDurable, Overtaken, StoreError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger import Pen
from outlast.lifecycle import decide
from outlast.lifecycle.state import NodeStatus
from outlast.runtime import children
from outlast.runtime.appending import Patience, without_what_is_over
from outlast.runtime.asks import CANCELLED, Ask, ChildAsk, NodeAsk, Note, TimerAsk
from outlast.runtime.code import Code
from outlast.runtime.endings import concluded
from outlast.runtime.failures import kind_of
from outlast.runtime.news import understood

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker

log = logging.getLogger("outlast.runtime")

Ending: TypeAlias = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued | e.RunPaused
Request: TypeAlias = e.CancelRequested | e.PauseRequested
DIVERGED = kind_of(Diverged)
PATIENCE = 2_000
"""Milliseconds that an engine which closes waits for an append that a troubled store does not take."""
NEAR = 2_000_000
"""Microseconds: a run that waits for less than this keeps its place in memory."""


class Driver:
    """One run in this process. A new one is begun by `start`; one that was taken over goes on by `go_on`, after a replay."""

    __slots__ = (
        "_begins",
        "_has_news",
        "_held",
        "_is_stopping",
        "_is_writing",
        "_pending",
        "_request",
        "_then",
        "_time",
        "_waiters",
        "attempts",
        "code",
        "created",
        "in_flight",
        "is_over",
        "pen",
        "starting",
        "worker",
    )

    def __init__(self, worker: Worker, code: Code, created: e.RunCreated, pen: Pen) -> None:
        self.worker = worker
        self.attempts = worker.attempts
        self.code = code
        self.created = created
        self.pen = pen
        self.is_over = False
        self.in_flight = 0
        """How many nodes are being worked on."""
        self.starting = 0
        """How many children are about to be created."""
        self._pending: list[e.AnyEvent] = []
        self._begins: list[Ask] = []
        self._then: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[Ending | None]] = []
        self._time = 0
        self._is_writing = False
        self._is_stopping = False
        self._has_news = False
        self._request: Request | None = None
        self._held: e.RunFailed | None = None

    @property
    def run(self) -> RunId:
        return self.code.run

    def ended(self) -> asyncio.Future[Ending | None]:
        """How the run ends, once it has, or None if this process lets go of it before."""
        waiter: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        if self.is_over:
            waiter.set_result(None)
        else:
            self._waiters.append(waiter)
        return waiter

    # --- beginnings

    async def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a new run: its first append makes it. Returns when that has landed."""
        self._become_live()
        self._date()
        self._pending += (self.created, e.RunStarted())
        self.code.begin(args, kwargs)
        self._is_writing = True
        try:
            await self._commit()
        except BaseException:
            self.leave()
            raise
        finally:
            self._is_writing = False
        if self._has_more():
            self._write_soon()

    async def go_on(self, news: Iterable[Entry], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """After a replay: what the code asked for and the log does not have begins, what was open goes on."""
        state, spec, code = self.pen.state, self.code.workflow.spec, self.code
        self._become_live()
        self._date()
        if state.outline.version != spec.code:
            self._pending.append(
                e.VersionChanged(
                    version=spec.code, previous=state.outline.version, reason="it replayed without a difference"
                )
            )
        if code.main is None:
            self._pending.append(e.RunStarted())
            code.begin(args, kwargs)
        known = [ask for key, ask in code.open.items() if key not in code.fresh]
        interrupted = self._interrupted_for_good(known)
        if interrupted:
            reason = f"node {interrupted} was interrupted and is not to be repeated without a person's word"
            await self.hold(e.Failure(kind_of(Held), reason, category="crash"), interrupted)
            return
        for ask in known:
            ask.driver = self
            if ask.go_on(state, self._pending):
                self._begins.append(ask)
        closing, code.closing = code.closing, {}
        for ask in closing.values():
            self._close(ask)
        self.pen.arrived.extendleft(reversed(list(news)))
        self._look_at_requests()
        if not self.pen.arrived:
            self._ask_aloud()  # the log may end with an outcome that nobody told the code of
        await self.write()

    def _interrupted_for_good(self, asks: list[Ask]) -> str:
        """The name of a node that somebody began, did not finish, and that must not simply be begun again."""
        for ask in asks:
            node = self.pen.state.nodes.get(ask.name) if isinstance(ask, NodeAsk) else None
            if node is not None and node.status is NodeStatus.STARTED and not node.repeatable:
                return ask.name
        return ""

    def _become_live(self) -> None:
        self.pen.news = self.on_news
        self.code.close = self._close
        self.code.silencer.on = False

    # --- outcomes

    def completed(self, ask: NodeAsk, attempt: int, output: e.Value, value: Any, ms: float) -> None:
        """An attempt brought a result. What follows is to be written."""
        if self.is_over or ask.attempt != attempt or self.code.open.pop(ask.key, None) is None:
            return
        self.in_flight -= 1
        self._date()
        self._pending.append(e.NodeCompleted(node=ask.name, attempt=attempt, output=output, ms=ms))
        if not self._is_stopping:
            self.code.tell(ask, value)
            self._ask_aloud()

    def failed(self, ask: NodeAsk, attempt: int, failure: e.Failure, ms: float) -> None:
        """An attempt failed: it is tried again as its policy says, or the code is told. What follows is to be written."""
        if self.is_over or ask.attempt != attempt or ask.key not in self.code.open:
            return
        self.in_flight -= 1
        self._date()
        chance = self.worker.chance()
        said = decide.fail_node(self.pen.state, ask.name, failure, ask.spec.retry, now=self._time, chance=chance, ms=ms)
        self._pending += said
        due = next((event.retry_at for event in said if isinstance(event, e.NodeFailed)), None)
        if due is not None:
            ask.is_waiting = True
            self._then.append(lambda: ask.wait_for_retry(due))
            return
        del self.code.open[ask.key]
        if not self._is_stopping:
            self.code.tell_failure(ask, failure)
            self._ask_aloud()

    async def crashed(self, ask: NodeAsk, attempt: int, what: str) -> None:
        """The helper process of an attempt died: another attempt, or, after too many, a hold."""
        if self.is_over or ask.attempt != attempt or ask.key not in self.code.open:
            return
        node = self.pen.state.nodes.get(ask.name)
        is_tired = node is not None and node.crashes + 1 >= decide.CRASHES_BEFORE_HOLD
        if is_tired or not ask.spec.repeatable:
            times = f", {decide.CRASHES_BEFORE_HOLD} times" if is_tired else ", and it is not to be repeated by itself"
            reason = f"node {ask.name}: {what}{times}"
            await self.hold(e.Failure(kind_of(Held), reason, category="crash"), ask.name)
            return
        self._date()
        ask.attempt += 1
        self._pending += (e.NodeScheduled(node=ask.name, attempt=ask.attempt, cause="crash"), ask.started())
        self._begins.append(ask)
        await self.write()

    def fired(self, ask: TimerAsk) -> None:
        """The time of a timer has come."""
        if self.is_over or self._is_stopping or self.code.open.pop(ask.key, None) is None:
            return
        self._date()
        self._pending.append(e.TimerFired(timer=ask.name))
        self.code.tell_fired(ask)
        self._ask_aloud()
        self._write_soon()

    async def record(self, event: e.AnyEvent) -> None:
        """Say something about a node under way, and return when it is durable."""
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.is_over:
            raise Fenced(f"run {self.run} is no longer driven here")
        self._date()
        self._pending.append(event)
        self._then.append(lambda: None if landed.done() else landed.set_result(None))
        await self.write()
        either: list[asyncio.Future[Any]] = [landed, self.ended()]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not landed.done():
            raise Fenced(f"run {self.run} is no longer driven here")

    def say_later(self, events: list[e.AnyEvent], ask: Ask) -> None:
        """Say something that no outcome brought about; `ask` begins when it has landed."""
        if self.is_over or self._is_stopping:
            return
        self._date()
        self._pending += events
        self._begins.append(ask)
        self._write_soon()

    def on_news(self) -> None:
        """Others have written to this run."""
        self._has_news = True
        self._write_soon()

    # --- to the log

    def _date(self) -> None:
        """Date what is about to be said. Everything said until the next append has this date."""
        code = self.code
        if not self._pending:
            self._time = max(self.worker.ledger.clock(), code.now_us)
        code.now_us = self._time

    def _ask_aloud(self) -> None:
        """Put into words what the code has asked for since."""
        fresh = self.code.fresh
        if not fresh:
            return
        for ask in fresh.values():
            ask.say(self._pending)
            if type(ask) is not Note:
                ask.driver = self
                self._begins.append(ask)
                if type(ask) is NodeAsk:
                    self.in_flight += 1
        fresh.clear()

    def _has_more(self) -> bool:
        return not self.is_over and bool(
            self._pending or self._has_news or self._request or self.pen.arrived or self.code.is_done or self._held
        )

    def _write_soon(self) -> None:
        if not self._is_writing and not self.is_over:
            self.worker.spawn(self.write())

    async def write(self) -> None:
        """Append what there is to say, and what comes of it, until there is nothing more. One task at a time does."""
        if self._is_writing:
            return
        self._is_writing = True
        try:
            while self._has_more():
                if self._held is not None:
                    await self._hold(self._held)
                elif self._has_news or self.pen.arrived:
                    await self._hear()
                elif self._request is not None and not self._is_stopping:
                    await self._obey(self._request)
                else:
                    await self._commit()
        except Fenced:
            self.leave()
        except Exception as error:
            log.exception("run %s: the driver failed, the run is taken up again from its log", self.run)
            self.leave()
            self.worker.take_up_again(self.run, error)
        finally:
            self._is_writing = False

    async def _commit(self, ending: Ending | None = None) -> None:
        """One append, and what follows from its having landed."""
        if self.in_flight > len(self._begins) and ending is None:
            await asyncio.sleep(0)  # nodes that run may be about to end: their outcomes can share the append
        code = self.code
        self._ask_aloud()
        # What ends while an engine closes is written and not told: the code then waits for nothing, and is not at its end.
        if ending is None and (code.is_done or (not code.open and not self._is_stopping)):
            ending = await self._conclude()
        begins, then, time = self._begins, self._then, self._time
        events, self._pending, self._begins, self._then = self._pending, [], [], []
        if ending is None:
            may_rest = not self._is_stopping and self.in_flight + self.starting == 0
            release = may_rest and self._wants_to_rest(begins)
        else:
            events.append(ending)
            release = not self._has_duties(ending, events)
        try:
            await self.pen.append(events, release=release, time=time)
        except (Overtaken, StoreError) as error:
            await self._append_again(error, events, release, time)
        if ending is not None:
            await self.worker.finish(self, ending, is_released=release)
        elif release:
            self.leave()
        else:
            for ask in begins:
                if ask.key in code.open:
                    ask.begin()
        for call in then:
            call()

    async def _append_again(self, trouble: Exception, events: list[e.AnyEvent], release: bool, time: int) -> None:
        """Append after all, as long as the store is troubled: results that are there must not be lost to that."""
        patience = Patience(self.pen, partial(self.worker.in_trouble, self.run))
        while True:
            if isinstance(trouble, StoreError):
                await patience.bear(trouble)
            else:
                self._look_at_requests()
                events[:] = without_what_is_over(events, self.pen.state)
            try:
                await self.pen.append(events, release=release, time=time)
                return
            except (Overtaken, StoreError) as error:
                trouble = error

    # --- news and requests

    async def _hear(self) -> None:
        """Tell the code, one by one, what others wrote. In the log NewsHeard stands where the code heard of it."""
        if self._has_news:
            await self._catch_up()
        while self.pen.arrived and not self.is_over:
            entry = self.pen.arrived.popleft()
            if isinstance(entry.event, e.CancelRequested | e.PauseRequested):
                self._request = self._request or entry.event
                continue
            try:
                telling = await understood(self.code, entry.event, self.worker.store.blobs)
            except BadInput as error:
                said = f"the code cannot read what event {entry.seq} tells it: {error}"
                self._held = held(e.Failure(DIVERGED, said, category="permanent"))
                return
            if telling is not None and not self._is_stopping:
                self._date()
                self._pending.append(e.NewsHeard(upto=entry.seq))
                telling()
                self._ask_aloud()

    async def _catch_up(self) -> None:
        self._has_news = False
        try:
            await self.pen.catch_up()
        except StoreError as error:
            self._has_news = True
            await self.worker.in_trouble(self.run, error, 0.5)

    def _look_at_requests(self) -> None:
        outline = self.pen.state.outline
        if self._request is None and outline.cancel_requested:
            self._request = e.CancelRequested()
        elif self._request is None and outline.pause_requested:
            self._request = e.PauseRequested()

    async def _obey(self, request: Request) -> None:
        """Stop the nodes, and end or pause the run. What nodes still bring home meanwhile is kept."""
        self._is_stopping = True
        await self.attempts.stop_all([ask for ask in self.code.open.values() if isinstance(ask, NodeAsk)])
        self._date()
        if isinstance(request, e.PauseRequested):
            await self._commit(e.RunPaused(reason=request.reason))
            return
        self._close_all(f"the run was cancelled{f': {request.reason}' if request.reason else ''}")
        await self._commit(e.RunCancelled(by=request.by, reason=request.reason))

    # --- endings

    async def _conclude(self) -> Ending:
        """The last word, after all that is still open was closed."""
        self._is_stopping = True
        self._date()
        if not self.code.is_done:
            self.code.broken = NotDurable(
                "the workflow waits for something that is not durable and will never come. Do this in a node."
            )
        self._close_all("the run ended")
        created = self.pen.state.outline.created or self._time
        ms = round((self._time - created) / 1000, 1) or e.NO_TIME
        return await concluded(self.code, self.worker.store.blobs, ms)

    def _close(self, ask: Ask, reason: e.Failure = CANCELLED) -> None:
        ask.driver = self
        self._date()
        ask.close(self._pending, reason)

    def _close_all(self, reason: str) -> None:
        cut_short = e.Failure(decide.RUN_ENDED, reason, category="cancelled")
        code = self.code
        for key, ask in list(code.open.items()):
            if key not in code.fresh:
                self._close(ask, cut_short)
        code.open.clear()
        code.fresh.clear()

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

    def _has_duties(self, ending: Ending, events: list[e.AnyEvent]) -> bool:
        """Whether others have to be told before the run is given back."""
        if isinstance(ending, e.RunPaused) or (isinstance(ending, e.RunFailed) and ending.held):
            return False  # held is not over
        has_children = bool(self.pen.state.children) or any(isinstance(each, e.ChildStarted) for each in events)
        return has_children or bool(self.created.parent) or isinstance(ending, e.RunContinued)

    def _wants_to_rest(self, begins: list[Ask]) -> bool:
        """Whether the run is to be given back with this append, because it only waits and there is no room to keep it."""
        if not self.worker.is_crowded or any(type(ask) is ChildAsk for ask in begins):
            return False
        return not self._is_due_soon()

    def _is_due_soon(self) -> bool:
        soon = self.worker.ledger.clock() + NEAR
        return any(isinstance(ask, TimerAsk) and ask.due <= soon for ask in self.code.open.values())

    @property
    def is_idle(self) -> bool:
        """Whether it only waits for others, or for a time that is not near."""
        is_busy = self._is_writing or self.in_flight or self.starting
        return not (is_busy or self._has_more() or self._is_due_soon())

    async def rest(self) -> None:
        """Give the run back while it waits."""
        if self._is_writing or self.is_over:
            return
        self._is_writing = True
        try:
            if await self.pen.let_go():
                self.leave()
        except Fenced:
            self.leave()
        except StoreError as error:
            log.warning("run %s could not be given back: %s", self.run, error)
        finally:
            self._is_writing = False
        await self.write()

    async def stop(self) -> None:
        """Let the code come no further, and wait until nothing is being written."""
        self._is_stopping = True
        for _ in range(PATIENCE):  # once, at the end of an engine: not worth an event at every append
            if not self._is_writing:
                break
            await asyncio.sleep(0.001)

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

    # --- time and children

    def at(self, due: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call at a time by the ledger's clock, on the engine's loop."""
        delay = max(0, due - self.worker.ledger.clock()) / 1e6
        return self.worker.loop.call_later(min(delay, 86_400.0), self._when_due, due, call, context=Context())

    def _when_due(self, due: int, call: Callable[[], None]) -> None:
        if self.is_over:
            return
        if self.worker.ledger.clock() < due:
            self.at(due, call)
        else:
            call()

    def start_child(self, ask: ChildAsk, *, again: bool = False) -> None:
        self.worker.spawn(children.start(self.worker, self, ask, again=again))

    async def children_started(self) -> None:
        """Wait until no child is about to be created."""
        while self.starting:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(0.002)

    def wants(self, ask: Ask) -> bool:
        """Whether the code still waits for this, here."""
        return not self.is_over and ask.key in self.code.open

    def cancel_child(self, ask: ChildAsk) -> None:
        """Once it is durable that the code gave it up: until then a replay may still want it."""
        self._then.append(lambda: self.worker.spawn(children.cancel(self.worker, self, ask.child)))


def held(failure: e.Failure, node: str = "") -> e.RunFailed:
    """What is said of a run that waits for a person's decision."""
    return e.RunFailed(error=failure, node=node, recoverable=True, held=True)
