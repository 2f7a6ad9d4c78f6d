"""What may be asked of runs: start, result, watch, answer, cancel, pause, resume, retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, ParamSpec, TypeVar

import msgspec

from outlast.client.answers import must_fit
from outlast.client.handle import Handle
from outlast.client.news import News
from outlast.client.reading import Reader
from outlast.errors import AlreadyExists, BadInput, Cancelled, Claimed, Gone, Held, OutlastError, Refused
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId, checked_run, derived_run
from outlast.history.record import Entry
from outlast.ledger import Ledger, Pen
from outlast.ledger.reading import lineage_of, state_of
from outlast.lifecycle import decide
from outlast.lifecycle.state import State, Wait
from outlast.lifecycle.status import Status
from outlast.runtime import pausing
from outlast.runtime.ends import Ended, created_of, ending_of, open_children, settle
from outlast.runtime.failures import error_from
from outlast.runtime.finding import find_workflow, found_at
from outlast.runtime.functions import Workflow
from outlast.runtime.values import Codec, codec_for, encode, fetched, stored
from outlast.runtime.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

POLL = 1.0
"""Seconds after which whoever waits looks again, though nothing was announced."""
_ANY = codec_for(Any)


class Client(Reader):
    """The desk. With a `worker` it advances runs itself; without one, what it starts waits for a worker elsewhere."""

    def __init__(
        self, ledger: Ledger, worker: Worker | None = None, *, root: str = "", apps: tuple[str, ...] = ()
    ) -> None:
        super().__init__(ledger.store, key=ledger.key)
        self._ledger = ledger
        self._worker = worker
        self._root = root
        self._apps = apps
        self._news = News(ledger)
        self._stand_in: WorkerId | None = None

    # --- starting

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Start a run; it is durable when this returns. `workflow.options(id=…, key=…)` makes that idempotent."""
        if not isinstance(workflow, Workflow):
            raise BadInput(f"{workflow!r} is not a workflow: decorate the function with @workflow")
        spec, options = workflow.spec, workflow.start
        try:
            packed = workflow.arguments.pack(args, kwargs)
        except TypeError as error:
            raise BadInput(f"workflow {spec.name} cannot be started so: {error}") from error
        run = self._run_id(spec.name, options)
        created = e.RunCreated(
            workflow=spec.name,
            version=spec.code,
            params=await stored(packed.inputs, self._store.blobs),
            key=options.get("key", ""),
            title=options.get("title", ""),
            tags=options.get("tags", ()),
            on_restart=spec.on_restart,
            entry=found_at(spec.entry),
            root=self._root,
        )
        try:
            if self._worker is not None and self._worker.room:
                await self._worker.start(run, workflow, created, packed.args, packed.kwargs)
            else:
                await self._ledger.create_ready(run, created)
        except AlreadyExists:
            await self._must_be_the_same(run, created)
        self._take_on(run)
        return Handle(self, run, workflow)

    def _run_id(self, workflow: str, options: dict[str, Any]) -> RunId:
        if "id" in options:
            return checked_run(options["id"])
        if "key" in options:
            return derived_run("key", workflow, options["key"])
        return self._ledger.new_run_id()

    async def _must_be_the_same(self, run: RunId, asked: e.RunCreated) -> None:
        """A start that was asked for before is answered with the run there is; another one under its name is refused."""
        there = await created_of(self._store, run)
        if there.workflow != asked.workflow or bytes(there.params) != bytes(asked.params):
            name = f"key {asked.key!r}" if asked.key else f"id {run}"
            what = "of another workflow" if there.workflow != asked.workflow else "with other parameters"
            raise AlreadyExists(f"there is a run under {name} already, {what}: choose another, or ask for the same")

    async def handle(self, run: str) -> Handle[Any]:
        """The handle of a run that is there."""
        found = await self.find(run)
        return Handle(self, found)

    # --- waiting for it

    async def result(self, run: RunId, *, workflow: Workflow[..., Any] | None = None) -> Any:
        """What the run returned, once it has. What it raised is raised; `Held` if a person has to decide first."""
        codec = workflow.arguments.returns if workflow is not None else _ANY
        await self._head(run)
        while True:
            ending = await self._ending_here(run) or await self._ending_anywhere(run)
            if not isinstance(ending, e.RunContinued):
                return await self._outcome(run, ending, codec)
            run = RunId(ending.successor)  # it may not be there yet, but it will be

    async def _ending_here(self, run: RunId) -> Ended | None:
        """How a run of this process ends: its driver tells, without a look at the store. None if it is not ours."""
        driver = self._worker.drivers.get(run) if self._worker is not None else None
        ended = await driver.ended() if driver is not None else None
        return None if isinstance(ended, e.RunPaused) else ended

    async def _ending_anywhere(self, run: RunId) -> Ended:
        while True:
            heard = self._news.subscribed(run)
            try:
                ending = await self._ending_there(run)
                if ending is not None:
                    return ending
                await asyncio.wait({heard}, timeout=POLL)
            finally:
                self._news.unsubscribe(run, heard)

    async def _ending_there(self, run: RunId) -> Ended | None:
        """How the run ended, by the store, if it has."""
        head = await self._store.head(run)
        if head is None:
            return None
        summary = await self._store.summary(run)
        if head.closed or (summary is not None and summary.held):
            return await ending_of(self._store, head)
        return None

    async def _outcome(self, run: RunId, ending: Ended, codec: Codec) -> Any:
        match ending:
            case e.RunCompleted():
                return codec.decode(await fetched(ending.output, self._store.blobs))
            case e.RunFailed(held=True):
                kind = error_from(ending.error)
                held = kind if isinstance(kind, Held) else Held(ending.error.message)
                held.add_note(f"A person has to decide about run {run}: resume it, retry a node of it, or cancel it.")
                raise held
            case e.RunFailed():
                raise error_from(ending.error)
            case _:
                reason = f": {ending.reason}" if isinstance(ending, e.RunCancelled) and ending.reason else ""
                raise Cancelled(f"run {run} was cancelled{reason}")

    async def watch(self, run: RunId, *, after: int = 0) -> AsyncIterator[Entry]:
        """Every event after seq `after`, those to come included, once each and in order, until the run is over."""
        while True:
            heard = self._news.subscribed(run)
            try:
                head = await self._head(run)
                if head.version > after:
                    async for entry in self.events(run, everything=True, after=after):
                        after = entry.seq
                        yield entry
                elif head.closed:
                    return
                else:
                    await asyncio.wait({heard}, timeout=POLL)
            finally:
                self._news.unsubscribe(run, heard)

    # --- people

    async def answer(self, run: RunId, value: Any, *, interaction: str | None = None, by: str = "") -> None:
        """Answer what a run asks. If it asks several things, `interaction` says which; a wrong kind of answer is refused."""
        head = await self._head(run)
        if head.closed:
            raise Gone(f"run {run} is over: it takes no more answers")
        wait = await self._question(run, interaction)
        raw = _plain(value)
        must_fit(msgspec.json.decode(raw), msgspec.json.decode(wait.detail))
        answered = e.InteractionAnswered(interaction=wait.id, answer=await stored(raw, self._store.blobs), by=by)
        await self._ledger.deliver(run, [answered])

    async def questions(self, run: RunId) -> list[Wait]:
        """What the run asks people now."""
        summary = await self.get(run)
        waits: Iterable[Wait] = summary.waits
        if summary.waiting > len(summary.waits):  # a summary names only some
            head = await self._head(run)
            waits = (await state_of(self._store, run, await lineage_of(self._store, head))).waits.values()
        return [wait for wait in waits if wait.kind == "interaction"]

    async def _question(self, run: RunId, interaction: str | None) -> Wait:
        if interaction is None:
            asked = await self.questions(run)
            if not asked:
                raise Gone(f"run {run} asks nothing now")
            if len(asked) > 1:
                shown = "".join(f"\n  {wait.id}: {wait.text}" for wait in asked)
                raise BadInput(f"run {run} asks more than one thing; say which one is answered:{shown}")
            interaction = asked[0].id
        wait = await self._store.wait(run, f"interaction:{interaction}")
        if wait is None:
            raise Gone(f"run {run} does not ask {interaction!r} (any more)")
        return wait

    # --- steering

    async def cancel(self, run: RunId, *, by: str = "", reason: str = "") -> None:
        """Ask a run to stop; with nobody advancing it, stop it."""
        head = await self._head(run)
        if head.closed:
            raise Gone(f"run {run} is over and cannot be cancelled")
        try:
            async with self._owning(run) as pen:
                children = open_children(pen.state)
                ending = e.RunCancelled(by=by, reason=reason)
                await pen.append(
                    decide.end(pen.state, ending, f"the run was cancelled{f': {reason}' if reason else ''}")
                )
                await settle(self._ledger, await created_of(self._store, run), ending, children)
        except Claimed:
            await self._ledger.deliver(run, [e.CancelRequested(by=by, reason=reason)])
            return
        for child in children:
            with suppress(OutlastError):
                await self.cancel(child, by=by, reason="its parent was cancelled")

    async def pause(self, run: RunId, *, by: str = "", reason: str = "") -> None:
        """Ask a run to stop where it can go on later; with nobody advancing it, it is paused when this returns. Otherwise
        its nodes have the grace time to reach a checkpoint or their end first. `resume` goes on with it; its children go
        on meanwhile."""
        head, summary = await self._head(run), await self.get(run)
        if head.closed:
            raise Gone(f"run {run} is over and cannot be paused")
        if summary.status is Status.PAUSED:
            raise Refused(f"run {run} is paused already")
        if summary.held:
            raise Refused(f"run {run} is held and cannot be paused: a person has to decide; resume it, or cancel it")
        if not await self._paused_as_nobodys(run, by, reason):
            await self._ledger.deliver(run, [e.PauseRequested(by=by, reason=reason)])

    async def _paused_as_nobodys(self, run: RunId, by: str, reason: str) -> bool:
        """Pause a run that nobody advances; False if somebody does."""
        try:
            async with self._owning(run) as pen:
                await pen.append(decide.pause(pen.state, reason, by))
        except Claimed:
            return False
        return True

    async def wind_down(self, runs: Iterable[RunId] = (), *, by: str = "", reason: str = "") -> None:
        """Pause all that this process advances, and those of `runs` that nobody does; return when that is done. Children are
        not paused: their nodes have the grace time as well, and whoever goes on with the parent goes on with them."""
        worker = self._worker
        if worker is None:
            return
        worker.is_draining = True
        await worker.settled()
        ends = []
        for driver in pausing.on_top(worker):
            with suppress(Gone):
                await self._ledger.deliver(driver.run, [e.PauseRequested(by=by, reason=reason)])
                ends.append(driver.ended())
        for run in [run for run in runs if not worker.knows(run)]:
            with suppress(Refused):
                await self._paused_as_nobodys(run, by, reason)
        await asyncio.gather(pausing.drain(worker), *ends)
        await worker.lines.flush()

    async def drain(self) -> None:
        """Let nothing more begin here, and return when no node is at work: each has the grace time to reach a checkpoint or
        its end. Nothing is paused: what this process advances is left where it stands, for whoever claims it."""
        if self._worker is not None:
            await pausing.drain(self._worker)

    async def resume(self, run: RunId, *, by: str = "") -> Handle[Any]:
        """Go on with a run that was interrupted, is paused or held, or failed and is recoverable: what was in flight or
        failed last gets another attempt."""
        return await self._reopen(run, None, by)

    async def retry(self, run: RunId, node: str | None = None, *, by: str = "") -> Handle[Any]:
        """Do a failed node again, that which the run failed of or the one named, and go on from there."""
        return await self._reopen(run, node, by)

    async def _reopen(self, run: RunId, node: str | None, by: str) -> Handle[Any]:
        created = await created_of(self._store, run)
        workflow = find_workflow(created, self._apps) if self._worker is not None else None
        had_stopped = (await self.get(run)).status in (Status.FAILED, Status.PAUSED)
        try:
            async with self._owning(run, ready=True) as pen:
                if pen.state.outline.pause_requested and pen.state.outline.base in (Status.CREATED, Status.RUNNING):
                    await pen.append(decide.pause(pen.state))  # or the next owner would, after this resume
                if node is not None or had_stopped or not _needs_no_word(pen.state):
                    await pen.append(decide.reopen(pen.state, node, by=by))
        except Claimed as claimed:
            summary = await self.get(run)
            raise Refused(f"run {run} is {summary.status}, there is nothing to resume: {claimed}") from claimed
        self._take_on(run)
        return Handle(self, run, workflow)

    @asynccontextmanager
    async def _owning(self, run: RunId, *, ready: bool = False) -> AsyncIterator[Pen]:
        """Own a run that nobody advances, for as long as it takes; `Claimed` if somebody does."""
        if self._worker is not None and await self._worker.advances(run):
            raise Claimed("this process advances it")
        worker = await self._own_worker()
        claims = await self._store.claim(worker, runs=[run])
        if not claims:
            raise Claimed("a live worker holds it")
        pen = await self._ledger.take_over(claims[0])
        try:
            yield pen
        except BaseException:
            await pen.let_go(ready=not pen.state.is_closed and pen.state.outline.base in ("running", "created"))
            raise
        while not await pen.let_go(ready=ready):
            pass

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

    async def leave(self) -> None:
        """Nothing more will be asked."""
        self._news.close()
        if self._stand_in is not None:
            with suppress(OutlastError):
                await self._store.retire(self._stand_in)


def _plain(value: Any) -> e.Value:
    """An answer as the JSON that the question's schema speaks of: a date is a text there, a dataclass an object."""
    raw = encode(value, where="answer")  # which refuses what must not be stored
    try:
        return encode(msgspec.to_builtins(value), where="answer")
    except TypeError:
        return raw


def _needs_no_word(state: State) -> bool:
    """Whether a run that was merely interrupted goes on by having been taken over. Or, if that showed something a person has
    to know first, such as a node that must not be repeated, whether it is to stay held."""
    outline = state.outline
    if outline.held:
        return outline.reason != decide.RESTARTED
    return outline.base in (Status.CREATED, Status.RUNNING, Status.COMPENSATING)
