"""The desk for code that does not await: scripts, notebooks, plain tests. Its engine has a loop and a thread of its own."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec

from outlast.client.facade import Engine
from outlast.client.handle import RunHandle, page_of
from outlast.client.loop_thread import LoopThread, must_be_free_to_wait
from outlast.client.reader import Entry, Interval, Listed, Page, RunFilter, RunSummary, Verification
from outlast.definition.durations import Seconds
from outlast.errors import OutlastError
from outlast.functions.decorators import Workflow
from outlast.history.ids import RunId
from outlast.store import Line
from outlast.values.tracebacks import folded

if TYPE_CHECKING:
    from outlast.client.branch_plans import Plan
    from outlast.client.evidence import Diagnosis
    from outlast.client.temporary_claim import WorkerRuns
    from outlast.client.versions import Version
    from outlast.functions.dry_replay import Rehearsal
    from outlast.history.events import AnyEvent, Children, RunCreated
    from outlast.lifecycle.actions import Verb
    from outlast.lifecycle.branching import BranchSummary
    from outlast.lifecycle.comparison import Comparison
    from outlast.lifecycle.diagnosis import Finding
    from outlast.lifecycle.narrative import Story
    from outlast.lifecycle.state import Wait

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class BlockingEngine:
    """The verbs of `Engine`, each waiting until it is done."""

    def __init__(self, opening: AbstractAsyncContextManager[Engine], thread: LoopThread | None = None) -> None:
        must_be_free_to_wait()
        self._thread = thread or LoopThread()
        self._opening = opening
        try:
            self._client = self._thread.do(_entered(opening))
        except BaseException:
            self._thread.stop()
            raise

    def close(self) -> None:
        """Stop advancing runs; others may go on with them. Whoever waits here gets a `StoreError`, as does who asks for
        something afterwards; to close it again does nothing."""
        self._thread.stop(lambda: _exited(self._opening))

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingRunHandle[R]:
        """See `Engine.start`."""
        return BlockingRunHandle(self, self._thread.do(self._client.start(workflow, *args, **kwargs)))

    def handle(self, run: str) -> BlockingRunHandle[Any]:
        """See `Engine.handle`."""
        return BlockingRunHandle(self, self._thread.do(self._client.handle(run)))

    def result(self, run: RunId, *, workflow: Workflow[..., Any] | None = None, timeout: Seconds | None = None) -> Any:
        """See `Engine.result`."""
        return self._thread.do(self._client.result(run, workflow=workflow, timeout=timeout))

    def get(self, run: RunId) -> RunSummary:
        """See `Engine.get`."""
        return self._thread.do(self._client.get(run))

    def list(self, query: RunFilter | None = None) -> Page:
        """See `Engine.list`."""
        return self._thread.do(self._client.list(query or RunFilter()))

    def all(self, query: RunFilter | None = None) -> Iterator[Listed]:
        """See `Engine.all`."""
        return self._each(self._client.all(query or RunFilter()))

    def runs(self, *, unfinished: bool = False) -> Iterator[RunId]:
        """See `Engine.runs`."""
        return self._each(self._client.runs(unfinished=unfinished))

    def find(self, prefix: str) -> RunId:
        """See `Engine.find`."""
        return self._thread.do(self._client.find(prefix))

    def created(self, run: RunId) -> RunCreated:
        """See `Engine.created`."""
        return self._thread.do(self._client.created(run))

    def now(self) -> int:
        """See `Engine.now`."""
        return self._thread.do(self._client.now())

    def events(
        self, run: RunId, *, branch: int | None = None, everything: bool = False, after: int = 0
    ) -> Iterator[Entry]:
        """See `Engine.events`."""
        return self._each(self._client.events(run, branch=branch, everything=everything, after=after))

    def watch(self, run: RunId, *, after: int = 0, stalled: Callable[[bool], None] | None = None) -> Iterator[Entry]:
        """See `Engine.watch`. `stalled` is called on the engine's own thread: it must not ask the engine for anything."""
        return self._each(self._client.watch(run, after=after, stalled=stalled))

    def lines(self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0) -> Iterator[Line]:
        """See `Engine.lines`."""
        return self._each(self._client.lines(run, node=node, attempt=attempt, after=after))

    def questions(self, run: RunId) -> builtins.list[Wait]:
        """See `Engine.questions`."""
        return self._thread.do(self._client.questions(run))

    def answer(self, run: RunId, value: Any, *, interaction: str | None = None, by: str = "") -> RunId:
        """See `Engine.answer`."""
        return self._thread.do(self._client.answer(run, value, interaction=interaction, by=by))

    def asked(self, run: RunId, interaction: str | None = None) -> tuple[RunId, Wait]:
        """See `Engine.asked`."""
        return self._thread.do(self._client.asked(run, interaction))

    def goes_on_as(self, run: RunId) -> RunId:
        """See `Engine.goes_on_as`."""
        return self._thread.do(self._client.goes_on_as(run))

    def cancel(self, run: RunId, *, by: str = "", reason: str = "", force: bool = False) -> RunId:
        """See `Engine.cancel`."""
        return self._thread.do(self._client.cancel(run, by=by, reason=reason, force=force))

    def pause(self, run: RunId, *, by: str = "", reason: str = "") -> RunId:
        """See `Engine.pause`."""
        return self._thread.do(self._client.pause(run, by=by, reason=reason))

    def wind_down(self, runs: Iterable[RunId] = (), *, by: str = "", reason: str = "") -> None:
        """See `Engine.wind_down`."""
        self._thread.do(self._client.wind_down(runs, by=by, reason=reason))

    def drain(self) -> None:
        """See `Engine.drain`."""
        self._thread.do(self._client.drain())

    @property
    def worker_id(self) -> str:
        """See `Engine.worker_id`."""
        return self._client.worker_id

    def workers(self) -> builtins.list[WorkerRuns]:
        """See `Engine.workers`."""
        return self._thread.do(self._client.workers())

    def stand_by(self, run: RunId) -> str:
        """See `Engine.stand_by`."""
        return self._thread.do(self._client.stand_by(run))

    def resume(self, run: RunId, *, by: str = "", force: bool = False) -> BlockingRunHandle[Any]:
        """See `Engine.resume`."""
        return BlockingRunHandle(self, self._thread.do(self._client.resume(run, by=by, force=force)))

    def retry(
        self,
        run: RunId,
        node: str | None = None,
        *,
        feedback: Any = None,
        by: str = "",
        reason: str = "",
        children: Children = "cancel",
        force: bool = False,
    ) -> BlockingRunHandle[Any]:
        """See `Engine.retry`."""
        retried = self._client.retry(run, node, feedback=feedback, by=by, reason=reason, children=children, force=force)
        return self._handled(retried)

    def jump(
        self,
        run: RunId,
        to: str | int,
        *,
        inputs: dict[str, Any] | None = None,
        output: Any = msgspec.UNSET,
        by: str = "",
        reason: str = "",
        children: Children = "cancel",
    ) -> BlockingRunHandle[Any]:
        """See `Engine.jump`."""
        jump = self._client.jump
        return self._handled(jump(run, to, inputs=inputs, output=output, by=by, reason=reason, children=children))

    def rewind(
        self, run: RunId, nodes: int = 1, *, by: str = "", reason: str = "", children: Children = "cancel"
    ) -> BlockingRunHandle[Any]:
        """See `Engine.rewind`."""
        return self._handled(self._client.rewind(run, nodes, by=by, reason=reason, children=children))

    def activate(
        self, run: RunId, branch: int, *, by: str = "", reason: str = "", children: Children = "cancel"
    ) -> BlockingRunHandle[Any]:
        """See `Engine.activate`."""
        return self._handled(self._client.activate(run, branch, by=by, reason=reason, children=children))

    def fork(
        self, run: RunId, at: str | int | None = None, *, id: str | None = None, title: str = "", by: str = ""
    ) -> BlockingRunHandle[Any]:
        """See `Engine.fork`."""
        return self._handled(self._client.fork(run, at, id=id, title=title, by=by))

    def preview(self, run: RunId, verb: Verb, plan: Plan) -> builtins.list[AnyEvent]:
        """See `Engine.preview`."""
        return self._thread.do(self._client.preview(run, verb, plan))

    def preview_retry(
        self,
        run: RunId,
        node: str | None = None,
        *,
        feedback: Any = None,
        children: Children = "cancel",
        force: bool = False,
    ) -> builtins.list[AnyEvent]:
        """See `Engine.preview_retry`."""
        return self._thread.do(self._client.preview_retry(run, node, feedback=feedback, children=children, force=force))

    def _handled(self, verb: Coroutine[Any, Any, RunHandle[Any]]) -> BlockingRunHandle[Any]:
        return BlockingRunHandle(self, self._thread.do(verb))

    def explain(self, run: RunId, *, branch: int | None = None, full: bool = False) -> Story:
        """See `Engine.explain`."""
        return self._thread.do(self._client.explain(run, branch=branch, full=full))

    def branches(self, run: RunId) -> tuple[BranchSummary, ...]:
        """See `Engine.branches`."""
        return self._thread.do(self._client.branches(run))

    def compare(
        self, run: RunId, other: RunId | None = None, *, branch: int | None = None, other_branch: int | None = None
    ) -> Comparison:
        """See `Engine.compare`."""
        return self._thread.do(self._client.compare(run, other, branch=branch, other_branch=other_branch))

    def lineage(self, run: RunId, branch: int | None = None) -> tuple[Interval, ...]:
        """See `Engine.lineage`."""
        return self._thread.do(self._client.lineage(run, branch))

    def newest(self, run: RunId) -> int:
        """See `Engine.newest`."""
        return self._thread.do(self._client.newest(run))

    def verify(self, run: RunId, *, blobs: bool = True) -> Verification:
        """See `Engine.verify`."""
        return self._thread.do(self._client.verify(run, blobs=blobs))

    def diagnose(self, run: RunId, *, blobs: bool = True) -> Diagnosis:
        """See `Engine.diagnose`."""
        return self._thread.do(self._client.diagnose(run, blobs=blobs))

    def planned(self, run: RunId, finding: Finding) -> builtins.list[AnyEvent]:
        """See `Engine.planned`."""
        return self._thread.do(self._client.planned(run, finding))

    def recover(self, run: RunId) -> builtins.list[Finding]:
        """See `Engine.recover`."""
        return self._thread.do(self._client.recover(run))

    def versions(self, workflow: str) -> builtins.list[Version]:
        """See `Engine.versions`."""
        return self._thread.do(self._client.versions(workflow))

    def known_versions(self, beginning: str) -> builtins.list[str]:
        """See `Engine.known_versions`."""
        return self._thread.do(self._client.known_versions(beginning))

    def source(self, version: str) -> str:
        """See `Engine.source`."""
        return self._thread.do(self._client.source(version))

    def differences(self, old: str, new: str) -> str:
        """See `Engine.differences`."""
        return self._thread.do(self._client.differences(old, new))

    def today(self, run: RunId) -> str:
        """See `Engine.today`."""
        return self._thread.do(self._client.today(run))

    def rehearse(self, run: RunId) -> Rehearsal:
        """See `Engine.rehearse`."""
        return self._thread.do(self._client.rehearse(run))

    def migrate(self, run: RunId, *, by: str = "", reason: str = "", children: Children = "cancel") -> Rehearsal:
        """See `Engine.migrate`."""
        return self._thread.do(self._client.migrate(run, by=by, reason=reason, children=children))

    def must_be_migratable(self, run: RunId) -> None:
        """See `Engine.must_be_migratable`."""
        self._thread.do(self._client.must_be_migratable(run))

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Anything else, on the engine's own loop."""
        return self._thread.do(coroutine)

    def _each(self, items: AsyncIterator[T]) -> Iterator[T]:
        try:
            while True:
                try:
                    yield self._thread.do(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self._thread.leave(_closed(items))


class BlockingRunHandle(Generic[R]):
    """One run, for code that does not await."""

    def __init__(self, engine: BlockingEngine, handle: RunHandle[R]) -> None:
        self.run = handle.run
        self._engine = engine
        self._handle = handle

    def result(self, *, timeout: Seconds | None = None) -> R:
        """See `RunHandle.result`."""
        try:
            return self._engine.do(self._handle.result(timeout=timeout))
        except Exception as error:
            raise folded(error)  # noqa: B904 - it is the same error

    def get(self) -> RunSummary:
        """See `RunHandle.get`."""
        return self._engine.do(self._handle.get())

    def watch(self, after: int = 0) -> Iterator[Entry]:
        """See `RunHandle.watch`."""
        return self._engine.watch(self.run, after=after)

    def explain(self, *, full: bool = False) -> Story:
        """See `RunHandle.explain`."""
        return self._engine.explain(self.run, full=full)

    def cancel(self, *, by: str = "", reason: str = "", force: bool = False) -> None:
        """See `RunHandle.cancel`."""
        self._engine.cancel(self.run, by=by, reason=reason, force=force)

    def pause(self, *, by: str = "", reason: str = "") -> None:
        """See `RunHandle.pause`."""
        self._engine.pause(self.run, by=by, reason=reason)

    def answer(self, value: Any, *, interaction: str | None = None, by: str = "") -> RunId:
        """See `RunHandle.answer`."""
        return self._engine.answer(self.run, value, interaction=interaction, by=by)

    def __repr__(self) -> str:
        return repr(self._handle)

    def _repr_html_(self) -> str:
        try:
            summary = self.get()
        except OutlastError:  # a notebook shows old cells too
            return self._handle._repr_html_()
        return page_of(self.run, summary.workflow, summary)


async def _entered(opening: AbstractAsyncContextManager[Engine]) -> Engine:
    return await opening.__aenter__()


async def _exited(opening: AbstractAsyncContextManager[Engine]) -> None:
    await opening.__aexit__(None, None, None)


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _closed(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
