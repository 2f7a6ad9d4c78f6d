"""People around a run that is tested: they answer what it asks, let it go on where it is held, and see when all is over.

They look at the store behind the back of the process under test, so that looking is none of its calls, and are told of
changes at once, so that no time passes before they act.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias

from outlast.client import Engine
from outlast.engine.completion import ending_of
from outlast.errors import NotAllowed, NotAsked, OutlastError, RunDiverged, RunGone, StoreError
from outlast.history import events as e
from outlast.history.ids import RunId, question_of
from outlast.ledger.reading import head_of, records
from outlast.lifecycle.summary import RunSummary
from outlast.store import RunFilter, Store

OVER = ("completed", "failed", "cancelled")
LOOK = 0.1
"""Seconds between two looks, by the clock of the little world."""
LOOKS = 1000
"""Looks without anything having changed, and nothing to come, after which it is stuck."""
REAL = 600.0
"""Seconds of real time without anything having changed, after which it is stuck, though a node is at work or a timer is to
come. On a slow server a node that sleeps for a day of the little world takes minutes: its claim is renewed all the while."""
RESUMES = 3
"""How often a run that is held is told to go on."""


class Question(NamedTuple):
    """What a run asks."""

    run: str
    id: str
    prompt: str
    kind: str


UNANSWERED: Final = object()
"""What a function that gives answers returns if nobody is to answer."""

Answers: TypeAlias = Mapping[str, Any] | Callable[[Question], Any]
"""By the id or the prompt of a question, or by a function."""
Guest: TypeAlias = Callable[[Engine], Awaitable[None]]


class Stuck(Exception):
    """Nothing happens any more, and it is not over. `run` is one that waits."""

    def __init__(self, what: str, run: RunId) -> None:
        super().__init__(what)
        self.run = run


class BadAnswer(Exception):
    """An answer does not fit its question, or could not be thought of."""


# --- answering ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def attended(
    client: Engine, inner: Store, answers: Answers, guest: Guest | None, *, resumes: bool
) -> AsyncIterator[asyncio.Future[None]]:
    """People around the runs of a store. What is yielded has an error when one of them does not know what to do."""
    attendant = _Attendant(client, inner, answers, resumes)
    tasks = [asyncio.create_task(attendant.attend())]
    if guest is not None:
        tasks.append(asyncio.create_task(_visit(client, guest)))
    try:
        yield tasks[0]
    finally:
        attendant.leave()
        for task in tasks:
            task.cancel()


class _Attendant:
    """Does what people do about news."""

    def __init__(self, client: Engine, inner: Store, answers: Answers, resumes: bool) -> None:
        self._client = client
        self._inner = inner
        self._answers = answers
        self._resumes = resumes
        self._resumed: Counter[RunId] = Counter()
        self._seen: dict[RunId, int] = {}
        self._changed: asyncio.Queue[RunId] = asyncio.Queue()
        self.leave = client._ledger.listen(self._hear)

    def _hear(self, runs: frozenset[RunId]) -> None:
        for run in sorted(runs):
            self._changed.put_nowait(run)

    async def attend(self) -> None:
        self._hear(frozenset(summary.run for summary in await all_runs(self._inner)))
        while True:
            run = await self._changed.get()
            try:
                await self._look_at(run)
            except StoreError:  # the process under test has trouble with its store
                await asyncio.sleep(LOOK)
                self._changed.put_nowait(run)

    async def _look_at(self, run: RunId) -> None:
        async for record in records(self._inner, run, self._seen.get(run, 0) + 1):
            for event in record.events():
                if isinstance(event, e.InteractionRequested):
                    await self._answer(run, event)
                elif isinstance(event, e.RunFailed) and event.held and self._resumes:
                    await self._resume(run, event)
            self._seen[run] = record.last

    async def _answer(self, run: RunId, asked: e.InteractionRequested) -> None:
        """Also what was answered in an earlier process: it is for the engine to refuse that."""
        value = self._thought_of(Question(run, asked.interaction, asked.prompt, asked.kind))
        if value is UNANSWERED:
            return
        try:
            await self._client.answer(run, value, interaction=asked.interaction)
        except (RunGone, NotAsked):  # or asked on a branch that was left
            return
        except StoreError:
            raise
        except OutlastError as error:
            raise BadAnswer(f"the answer to {asked.prompt!r} is refused: {error}") from error

    def _thought_of(self, question: Question) -> Any:
        if callable(self._answers):
            try:
                return self._answers(question)
            except Exception as error:
                raise BadAnswer(f"the answer to {question.prompt!r}: {type(error).__name__}: {error}") from error
        for name in (question.id, question_of(question.id), question.prompt):
            if name in self._answers:
                return self._answers[name]
        return UNANSWERED

    async def _resume(self, run: RunId, held: e.RunFailed) -> None:
        """Say that an interrupted run may go on. Of one whose code has changed underneath nobody can say that."""
        if held.error.kind == RunDiverged.code or self._resumed[run] >= RESUMES:
            return
        self._resumed[run] += 1
        with suppress(NotAllowed, RunGone):
            await self._client.resume(run, by="a test")


async def _visit(client: Engine, guest: Guest) -> None:
    while True:
        with suppress(OutlastError):
            await guest(client)
        await asyncio.sleep(LOOK)


# --- waiting for the end -----------------------------------------------------------------------------------------------


async def all_runs(store: Store) -> list[RunSummary]:
    """The summaries of all runs."""
    return [listed.summary for listed in (await store.search(RunFilter(limit=100_000))).items]


class Patience:
    """Waits until all runs of a store are over, as long as something happens or is to come."""

    def __init__(self, inner: Store, attempting: Callable[[], int]) -> None:
        self._inner = inner
        self._attempting = attempting
        self._versions: dict[RunId, int] = {}
        self._looks = 0
        self._since = time.monotonic()

    async def until_over(self, over: tuple[str, ...], trouble: asyncio.Future[None], *, is_resumed: bool) -> None:
        while not await self._is_over(over, is_resumed):
            await self._look()
            await asyncio.wait({trouble}, timeout=LOOK)
            if trouble.done():
                trouble.result()

    async def _is_over(self, over: tuple[str, ...], is_resumed: bool) -> bool:
        runs = await all_runs(self._inner)
        held = [summary.run for summary in runs if summary.held] if is_resumed else []
        if any([await self._has_diverged(run) for run in held]):
            return True  # and nothing will come of those that wait for it
        if held or not runs or any(summary.status not in over for summary in runs):
            return False
        there = {summary.run for summary in runs}
        return all([await self._is_succeeded(run, there) for run in there])

    async def _is_succeeded(self, run: RunId, there: set[RunId]) -> bool:
        """Whether the run that is to continue this one, if one is, is among those there."""
        ending = await ending_of(self._inner, await head_of(self._inner, run))
        return not isinstance(ending, e.RunContinued) or RunId(ending.successor) in there

    async def _has_diverged(self, run: RunId) -> bool:
        ending = await ending_of(self._inner, await head_of(self._inner, run))
        return isinstance(ending, e.RunFailed) and ending.error.kind == RunDiverged.code

    async def _look(self) -> None:
        versions = {
            summary.run: (await head_of(self._inner, summary.run)).version for summary in await all_runs(self._inner)
        }
        if versions != self._versions:
            self._versions, self._looks, self._since = versions, 0, time.monotonic()
        elif not self._attempting() and not await self._is_something_due():
            self._looks += 1
        if self._looks > LOOKS:
            raise await self._stuck("it waits, and nothing is to come")
        if time.monotonic() - self._since > REAL:
            raise await self._stuck(f"nothing has happened for {REAL:g} s")

    async def _is_something_due(self) -> bool:
        due = await self._inner.next_due()
        return due is not None and due > await self._inner.now()

    async def _stuck(self, why: str) -> Stuck:
        left = [summary for summary in await all_runs(self._inner) if summary.status not in OVER or summary.held]
        told = [f"{why}"]
        for summary in left:
            waits = ", ".join(
                f"{wait.kind} {wait.id}{f' “{wait.text}”' if wait.text else ''}" for wait in summary.waits
            )
            said = f"waits for {waits}" if waits else summary.reason
            told.append(f"run {summary.run} of {summary.workflow} is {summary.status}{f': {said}' if said else ''}")
        return Stuck("\n".join(told), left[-1].run if left else RunId(""))
