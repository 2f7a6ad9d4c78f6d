"""Which question an answer is for, and why one is refused: not asked yet, answered already, or over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import outlast as ol
from outlast.history.ids import RunId

DRAFT = "Publish this?\n\n" + "\n".join(f"  line {number} of the draft" for number in range(40)) + "\n  THE END"


@ol.node
async def answering_gate(folder: str, name: str) -> None:
    while not (Path(folder) / name).exists():
        await asyncio.sleep(0.005)


@ol.workflow
async def answering_late(folder: str) -> bool:
    await answering_gate(folder, "begin")
    first = await ol.approve(DRAFT)
    await answering_gate(folder, "end")
    return first


@ol.workflow
async def answering_child(text: str) -> bool:
    return await ol.approve(text)


@ol.workflow
async def answering_parent(*texts: str) -> list[bool]:
    return list(await ol.gather(*(answering_child(text) for text in texts)))


@ol.workflow
async def answering_chain(rest: int) -> bool:
    if rest:
        await ol.continue_as_new(rest - 1)
    return await answering_child("the child of the last one asks")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ol.BlockingEngine]:
    with ol.open(tmp_path / "runs.db") as engine:
        yield engine


def until(is_it: Callable[[], object]) -> None:
    while not is_it():
        time.sleep(0.005)


def open_questions(engine: ol.BlockingEngine) -> int:
    return sum(len(engine.questions(run.run)) for run in engine.iter_runs())


# --- what is shown


def test_a_question_is_given_whole_and_a_summary_marks_where_it_is_cut(
    engine: ol.BlockingEngine, tmp_path: Path
) -> None:
    (tmp_path / "begin").touch()
    handle = engine.start(answering_late, str(tmp_path))
    until(lambda: engine.questions(handle.run))
    (wait,) = engine.questions(handle.run)
    assert wait.text == DRAFT
    (cut,) = engine.get(handle.run).waits
    assert len(cut.text) == 200
    assert cut.text == f"{DRAFT[:199]}…"


# --- why an answer is refused


@pytest.mark.parametrize("interaction", [None, "approve"])
def test_a_question_that_is_not_asked_yet_is_not_one_that_is_answered(
    engine: ol.BlockingEngine, tmp_path: Path, interaction: str | None
) -> None:
    run = engine.start(answering_late, str(tmp_path)).run
    with pytest.raises(ol.NotAsked, match=r"not ask(ed anything| 'approve') yet"):
        engine.answer(run, True, interaction=interaction)
    (tmp_path / "begin").touch()
    until(lambda: engine.questions(run))
    with pytest.raises(ol.NotAsked, match=r"does not ask 'other'.*\n  .*approve: Publish this"):
        engine.answer(run, True, interaction="other")
    assert engine.answer(run, True, interaction=interaction) == run
    with pytest.raises(ol.AlreadyAnswered, match=r"'approve' of run .* is already answered"):
        engine.answer(run, True, interaction=interaction)
    (tmp_path / "end").touch()
    assert engine.result(run) is True
    with pytest.raises(ol.RunGone) as refused:
        engine.answer(run, True, interaction=interaction)
    assert isinstance(refused.value, ol.AlreadyAnswered) is (interaction is not None)
    assert not isinstance(refused.value, ol.NotAsked)


def test_of_two_answers_at_once_one_is_told_that_the_other_was_first(engine: ol.BlockingEngine, tmp_path: Path) -> None:
    """Both saw the question open; the second one loses at the store."""

    async def both(client: ol.Engine) -> list[object]:
        return list(
            await asyncio.gather(*(client.answer(run, value) for value in (True, True)), return_exceptions=True)
        )

    (tmp_path / "begin").touch()
    run = engine.start(answering_late, str(tmp_path)).run
    until(lambda: engine.questions(run))
    outcomes = engine._thread.do(both(engine._awaited))
    assert sorted(type(each).__name__ for each in outcomes) == ["AlreadyAnswered", "str"], outcomes


# --- which question it is for


def test_an_answer_for_a_parent_goes_to_the_one_question_of_its_children(engine: ol.BlockingEngine) -> None:
    handle = engine.start(answering_parent, "only one")
    until(lambda: open_questions(engine) == 1)
    child = engine.answer(handle.run, True)
    assert child != handle.run
    assert engine.get(child).parent == handle.run
    assert handle.result() == [True]


def test_of_several_questions_of_children_one_has_to_be_named(engine: ol.BlockingEngine) -> None:
    handle = engine.start(answering_parent, "the first", "the second " + "x" * 500)
    until(lambda: open_questions(engine) == 2)
    with pytest.raises(ol.InvalidInput) as refused:
        engine.answer(handle.run, True, interaction="approve")
    listed = str(refused.value).splitlines()[1:]
    children = {RunId(line.split()[1].rstrip(",")) for line in listed}
    assert len(listed) == len(children) == 2
    assert listed[1].endswith("…")
    for child in children:
        assert engine.answer(child, True) == child
    assert handle.result() == [True, True]


def test_an_answer_for_a_run_that_continued_goes_to_the_question_of_the_last_one(engine: ol.BlockingEngine) -> None:
    handle = engine.start(answering_chain, 2)
    until(lambda: open_questions(engine) == 1)
    with pytest.raises(ol.NotAsked):
        engine.answer(handle.run, True, interaction="other")
    assert engine.answer(handle.run, True) != handle.run
    assert handle.result() is True


@ol.workflow
async def answering_number() -> int:
    return await ol.ask("how many?", int)


@pytest.mark.parametrize("number", [2**63, 2**64, 2**70, -(2**63) - 1])
def test_an_answer_of_more_than_64_bits_is_exact(engine: ol.BlockingEngine, number: int) -> None:
    handle = engine.start(answering_number)
    until(lambda: engine.questions(handle.run))
    handle.answer(number)
    assert handle.result() == number
