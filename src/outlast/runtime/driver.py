"""Drives one run of a durable function.

The workflow's code runs on a deterministic loop until it is quiet. What it asked for meanwhile becomes events; they are
appended together with the outcome that set the code going, one append per boundary; nothing that was asked for begins before
that append has landed. Outcomes are told to the code one at a time, in the order in which they stand in the log, so that a
replay (`replay`) of the log takes the code the same way.

Whoever brings an outcome carries it to the log: the task of the attempt that ended goes on to append what follows from it.
At most one append of a run is under way; what happens meanwhile goes into the next one. All of it is dated alike, and `now`
is that date.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeAlias

from outlast.errors import Fenced, Held, NotDurable, NotStorable, Overtaken, StoreError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger import Pen
from outlast.lifecycle import decide
from outlast.runtime.asks import CANCELLED, Ask, ChildAsk, NodeAsk, Note, TimerAsk
from outlast.runtime.capture import ReplaySilencer, is_replaying
from outlast.runtime.ends import successor_of
from outlast.runtime.failures import error_from, failure_of, kind_of
from outlast.runtime.loop import Alarm, WorkflowLoop
from outlast.runtime.scope import Scope, current
from outlast.runtime.threaded import Baton, Dismissed
from outlast.runtime.values import fetched, stored

if TYPE_CHECKING:
    from outlast.runtime.functions import Workflow
    from outlast.runtime.worker import Worker

log = logging.getLogger("outlast.runtime")

Ending: TypeAlias = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued | e.RunPaused
NEAR = 2_000_000
"""Microseconds: a run that waits for less than this keeps its place in memory."""
REMEMBERED_FAILURES = 100
"""How many of the newest failures of nodes are known by the node they came from."""


class Continue(BaseException):
    """Raised through workflow code that wants its successor to go on."""

    def __init__(self, inputs: e.Value) -> None:
        self.inputs = inputs


class Pending(asyncio.Future[Any]):
    """An outcome that workflow code waits for. To cancel it withdraws what was asked."""

    ask: Ask

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self.ask.driver.withdraw(self.ask)
        return True


class Driver:
    """One run in this process. Made for a new run (`start`) or for one that was taken over (`go_on`, after a replay)."""

    def __init__(self, worker: Worker, run: RunId, workflow: Workflow[..., Any], created: e.RunCreated) -> None:
        self.worker = worker
        self.attempts = worker.attempts
        self.run = run
        self.workflow = workflow
        self.created = created
        self.pen: Pen | None = None
        self.is_live = False
        self.is_over = False
        self.in_flight = 0
        """How many nodes are being worked on."""
        self.ended: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        """How the run ended, or None if this process let go of it before."""
        self.open: dict[str, Ask] = {}
        self.fresh: dict[str, Ask] = {}
        self.closing: dict[str, Ask] = {}
        self.main: asyncio.Task[Any] | None = None
        self._loop = WorkflowLoop(self)
        self._silencer = ReplaySilencer(on=True)
        self._pending: list[e.AnyEvent] = []
        self._begins: list[Ask] = []
        self._landed: list[asyncio.Future[None]] = []
        self._time = self._now = 0
        self._writing = False
        self._has_news = False
        self._request: e.CancelRequested | e.PauseRequested | None = None
        self._is_stopping = False
        self._ending: Ending | None = None
        self._broken: NotDurable | None = None
        self._failures: dict[int, tuple[BaseException, str]] = {}

    # --- beginnings

    async def start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a new run: its first append makes it. Returns when that has landed."""
        self.pen = self.worker.ledger.begin(self.run, self.worker.id)
        self.pen.news = self.on_news
        self.become_live()
        self._open_batch()
        self._pending += (self.created, e.RunStarted())
        self.run_code(args, kwargs)
        self._writing = True
        try:
            await self._commit()
        except BaseException:
            self.leave(None)
            raise
        finally:
            self._writing = False
        if self._has_more() and not self.is_over:
            self.worker.spawn(self.write())

    async def go_on(
        self, news: Iterable[Entry], *, is_new: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """After a replay: what the code asked for and the log does not have begins, what was open goes on."""
        assert self.pen is not None
        state, spec = self.pen.state, self.workflow.spec
        self.pen.news = self.on_news
        self.become_live()
        self._open_batch()
        if state.outline.version != spec.code:
            changed = e.VersionChanged(
                version=spec.code, previous=state.outline.version, reason="replayed without a difference"
            )
            self._pending.append(changed)
        if is_new:
            self._pending.append(e.RunStarted())
            self.run_code(args, kwargs)
        for ask in list(self.open.values()):
            if ask.key not in self.fresh and ask.go_on(state, self._pending):
                self._begins.append(ask)
        for ask in self.closing.values():
            ask.close(self._pending, CANCELLED)
        self.closing.clear()
        self._ask_aloud()
        self.pen.arrived.extendleft(reversed(list(news)))
        outline = state.outline
        if outline.cancel_requested:
            self._request = e.CancelRequested()
        elif outline.pause_requested:
            self._request = e.PauseRequested()
        await self.write()

    def become_live(self) -> None:
        self.is_live = True
        self._silencer.on = False

    def run_code(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Set the workflow's code going, up to where it first waits."""
        context = copy_context()
        context.run(current.set, Scope(self))
        context.run(is_replaying.set, self._silencer)
        fn = self.workflow.fn
        if inspect.iscoroutinefunction(fn):
            coroutine = context.run(fn, *args, **kwargs)
        else:
            coroutine = _in_thread(fn, args, kwargs)
        self.main = asyncio.Task(coroutine, loop=self._loop, context=context)
        self.turn()

    # --- what workflow code asks (called on its loop)

    def now(self) -> float:
        return self._now / 1e6

    @property
    def now_us(self) -> int:
        return self._now

    @now_us.setter
    def now_us(self, time: int) -> None:
        self._now = time

    def ask(self, ask: Ask) -> asyncio.Future[Any]:
        """Take note of what the code asks for; the outcome will be told to what this returns."""
        if self.is_over:
            raise Dismissed("this process no longer drives the workflow")
        ask.driver = self
        if isinstance(ask, ChildAsk):
            ask.bound_to(self.run)
        if ask.key in self.open:
            raise NotDurable(f"{ask.told()} is asked for twice at once")
        self.open[ask.key] = self.fresh[ask.key] = ask
        ask.future = future = Pending(loop=self._loop)
        future.ask = ask
        return future

    def note(self, note: Note) -> None:
        """Take note of what the code states."""
        if self.is_over:
            raise Dismissed("this process no longer drives the workflow")
        note.driver = self
        self.fresh[note.key] = note

    def set_alarm(self, alarm: Alarm) -> None:
        scope = current.get()
        ask = TimerAsk(scope.named("timer"), round(alarm.moment * 1e6), alarm)
        self.ask(ask)
        alarm.cancel_timer = lambda: self.withdraw(ask)

    def withdraw(self, ask: Ask) -> None:
        """The code no longer waits for this."""
        if self.open.pop(ask.key, None) is None or self.is_over:
            return
        if self.fresh.pop(ask.key, None) is not None:
            return  # nobody has heard of it yet
        if self.is_live:
            ask.close(self._pending, CANCELLED)
        else:
            self.closing[ask.key] = ask

    # --- outcomes (called on the engine's loop)

    async def completed(self, ask: NodeAsk, attempt: int, output: e.Value, value: Any, ms: float) -> None:
        """An attempt brought a result."""
        if self.is_over or ask.attempt != attempt or self.open.pop(ask.key, None) is None:
            return
        self.in_flight -= 1
        self._open_batch()
        self._pending.append(e.NodeCompleted(node=ask.name, attempt=attempt, output=output, ms=ms))
        if not self._is_stopping:
            ask.future.set_result(value)
            self.turn()
            self._ask_aloud()
        await self.write()

    async def failed(self, ask: NodeAsk, attempt: int, failure: e.Failure, ms: float) -> None:
        """An attempt failed: it is tried again as its policy says, or the code is told."""
        if self.is_over or ask.attempt != attempt or ask.key not in self.open:
            return
        assert self.pen is not None
        self.in_flight -= 1
        self._open_batch()
        (said,) = decide.fail_node(
            self.pen.state, ask.name, failure, ask.spec.retry, now=self._time, chance=self.worker.chance(), ms=ms
        )
        self._pending.append(said)
        if isinstance(said, e.NodeFailed) and said.retry_at is not None:
            due = said.retry_at
            self._begins.append(_Then(lambda: ask.wait_for_retry(due)))
        else:
            del self.open[ask.key]
            if not self._is_stopping:
                self.tell_failure(ask, failure)
                self.turn()
                self._ask_aloud()
        await self.write()

    async def crashed(self, ask: NodeAsk, attempt: int, what: str) -> None:
        """The helper process of an attempt died: another attempt, or, after too many, a hold."""
        if self.is_over or ask.attempt != attempt or ask.key not in self.open:
            return
        assert self.pen is not None
        node = self.pen.state.nodes.get(ask.name)
        if node is not None and node.crashes + 1 >= decide.CRASHES_BEFORE_HOLD:
            reason = f"node {ask.name}: {what}, {decide.CRASHES_BEFORE_HOLD} times"
            await self.hold(e.Failure(kind_of(Held), reason, category="crash"), ask.name)
            return
        self._open_batch()
        ask.attempt += 1
        self._pending.append(e.NodeScheduled(node=ask.name, attempt=ask.attempt, cause="crash"))
        self._pending.append(ask.started())
        self._begins.append(ask)
        await self.write()

    def fired(self, ask: TimerAsk) -> None:
        """The time of a timer has come."""
        if self.is_over or self._is_stopping or self.open.pop(ask.key, None) is None:
            return
        self._open_batch()
        self._pending.append(e.TimerFired(timer=ask.name))
        self.tell_fired(ask)
        self.turn()
        self._ask_aloud()
        self._write_soon()

    async def record(self, event: e.AnyEvent) -> None:
        """Say something about a node under way, and return when it is durable."""
        if self.is_over:
            raise Fenced(f"run {self.run} is no longer driven here")
        self._open_batch()
        self._pending.append(event)
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._landed.append(landed)
        if self._writing:
            await landed
        else:
            await self.write()
            if not landed.done():
                raise Fenced(f"run {self.run} is no longer driven here")

    def say_later(self, events: list[e.AnyEvent], ask: Ask) -> None:
        """Say something that no outcome brought about; `ask` begins when it has landed."""
        if self.is_over or self._is_stopping:
            return
        self._open_batch()
        self._pending += events
        self._begins.append(ask)
        self._write_soon()

    def on_news(self) -> None:
        """Others have written to this run."""
        self._has_news = True
        self._write_soon()

    # --- telling the code

    def tell_fired(self, ask: TimerAsk) -> None:
        if ask.alarm is not None:
            self._loop.ring(ask.alarm)
        elif not ask.future.done():
            ask.future.set_result(None)

    def tell_failure(self, ask: Ask, failure: e.Failure) -> None:
        if ask.future.done():
            return
        error = error_from(failure)
        self._failures[id(error)] = (error, ask.name)
        if len(self._failures) > REMEMBERED_FAILURES:
            del self._failures[next(iter(self._failures))]
        ask.future.set_exception(error)
        ask.future.exception()  # nobody has to look at it

    def tell(self, ask: Ask, value: Any) -> None:
        if not ask.future.done():
            ask.future.set_result(value)

    def turn(self) -> None:
        """Let the code run until it is quiet."""
        try:
            self._loop.run_until_quiet()
        except NotDurable as error:
            self._broken = error

    # --- from what the code asked to the log

    def _open_batch(self) -> None:
        """Date what is about to be said. Everything said until the next append has this date."""
        if not self._pending:
            self._time = max(self.worker.ledger.clock(), self._now)
        self._now = self._time

    def _ask_aloud(self) -> None:
        for ask in self.fresh.values():
            ask.say(self._pending)
            if type(ask) is not Note:
                self._begins.append(ask)
                if type(ask) is NodeAsk:
                    self.in_flight += 1
        self.fresh.clear()

    def _has_more(self) -> bool:
        pen = self.pen
        return bool(
            self._pending
            or self._has_news
            or self._request
            or (pen and pen.arrived)
            or (self.main and self.main.done())
            or self._broken
        )

    def _write_soon(self) -> None:
        if not self._writing and not self.is_over:
            self.worker.spawn(self.write())

    async def write(self) -> None:
        """Append what there is to say, and what comes of it, until there is nothing more. One task at a time does."""
        if self._writing or self.is_over:
            return
        self._writing = True
        try:
            while not self.is_over and self._has_more():
                await self._step()
        except Fenced:
            self.leave(None)
        except Exception as error:
            log.exception("run %s: the driver failed, the run is taken up again from its log", self.run)
            self.leave(None)
            self.worker.take_up_again(self.run, error)
        finally:
            self._writing = False

    async def _step(self) -> None:
        assert self.pen is not None
        if self._has_news:
            await self._catch_up()
        if self.pen.arrived:
            await self._hear()
        elif self._request is not None and not self._is_stopping:
            await self._obey(self._request)
        else:
            await self._commit()

    async def _catch_up(self) -> None:
        assert self.pen is not None
        try:
            self._has_news = False
            await self.pen.catch_up()
        except StoreError as error:
            self._has_news = True
            await self.worker.in_trouble(self.run, error, 0.5)

    async def _commit(self) -> None:
        """One append, and what follows from its having landed."""
        self._ask_aloud()
        ending = self._ending or await self._conclusion()
        begins, landed, time = self._begins, self._landed, self._time
        events, self._pending, self._begins, self._landed = self._pending, [], [], []
        if ending is not None:
            events.append(ending)
            release = not self._has_duties(ending)
        else:
            release = self._wants_to_rest(begins)
        if events:
            await self._append(events, release, time)
        for future in landed:
            if not future.done():
                future.set_result(None)
        if ending is not None:
            await self.worker.finish(self, ending, is_released=release)
        elif release:
            self.leave(None)
        else:
            for ask in begins:
                if ask.key in self.open or type(ask) is _Then:
                    ask.begin()

    async def _append(self, events: list[e.AnyEvent], release: bool, time: int) -> None:
        """Append, and try again as long as the store is troubled: results that are there must not be lost to that."""
        assert self.pen is not None
        pause = 0.05
        while True:
            try:
                await self.pen.append(events, release=release, time=time)
                return
            except Overtaken:
                self._look_at_requests()
                events[:] = [event for event in events if self._is_still_open(event, events)]
            except StoreError as error:
                if self.pen.head.version == 0:
                    raise  # nothing has been promised to anybody yet
                await self.worker.in_trouble(self.run, error, pause)
                pause = min(pause * 2, 5.0)

    def _is_still_open(self, event: e.AnyEvent, events: list[e.AnyEvent]) -> bool:
        """What others ended meanwhile need not be ended again."""
        assert self.pen is not None
        match event:
            case e.TimerCancelled():
                said = any(isinstance(each, e.TimerSet) and each.timer == event.timer for each in events)
                return said or self.pen.state.waits.get(f"timer:{event.timer}") is not None
            case e.InteractionWithdrawn():
                name = event.interaction
                said = any(isinstance(each, e.InteractionRequested) and each.interaction == name for each in events)
                return said or self.pen.state.waits.get(f"interaction:{name}") is not None
            case _:
                return True

    # --- news and requests

    async def _hear(self) -> None:
        """Tell the code, one by one, what others wrote. In the log NewsHeard stands where the code heard of it."""
        assert self.pen is not None
        while self.pen.arrived and not self.is_over:
            entry = self.pen.arrived.popleft()
            if isinstance(entry.event, e.CancelRequested | e.PauseRequested):
                self._request = self._request or entry.event
                continue
            telling = await self.understand(entry.event)
            if telling is None or self._is_stopping:
                continue
            self._open_batch()
            self._pending.append(e.NewsHeard(upto=entry.seq))
            telling()
            self.turn()
            self._ask_aloud()

    async def understand(self, event: e.AnyEvent) -> Callable[[], None] | None:
        """What is to be done to tell the code of a guest's event; None if it does not wait for that."""
        match event:
            case e.InteractionAnswered():
                ask: Any = self.open.get(f"interaction:{event.interaction.partition('~')[0]}")
                if ask is None or ask.interaction != event.interaction:
                    return None
                answer = ask.codec.decode(await fetched(event.answer, self.worker.store.blobs))
                return lambda: self._settle(ask, answer)
            case e.ChildEnded():
                child: Any = self.open.get(f"child:{event.child}")
                if child is None:
                    return None
                if event.status != "completed":
                    error = event.error or e.Failure(
                        "outlast.errors:Cancelled", f"child run {event.child} was cancelled"
                    )
                    return lambda: self._settle_failed(child, error)
                raw = await fetched(event.output, self.worker.store.blobs)
                value = child.workflow.arguments.returns.decode(raw)
                return lambda: self._settle(child, value)
            case e.TimerFired():
                timer: Any = self.open.get(f"timer:{event.timer}")
                return None if timer is None else lambda: self._ring(timer)
            case _:
                return None

    def _settle(self, ask: Ask, value: Any) -> None:
        del self.open[ask.key]
        self.tell(ask, value)

    def _settle_failed(self, ask: Ask, failure: e.Failure) -> None:
        del self.open[ask.key]
        self.tell_failure(ask, failure)

    def _ring(self, ask: TimerAsk) -> None:
        del self.open[ask.key]
        if ask.handle is not None:
            ask.handle.cancel()
        self.tell_fired(ask)

    def _look_at_requests(self) -> None:
        assert self.pen is not None
        outline = self.pen.state.outline
        if outline.cancel_requested and self._request is None:
            self._request = e.CancelRequested()
        elif outline.pause_requested and self._request is None:
            self._request = e.PauseRequested()

    async def _obey(self, request: e.CancelRequested | e.PauseRequested) -> None:
        """Stop the nodes, and end or pause the run. What nodes still bring home meanwhile is kept."""
        self._is_stopping = True
        nodes = [ask for ask in self.open.values() if isinstance(ask, NodeAsk)]
        await self.attempts.stop_all(nodes)
        self._open_batch()
        if isinstance(request, e.PauseRequested):
            self._ending = e.RunPaused(reason=request.reason)
        else:
            self._close_all(f"the run was cancelled{f': {request.reason}' if request.reason else ''}")
            self._ending = e.RunCancelled(by=request.by, reason=request.reason)
        await self._commit()

    def _close_all(self, reason: str) -> None:
        cut_short = e.Failure(decide.RUN_ENDED, reason, category="cancelled")
        for key, ask in list(self.open.items()):
            if self.fresh.pop(key, None) is None:
                ask.close(self._pending, cut_short)
        self.open.clear()
        self.fresh.clear()

    # --- endings

    async def _conclusion(self) -> Ending | None:
        """The last word, if the code is done, or cannot go on."""
        main, error = self.main, self._broken
        if error is None and main is not None and not main.done() and not self.open:
            error = NotDurable(
                "the workflow waits for something that is not durable and will never come. Do this in a node."
            )
        if error is not None:
            self._is_stopping = True
            self._open_batch()
            self._close_all("the run ended")
            return self._failed(error)
        return await self._conclude(main) if main is not None and main.done() else None

    async def _conclude(self, main: asyncio.Task[Any]) -> Ending:
        """The code is done: what is still open is closed, and the last word is its result."""
        self._open_batch()
        self._is_stopping = True
        self._close_all("the run ended")
        try:
            value = main.result()
        except Continue as wanted:
            inputs = await stored(wanted.inputs, self.worker.store.blobs)
            return e.RunContinued(successor=successor_of(self.run), carried=inputs)
        except BaseException as error:
            return self._failed(error)
        try:
            output = self.workflow.arguments.returns.encode(value, "result")
        except NotStorable as error:
            return self._failed(error)
        return e.RunCompleted(output=await stored(output, self.worker.store.blobs))

    def _failed(self, error: BaseException) -> e.RunFailed:
        if isinstance(error, RuntimeError) and "attached to a different loop" in str(error):
            error = NotDurable(f"the workflow awaits something that is not durable ({error}). Do this in a node.")
        return e.RunFailed(error=failure_of(error), node=self._node_behind(error), recoverable=True)

    def _node_behind(self, error: BaseException | None) -> str:
        """The node whose failure an error is, or came from."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if id(error) in self._failures:
                return self._failures[id(error)][1]
            if isinstance(error, BaseExceptionGroup):
                return next(filter(None, map(self._node_behind, error.exceptions)), "")
            error = error.__cause__ or error.__context__
        return ""

    async def hold(self, failure: e.Failure, node: str = "") -> None:
        """Stop here and let a person decide. Nothing of what there is changes."""
        assert self.pen is not None
        self._is_stopping = True
        self._pending, self._begins = [], []
        self._open_batch()
        ending = e.RunFailed(error=failure, node=node, recoverable=True, held=True)
        self._writing = True
        try:
            await self._append([ending], True, self._time)
        finally:
            self._writing = False
        await self.worker.finish(self, ending, is_released=True)

    def _has_duties(self, ending: Ending) -> bool:
        """Whether others have to be told before the run is given back."""
        if isinstance(ending, e.RunPaused):
            return False
        return bool(self.created.parent) or isinstance(ending, e.RunContinued)

    def _wants_to_rest(self, begins: list[Ask]) -> bool:
        """Whether the run is to be given back with this append, because it only waits and there is no room to keep it."""
        if self.in_flight or not self.worker.is_crowded or any(type(ask) is ChildAsk for ask in begins):
            return False
        return not self._is_due_soon()

    def _is_due_soon(self) -> bool:
        soon = self.worker.ledger.clock() + NEAR
        return any(isinstance(ask, TimerAsk) and ask.due <= soon for ask in self.open.values())

    @property
    def is_idle(self) -> bool:
        """Whether it only waits for others, or for a time that is not near."""
        return not (self._writing or self.in_flight or self._has_more() or self._is_due_soon())

    async def rest(self) -> None:
        """Give the run back while it waits."""
        if self._writing or self.is_over or self.pen is None:
            return
        self._writing = True
        try:
            if await self.pen.let_go():
                self.leave(None)
        except Fenced:
            self.leave(None)
        except StoreError as error:
            log.warning("run %s could not be given back: %s", self.run, error)
        finally:
            self._writing = False
        if not self.is_over and self._has_more():
            await self.write()

    async def stop(self) -> None:
        """Let the code come no further, and wait until nothing is being written."""
        self._is_stopping = True
        while self._writing:
            await asyncio.sleep(0.001)

    def leave(self, ending: Ending | None = None) -> None:
        """This process has nothing to do with the run any more."""
        if self.is_over:
            return
        self.is_over = True
        for ask in self.open.values():
            if isinstance(ask, NodeAsk):
                self.attempts.stop(ask)
                if ask.alarm is not None:
                    ask.alarm.cancel()
            elif isinstance(ask, TimerAsk) and ask.handle is not None:
                ask.handle.cancel()
        for future in self._landed:
            if not future.done():
                future.set_exception(Fenced(f"run {self.run} is no longer driven here"))
                future.exception()
        self._dismiss_code()
        self.worker.forget(self)
        if not self.ended.done():
            self.ended.set_result(ending)

    def _dismiss_code(self) -> None:
        if self.main is None or self.main.done():
            return
        coroutine: Any = self.main.get_coro()
        with suppress(BaseException):  # code may do anything in its `finally`; nobody listens any more
            coroutine.close()

    # --- time and children

    def at(self, due: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call at a time by the ledger's clock, on the engine's loop."""
        delay = max(0, due - self.worker.ledger.clock()) / 1e6
        return asyncio.get_running_loop().call_later(min(delay, 86_400.0), self._when_due, due, call, context=Context())

    def _when_due(self, due: int, call: Callable[[], None]) -> None:
        if self.worker.ledger.clock() < due:
            self.at(due, call)
        elif not self.is_over:
            call()

    def start_child(self, ask: ChildAsk) -> None:
        self.worker.spawn(self.worker.start_child(self.run, ask))

    def cancel_child(self, ask: ChildAsk) -> None:
        self.worker.spawn(self.worker.cancel_child(ask.child))


class _Then(Ask):
    """Something to do once an append has landed."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__("", "")
        self.begin = call  # type: ignore[method-assign]


async def _in_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return await Baton(fn, args, kwargs).run()
