"""Questions and approvals in workflow code, live and after a crash."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import Gated, asked, run_of, soon


@dataclass(frozen=True)
class Visit:
    when: datetime


class Stay(msgspec.Struct, tag=True):
    nights: int


class Tour(msgspec.Struct, tag=True):
    nights: int


class Choice(enum.IntEnum):
    TEA = 1
    COFFEE = 2


class Guest(pydantic.BaseModel):
    name: str
    visits: list[Visit] = []


async def test_an_answer_comes_to_the_code_as_its_type(stage: Any) -> None:
    _, handle = await asked(stage)
    await handle.answer(7)
    assert await soon(handle.result()) == "7"


@pytest.mark.parametrize("answer", ["seven", 7.5, None, True, [7], {"n": 7}])
async def test_an_answer_of_the_wrong_type_is_refused_and_nothing_is_stored(stage: Any, answer: Any) -> None:
    engine, handle = await asked(stage)
    before = len(await stage.events(engine, handle.run))
    with pytest.raises(ol.InvalidInput):
        await handle.answer(answer)
    assert len(await stage.events(engine, handle.run)) == before
    await handle.answer(7)
    assert await soon(handle.result()) == "7"


async def test_a_wrong_answer_to_a_structured_question_is_refused(stage: Any) -> None:
    _, handle = await asked(stage, dict[str, list[int]])
    with pytest.raises(ol.InvalidInput):
        await handle.answer({"a": ["x"]})
    await handle.answer({"a": [1]})
    assert await soon(handle.result()) == "{'a': [1]}"


async def test_a_date_as_an_answer_that_is_none_is_refused(stage: Any) -> None:
    _, handle = await asked(stage, datetime)
    with pytest.raises(ol.InvalidInput):
        await handle.answer("tomorrow")
    await handle.answer(datetime(2030, 1, 1, tzinfo=UTC))
    assert "2030" in await soon(handle.result())


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        (Visit, {"when": "soon"}, {"when": "2030-01-01T00:00:00Z"}),
        (list[datetime] | None, ["soon"], ["2030-01-01T00:00:00"]),
        (Decimal, "much", "1.50"),
        (bytes, "?", "YQ=="),
        (dict[int, str], {"one": "a"}, {"1": "a"}),
        (dict[str, tuple[int, datetime]], {"a": [1, "soon"]}, {"a": [1, "2030-01-01T00:00:00"]}),
        (Guest, {"name": "Ann", "visits": [{"when": "soon"}]}, {"name": "Ann", "visits": []}),
        (list[Guest], [{"visits": []}], [{"name": "Ann"}]),
    ],
)
async def test_what_the_type_cannot_read_is_no_answer(stage: Any, kind: Any, wrong: Any, right: Any) -> None:
    """P7: it is refused before anything is stored; stored, it would hold the run."""
    engine, handle = await asked(stage, kind)
    before = len(await stage.events(engine, handle.run))
    with pytest.raises(ol.InvalidInput):
        await handle.answer(wrong)
    assert len(await stage.events(engine, handle.run)) == before
    await handle.answer(right)
    assert await soon(handle.result())


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (Visit, Visit(datetime(2030, 1, 1, tzinfo=UTC))),
        (Choice, Choice.TEA),
        (list[Choice], [Choice.TEA]),
        (tuple[int, str], (1, "a")),
        (Path, Path("a/b")),
        (dict[int, str], {1: "a"}),
        (Guest, Guest(name="Ann")),
        (Stay | Tour, Tour(3)),
        (Any, {"a": {1}, 2: (3,)}),
    ],
)
async def test_an_answer_may_be_a_value_of_the_type_itself(stage: Any, kind: Any, answer: Any) -> None:
    _, handle = await asked(stage, kind)
    await handle.answer(answer)
    assert await soon(handle.result()) == repr(answer)


async def test_a_question_is_answered_once(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> int:
        answer = await ol.ask("How many?", int)
        await gated.node()
        return answer

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    await handle.answer(1)
    with pytest.raises(ol.RunGone):
        await handle.answer(2)
    gated.gate.set()
    assert await soon(handle.result()) == 1


async def test_of_several_questions_the_one_that_is_answered_is_named(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[Any]:
        return list(await ol.gather(ol.ask("Who?", str, key="who"), ol.approve("Really?", key="sure")))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    with pytest.raises(ol.InvalidInput, match="Really"):
        await handle.answer("me")
    await handle.answer("me", interaction="ask[who]")
    await handle.answer(True, interaction="approve[sure]")
    assert await soon(handle.result()) == ["me", True]


async def test_approve_takes_a_yes_or_a_no_only(stage: Any) -> None:
    @ol.workflow
    async def flow() -> bool:
        return await ol.approve("Really?")

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    with pytest.raises(ol.InvalidInput):
        await handle.answer("yes")
    await handle.answer(False)
    assert await soon(handle.result()) is False


async def test_an_answer_given_by_a_desk_without_worker_reaches_the_run(stage: Any) -> None:
    _, handle = await asked(stage)
    desk = await stage.engine(worker=False)
    await desk.answer(handle.run, 5)
    assert await soon(handle.result()) == "5"


async def test_an_answer_given_while_nobody_works_is_heard_by_the_next_engine(stage: Any) -> None:
    engine, handle = await asked(stage)
    await stage.crash(engine)
    desk = await stage.engine(worker=False)
    await desk.answer(handle.run, 5)
    engine = await stage.engine()
    assert await soon(engine.result(handle.run)) == "5"
    assert await stage.is_sound(engine, handle.run)


async def test_a_question_without_words_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await ol.ask(" ")

    with pytest.raises(ol.InvalidInput):
        await run_of(stage, flow)
