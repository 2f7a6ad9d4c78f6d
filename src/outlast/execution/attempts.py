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
from outlast.execution.executors import ExecutorFactory, Executors, StoredResult
from outlast.execution.node_context import NodeContext, idempotency_key_of
from outlast.execution.partial_file import OutputFile
from outlast.execution.process_entry import main_of_this_process
from outlast.execution.processes import AttemptInfo, PoolClosed, ProcessDied
from outlast.execution.threads import Threads
from outlast.functions.commands import NodeCommand
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.store import Line
from outlast.values.codec import INLINE_LIMIT, fetched
from outlast.values.context import set_attempt_log
from outlast.values.eager_upload import EagerUpload
from outlast.values.failures import failure_of, kind_of

if TYPE_CHECKING:
    from outlast.engine.worker import Worker
    from outlast.execution.log_writer import LogWriter

GRACE = 5.0
"""Seconds a node has to end after it was told to stop, before the run goes on without it."""


class Attempts:
    """All attempts of a worker."""

    def __init__(
        self,
        worker: Worker,
        *,
        threads: int,
        places: Mapping[str, ExecutorFactory],
        log_writer: LogWriter,
        stdout: bool,
    ) -> None:
        self._worker = worker
        self._threads = Threads(threads)
        self._executors = Executors(places)
        self._log_writer = log_writer
        self._stdout = stdout
        self._context = copy_context()
        self._no_upload = EagerUpload(worker.store.blobs)
        """For what need not begin early."""
        self._left_running: dict[tuple[RunId, str], asyncio.Future[Any]] = {}
        """Attempts that were left behind and may still run, each by its end."""

    def begin(self, command: NodeCommand) -> None:
        """Begin the attempt that the log says has started."""
        command.task = asyncio.Task(
            self._run_attempts(command), loop=asyncio.get_running_loop(), context=self._context.copy()
        )

    async def stop_all(self, node_commands: Sequence[NodeCommand], grace: float = GRACE) -> None:
        """Tell these to stop and give them some time for it. What they bring home within it counts."""
        own = asyncio.current_task()
        tasks = [
            command.task
            for command in node_commands
            if command.task is not None and command.task is not own and not command.task.done()
        ]
        for command in node_commands:
            command.release()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for command in node_commands:
            if command.task is not None and not command.task.done():
                self._track_left_running(command, command.task)

    async def close(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for attempts that were told to stop; those that do not are left behind."""
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
        self._threads.close()
        await self._executors.close()

    # --- one attempt after the other

    async def _run_attempts(self, command: NodeCommand) -> None:
        """An attempt, and then what follows from its outcome having been written: if that is a node, its attempt in the
        same task, and so on. A task for each would be a fifth of what a node costs."""
        task, driver = command.task, command.driver
        try:
            while True:
                own = command.node_context = NodeContext(
                    self._log_writer, driver.run, command.name, command.attempt, self._stdout, command=command
                )
                set_attempt_log(own)
                found = copy_context()
                await self._attempt(command, own)
                following = await driver.write(take_next=True)
                if following is None:
                    return
                if not _is_task_clean(task, found):
                    following.begin()
                    return
                command = following
                command.task = task
        except Exception as error:  # of ours: those of nodes are outcomes
            driver.abandon_run(error)

    async def _attempt(self, command: NodeCommand, own: NodeContext) -> None:
        """One try, from the call to its outcome having been told."""
        driver, attempt, spec, lease = command.driver, command.attempt, command.spec, self._worker.lease
        failure: e.Failure | None = None
        crash = ""
        began = perf_counter()
        try:
            if attempt > 1:
                await self._wait_for_previous(command)
                await self._find_checkpoint(own)
            if lease.clock() >= lease.until:
                await lease.confirm()
            if spec.run_in == "loop" and spec.timeout is None:
                if attempt == 1 and command.given is None:  # as `_arguments` says
                    value = await spec.fn(*command.packed.args, **command.packed.kwargs)
                else:
                    args, kwargs = self._arguments(command)
                    value = await spec.fn(*args, **kwargs)
            else:
                value = await self._run_with_timeout(command, own)
            written, value, upload = self._encoded_result(command, value)
            output = Raw(written) if len(written) <= INLINE_LIMIT else await upload.stored(written)
        except ProcessDied as death:
            if not isinstance(death, PoolClosed):
                crash = str(death)
        except BaseException as error:
            if not (own.is_stopped or driver.is_over):
                failure = _failure(command, error)
        else:
            if own.is_stopped and driver.is_winding_down:
                return  # what a node returns because it was stopped is not its result
            driver.completed(command, attempt, output, value, _ms(began))
        finally:
            command.task = command.node_context = (
                None  # or the task, its context and the ask would be a ring for the collector
            )
            if own.partial_line or own.unfinished:
                own.end()
        # Not while the error is being handled: what the code raises when it hears of it would have it for its context, and
        # in a replay would not.
        if failure is not None:
            driver.failed(command, attempt, failure, _ms(began))
        elif crash:
            await driver.crashed(command, attempt, crash)

    async def _wait_for_previous(self, command: NodeCommand) -> None:
        """Wait until the attempt before has really ended, if it was left behind here."""
        key = command.driver.run, command.name
        while (before := self._left_running.get(key)) is not None:
            await asyncio.wait({before})

    def _track_left_running(self, command: NodeCommand, end: asyncio.Future[Any]) -> None:
        key = command.driver.run, command.name
        self._left_running[key] = end
        end.add_done_callback(lambda end: self._left_running.pop(key) if self._left_running.get(key) is end else None)

    def _arguments(self, command: NodeCommand) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Those of the call; for a further attempt fresh copies, because the one before may have changed its own."""
        if command.attempt == 1 and command.given is None:
            return command.packed.args, command.packed.kwargs
        return command.arguments.unpack(command.inputs)

    async def _find_checkpoint(self, own: NodeContext) -> None:
        node = own.command.driver.writer.state.nodes.get(own.command.name)
        if node is not None and node.checkpoint is not None:
            own.kept = await fetched(node.checkpoint, self._worker.store.blobs)

    def _encoded_result(self, command: NodeCommand, value: Any) -> tuple[e.Value | bytes, Any, EagerUpload]:
        """The result as JSON, as the code is to see it, which is what a replay would read, and its way to the store."""
        codec, kind = command.arguments.returns, type(value)
        if kind in codec.unchanged:
            return codec.written(value, "result"), value, self._no_upload
        if kind is _Encoded:
            return value.reference or value.raw, codec.decode(value.raw), self._no_upload
        upload = EagerUpload(self._worker.store.blobs)
        try:
            return *codec.told(value, "result", upload.begin), upload
        except BaseException:
            upload.drop()
            raise

    # --- not simply on the loop

    async def _run_with_timeout(self, command: NodeCommand, own: NodeContext) -> Any:
        """Run it where it belongs, for as long as it may."""
        work = asyncio.ensure_future(self._work(command, own))
        try:
            done, _ = await asyncio.wait({work}, timeout=command.spec.timeout)
        except asyncio.CancelledError:
            work.cancel()
            if command.spec.run_in != "thread":
                await asyncio.wait({work}, timeout=GRACE)
                if not work.done():
                    self._track_left_running(command, work)
            raise
        if not done:
            await self._on_timeout(command, own, work)
        return work.result()

    async def _work(self, command: NodeCommand, own: NodeContext) -> Any:
        if command.spec.run_in not in ("loop", "thread"):
            return await self._run_remotely(command, own)
        args, kwargs = self._arguments(command)
        if command.spec.run_in == "loop":
            try:
                return await command.spec.fn(*args, **kwargs)
            except (SystemExit, KeyboardInterrupt, GeneratorExit) as order:
                raise _wrapped_if_stopping(order)  # noqa: B904 - it has its cause already
        call: Callable[[], Any] = partial(copy_context().run, command.spec.fn, *args, **kwargs)
        value, error = await self._in_thread(command, call)
        while type(error) is _Lapsed:
            await self._worker.lease.confirm()
            value, error = await self._in_thread(command, call)
        if error is not None:
            raise _wrapped_if_stopping(error)
        return value

    async def _in_thread(self, command: NodeCommand, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
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
            self._track_left_running(command, self._threads.end_of(running))
            raise

    async def _on_timeout(self, command: NodeCommand, own: NodeContext, work: asyncio.Future[Any]) -> None:
        """Tell it to stop. If there is to be another attempt, this one has to have ended first."""
        own.is_stopped = True
        is_thread = command.spec.run_in == "thread"
        error = TimeoutError(f"it took longer than {command.spec.timeout:g} s")
        has_more = command.spec.retry.wait_us(failure_of(error), self._failed_attempts(command) + 1, 0.5) is not None
        if not (is_thread and has_more):
            work.cancel()
        if has_more or not is_thread:
            await asyncio.wait({work}, timeout=None if has_more else GRACE)
        own.is_stopped = False
        if work.done():
            work.cancelled() or work.exception()  # looked at, so that nobody complains
        raise error

    def _failed_attempts(self, command: NodeCommand) -> int:
        node = command.driver.writer.state.nodes.get(command.name)
        return node.retries if node is not None else 0

    async def _run_remotely(self, command: NodeCommand, own: NodeContext) -> Any:
        spec = command.spec
        retry_on, give_up_on = spec.retry.classes
        info = AttemptInfo(
            run=command.driver.run,
            node=command.name,
            attempt=command.attempt,
            idempotency_key=idempotency_key_of(command),
            checkpoint=None if own.kept is None else bytes(own.kept),
            feedback=None if command.given is None else bytes(command.given.feedback),
            transient=tuple(map(kind_of, retry_on)),
            permanent=tuple(map(kind_of, give_up_on)),
        )
        answer = await self._executors.executor_for(spec.run_in).run(
            spec.entry,
            main_of_this_process(),
            bytes(command.inputs),
            info,
            on_message=partial(self._on_message, command, own),
            confirm=self._worker.lease.confirm,
        )
        if isinstance(answer, e.Failure):
            raise _RemoteFailure(answer)
        if isinstance(answer, StoredResult):
            return _Encoded(await fetched(answer.reference, self._worker.store.blobs), answer.reference)
        return _Encoded(Raw(answer))

    async def _on_message(self, command: NodeCommand, own: NodeContext, kind: str, content: Any) -> bool:
        """What is said from there while it works. True if it is to end there."""
        if kind == "checkpoint":
            own.is_stopped = await own.save_checkpoint(Raw(content)) or own.is_stopped
            return own.is_stopped
        elif kind == "progress":
            self._worker.progress.update(command.driver.run, {"node": command.name, **content})
        elif kind == "output":
            own.output_changed(content.pop("stage"), OutputFile(**content))
        elif kind == "line":
            time = int(content["time"] * 1e6)
            line = Line(
                command.driver.run,
                command.name,
                own.attempt,
                time,
                content["level"],
                content["logger"],
                content["text"],
            )
            self._log_writer.add(line)
        return False


class _Encoded:
    """A result that was encoded where it was made, and lies in the blob store already if there is a reference to it."""

    __slots__ = ("raw", "reference")

    def __init__(self, raw: Raw, reference: Raw | None = None) -> None:
        self.raw = raw
        self.reference = reference


class _RemoteFailure(Exception):
    """A failure that was made where it happened."""

    def __init__(self, failure: e.Failure) -> None:
        self.failure = failure


class _Lapsed(Exception):
    """The lease lapsed before the attempt began."""


class _ErrorCarrier(Exception):
    """Carries what a plain function raised over an await that must not take it for its own."""


def _wrapped_if_stopping(error: BaseException) -> BaseException:
    """What a thread raised, fit to be raised on the loop: there, some errors would be taken for orders."""
    orders = asyncio.CancelledError | StopIteration | GeneratorExit | KeyboardInterrupt | SystemExit
    if issubclass(type(error), orders):
        carrier = _ErrorCarrier()
        carrier.__cause__ = error
        return carrier
    return error


def _is_task_clean(task: asyncio.Task[None] | None, found: Context) -> bool:
    """Whether a node left the task it ran in as it had found it: nobody asked for its cancellation, and its context holds
    what it held. Otherwise the next node would find what this one left behind."""
    if task is None or task.cancelling():
        return False
    try:
        return copy_context() == found
    except Exception:  # a value that does not like to be compared was put there
        return False


def _failure(command: NodeCommand, error: BaseException) -> e.Failure:
    kind = type(error)  # and not isinstance: to look at an odd error may raise
    if issubclass(kind, _RemoteFailure):
        return error.failure  # type: ignore[attr-defined, no-any-return]
    if issubclass(kind, _ErrorCarrier) and error.__cause__ is not None:
        error = error.__cause__
        kind = type(error)
    retry_on, give_up_on = command.spec.retry.classes
    category: e.Category | None = "permanent" if issubclass(kind, asyncio.CancelledError | NotStorable) else None
    return failure_of(error, transient=retry_on, permanent=give_up_on, category=category)


def _ms(began: float) -> float:
    """Milliseconds, to a tenth: what took less is not worth its bytes in the log."""
    ms = (perf_counter() - began) * 1000
    return int(ms * 10 + 0.5) / 10 if ms > 0.05 else e.NO_TIME  # as `round` does, which takes ten times as long
