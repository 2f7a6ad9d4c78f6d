"""Runs attempts of nodes: on the loop, in a thread, or in another process; with timeouts and cancellation.

A node may raise anything, return anything, ignore its cancellation or die: the only effect is an outcome of its
attempt. Attempts of a node do not overlap: an attempt that ignores its timeout or a pause delays the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw

from outlast.errors import NotStorable
from outlast.execution.executors import ExecutorFactory, Executors, StoredResult
from outlast.execution.node_context import NodeContext, idempotency_key_of
from outlast.execution.partial_file import OutputFile
from outlast.execution.process_entry import main_of_this_process
from outlast.execution.process_wire import AttemptInfo, Call
from outlast.execution.processes import PoolClosed, ProcessDied
from outlast.execution.threads import Threads
from outlast.functions.commands import NodeCommand
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.store import Line
from outlast.values.codec import INLINE_LIMIT, EagerUpload, fetched
from outlast.values.context import set_attempt_log
from outlast.values.failures import failure_of, kind_of

if TYPE_CHECKING:
    from outlast.engine.worker import Worker
    from outlast.execution.log_writer import LogWriter

GRACE = 5.0
"""Seconds that a node has to end after it was asked to stop, before the run continues without it."""


class Attempts:
    """All attempts of a worker."""

    def __init__(self, worker: Worker, *, places: Mapping[str, ExecutorFactory], log_writer: LogWriter) -> None:
        self._worker = worker
        self._threads = Threads(worker.settings.threads)
        self._executors = Executors(places)
        self._log_writer = log_writer
        self._stdout = worker.settings.capture_stdout
        self._context = copy_context()
        self._no_upload = EagerUpload(worker.store.blobs)
        """For results that need no early upload."""
        self._left_running: dict[tuple[RunId, str], asyncio.Future[Any]] = {}
        """Attempts that were abandoned and may still run; each future is done when its attempt has ended."""

    def begin(self, command: NodeCommand) -> None:
        """Begin the attempt that the log records as started."""
        command.task = asyncio.Task(
            self._run_attempts(command), loop=asyncio.get_running_loop(), context=self._context.copy()
        )

    async def stop_all(self, node_commands: Sequence[NodeCommand], grace: float = GRACE) -> None:
        """Ask attempts to stop, and wait for at most `grace` seconds. Their outcomes within that time count."""
        current = asyncio.current_task()
        tasks = [
            command.task
            for command in node_commands
            if command.task is not None and command.task is not current and not command.task.done()
        ]
        for command in node_commands:
            command.release()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for command in node_commands:
            if command.task is not None and not command.task.done():
                self._track_left_running(command, command.task)

    async def close(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for attempts that were asked to stop; those that do not stop are abandoned."""
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
        self._threads.close()
        await self._executors.close()

    async def _run_attempts(self, command: NodeCommand) -> None:
        """Run an attempt and append its outcome. If the next command is a node, run its attempt in the same task, and
        so on: a task for each attempt would cost a fifth of the time of a node."""
        task, driver = command.task, command.driver
        try:
            while True:
                context = command.node_context = NodeContext(
                    self._log_writer, driver.run, command.name, command.attempt, self._stdout, command=command
                )
                set_attempt_log(context)
                context_before = copy_context()
                await self._attempt(command, context)
                following = await driver.write(take_next=True)
                if following is None:
                    return
                if not _is_task_clean(task, context_before):
                    following.begin()
                    return
                command = following
                command.task = task
        except Exception as error:  # an internal error: errors of nodes are outcomes
            driver.abandon_run(error)

    async def _attempt(self, command: NodeCommand, context: NodeContext) -> None:
        """One attempt, from the call to the delivery of its outcome."""
        driver, attempt, spec, lease = command.driver, command.attempt, command.spec, self._worker.lease
        failure: e.Failure | None = None
        crash = ""
        began = perf_counter()
        try:
            if attempt > 1:
                await self._wait_for_previous(command)
                await self._find_checkpoint(context)
            if lease.clock() >= lease.until:
                await lease.confirm()
            if spec.run_in == "loop" and spec.timeout is None:
                if attempt == 1 and command.given is None:  # inlined `_arguments`
                    value = await spec.fn(*command.packed.args, **command.packed.kwargs)
                else:
                    args, kwargs = self._arguments(command)
                    value = await spec.fn(*args, **kwargs)
            else:
                value = await self._run_with_timeout(command, context)
            written, value, upload = self._encoded_result(command, value)
            output = Raw(written) if len(written) <= INLINE_LIMIT else await upload.stored(written)
        except ProcessDied as death:
            if not isinstance(death, PoolClosed):
                crash = str(death)
        except BaseException as error:
            if not (context.is_stopped or driver.is_over):
                failure = _failure(command, error)
        else:
            if context.is_stopped and driver.is_winding_down:
                return  # a value that a node returns because it was stopped is not its result
            driver.completed(command, attempt, output, value, _ms(began))
        finally:
            command.task = command.node_context = None  # breaks the cycle of task, context and command
            if context.partial_line or context.unfinished:
                context.end()
        # Outside the handler: otherwise errors that the code raises next would have this error as their context, which a
        # replay does not reproduce.
        if failure is not None:
            driver.failed(command, attempt, failure, _ms(began))
        elif crash:
            await driver.crashed(command, attempt, crash)

    async def _wait_for_previous(self, command: NodeCommand) -> None:
        """Wait until the previous attempt of the node has ended, if it was abandoned in this process."""
        key = command.driver.run, command.name
        while (previous := self._left_running.get(key)) is not None:
            await asyncio.wait({previous})

    def _track_left_running(self, command: NodeCommand, end: asyncio.Future[Any]) -> None:
        key = command.driver.run, command.name
        self._left_running[key] = end
        end.add_done_callback(lambda end: self._left_running.pop(key) if self._left_running.get(key) is end else None)

    def _arguments(self, command: NodeCommand) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the call. A further attempt gets fresh copies, because an earlier one may have changed its
        own."""
        if command.attempt == 1 and command.given is None:
            return command.packed.args, command.packed.kwargs
        return command.arguments.unpack(command.inputs)

    async def _find_checkpoint(self, context: NodeContext) -> None:
        node = context.command.driver.writer.state.nodes.get(context.command.name)
        if node is not None and node.checkpoint is not None:
            context.checkpoint = await fetched(node.checkpoint, self._worker.store.blobs)

    def _encoded_result(self, command: NodeCommand, value: Any) -> tuple[e.Value | bytes, Any, EagerUpload]:
        """The result as JSON, the value that the code receives, which is the same as in a replay, and the upload of a
        large result."""
        codec, kind = command.arguments.returns, type(value)
        if kind in codec.unchanged:
            return codec.written(value, "result"), value, self._no_upload
        if kind is _Encoded:
            return value.reference or value.raw, codec.decode(value.raw), self._no_upload
        upload = EagerUpload(self._worker.store.blobs)
        try:
            return *codec.encode_and_copy(value, "result", upload.begin), upload
        except BaseException:
            upload.drop()
            raise

    # --- with a timeout, in a thread or in another process

    async def _run_with_timeout(self, command: NodeCommand, context: NodeContext) -> Any:
        """Run the function of the node in the place that `run_in` names, with its timeout."""
        work = asyncio.ensure_future(self._work(command, context))
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
            await self._on_timeout(command, context, work)
        return work.result()

    async def _work(self, command: NodeCommand, context: NodeContext) -> Any:
        if command.spec.run_in not in ("loop", "thread"):
            return await self._run_remotely(command, context)
        args, kwargs = self._arguments(command)
        if command.spec.run_in == "loop":
            try:
                return await command.spec.fn(*args, **kwargs)
            except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
                raise _wrapped_if_stopping(error)  # noqa: B904 - the carrier sets the cause
        call: Callable[[], Any] = partial(copy_context().run, command.spec.fn, *args, **kwargs)
        while True:
            value, raised = await self._in_thread(command, call)
            if raised is None:
                return value
            if type(raised) is not _Lapsed:
                raise _wrapped_if_stopping(raised)
            await self._worker.lease.confirm()

    async def _in_thread(self, command: NodeCommand, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """The value or error of a call in a thread. The call may wait for a free thread."""
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

    async def _on_timeout(self, command: NodeCommand, context: NodeContext, work: asyncio.Future[Any]) -> None:
        """Ask the attempt to stop. If the node has attempts left, wait until this one has ended."""
        context.is_stopped = True
        is_thread = command.spec.run_in == "thread"
        error = TimeoutError(f"it took longer than {command.spec.timeout:g} s")
        node = command.driver.writer.state.nodes.get(command.name)
        failed = 1 if node is None else node.retries + 1
        has_more = command.spec.retry.wait_us(failure_of(error), failed, 0.5) is not None
        if not (is_thread and has_more):
            work.cancel()
        if has_more or not is_thread:
            await asyncio.wait({work}, timeout=None if has_more else GRACE)
        context.is_stopped = False
        if work.done():
            work.cancelled() or work.exception()  # retrieved, so that asyncio logs no warning
        raise error

    async def _run_remotely(self, command: NodeCommand, context: NodeContext) -> Any:
        spec = command.spec
        retry_on, give_up_on = spec.retry.classes
        info = AttemptInfo(
            run=command.driver.run,
            node=command.name,
            attempt=command.attempt,
            idempotency_key=idempotency_key_of(command),
            checkpoint=None if context.checkpoint is None else bytes(context.checkpoint),
            feedback=None if context.feedback is None else bytes(context.feedback),
            transient=tuple(map(kind_of, retry_on)),
            permanent=tuple(map(kind_of, give_up_on)),
        )
        answer = await self._executors.executor_for(spec.run_in).run(
            Call(spec.entry, main_of_this_process(), info),
            bytes(command.inputs),
            on_message=partial(self._on_message, command, context),
            confirm=self._worker.lease.confirm,
        )
        if isinstance(answer, e.Failure):
            raise _RemoteFailure(answer)
        if isinstance(answer, StoredResult):
            return _Encoded(await fetched(answer.reference, self._worker.store.blobs), answer.reference)
        return _Encoded(Raw(answer))

    async def _on_message(self, command: NodeCommand, context: NodeContext, kind: str, content: Any) -> bool:
        """Handle a message of a remote attempt. True if the attempt must end at this checkpoint."""
        if kind == "checkpoint":
            context.is_stopped = await context.save_checkpoint(Raw(content)) or context.is_stopped
            return context.is_stopped
        elif kind == "progress":
            self._worker.progress.update(command.driver.run, {"node": command.name, **content})
        elif kind == "output":
            context.output_changed(content.pop("stage"), OutputFile(**content))
        elif kind == "line":
            time, text = int(content["time"] * 1e6), content["text"]
            run, node = command.driver.run, command.name
            self._log_writer.add(Line(run, node, context.attempt, time, content["level"], content["logger"], text))
        return False


class _Encoded(NamedTuple):
    """A result that a remote attempt encoded. `reference` is set if the blob store already holds it."""

    raw: Raw
    reference: Raw | None = None


class _RemoteFailure(Exception):
    """A failure that a remote attempt created."""

    def __init__(self, failure: e.Failure) -> None:
        self.failure = failure


class _Lapsed(Exception):
    """The lease lapsed before the attempt began."""


class _ErrorCarrier(Exception):
    """Carries an error of a plain function through an await that would otherwise misinterpret it."""


def _wrapped_if_stopping(error: BaseException) -> BaseException:
    """An error from a thread, in a form that can be raised on the loop: some types would stop the loop or cancel the
    task."""
    stopping = asyncio.CancelledError | StopIteration | GeneratorExit | KeyboardInterrupt | SystemExit
    if issubclass(type(error), stopping):
        carrier = _ErrorCarrier()
        carrier.__cause__ = error
        return carrier
    return error


def _is_task_clean(task: asyncio.Task[None] | None, before: Context) -> bool:
    """Whether a node left its task as it found it: without a pending cancellation, and with the same context variables.
    Otherwise the next node must not run in this task."""
    if task is None or task.cancelling():
        return False
    try:
        return copy_context() == before
    except Exception:  # the context has a value whose comparison fails
        return False


def _failure(command: NodeCommand, error: BaseException) -> e.Failure:
    kind = type(error)  # not isinstance: `__class__` of an unusual error may raise
    if issubclass(kind, _RemoteFailure):
        return error.failure  # type: ignore[attr-defined, no-any-return]
    if issubclass(kind, _ErrorCarrier) and error.__cause__ is not None:
        error = error.__cause__
        kind = type(error)
    retry_on, give_up_on = command.spec.retry.classes
    category: e.Category | None = "permanent" if issubclass(kind, asyncio.CancelledError | NotStorable) else None
    return failure_of(error, transient=retry_on, permanent=give_up_on, category=category)


def _ms(began: float) -> float:
    """Milliseconds since `began`, rounded to a tenth; less is not worth its bytes in the log."""
    ms = (perf_counter() - began) * 1000
    return int(ms * 10 + 0.5) / 10 if ms > 0.05 else e.NO_TIME  # ten times as fast as `round`
