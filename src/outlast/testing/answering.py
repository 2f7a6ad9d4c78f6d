"""The people around a tested run: they answer its questions, resume it when it is held, and wait for its end.

They read the store directly: their reads are not counted as calls of the tested process. They are notified at once: no time
passes before they act.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias

from outlast.client import Engine
from outlast.errors import NotAllowed, NotAsked, OutlastError, RunDiverged, RunGone, StoreError
from outlast.history import events as e
from outlast.history.ids import RunId, question_of
from outlast.ledger.reading import ending_of, head_of, records
from outlast.lifecycle.summary import RunSummary
from outlast.store import RunFilter, Store

OVER = ("completed", "failed", "cancelled")
LOOK = 0.1
"""Seconds between two checks, by the simulated clock."""
LOOKS = 1000
"""Checks without a change, and without a future event, after which the test fails."""
REAL = 600.0
"""Seconds of real time without a change after which the test fails, even if a node is running or a timer is pending.
On a slow server, a node that sleeps for a simulated day takes minutes: its claim is renewed all the while."""
RESUMES = 3
"""How often a held run is resumed."""


class Question(NamedTuple):
    """A question of a run."""

    run: str
    id: str
    prompt: str
    kind: str


UNANSWERED: Final = object()
"""Return value of an answering function that leaves a question open."""

Answers: TypeAlias = Mapping[str, Any] | Callable[[Question], Any]
"""By the id or the prompt of a question, or by a function of the question."""
Guest: TypeAlias = Callable[[Engine], Awaitable[None]]


class Stuck(Exception):
    """No event happens any more, and the test is not over. `run` is one that waits."""

    def __init__(self, what: str, run: RunId) -> None:
        super().__init__(what)
        self.run = run


class BadAnswer(Exception):
    """An answer does not fit its question, or the answering function failed."""


# --- answering ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def attended(
    client: Engine, inner: Store, answers: Answers, guest: Guest | None, *, resumes: bool
) -> AsyncIterator[asyncio.Future[None]]:
    """Answer and resume the runs of a store during the block. The yielded future fails when an answer is refused."""
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
    """Reacts to changes of runs like a person."""

    def __init__(self, client: Engine, inner: Store, answers: Answers, resumes: bool) -> None:
        self._client = client
        self._inner = inner
        self._answers = answers
        self._resumes = resumes
        self._resumed: Counter[RunId] = Counter()
        self._seen: dict[RunId, int] = {}
        self._changed: asyncio.Queue[RunId] = asyncio.Queue()
        self.leave = client._ledger.listen(self._notify)

    def _notify(self, runs: frozenset[RunId]) -> None:
        for run in sorted(runs):
            self._changed.put_nowait(run)

    async def attend(self) -> None:
        self._notify(frozenset(summary.run for summary in await all_runs(self._inner)))
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
        """Answer a question, even if an earlier process answered it: the engine must refuse the second answer."""
        value = self._chosen(Question(run, asked.interaction, asked.prompt, asked.kind))
        if value is UNANSWERED:
            return
        try:
            await self._client.answer(run, value, interaction=asked.interaction)
        except (RunGone, NotAsked):  # also if it was asked on an older branch
            return
        except StoreError:
            raise
        except OutlastError as error:
            raise BadAnswer(f"the answer to {asked.prompt!r} was refused: {error}") from error

    def _chosen(self, question: Question) -> Any:
        if callable(self._answers):
            try:
                return self._answers(question)
            except Exception as error:
                raise BadAnswer(f"answers({question.prompt!r}) raised {type(error).__name__}: {error}") from error
        for name in (question.id, question_of(question.id), question.prompt):
            if name in self._answers:
                return self._answers[name]
        return UNANSWERED

    async def _resume(self, run: RunId, held: e.RunFailed) -> None:
        """Resume an interrupted run. A run whose code changed cannot be resumed."""
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
    """Waits until all runs of a store are over, as long as something happens or is pending."""

    def __init__(self, inner: Store, attempting: Callable[[], int]) -> None:
        self._inner = inner
        self._attempting = attempting
        self._versions: dict[RunId, int] = {}
        self._looks = 0
        self._since = time.monotonic()

    async def until_over(self, over: tuple[str, ...], trouble: asyncio.Future[None], *, resumes_held: bool) -> None:
        while not await self._is_over(over, resumes_held):
            await self._look()
            await asyncio.wait({trouble}, timeout=LOOK)
            if trouble.done():
                trouble.result()

    async def _is_over(self, over: tuple[str, ...], resumes_held: bool) -> bool:
        runs = await all_runs(self._inner)
        held = [summary.run for summary in runs if summary.held] if resumes_held else []
        if any([await self._has_diverged(run) for run in held]):
            return True  # the runs that wait for it will not end
        if held or not runs or any(summary.status not in over for summary in runs):
            return False
        existing = {summary.run for summary in runs}
        return all([await self._is_succeeded(run, existing) for run in existing])

    async def _is_succeeded(self, run: RunId, existing: set[RunId]) -> bool:
        """Whether the successor of a continued run exists."""
        ending = await ending_of(self._inner, await head_of(self._inner, run))
        return not isinstance(ending, e.RunContinued) or RunId(ending.successor) in existing

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
            raise await self._stuck("the run waits, and no timer or answer is pending")
        if time.monotonic() - self._since > REAL:
            raise await self._stuck(f"no event for {REAL:g} s")

    async def _is_something_due(self) -> bool:
        due = await self._inner.next_due()
        return due is not None and due > await self._inner.now()

    async def _stuck(self, why: str) -> Stuck:
        left = [summary for summary in await all_runs(self._inner) if summary.status not in OVER or summary.held]
        lines = [why]
        for summary in left:
            waits = ", ".join(
                f"{wait.kind} {wait.id}{f' “{wait.text}”' if wait.text else ''}" for wait in summary.waits
            )
            reason = f"waits for {waits}" if waits else summary.reason
            lines.append(
                f"run {summary.run} of {summary.workflow} is {summary.status}{f': {reason}' if reason else ''}"
            )
        return Stuck("\n".join(lines), left[-1].run if left else RunId(""))
