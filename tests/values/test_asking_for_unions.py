"""A question may ask for one of several dataclasses or models: an answer is checked, and comes back as the right one."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pydantic
import pytest

import outlast as ol
from outlast.cli.questions import expected
from outlast.history import events as e


@dataclasses.dataclass
class Card:
    number: str
    limit: int = 0


@dataclasses.dataclass
class Transfer:
    iban: str
    number: str = ""


class Cash(pydantic.BaseModel):
    amount: int


class Cheque(pydantic.BaseModel):
    bank: str


class Coin(msgspec.Struct):
    coins: int


ANSWERS: dict[str, tuple[Any, Any, Any]] = {
    "first dataclass": (Card | Transfer, {"number": "1", "limit": 3}, Card("1", 3)),
    "second dataclass": (Card | Transfer, {"iban": "DE"}, Transfer("DE")),
    "one that looks like the other": (Card | Transfer, {"iban": "DE", "number": "1"}, Transfer("DE", "1")),
    "an object": (Card | Transfer, Card("1", 3), Card("1", 3)),
    "models": (Cash | Cheque, {"bank": "B"}, Cheque(bank="B")),
    "a model object": (Cash | Cheque, Cash(amount=2), Cash(amount=2)),
    "of all kinds": (Card | Cash | Coin | None, {"coins": 2}, Coin(2)),
    "none": (Card | Transfer | None, None, None),
    "a number": (Card | Transfer | int, 5, 5),
    "a list": (list[Card | Transfer], [{"iban": "DE"}, {"number": "1"}], [Transfer("DE"), Card("1")]),
    "a dict": (dict[str, Cash | Cheque], {"a": {"amount": 1}}, {"a": Cash(amount=1)}),
}


@pytest.mark.parametrize("case", list(ANSWERS))
async def test_an_answer_comes_back_as_the_one_that_it_fits(stage: Any, case: str) -> None:
    kind, given, meant = ANSWERS[case]
    heard: list[Any] = []

    @ol.workflow
    async def paying() -> str:
        heard.append(await ol.ask("How?", kind))
        return str(heard[-1])

    engine = await stage.engine()
    handle = await engine.start(paying)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await engine.answer(handle.run, given)
    await handle.result()
    assert heard == [meant]


@pytest.mark.parametrize(
    "given",
    [{"number": 5}, {"limit": 1}, {}, {"iban": "DE", "limit": 1}, "card", [1], {"number": "1", "more": 2}],
    ids=str,
)
async def test_an_answer_that_fits_none_is_refused_and_may_be_given_again(stage: Any, given: Any) -> None:
    @ol.workflow
    async def paying() -> str:
        return str(await ol.ask("How?", Card | Transfer))

    engine = await stage.engine()
    handle = await engine.start(paying)
    await stage.until(engine, handle.run, e.InteractionRequested)
    with pytest.raises(ol.InvalidInput):
        await engine.answer(handle.run, given)
    await engine.answer(handle.run, {"iban": "DE"})
    assert await handle.result() == str(Transfer("DE"))


async def test_an_answer_that_fits_several_is_refused_and_names_them(stage: Any) -> None:
    @dataclasses.dataclass
    class Voucher:
        number: str

    @ol.workflow
    async def paying() -> str:
        return str(await ol.ask("How?", Card | Voucher))

    engine = await stage.engine()
    handle = await engine.start(paying)
    asked = await stage.until(engine, handle.run, e.InteractionRequested)
    assert expected(msgspec.json.decode(asked.event.schema)) == (
        "a JSON object with number, limit or a JSON object with number"
    )
    with pytest.raises(ol.InvalidInput, match="fits more than one type, Card and Voucher"):
        await engine.answer(handle.run, {"number": "1"})
    await engine.answer(handle.run, {"number": "1", "limit": 2})
    assert await handle.result() == str(Card("1", 2))
