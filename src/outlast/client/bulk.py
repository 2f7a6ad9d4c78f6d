"""Bulk actions: one action on many runs, carried out by a run of the workflow `outlast.bulk`.

The runs are chosen when the action is confirmed and are parameters of that run: it continues after a crash like any other.
Each event that it appends to a run names it (`by`): an attempt that repeats an interrupted one finds there what was done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from outlast.client.branch_plans import signed
from outlast.definition.retry import Retry
from outlast.errors import (
    AlreadyExists,
    InvalidInput,
    NotAllowed,
    NotDurable,
    NotFound,
    NotImportable,
    OutlastError,
    RunDeleted,
    StoreError,
)
from outlast.execution.node_context import context
from outlast.functions.decorators import node, workflow
from outlast.functions.mapping import map
from outlast.history import events as e
from outlast.history.ids import RunId, checked_run, derived_run
from outlast.ledger.reading import created_of, latest_run_of
from outlast.lifecycle.actions import Verb, refusal
from outlast.lifecycle.requests import newest
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.summary import RunSummary, state_shown
from outlast.lifecycle.timeline.phrases import counted
from outlast.store import RunFilter
from outlast.values.codec import codec_for, fetched

if TYPE_CHECKING:
    from outlast.client.facade import Engine

BULK = "outlast.bulk"
MAX_RUNS = 10_000
"""The most runs of one bulk action."""
CONCURRENCY = 8
PAGE = 1000

Action: TypeAlias = Literal["cancel", "pause", "resume", "retry", "delete", "approve", "reject", "answer"]
ACTIONS: tuple[Action, ...] = get_args(Action)
ANSWERS: tuple[Action, ...] = ("approve", "reject", "answer")
Result: TypeAlias = Literal["done", "skipped", "failed"]
Matches: TypeAlias = Callable[[RunSummary], bool]
"""A condition that stores do not know."""
_VERBS: dict[Action, Verb] = {
    "cancel": "cancel",
    "pause": "pause",
    "resume": "resume",
    "retry": "retry",
    "delete": "delete",
}
_FAULTS = (InvalidInput, NotFound, NotImportable, NotDurable)
"""Refusals that the state of the run does not explain: the action failed, it was not skipped."""


class Target(Struct, frozen=True):
    """A run to act on; for an answer, optionally its question."""

    run: str
    interaction: str = ""


class Order(Struct, frozen=True, kw_only=True):
    """What to do to each run, who confirmed it, and why. `force` is for `delete`."""

    action: Action
    by: str = ""
    reason: str = ""
    value: Any = None
    force: bool = False


class Outcome(Struct, frozen=True):
    """What became of one run. Skipped: its state does not allow the action. `reason` says why it is not done."""

    run: str
    result: Result
    reason: str = ""
    interaction: str = ""


class Preview(Struct, frozen=True, kw_only=True):
    """How many runs match, and for each action how many of them allow it, and why the others do not."""

    matched: int
    allowed: dict[str, int]
    skipped: dict[str, dict[str, int]]


class Progress(Struct, frozen=True, kw_only=True):
    """A bulk action as far as it is carried out."""

    run: RunId
    order: Order
    status: RunStatus
    created: int
    updated: int
    targets: list[Target]
    outcomes: list[Outcome]

    def count(self, result: Result) -> int:
        return sum(each.result == result for each in self.outcomes)

    def count_left(self) -> int:
        """The targets on which the action was not carried out."""
        return len(self.targets) - self.count("done")

    @property
    def unfinished(self) -> list[Target]:
        """The targets that failed or were not reached."""
        ended = {(each.run, each.interaction) for each in self.outcomes if each.result != "failed"}
        return [each for each in self.targets if (each.run, each.interaction) not in ended]


_acting: ContextVar[Engine] = ContextVar("outlast_bulk_engine")


@contextmanager
def acting(engine: Engine) -> Iterator[None]:
    """A worker that is created in this block carries out bulk actions with this engine, which has no worker itself."""
    token = _acting.set(engine)
    try:
        yield
    finally:
        _acting.reset(token)


@node(name="act", retry=Retry(max_attempts=8, delay=0.5, max_delay=30, retry_on=StoreError))
async def act(target: Target, order: Order) -> Outcome:
    """Carry the action out on one run."""
    now = context()
    engine, run, by = _acting.get(), RunId(target.run), f"{order.by or 'somebody'}, bulk {now.run}"
    try:
        if now.attempt > 1 and await _has_acted(engine, run, order, by):
            return Outcome(run, "done", "", target.interaction)
        await _carry_out(engine, run, order, by, target.interaction)
    except StoreError:
        raise
    except OutlastError as error:
        is_skipped = isinstance(error, RunDeleted) or (isinstance(error, NotAllowed) and not isinstance(error, _FAULTS))
        return Outcome(run, "skipped" if is_skipped else "failed", str(error), target.interaction)
    return Outcome(run, "done", "", target.interaction)


@workflow(name=BULK)
async def bulk(order: Order, targets: list[Target]) -> list[Outcome]:
    """Carry an action out on many runs."""

    async def one(target: Target) -> Outcome:
        return await act(target, order)

    found = await map(one, targets, concurrency=CONCURRENCY, return_exceptions=True)
    return [
        each if isinstance(each, Outcome) else Outcome(target.run, "failed", str(each), target.interaction)
        for target, each in zip(targets, found, strict=True)
    ]


async def _has_acted(engine: Engine, run: RunId, order: Order, by: str) -> bool:
    """Whether an event of the run, or of the run it continued as, or its tombstone names this action."""
    if order.action == "delete":
        tombstone = await engine._store.tombstone(run)
        return tombstone is not None and tombstone.by == by
    for each in dict.fromkeys((run, await latest_run_of(engine._store, run))):
        async for entry in engine.events(each, everything=True):
            if getattr(entry.event, "by", "") == by:
                return True
    return False


async def _carry_out(engine: Engine, run: RunId, order: Order, by: str, interaction: str) -> None:
    match order.action:
        case "cancel":
            await _must_not_be_cancelled(engine, run)
            await engine.cancel(run, by=by, reason=order.reason)
        case "pause":
            await engine.pause(run, by=by, reason=order.reason)
        case "resume":
            await engine.resume(run, by=by)
        case "retry":
            await engine.retry(run, by=by, reason=order.reason)
        case "delete":
            await engine._deletions.replace(run, by, order.reason, force=order.force)
        case "approve" | "reject" | "answer":
            question = _question(run, await engine.questions(run), order.action, interaction)
            value = order.value if order.action == "answer" else order.action == "approve"
            await engine.answer(run, value, interaction=question, by=by)


async def _must_not_be_cancelled(engine: Engine, run: RunId) -> None:
    """A second cancellation would end the clean-up of the run."""
    outline = (await engine._reader.state(await engine.diagnostics.continued_as(run))).outline
    if outline.cleanup is not None or newest(outline.requests, e.CancelRequested) is not None:
        raise NotAllowed(f"run {run} is already being cancelled")


def _question(run: str, questions: Sequence[Wait], action: Action, interaction: str) -> str:
    """The question to answer: the one named, else the only one."""
    reason = _not_answerable(questions, action, interaction)
    if reason and not interaction:
        raise NotAllowed(f"run {run} {reason}")
    return interaction or questions[0].id


def _not_answerable(questions: Sequence[Wait], action: Action, interaction: str = "") -> str:
    """Why a run with these open questions is skipped; empty if it is not."""
    asked = [each for each in questions if interaction in ("", each.id)]
    if not asked:
        return "has no open question"
    if len(asked) > 1:
        return f"asks {len(asked)} questions: answer each by itself"
    return "" if action == "answer" or is_approval(asked[0]) else "asks for more than yes or no"


def is_approval(question: Wait) -> bool:
    """Whether the answer is yes or no."""
    schema = msgspec.json.decode(question.detail)
    return isinstance(schema, dict) and schema.get("type") == "boolean"


class Bulk:
    """Bulk actions: `engine.bulk`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine._store

    async def preview(
        self, filter: RunFilter, matches: Matches | None = None, *, runs: Sequence[str] | None = None
    ) -> Preview:
        """How many runs match the filter and `matches`, and how many of them allow each action, by their summaries. With
        `runs` these are looked at instead; those that do not exist are not counted."""
        named = self._matching(filter, matches) if runs is None else self._named(runs)
        return await self._previewed([summary async for summary in named])

    async def _previewed(self, runs: Sequence[RunSummary]) -> Preview:
        questions, owned = await self._questions(runs), await self._owned()
        allowed: dict[str, int] = dict.fromkeys(ACTIONS, 0)
        skipped: dict[str, dict[str, int]] = {action: {} for action in ACTIONS}
        for summary in runs:
            for action in ACTIONS:
                reason = _reason_to_skip(summary, action, questions.get(summary.run, ()), summary.run in owned)
                if reason:
                    skipped[action][reason] = skipped[action].get(reason, 0) + 1
                else:
                    allowed[action] += 1
        return Preview(matched=len(runs), allowed=allowed, skipped=skipped)

    async def start(
        self,
        action: Action,
        filter: RunFilter | None = None,
        matches: Matches | None = None,
        *,
        targets: Iterable[Target] = (),
        by: str = "",
        reason: str = "",
        value: Any = None,
        force: bool = False,
        key: str = "",
    ) -> RunId:
        """Confirm a bulk action: the runs that match the filter now, or the `targets`, are those it acts on. Returns the run
        that carries it out. The same `key` is the same action: the run that exists is returned. `force` is for `delete`."""
        by, reason = signed(by, reason)
        if key and (run := await self._existing(key)) is not None:
            return run
        if filter is not None:
            chosen = [Target(summary.run) async for summary in self._matching(filter, matches)]
        else:
            chosen = list(dict.fromkeys(targets))
        if not chosen:
            raise InvalidInput("no run matches: nothing was changed")
        if len(chosen) > MAX_RUNS:
            raise _too_many()
        for each in chosen:
            checked_run(each.run)
        order = Order(action=action, by=by, reason=reason, value=value, force=force)
        return await self._start(order, chosen, key)

    async def progress(self, run: RunId) -> Progress:
        """A bulk action with its outcome for each run, in the order in which they ended."""
        created = await created_of(self._store, run)
        if created.workflow != BULK:
            raise NotFound(f"run {run} is of workflow {created.workflow}: it is not a bulk action")
        _, given = bulk._arguments.unpack(await fetched(created.params, self._store.blobs))
        codec, outcomes, output = codec_for(Outcome), list[Outcome](), e.NULL
        summary = await self._engine.get(run)  # before the events: an action that is over has all its outcomes
        async for entry in self._engine.events(run):
            if isinstance(entry.event, e.NodeCompleted):
                outcomes.append(codec.decode(await fetched(entry.event.output, self._store.blobs)))
            elif isinstance(entry.event, e.RunCompleted):
                output = await fetched(entry.event.output, self._store.blobs)
        if output is not e.NULL:
            outcomes = bulk._arguments.returns.decode(output)
        return Progress(
            run=run,
            order=given["order"],
            status=summary.status,
            created=summary.created,
            updated=summary.updated,
            targets=given["targets"],
            outcomes=outcomes,
        )

    async def retry(self, run: RunId, *, by: str = "") -> RunId:
        """Try the runs again that failed or were not reached. Returns the run that does; asked for twice, it is one."""
        found = await self.progress(run)
        if found.status not in TERMINAL:
            raise NotAllowed(f"bulk action {run} is {found.status}: its failures can be tried again when it has ended")
        if not found.unfinished:
            raise NotAllowed(f"bulk action {run} has no failures")
        order = msgspec.structs.replace(found.order, by=signed(by, "")[0])
        try:
            return await self._start(order, found.unfinished, f"retry of {run}")
        except AlreadyExists:  # by somebody else
            return derived_run("key", f"retry of {run}")

    async def _existing(self, key: str) -> RunId | None:
        """The bulk action that was started with this key."""
        run = derived_run("key", key)
        if await self._store.head(run) is None:
            return None
        there = (await created_of(self._store, run)).workflow
        if there != BULK:
            raise AlreadyExists(f"idempotency key {key!r} is already used by a run of workflow {there}")
        return run

    async def _start(self, order: Order, targets: list[Target], key: str) -> RunId:
        title = f"{order.action.capitalize()} {counted(len(targets), 'run')}"
        chosen = bulk.options(title=title, idempotency_key=key or None)
        chosen._start_options["by"] = order.by
        return (await self._engine.start(chosen, order, targets)).run

    async def _matching(self, filter: RunFilter, matches: Matches | None) -> AsyncIterator[RunSummary]:
        """The runs that match, without other bulk actions unless they are asked for."""
        found = 0
        async for summary in self._engine.iter_runs(msgspec.structs.replace(filter, after="", limit=PAGE)):
            if summary.workflow == BULK != filter.workflow or not (matches is None or matches(summary)):
                continue
            found += 1
            if found > MAX_RUNS:
                raise _too_many()
            yield summary

    async def _named(self, runs: Iterable[str]) -> AsyncIterator[RunSummary]:
        for run in dict.fromkeys(runs):
            with suppress(NotFound):
                yield await self._engine.get(checked_run(run))

    async def _questions(self, runs: Iterable[RunSummary]) -> dict[str, list[Wait]]:
        """The open questions of these runs."""
        found: dict[str, list[Wait]] = {
            each.run: [] for each in runs if any(wait.kind == "interaction" for wait in each.waits) or each.waiting > 8
        }
        after = ""
        while found:
            page, after = await self._store.waits(kind="interaction", after=after, limit=PAGE)
            for due in page:
                if due.run in found:
                    found[due.run].append(due.wait)
            if not after:
                break
        return found

    async def _owned(self) -> set[str]:
        """The runs that live workers hold."""
        return {run for worker in await self._engine.workers() if worker.is_live for run in worker.runs}


def _reason_to_skip(summary: RunSummary, action: Action, questions: Sequence[Wait], is_owned: bool) -> str:
    if action in ANSWERS:
        refused = refusal(state_shown(summary), "answer")
        return _not_answerable(questions, action) if refused is None or refused.code == "not-asked" else refused.reason
    refused = refusal(state_shown(summary), _VERBS[action])
    if refused is not None:
        return "is waiting: there is nothing to resume" if refused.code == "waiting" else refused.reason
    if action == "cancel" and summary.status is RunStatus.COMPENSATING:
        return "is already being cancelled"
    if action == "delete" and is_owned:
        return "is completed by a worker: try again in a moment"
    if action in ("resume", "retry") and summary.status is RunStatus.RUNNING and is_owned:
        return "is running: there is nothing to resume"
    return ""


def _too_many() -> InvalidInput:
    return InvalidInput(f"more than {MAX_RUNS:,} runs match: narrow the filter")
