"""Tries of nodes: on the loop, in a thread or far away; timed, stopped, and brought home as a result or a failure.

A node may raise anything, return anything, ignore being cancelled or die: whatever happens becomes an outcome of its attempt
and nothing else. No second attempt begins while the one before still runs: one that does not stop when its time is up, or
when its run is paused, keeps its node waiting, unless it was the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from outlast.errors import NotStorable
from outlast.execution.executors import Executors, InStore, Maker
from outlast.execution.node_context import Inside, idempotency_key_of
from outlast.execution.partial_file import Written
from outlast.execution.process_entry import main_of_this_process
from outlast.execution.processes import AttemptInfo, PoolClosed, ProcessDied
from outlast.execution.threads import Threads
from outlast.functions.commands import NodeAsk
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.store import Line
from outlast.values.codec import INLINE_LIMIT, fetched
from outlast.values.context import speak
from outlast.values.eager_upload import Early
from outlast.values.failures import failure_of, kind_of

if TYPE_CHECKING:
    from outlast.engine.worker import Worker
    from outlast.execution.log_writer import LineKeeper

GRACE = 5.0
"""Seconds a node has to end after it was told to stop, before the run goes on without it."""


class Attempts:
    """All attempts of a worker."""

    def __init__(
        self, worker: Worker, *, threads: int, places: Mapping[str, Maker], keeper: LineKeeper, stdout: bool
    ) -> None:
        self._worker = worker
        self._threads = Threads(threads)
        self._executors = Executors(places)
        self._keeper = keeper
        self._stdout = stdout
        self._context = copy_context()
        self._late = Early(worker.store.blobs)
        """For what need not begin early."""
        self._behind: dict[tuple[RunId, str], asyncio.Future[Any]] = {}
        """Attempts that were left behind and may still run, each by its end."""

    def begin(self, ask: NodeAsk) -> None:
        """Begin the attempt that the log says has started."""
        ask.task = asyncio.Task(self._carry(ask), loop=asyncio.get_running_loop(), context=self._context.copy())

    async def stop_all(self, asks: Sequence[NodeAsk], grace: float = GRACE) -> None:
        """Tell these to stop and give them some time for it. What they bring home within it counts."""
        own = asyncio.current_task()
        tasks = [ask.task for ask in asks if ask.task is not None and ask.task is not own and not ask.task.done()]
        for ask in asks:
            ask.let_go()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for ask in asks:
            if ask.task is not None and not ask.task.done():
                self._leave_behind(ask, ask.task)

    async def close(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for attempts that were told to stop; those that do not are left behind."""
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
        self._threads.close()
        await self._executors.close()

    # --- one attempt after the other

    async def _carry(self, ask: NodeAsk) -> None:
        """An attempt, and then what follows from its outcome having been written: if that is a node, its attempt in the
        same task, and so on. A task for each would be a fifth of what a node costs."""
        task, driver = ask.task, ask.driver
        try:
            while True:
                own = ask.inside = Inside(self._keeper, driver.run, ask.name, ask.attempt, self._stdout, ask=ask)
                speak(own)
                found = copy_context()
                await self._attempt(ask, own)
                following = await driver.write(carrying=True)
                if following is None:
                    return
                if not _is_as_new(task, found):
                    following.begin()
                    return
                ask = following
                ask.task = task
        except Exception as error:  # of ours: those of nodes are outcomes
            driver.fall(error)

    async def _attempt(self, ask: NodeAsk, own: Inside) -> None:
        """One try, from the call to its outcome having been told."""
        driver, attempt, spec, lease = ask.driver, ask.attempt, ask.spec, self._worker.lease
        failure: e.Failure | None = None
        crash = ""
        began = perf_counter()
        try:
            if attempt > 1:
                await self._after_those_before(ask)
                await self._find_checkpoint(own)
            if lease.clock() >= lease.until:
                await lease.certain()
            if spec.run_in == "loop" and spec.timeout is None:
                if attempt == 1 and ask.given is None:  # as `_arguments` says
                    value = await spec.fn(*ask.packed.args, **ask.packed.kwargs)
                else:
                    args, kwargs = self._arguments(ask)
                    value = await spec.fn(*args, **kwargs)
            else:
                value = await self._elsewhere(ask, own)
            written, value, early = self._as_told(ask, value)
            output = Raw(written) if len(written) <= INLINE_LIMIT else await early.stored(written)
        except ProcessDied as death:
            if not isinstance(death, PoolClosed):
                crash = str(death)
        except BaseException as error:
            if not (own.is_stopped or driver.is_over):
                failure = _failure(ask, error)
        else:
            if own.is_stopped and driver.is_winding_down:
                return  # what a node returns because it was stopped is not its result
            driver.completed(ask, attempt, output, value, _ms(began))
        finally:
            ask.task = ask.inside = None  # or the task, its context and the ask would be a ring for the collector
            if own.begun or own.unfinished:
                own.end()
        # Not while the error is being handled: what the code raises when it hears of it would have it for its context, and
        # in a replay would not.
        if failure is not None:
            driver.failed(ask, attempt, failure, _ms(began))
        elif crash:
            await driver.crashed(ask, attempt, crash)

    async def _after_those_before(self, ask: NodeAsk) -> None:
        """Wait until the attempt before has really ended, if it was left behind here."""
        key = ask.driver.run, ask.name
        while (before := self._behind.get(key)) is not None:
            await asyncio.wait({before})

    def _leave_behind(self, ask: NodeAsk, end: asyncio.Future[Any]) -> None:
        key = ask.driver.run, ask.name
        self._behind[key] = end
        end.add_done_callback(lambda end: self._behind.pop(key) if self._behind.get(key) is end else None)

    def _arguments(self, ask: NodeAsk) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Those of the call; for a further attempt fresh copies, because the one before may have changed its own."""
        if ask.attempt == 1 and ask.given is None:
            return ask.packed.args, ask.packed.kwargs
        return ask.arguments.unpack(ask.inputs)

    async def _find_checkpoint(self, own: Inside) -> None:
        node = own.ask.driver.pen.state.nodes.get(own.ask.name)
        if node is not None and node.checkpoint is not None:
            own.kept = await fetched(node.checkpoint, self._worker.store.blobs)

    def _as_told(self, ask: NodeAsk, value: Any) -> tuple[e.Value | bytes, Any, Early]:
        """The result as JSON, as the code is to see it, which is what a replay would read, and its way to the store."""
        codec, kind = ask.arguments.returns, type(value)
        if kind in codec.unchanged:
            return codec.written(value, "result"), value, self._late
        if kind is _Encoded:
            return value.reference or value.raw, codec.decode(value.raw), self._late
        early = Early(self._worker.store.blobs)
        try:
            return *codec.told(value, "result", early.begin), early
        except BaseException:
            early.drop()
            raise

    # --- not simply on the loop

    async def _elsewhere(self, ask: NodeAsk, own: Inside) -> Any:
        """Run it where it belongs, for as long as it may."""
        work = asyncio.ensure_future(self._work(ask, own))
        try:
            done, _ = await asyncio.wait({work}, timeout=ask.spec.timeout)
        except asyncio.CancelledError:
            work.cancel()
            if ask.spec.run_in != "thread":
                await asyncio.wait({work}, timeout=GRACE)
                if not work.done():
                    self._leave_behind(ask, work)
            raise
        if not done:
            await self._time_is_up(ask, own, work)
        return work.result()

    async def _work(self, ask: NodeAsk, own: Inside) -> Any:
        if ask.spec.run_in not in ("loop", "thread"):
            return await self._far_away(ask, own)
        args, kwargs = self._arguments(ask)
        if ask.spec.run_in == "loop":
            try:
                return await ask.spec.fn(*args, **kwargs)
            except (SystemExit, KeyboardInterrupt, GeneratorExit) as order:
                raise _not_stopping(order)  # noqa: B904 - it has its cause already
        call: Callable[[], Any] = partial(copy_context().run, ask.spec.fn, *args, **kwargs)
        value, error = await self._in_thread(ask, call)
        while type(error) is _Lapsed:
            await self._worker.lease.certain()
            value, error = await self._in_thread(ask, call)
        if error is not None:
            raise _not_stopping(error)
        return value

    async def _in_thread(self, ask: NodeAsk, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Value or error of a call in a thread, which may be long in coming."""
        lease = self._worker.lease

        def begun() -> Any:
            if lease.is_lapsed:
                raise _Lapsed
            return call()

        running = self._threads.run(begun)
        try:
            return await running
        except asyncio.CancelledError:
            self._leave_behind(ask, self._threads.end_of(running))
            raise

    async def _time_is_up(self, ask: NodeAsk, own: Inside, work: asyncio.Future[Any]) -> None:
        """Tell it to stop. If there is to be another attempt, this one has to have ended first."""
        own.is_stopped = True
        is_thread = ask.spec.run_in == "thread"
        error = TimeoutError(f"it took longer than {ask.spec.timeout:g} s")
        has_more = ask.spec.retry.wait_us(failure_of(error), self._failed_attempts(ask) + 1, 0.5) is not None
        if not (is_thread and has_more):
            work.cancel()
        if has_more or not is_thread:
            await asyncio.wait({work}, timeout=None if has_more else GRACE)
        own.is_stopped = False
        if work.done():
            work.cancelled() or work.exception()  # looked at, so that nobody complains
        raise error

    def _failed_attempts(self, ask: NodeAsk) -> int:
        node = ask.driver.pen.state.nodes.get(ask.name)
        return node.retries if node is not None else 0

    async def _far_away(self, ask: NodeAsk, own: Inside) -> Any:
        spec = ask.spec
        retry_on, give_up_on = spec.retry.classes
        info = AttemptInfo(
            run=ask.driver.run,
            node=ask.name,
            attempt=ask.attempt,
            idempotency_key=idempotency_key_of(ask),
            checkpoint=None if own.kept is None else bytes(own.kept),
            feedback=None if ask.given is None else bytes(ask.given.feedback),
            transient=tuple(map(kind_of, retry_on)),
            permanent=tuple(map(kind_of, give_up_on)),
        )
        answer = await self._executors.at(spec.run_in).run(
            spec.entry,
            main_of_this_process(),
            bytes(ask.inputs),
            info,
            on_message=partial(self._heard, ask, own),
            confirm=self._worker.lease.certain,
        )
        if isinstance(answer, e.Failure):
            raise _Told(answer)
        if isinstance(answer, InStore):
            return _Encoded(await fetched(answer.reference, self._worker.store.blobs), answer.reference)
        return _Encoded(Raw(answer))

    async def _heard(self, ask: NodeAsk, own: Inside, kind: str, content: Any) -> bool:
        """What is said from there while it works. True if it is to end there."""
        if kind == "checkpoint":
            own.is_stopped = await own.keep(Raw(content)) or own.is_stopped
            return own.is_stopped
        elif kind == "progress":
            self._worker.progress.tell(ask.driver.run, {"node": ask.name, **content})
        elif kind == "output":
            own.tell_written(content.pop("stage"), Written(**content))
        elif kind == "line":
            time = int(content["time"] * 1e6)
            line = Line(
                ask.driver.run, ask.name, own.attempt, time, content["level"], content["logger"], content["text"]
            )
            self._keeper.add(line)
        return False


