"""Owning a run that nobody advances, for a moment, to change something about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from outlast.client.exclusive import must_be_free
from outlast.client.handle import RunHandle
from outlast.client.notifications import News
from outlast.client.reader import Reader
from outlast.engine.completion import PAUSES, cancel, cancel_left, created_of, end_as_asked, newest_of, open_children
from outlast.engine.definitions import Definitions
from outlast.engine.quiet import without_cleanup
from outlast.engine.worker import Worker
from outlast.errors import Claimed, NotAllowed, NotFound, OutlastError, RunGone, StoreError
from outlast.functions.workflow_import import find_workflow
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger, Pen
from outlast.lifecycle.actions import Verb, refusal
from outlast.lifecycle.decide import ends_at_once, next_request
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.store import Claim

if TYPE_CHECKING:
    from outlast.client.facade import Engine
    from outlast.functions.decorators import Workflow

TRIES, SOON = 100, 0.02
"""How often, and after how many seconds, a run that is over is claimed again from whoever has just ended it."""


class WorkerRuns(Struct):
    """A worker and the runs it holds; it counts as alive until `expires`, by the store's clock."""

    worker: str
    is_live: bool
    expires: int
    runs: list[str] = field(default_factory=list)


class Owner(Reader):
    """Reads, and may own runs. With a `worker` it does so in its name, without one in its own."""

    def __init__(self, ledger: Ledger, worker: Worker | None, apps: tuple[str, ...]) -> None:
        super().__init__(ledger.store, key=ledger.key)
        self._ledger = ledger
        self._worker = worker
        self._apps = apps
        self._news = News(ledger)
        self._definitions = worker.definitions if worker is not None else Definitions(ledger.store.blobs)
        self._stand_in: WorkerId | None = None
        self._lent: set[RunId] = worker.lent if worker is not None else set()

    @asynccontextmanager
    async def _owning(
        self, run: RunId, verb: Verb, *, ready: bool = False, upto: int | None = None, force: bool = False
    ) -> AsyncIterator[Pen]:
        """Own a run that nobody advances, for as long as it takes; `Claimed` if somebody does. Here, one at a time. If the
        verb is refused by then, nothing is appended."""
        while run in self._lent:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(SOON)
        self._lent.add(run)
        try:
            pen = await self._ledger.take_over(
                await self._claimed(run), upto=upto, check=lambda state: _must_be_allowed(state, run, verb, force)
            )
            async with self._holding(pen, ready=ready):
                yield pen
        finally:
            self._lent.discard(run)

    @asynccontextmanager
    async def _holding(self, pen: Pen, *, ready: bool = False) -> AsyncIterator[None]:
        """Release an owned run in the end, ready for the next worker if it is to go on. The children of a part that it left
        are asked to stop before."""
        try:
            yield
            await self._cancel_left(pen)
        except BaseException:
            while not await pen.let_go(ready=not pen.state.is_closed and _is_going(pen.state)):
                pass
            raise
        while not await pen.let_go(ready=ready and not pen.state.is_closed):
            await self._obey_cancellation(pen)  # there may be no worker to obey it

    async def _obey_cancellation(self, pen: Pen) -> None:
        """End a run that is owned here for a moment, if somebody cancelled it and it has no clean-up. One that has is for a
        worker, which executes its code."""
        request = next_request(pen.state)
        if not isinstance(request, e.CancelRequested):
            return
        if not ends_at_once(pen.state, request):
            created = await created_of(self._store, pen.run)
            children = await self._without_cleanup(pen, created)
            if children is None or not all([await self._is_ended(child) for child in children]):
                self._take_on(pen.run)
                return
        left = open_children(pen.state)
        await end_as_asked(self._ledger, pen)
        for child in left:
            with suppress(OutlastError):
                await self._obey_here(child)

    async def _without_cleanup(self, pen: Pen, created: e.RunCreated) -> list[RunId] | None:
        """The children that have to end before a cancelled run, if it has no clean-up itself and its code is at hand."""
        try:
            workflow = find_workflow(created, self._apps)
        except OutlastError:
            return None
        return await without_cleanup(pen, created, workflow)

    async def _is_ended(self, child: RunId) -> bool:
        """Whether a child has ended that its parent no longer waits for: it is cancelled first."""
        with suppress(NotFound):
            asked = await cancel(self._ledger, child, "its parent was cancelled")
            if asked is not None:
                await self._obey_here(asked)
                return (await self._head(asked)).closed
        return True

    async def _obey_here(self, run: RunId) -> None:
        """Obey the cancellation of a run, or of what it goes on as by now, if nobody advances it."""
        run = await newest_of(self._store, run)
        if self._worker is not None and self._worker.knows(run):
            return
        holding = await self._store.holding(run)
        if holding is not None and holding.is_live and holding.worker != self.worker_id:
            return
        with suppress(Claimed, RunGone):
            async with self._owning(run, "cancel") as pen:
                await self._obey_cancellation(pen)

    async def _cancel_left(self, pen: Pen) -> None:
        for pause in (*PAUSES, None):
            try:
                for child in await cancel_left(self._ledger, pen.run, pen.state):
                    self._take_on(child)
                return
            except StoreError:
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def _must_allow(self, run: RunId, verb: Verb, *, force: bool = False) -> State:
        """Refuse a verb that the state of a run does not allow, before anything is claimed or written; returns the state."""
        await self._head(run)
        state = await self._state(run)
        _must_be_allowed(state, run, verb, force)
        return state

    async def _claimed(self, run: RunId) -> Claim:
        """A claim on a run. Whoever brought it to its end is about to let go of it, and is waited for."""
        is_ours = False
        for _ in range(TRIES):
            is_ours = self._worker is not None and await self._worker.advances(run)
            claims = [] if is_ours else await self._store.claim(await self._own_worker(), runs=[run])
            if claims:
                return claims[0]
            if not (await self._head(run)).closed:
                break
            await asyncio.sleep(SOON)
        raise Claimed("this process advances it" if is_ours else "a live worker holds it")

    async def _own_worker(self) -> WorkerId:
        if self._worker is not None:
            return self._worker.id
        if self._stand_in is None:
            self._stand_in = self._ledger.new_worker_id()
        await self._store.enrol(self._stand_in, 30.0)
        return self._stand_in

    def _take_on(self, run: RunId) -> None:
        if self._worker is not None:
            self._worker.take_on(run)

    def _handle(self, run: RunId, workflow: Workflow[..., Any] | None) -> RunHandle[Any]:
        return RunHandle(cast("Engine", self), run, workflow)

    @property
    def worker_id(self) -> str:
        """The worker of this engine, empty if it is a desk only."""
        return self._worker.id if self._worker is not None else ""

    async def workers(self) -> list[WorkerRuns]:
        """Which workers hold runs, and which runs; those that are alive first."""
        found: dict[str, WorkerRuns] = {}
        after = ""
        while True:
            page = await self._store.holdings(after=after, limit=1000)
            for each in page:
                known = found.setdefault(each.worker, WorkerRuns(each.worker, each.is_live, each.expires))
                known.runs.append(each.run)
            if len(page) < 1000:
                return sorted(found.values(), key=lambda each: (not each.is_live, each.worker))
            after = page[-1].run

    async def _must_be_free(self, exclusive: str, run: RunId) -> None:
        await must_be_free(self._store, exclusive, run)


def _is_going(state: State) -> bool:
    """Whether a worker has something to do with a run: to advance it, or to cancel children of a part that it left."""
    return state.outline.base in (RunStatus.CREATED, RunStatus.RUNNING) or bool(state.to_cancel())


def _must_be_allowed(state: State, run: RunId, verb: Verb, force: bool) -> None:
    refused = refusal(state, verb, force=force)
    if refused is not None:
        kind = RunGone if refused.code == "over" else NotAllowed
        raise kind(f"run {run} {refused.reason}")
