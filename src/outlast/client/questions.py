"""The open questions of runs: which one an answer is for, and why there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

from outlast.engine.completion import open_children
from outlast.errors import AlreadyAnswered, InvalidInput, NotAllowed, NotAsked, RunGone
from outlast.history import events as e
from outlast.history.ids import RunId, question_of
from outlast.ledger.reading import head_of, latest_run_of, lineage_of, records, state_of
from outlast.lifecycle.state import Interaction, State, Wait
from outlast.lifecycle.summary import RunSummary, shortened
from outlast.store import Store

MAX_TEXT_LENGTH = 100
"""Characters of a question that an error shows."""
Asked: TypeAlias = tuple[RunId, Wait]


async def questions_of(store: Store, summary: RunSummary) -> list[Wait]:
    """The open questions of a run. A summary names only some waits, with shortened texts."""
    if summary.waiting > len(summary.waits):
        return _questions(await _state(store, summary.run))
    named = [wait.name for wait in summary.waits if wait.kind == "interaction"]
    return [wait for name in named if (wait := await store.wait(summary.run, name)) is not None]


async def open_question(store: Store, summary: RunSummary, interaction: str | None) -> Asked:
    """The question that an answer to a run is for, and the run that asks it: the run itself; otherwise the run it
    continued as, or one of the children they wait for. `interaction` names the question; without it, only one may be
    open."""
    run = summary.run
    if interaction is None:
        found = [(run, wait) for wait in await questions_of(store, summary)]
    else:
        named = await store.wait(run, f"interaction:{interaction}")
        if named is not None and named.name not in [wait.name for wait in summary.waits]:
            named = (await _state(store, run)).waits.get(named.name)  # a summary names only some waits
        open_here = [named] if named is not None else await questions_of(store, summary)
        found = [(run, wait) for wait in open_here if _is_called(wait.id, interaction)]
    found = found or await _asked_in_family(store, run, interaction)
    if len(found) > 1:
        raise InvalidInput(f"run {run} has several open questions; give the id of one:{_listed(found)}")
    return found[0]


async def not_open(store: Store, run: RunId, interaction: str) -> NotAllowed:
    """Why a question that was open cannot be answered any more."""
    return _why_not(await _state(store, run), run, interaction)


def _why_not(state: State, run: RunId, interaction: str) -> NotAllowed:
    if state.waits.get(f"interaction:{interaction}") is not None:
        return NotAllowed(
            f"question {interaction!r} of run {run} is open in its log, but not in the table of waits: "
            f"`outlast doctor {run} --fix` restores it"
        )
    return _over(run, interaction, state.interactions.get(interaction))


async def _asked_in_family(store: Store, run: RunId, interaction: str | None) -> list[Asked]:
    if interaction is not None:
        state = await _state(store, run)
        for name, _ in state.interactions.items():  # noqa: PERF102 - a table has no keys
            if _is_called(name, interaction):
                raise _why_not(state, run, name)
    family = [each async for each in _family(store, run)]
    found = [(each, wait) for each, state in family for wait in _questions(state) if _is_called(wait.id, interaction)]
    if not found:
        raise await _refusal(store, run, family, interaction)
    return found


async def _family(store: Store, run: RunId) -> AsyncIterator[tuple[RunId, State]]:
    """The run that a run continued as, and those of the children it waits for."""
    newest = await latest_run_of(store, run)
    state = await _state(store, newest)
    yield newest, state
    for child in open_children(state):
        if await store.head(child) is not None:
            async for each in _family(store, child):
                yield each


async def _state(store: Store, run: RunId) -> State:
    return await state_of(store, run, await lineage_of(store, await head_of(store, run)))


def _is_called(name: str, wanted: str | None) -> bool:
    """Whether a question has this id, or was asked with this `key`."""
    return wanted in (None, name) or question_of(name).endswith(f"[{wanted}]")


def _questions(state: State) -> list[Wait]:
    return [wait for wait in state.waits.values() if wait.kind == "interaction"]


async def _refusal(
    store: Store, run: RunId, family: Sequence[tuple[RunId, State]], interaction: str | None
) -> NotAllowed:
    newest, last = family[0]
    is_any = interaction is None and not last.is_closed
    for each, state in family:
        for name, known in state.interactions.items():
            if (interaction is not None and _is_called(name, interaction)) or (is_any and known.answer is not None):
                return _over(each, name, known)
    if last.is_closed:
        return RunGone(f"run {newest} is {last.status} and accepts no answers")
    if interaction is None:
        return NotAsked(f"run {run} has not asked anything yet")
    if await _was_asked(store, newest, interaction):
        return _over(newest, interaction, None)
    others = [(each, wait) for each, state in family for wait in _questions(state)]
    return NotAsked(f"run {run} does not ask {interaction!r}{f'; it asks:{_listed(others)}' if others else ' yet'}")


async def _was_asked(store: Store, run: RunId, interaction: str) -> bool:
    """Whether a question was asked on an older branch: asked again it has another id."""
    async for record in records(store, run):
        for event in record.events():
            if isinstance(event, e.InteractionRequested) and event.interaction == interaction:
                return True
    return False


def _over(run: RunId, interaction: str, known: Interaction | None) -> RunGone:
    if known is not None and known.answer is not None:
        return AlreadyAnswered(f"question {interaction!r} of run {run} is already answered")
    return RunGone(f"question {interaction!r} of run {run} was withdrawn")


def _listed(questions: Sequence[Asked]) -> str:
    return "".join(
        f"\n  run {run}, {wait.id}: {shortened(' '.join(wait.text.split()), MAX_TEXT_LENGTH)}"
        for run, wait in questions
    )
