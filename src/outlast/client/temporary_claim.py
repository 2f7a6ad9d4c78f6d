"""Temporary claims: own a run that no worker advances, for one change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from outlast.client.handle import RunHandle
from outlast.client.reader import Reader
from outlast.engine.cancelling import without_cleanup
from outlast.engine.completion import RETRY_PAUSES_S, cancel, cancel_left_children, end_as_requested, open_children
from outlast.engine.definitions import Definitions
from outlast.engine.worker import Worker
from outlast.errors import Claimed, NotAllowed, NotFound, OutlastError, RunGone, StoreError
from outlast.functions.workflow_import import find_workflow
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger, RunWriter
from outlast.ledger.reading import created_of, latest_run_of
from outlast.lifecycle.actions import Verb, refusal
from outlast.lifecycle.decide import ends_at_once, next_request
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.store import Claim

if TYPE_CHECKING:
    from outlast.client.facade import Engine
    from outlast.functions.decorators import Workflow


class RunNotifications:
    """Wakes the callers that wait for changes of a run. One listener serves all of them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: dict[RunId, set[asyncio.Future[None]]] = {}
        self._end: Callable[[], None] | None = None

    @contextmanager
    def next_change(self, run: RunId) -> Iterator[asyncio.Future[None]]:
        """A future that is done at the next change of the run. Inside the block, read first, then wait: no change is
        missed."""
        if self._end is None:
            self._end = self._ledger.listen(self._on_changes)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run, set()).add(future)
        try:
            yield future
        finally:
            self._waiting[run].discard(future)
            if not self._waiting[run]:
                del self._waiting[run]

    def count(self, run: RunId) -> int:
        """How many callers wait for changes of a run here."""
        return len(self._waiting.get(run, ()))

    def close(self) -> None:
        if self._end is not None:
            self._end()
            self._end = None

    def _on_changes(self, runs: frozenset[RunId]) -> None:
        for run in runs:
            for future in self._waiting.get(run, ()):
                if not future.done():
                    future.set_result(None)


TRIES, POLL_S = 100, 0.02
"""How often, and after how many seconds, the claim of a run that has just ended is tried again."""


