"""What may be asked of runs: start them, wait for them, watch them, answer them. `steering` has the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import PurePath
from typing import Any, ParamSpec, TypeVar

import msgspec

from outlast.client.answer_check import must_fit
from outlast.client.branching import PATIENCE
from outlast.client.handle import RunHandle
from outlast.client.idempotency import mean_the_same
from outlast.client.questions import not_open, open_question, questions_of
from outlast.client.versions import Versions
from outlast.definition.durations import Seconds, seconds_or_none
from outlast.engine.completion import Ended, created_of, ending_of
from outlast.engine.shielded_tasks import Duties
from outlast.engine.worker import Worker
from outlast.errors import (
    AlreadyExists,
    InvalidInput,
    NotAllowed,
    OutlastError,
    RunCancelled,
    RunGone,
    RunHeld,
    StillRunning,
)
from outlast.functions import scope
from outlast.functions.decorators import Workflow, no_start_in_a_workflow
from outlast.functions.workflow_import import found_at
from outlast.history import events as e
from outlast.history.ids import RunId, checked_run, derived_run
from outlast.history.record import Entry
from outlast.ledger import Ledger
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.values.checked_text import several_words, words
from outlast.values.codec import Codec, codec_for, encode, fetched, stored
from outlast.values.failures import error_from
from outlast.values.secrets import has_revealed

P = ParamSpec("P")
R = TypeVar("R")

POLL = 1.0
"""Seconds after which whoever waits looks again, though nothing was announced."""
_ANY = codec_for(Any)


class Engine(Versions):
    """The desk. With a `worker` it advances runs itself; without one, what it starts waits for a worker elsewhere."""

    def __init__(
        self, ledger: Ledger, worker: Worker | None = None, *, root: str = "", apps: tuple[str, ...] = ()
    ) -> None:
        super().__init__(ledger, worker, apps)
        self._root = root
        self._starts = Duties()
        """What is done to its end, whoever waits for it."""

    # --- starting

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """Start a run; it is durable when this returns. `workflow.options(id=…)` or `workflow.options(idempotency_key=…)`
        makes that idempotent."""
        if not isinstance(workflow, Workflow):
            raise InvalidInput(f"{workflow!r} is not a workflow: decorate the function with @workflow")
        if scope.current.get(None) is not None:
            raise no_start_in_a_workflow(workflow.name)
        spec, options = workflow._spec, workflow._start_options
        try:
            packed = workflow._arguments.pack(args, kwargs)
        except TypeError as error:
            raise InvalidInput(f"workflow {spec.name} cannot be started so: {error}") from error
        run = self._run_id(spec.name, options)
        exclusive = words("exclusive", workflow._exclusive_for(args, kwargs))
        entry, folder = found_at(spec)
        created = e.RunCreated(
            workflow=spec.name,
            version=await self._definitions.keep(workflow),
            params=await stored(packed.inputs, self._store.blobs),
            key=words("idempotency_key", options.get("idempotency_key", "")),
            title=words("title", options.get("title", "")),
            tags=several_words("tags", options.get("tags", ())),
            on_restart=spec.on_restart,
            exclusive=exclusive,
            entry=entry,
            folder=folder,
            root=self._root,
        )
        try:
            if exclusive:
                await self._start_alone(run, created)
            elif self._worker is not None and self._worker.room:
                await self._worker.start(run, workflow, created, packed.args, packed.kwargs)
                return RunHandle(self, run, workflow)
            else:
                await self._ledger.create_ready(run, created)
        except AlreadyExists:
            await self._must_be_the_same(run, created, workflow)
        self._take_on(run)
        return RunHandle(self, run, workflow)

    async def _start_alone(self, run: RunId, created: e.RunCreated) -> None:
        """A run that must have something for itself: it begins only after nobody else was seen to have it."""
        if await self._store.head(run) is not None:  # whoever has it by now, the same start is answered
            raise AlreadyExists(f"there is a run {run} already")
        await self._must_be_free(created.exclusive, run)
        await self._starts.see_through(self._begin_alone(run, created))

    async def _begin_alone(self, run: RunId, created: e.RunCreated) -> None:
        """Until the second look nobody may have the run, and afterwards it must not be left lying."""
        pen = await self._ledger.create(run, [created], await self._own_worker())
        try:
            await self._must_be_free(created.exclusive, run)
        except NotAllowed as refusal:
            await pen.append([e.RunCancelled(reason=str(refusal))], release=True)
            raise
        while not await pen.let_go(ready=True):
            pass
        self._take_on(run)

    def _run_id(self, workflow: str, options: dict[str, Any]) -> RunId:
        if "id" in options:
            return checked_run(words("id", options["id"]))
        if "idempotency_key" in options:
            return derived_run("key", workflow, options["idempotency_key"])
        return self._ledger.new_run_id()

    async def _must_be_the_same(self, run: RunId, asked: e.RunCreated, workflow: Workflow[..., Any]) -> None:
        """A start that was asked for before is answered with the run there is; another one under its name is refused."""
        there = await created_of(self._store, run)
        if there.workflow != asked.workflow:
            what = f"by a run of workflow {there.workflow}"
        elif not await mean_the_same(there.params, asked.params, workflow._arguments, self._store.blobs):
            what = "with different parameters"
        else:
            return
        name = f"idempotency key {asked.key!r}" if asked.key else f"id {run}"
        raise AlreadyExists(f"{name} is already used {what}: choose another one, or start the same")

    async def handle(self, run: str) -> RunHandle[Any]:
        """The handle of a run that is there."""
        found = await self.find(run)
        return RunHandle(self, found)

    # --- waiting for it

    async def result(
        self, run: RunId, *, workflow: Workflow[..., Any] | None = None, timeout: Seconds | None = None
    ) -> Any:
        """What the run returned, once it has. What it raised is raised; `RunHeld` if a person has to decide first. If it
        has not ended after `timeout`, in seconds or as `timedelta`, `StillRunning`, a `TimeoutError`, is raised; the run
        goes on."""
        codec = workflow._arguments.returns if workflow is not None else _ANY
        limit = seconds_or_none(timeout, "timeout")
        waiting = asyncio.timeout(limit)
        try:
            async with waiting:
                last, ending = await self._ending(run)
        except TimeoutError:
            if not waiting.expired():
                raise
            last = await self.goes_on_as(run)
            over = await self._ending_there(last)  # also with a timeout of 0, the end of a run that is over is seen
            if over is None or isinstance(over, e.RunContinued):
                raise StillRunning(f"run {run} has not ended within {limit:g} s; it goes on") from None
            ending = over
        return await self._outcome(last, ending, codec, "" if workflow is None else workflow.fn.__module__)

    async def _ending(self, run: RunId) -> tuple[RunId, Ended]:
        """How a run ends, or the last one that it goes on as, and which that is."""
        if self._worker is None or run not in self._worker.drivers:
            await self._head(run)
        while True:
            ending = await self._ending_here(run) or await self._ending_anywhere(run)
            if not isinstance(ending, e.RunContinued):
                return run, ending
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
        if head.closed:
            return await ending_of(self._store, head)
        if summary is None or not summary.held:
            return None
        is_cancelled = isinstance(next_request(await self._state(run)), e.CancelRequested)
        return None if is_cancelled else await ending_of(self._store, head)

    async def _outcome(self, run: RunId, ending: Ended, codec: Codec, near: str) -> Any:
        match ending:
            case e.RunCompleted():
                return codec.decode(await fetched(ending.output, self._store.blobs))
            case e.RunFailed(held=True):
                kind = error_from(ending.error)
                held = kind if isinstance(kind, RunHeld) else RunHeld(ending.error.message)
                held.add_note(f"A person has to decide about run {run}: resume it, retry a node of it, or cancel it.")
                raise held
            case e.RunFailed():
                raise error_from(ending.error, near)
            case _:
                reason = f": {ending.reason}" if isinstance(ending, e.RunCancelled) and ending.reason else ""
                raise RunCancelled(f"run {run} was cancelled{reason}")

    async def watch(
        self, run: RunId, *, after: int = 0, stalled: Callable[[bool], None] | None = None
    ) -> AsyncIterator[Entry]:
        """Every event after seq `after`, those to come included, once each and in order, until the run is over. `stalled`
        is called with True if the run should go on and nobody advances it, and with False once somebody does (F1)."""
        is_stalled = False
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
                    if stalled is not None and is_stalled is not (is_stalled := await self._is_stalled(run)):
                        stalled(is_stalled)
                    await asyncio.wait({heard}, timeout=POLL)
            finally:
                self._news.unsubscribe(run, heard)

    async def _is_stalled(self, run: RunId) -> bool:
        """Whether a run says that it is running, and nobody alive advances it."""
        summary, holding = await self.get(run), await self._store.holding(run)
        is_going = summary.status in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING)
        return is_going and (holding is None or not holding.is_live)

    # --- people

    async def answer(self, run: RunId, value: Any, *, interaction: str | None = None, by: str = "") -> RunId:
        """Answer what a run asks, and return which run that was: if the run asks nothing itself, the answer is for the one
        open question of the run it continued as, or of its children. If there are several, `interaction` says which.

        A wrong kind of answer is refused. `NotAsked` means that there is no such question yet, `AlreadyAnswered` that it has
        its answer, any other `RunGone` that nobody waits for one any more."""
        by = words("by", by)
        run, wait = await self.asked(run, interaction)
        schema = msgspec.json.decode(wait.detail)
        raw = _plain(value, schema)
        answered = e.InteractionAnswered(interaction=wait.id, answer=await stored(raw, self._store.blobs), by=by)
        try:
            await self._ledger.deliver(run, [answered])
        except RunGone:
            raise await not_open(self._store, run, wait.id) from None
        return run

    async def asked(self, run: RunId, interaction: str | None = None) -> tuple[RunId, Wait]:
        """The open question that `answer` would answer, and the run that asks it; the same errors if there is none."""
        await self._head(run)
        return await open_question(self._store, await self.get(run), interaction)

    async def questions(self, run: RunId) -> list[Wait]:
        """What the run itself asks people now."""
        return await questions_of(self._store, await self.get(run))

    async def leave(self) -> None:
        """Nothing more will be asked."""
        await self._starts.done(PATIENCE)
        self._news.close()
        if self._stand_in is not None:
            with suppress(OutlastError):
                await self._store.retire(self._stand_in)


def _plain(value: Any, schema: Any) -> e.Value:
    """An answer as the JSON that the question's schema speaks of, once it fits: a date is a text there, a dataclass an
    object. Where any answer will do, it says itself what it is."""
    if schema is None:
        return encode(value, where="answer")
    try:
        tree = _listed(msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped))
    except (TypeError, ValueError, RecursionError):
        raw = encode(value, where="answer")  # which says why it cannot be stored
        tree = msgspec.json.decode(raw)
    else:
        raw = encode(tree, where="answer")
    must_fit(tree, schema)
    return raw


def _listed(tree: Any) -> Any:
    """The same without tuples, of which JSON has none."""
    if isinstance(tree, dict):
        return {key: _listed(part) for key, part in tree.items()}
    return [_listed(part) for part in tree] if isinstance(tree, list | tuple) else tree


def _dumped(value: Any) -> Any:
    """What msgspec does not know: a path, a model of pydantic, which is not imported and need not be there."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(type(value), "model_dump") and not has_revealed(dump := value.model_dump(mode="json", by_alias=True)):
        return dump
    raise TypeError