class _Encoded:
    """A result that was encoded where it was made, and lies in the blob store already if there is a reference to it."""

    __slots__ = ("raw", "reference")

    def __init__(self, raw: Raw, reference: Raw | None = None) -> None:
        self.raw = raw
        self.reference = reference


class _Told(Exception):
    """A failure that was made where it happened."""

    def __init__(self, failure: e.Failure) -> None:
        self.failure = failure


class _Lapsed(Exception):
    """The lease lapsed before the attempt began."""


class _Raised(Exception):
    """Carries what a plain function raised over an await that must not take it for its own."""


def _not_stopping(error: BaseException) -> BaseException:
    """What a thread raised, fit to be raised on the loop: there, some errors would be taken for orders."""
    orders = asyncio.CancelledError | StopIteration | GeneratorExit | KeyboardInterrupt | SystemExit
    if issubclass(type(error), orders):
        carrier = _Raised()
        carrier.__cause__ = error
        return carrier
    return error


def _is_as_new(task: asyncio.Task[None] | None, found: Context) -> bool:
    """Whether a node left the task it ran in as it had found it: nobody asked for its cancellation, and its context holds
    what it held. Otherwise the next node would find what this one left behind."""
    if task is None or task.cancelling():
        return False
    try:
        return copy_context() == found
    except Exception:  # a value that does not like to be compared was put there
        return False


def _failure(ask: NodeAsk, error: BaseException) -> e.Failure:
    kind = type(error)  # and not isinstance: to look at an odd error may raise
    if issubclass(kind, _Told):
        return error.failure  # type: ignore[attr-defined, no-any-return]
    if issubclass(kind, _Raised) and error.__cause__ is not None:
        error = error.__cause__
        kind = type(error)
    retry_on, give_up_on = ask.spec.retry.classes
    category: e.Category | None = "permanent" if issubclass(kind, asyncio.CancelledError | NotStorable) else None
    return failure_of(error, transient=retry_on, permanent=give_up_on, category=category)


def _ms(began: float) -> float:
    """Milliseconds, to a tenth: what took less is not worth its bytes in the log."""
    ms = (perf_counter() - began) * 1000
    return int(ms * 10 + 0.5) / 10 if ms > 0.05 else e.NO_TIME  # as `round` does, which takes ten times as long