class TemporaryClaims:
    """Claims runs for one change: for the `worker`, or without one for a temporary worker id."""

    def __init__(self, engine: Engine, ledger: Ledger, worker: Worker | None, apps: tuple[str, ...]) -> None:
        self._engine = engine
        self.reader = Reader(ledger.store, key=ledger.key)
        self.store = ledger.store
        self.ledger = ledger
        self.worker = worker
        self.apps = apps
        self.news = RunNotifications(ledger)
        self.definitions = worker.definitions if worker is not None else Definitions(ledger.store.blobs)
        self._temporary_worker: WorkerId | None = None
        self._claimed_runs: set[RunId] = worker.temporarily_owned if worker is not None else set()

    @asynccontextmanager
    async def owning(
        self, run: RunId, verb: Verb, *, ready: bool = False, upto: int | None = None, force: bool = False
    ) -> AsyncIterator[RunWriter]:
        """Own a run that no worker advances, for the duration of the block; `Claimed` if a worker does. One block per
        run at a time. If the state does not allow the verb, nothing is appended."""
        while run in self._claimed_runs:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(POLL_S)
        self._claimed_runs.add(run)
        try:
            writer = await self.ledger.take_over(
                await self.claimed(run), upto=upto, check=lambda state: _check_verb(state, run, verb, force)
            )
            async with self.holding(writer, ready=ready):
                yield writer
        finally:
            self._claimed_runs.discard(run)

    @asynccontextmanager
    async def holding(self, writer: RunWriter, *, ready: bool = False) -> AsyncIterator[None]:
        """Release an owned run at the end; `ready` hands it to the next worker. Children started after the cutoff of
        a new branch are cancelled before."""
        try:
            yield
            await self._cancel_left_children(writer)
        except BaseException:
            await writer.release_when_read(_has_work)
            raise
        while not await writer.release(ready=ready and not writer.state.is_closed):
            await self.obey_cancellation(writer)  # no worker may be there to obey it

    async def obey_cancellation(self, writer: RunWriter) -> None:
        """End an owned run that was cancelled and has no clean-up. Clean-up code needs a worker."""
        request = next_request(writer.state)
        if not isinstance(request, e.CancelRequested):
            return
        if not ends_at_once(writer.state, request):
            created = await created_of(self.store, writer.run)
            children = await self._without_cleanup(writer, created)
            if children is None or not all([await self._is_ended(child) for child in children]):
                self.advance_run(writer.run)
                return
        left = open_children(writer.state)
        await end_as_requested(self.ledger, writer)
        for child in left:
            with suppress(OutlastError):
                await self.obey_here(child)

    async def _without_cleanup(self, writer: RunWriter, created: e.RunCreated) -> list[RunId] | None:
        """The children that must end before a cancelled run, if the run has no clean-up and its code is available."""
        try:
            workflow = find_workflow(created, self.apps)
        except OutlastError:
            return None
        return await without_cleanup(writer, created, workflow)

    async def _is_ended(self, child: RunId) -> bool:
        """Cancel a child that its parent does not wait for any more; whether it has ended."""
        with suppress(NotFound):
            asked = await cancel(self.ledger, child, "its parent was cancelled")
            if asked is not None:
                await self.obey_here(asked)
                return (await self.reader.head(asked)).closed
        return True

    async def obey_here(self, run: RunId) -> None:
        """Carry out the cancellation of a run, or of the run it continued as, if no worker advances it."""
        run = await latest_run_of(self.store, run)
        if self.worker is not None and self.worker.has_run(run):
            return
        holding = await self.store.holding(run)
        if holding is not None and holding.is_live and holding.worker != self.worker_id:
            return
        with suppress(Claimed, RunGone):
            async with self.owning(run, "cancel") as writer:
                await self.obey_cancellation(writer)

    async def _cancel_left_children(self, writer: RunWriter) -> None:
        for pause in (*RETRY_PAUSES_S, None):
            try:
                for child in await cancel_left_children(self.ledger, writer.run, writer.state):
                    self.advance_run(child)
                return
            except StoreError:
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def must_allow(self, run: RunId, verb: Verb, *, force: bool = False) -> State:
        """Refuse a verb that the state of a run does not allow, before anything is claimed or written; returns the state."""
        await self.reader.head(run)
        state = await self.reader.state(run)
        _check_verb(state, run, verb, force)
        return state

    async def claimed(self, run: RunId) -> Claim:
        """A claim on a run. Waits for the owner of a run that has just ended: it is about to release the claim."""
        is_ours = False
        for _ in range(TRIES):
            is_ours = self.worker is not None and await self.worker.advances(run)
            claims = [] if is_ours else await self.store.claim(await self.own_worker(), runs=[run])
            if claims:
                return claims[0]
            if not (await self.reader.head(run)).closed:
                break
            await asyncio.sleep(POLL_S)
        raise Claimed("a worker of this process advances it" if is_ours else "a live worker holds it")

    async def own_worker(self) -> WorkerId:
        if self.worker is not None:
            return self.worker.id
        if self._temporary_worker is None:
            self._temporary_worker = self.ledger.new_worker_id()
        await self.store.enrol(self._temporary_worker, 30.0)
        return self._temporary_worker

    def advance_run(self, run: RunId) -> None:
        if self.worker is not None:
            self.worker.advance_run(run)

    def handle(self, run: RunId, workflow: Workflow[..., Any] | None) -> RunHandle[Any]:
        return RunHandle(self._engine, run, workflow)

    async def retire(self) -> None:
        """End the notifications and the temporary worker id."""
        self.news.close()
        if self._temporary_worker is not None:
            with suppress(OutlastError):
                await self.store.retire(self._temporary_worker)

    @property
    def worker_id(self) -> str:
        """The worker of this engine; empty if it advances no runs."""
        return self.worker.id if self.worker is not None else ""


class Verbs:
    """The shared parts of an engine's collaborators."""

    def __init__(self, claims: TemporaryClaims) -> None:
        self._claims = claims
        self._reader = claims.reader
        self._store = claims.store
        self._ledger = claims.ledger
        self._worker = claims.worker
        self._apps = claims.apps
        self._news = claims.news

    def _workflow_of(self, created: e.RunCreated) -> Workflow[..., Any] | None:
        """The code of a run that this engine is to advance; None without a worker."""
        return find_workflow(created, self._apps) if self._worker is not None else None


def _has_work(state: State) -> bool:
    """Whether a worker has work for a run: to advance it, or to cancel children of an older branch."""
    is_active = state.outline.base in (RunStatus.CREATED, RunStatus.RUNNING) and not state.outline.awaits_start
    return not state.is_closed and (is_active or bool(state.to_cancel()))


def _check_verb(state: State, run: RunId, verb: Verb, force: bool) -> None:
    refused = refusal(state, verb, force=force)
    if refused is not None:
        kind = RunGone if refused.code == "over" else NotAllowed
        raise kind(f"run {run} {refused.reason}")
