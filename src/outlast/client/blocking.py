"""The engine for code that does not await: scripts, notebooks, plain tests. It has its own event loop in its own
thread."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from outlast.client.bulk import Bulk
from outlast.client.diagnostics import Diagnostics
from outlast.client.facade import Engine
from outlast.client.handle import RunHandle, page_of
from outlast.client.loop_thread import LoopThread, check_may_wait
from outlast.client.versions import Versions
from outlast.errors import OutlastError
from outlast.functions.decorators import Node, Workflow

if TYPE_CHECKING:
    from outlast.definition.durations import Seconds

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")


class _Blocking(Generic[A]):
    """Calls the verbs of an async object on the engine's loop."""

    def __init__(self, thread: LoopThread, awaited: A) -> None:
        self._thread = thread
        self._awaited = awaited


def _of(awaited: A, verb: Callable[Concatenate[A, P], T]) -> Callable[P, T]:
    """The verb of this object, whose class may have its own."""
    return getattr(awaited, verb.__name__)  # type: ignore[no-any-return]


def _waits(verb: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Blocking[A], P], T]:
    """The same verb as a blocking call."""

    @functools.wraps(verb)
    def waiting(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        return self._thread.do(_of(self._awaited, verb)(*args, **kwargs))

    return waiting


def _gives_handle(
    verb: Callable[Concatenate[A, P], Coroutine[Any, Any, RunHandle[T]]],
) -> Callable[Concatenate[_Blocking[A], P], BlockingRunHandle[T]]:
    """The same verb as a blocking call that returns a blocking handle."""

    @functools.wraps(verb)
    def handled(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> BlockingRunHandle[T]:
        return BlockingRunHandle(self._thread, self._thread.do(_of(self._awaited, verb)(*args, **kwargs)))

    return handled


def _iterates(
    verb: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[_Blocking[A], P], Iterator[T]]:
    """The same verb as a plain iterator."""

    @functools.wraps(verb)
    def iterating(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return _each(self._thread, _of(self._awaited, verb)(*args, **kwargs))

    return iterating


class BlockingVersions(_Blocking[Versions]):
    """The verbs of `Versions` as blocking calls."""

    of = _waits(Versions.of)
    diff = _waits(Versions.diff)
    replay = _waits(Versions.replay)
    check_migration = _waits(Versions.check_migration)
    migrate = _waits(Versions.migrate)


class BlockingBulk(_Blocking[Bulk]):
    """The verbs of `Bulk` as blocking calls."""

    preview = _waits(Bulk.preview)
    start = _waits(Bulk.start)
    progress = _waits(Bulk.progress)
    retry = _waits(Bulk.retry)


class BlockingDiagnostics(_Blocking[Diagnostics]):
    """The verbs of `Diagnostics` as blocking calls."""

    now = _waits(Diagnostics.now)
    run_ids = _iterates(Diagnostics.run_ids)
    created = _waits(Diagnostics.created)
    current_branch = _waits(Diagnostics.current_branch)
    lineage = _waits(Diagnostics.lineage)
    continued_as = _waits(Diagnostics.continued_as)
    open_question = _waits(Diagnostics.open_question)
    take_over_later = _waits(Diagnostics.take_over_later)
    preview = _waits(Diagnostics.preview)
    preview_retry = _waits(Diagnostics.preview_retry)
    preview_activate = _waits(Diagnostics.preview_activate)
    preview_pause = _waits(Diagnostics.preview_pause)
    preview_cancel = _waits(Diagnostics.preview_cancel)
    preview_recovery = _waits(Diagnostics.preview_recovery)
    holder = _waits(Diagnostics.holder)
    scratch = _waits(Diagnostics.scratch)
    workers_knowing = _waits(Diagnostics.workers_knowing)

    @property
    def worker_id(self) -> str:
        """See `Diagnostics.worker_id`."""
        return self._awaited.worker_id


class BlockingEngine(_Blocking[Engine]):
    """The verbs of `Engine` as blocking calls."""

    def __init__(self, opening: AbstractAsyncContextManager[Engine], thread: LoopThread | None = None) -> None:
        check_may_wait()
        thread = thread or LoopThread()
        self._opening = opening
        try:
            super().__init__(thread, thread.do(opening.__aenter__()))
        except BaseException:
            thread.stop()
            raise
        self.bulk = BlockingBulk(thread, self._awaited.bulk)
        self.versions = BlockingVersions(thread, self._awaited.versions)
        self.diagnostics = BlockingDiagnostics(thread, self._awaited.diagnostics)

    def close(self) -> None:
        """Stop advancing runs; other workers can continue them. Calls that still wait, and later calls, raise
        `StoreError`. Closing twice is allowed."""
        self._thread.stop(lambda: self._opening.__aexit__(None, None, None))

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingRunHandle[R]:
        """See `Engine.start`."""
        return BlockingRunHandle(self._thread, self._thread.do(self._awaited.start(workflow, *args, **kwargs)))

    @overload
    def output(self, run: str, node: Node[..., R]) -> R: ...
    @overload
    def output(self, run: str, node: str) -> Any: ...
    def output(self, run: Any, node: Any) -> Any:
        """See `Engine.output`."""
        return self._thread.do(self._awaited.output(run, node))

    handle = _gives_handle(Engine.handle)
    result = _waits(Engine.result)
    get = _waits(Engine.get)
    list_runs = _waits(Engine.list_runs)
    iter_runs = _iterates(Engine.iter_runs)
    find = _waits(Engine.find)
    events = _iterates(Engine.events)
    watch = _iterates(Engine.watch)
    """See `Engine.watch`. `stalled` is called on the engine's own thread and must not call the engine."""
    lines = _iterates(Engine.lines)
    questions = _waits(Engine.questions)
    asked = _waits(Engine.asked)
    answer = _waits(Engine.answer)
    begin = _gives_handle(Engine.begin)
    cancel = _waits(Engine.cancel)
    pause = _waits(Engine.pause)
    pause_all = _waits(Engine.pause_all)
    drain = _waits(Engine.drain)
    resume = _gives_handle(Engine.resume)
    retry = _gives_handle(Engine.retry)
    jump = _gives_handle(Engine.jump)
    rewind = _gives_handle(Engine.rewind)
    activate = _gives_handle(Engine.activate)
    fork = _gives_handle(Engine.fork)
    migrate = _waits(Engine.migrate)
    delete = _waits(Engine.delete)
    prune = _waits(Engine.prune)
    explain = _waits(Engine.explain)
    branches = _waits(Engine.branches)
    compare = _waits(Engine.compare)
    verify = _waits(Engine.verify)
    diagnose = _waits(Engine.diagnose)
    recover = _waits(Engine.recover)
    sweep = _waits(Engine.sweep)
    workers = _waits(Engine.workers)


class BlockingRunHandle(_Blocking[RunHandle[R]], Generic[R]):
    """One run, for code that does not await."""

    def __init__(self, thread: LoopThread, handle: RunHandle[R]) -> None:
        super().__init__(thread, handle)
        self.run = handle.run

    def result(self, *, timeout: Seconds | None = None) -> R:
        """See `RunHandle.result`."""
        __tracebackhide__ = True
        return self._thread.do(self._awaited.result(timeout=timeout))

    @overload
    def output(self, node: Node[..., T]) -> T: ...
    @overload
    def output(self, node: str) -> Any: ...
    def output(self, node: Any) -> Any:
        """See `RunHandle.output`."""
        return self._thread.do(self._awaited.output(node))

    get = _waits(RunHandle.get)
    watch = _iterates(RunHandle.watch)
    explain = _waits(RunHandle.explain)
    cancel = _waits(RunHandle.cancel)
    pause = _waits(RunHandle.pause)
    asked = _waits(RunHandle.asked)
    answer = _waits(RunHandle.answer)

    def __repr__(self) -> str:
        return repr(self._awaited)

    def _repr_html_(self) -> str:
        try:
            summary = self.get()
        except OutlastError:  # a notebook also shows cells of a closed engine
            return self._awaited._repr_html_()
        return page_of(self.run, summary.workflow, summary)


def _each(thread: LoopThread, items: AsyncIterator[T]) -> Iterator[T]:
    try:
        while True:
            try:
                yield thread.do(_next(items))
            except StopAsyncIteration:
                return
    finally:
        thread.leave(_closed(items))


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _closed(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
