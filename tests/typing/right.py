"""What type checkers are to understand. Nothing here runs: mypy and pyright read it (`test_typing.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

import outlast as ol


class Order:
    def __init__(self, number: int) -> None:
        self.number = number


@ol.node
async def fetch(url: str, *, limit: int = 10) -> bytes:
    return url.encode()[:limit]


@ol.node
def count(data: bytes) -> int:
    return len(data)


@ol.node(retry=ol.Retry(max_attempts=3, retry_on=(OSError,), give_up_on=ValueError), timeout=10)
async def save(order: Order, text: str | None = None) -> Order:
    return order


@ol.node(run_in="process", retry=3)
def crunch(number: int) -> float:
    return number / 2


@ol.node(run_in="dask", timeout=60)
def crunch_far_away(number: int) -> float:
    return number / 2


@ol.node
async def nothing() -> None: ...


@ol.workflow
async def child(number: int) -> str:
    return str(number)


@ol.workflow(name="the plain one", on_restart="hold")
def plain(number: int) -> list[float]:
    assert_type(count(b"x").wait(), int)
    assert_type(fetch("x").wait(), bytes)
    assert_type(ol.gather(count(b"x"), fetch("x")).wait(), tuple[int, bytes])
    assert_type(ol.race(count(b"x"), count(b"y")).wait(), ol.RaceResult[int])
    assert_type(child(number).wait(), str)
    assert_type(ol.sleep(1).wait(), None)
    assert_type(ol.ask("Who?").wait(), str)
    assert_type(ol.ask("Who?", key="who").wait(), str)
    assert_type(ol.race(ol.approve("Sure?"), ol.sleep(minutes=5)).wait(), ol.RaceResult[bool | None])
    assert_type(ol.race(count(b"x"), fetch("x"), child(1)).wait(), ol.RaceResult[int | bytes | str])
    assert_type(
        ol.gather(count(b"x"), fetch("x"), child(1), ol.sleep(1), crunch(1)).wait(),
        tuple[int, bytes, str, None, float],
    )
    assert_type(plain.options(tags=["nightly"])(1).wait(), list[float])
    assert_type(count.options(retry=3)(b"x").wait(), int)
    with ol.step("all"):
        for each in ol.map(crunch, [1, 2]):
            assert_type(each, float)
    return ol.map(crunch, [number]).wait()


@ol.workflow
def plainly_for_ever(number: int) -> int:
    ol.continue_as_new(number + 1).wait()


@ol.workflow
async def for_ever(number: int) -> int:
    return await ol.continue_as_new(number + 1)


async def helper(number: int) -> Order:
    return Order(number)


async def many(*numbers: int) -> list[int]:
    return list(numbers)


@ol.workflow
async def calls(number: int) -> None:
    assert_type(fetch("x"), ol.Call[bytes])
    assert_type(await fetch("x", limit=3), bytes)
    assert_type(count(b"x"), ol.Call[int])
    assert_type(await count(b"x"), int)
    assert_type(await save(Order(1)), Order)
    assert_type(await crunch(1), float)
    assert_type(await nothing(), None)
    assert_type(child(1), ol.Call[str])
    assert_type(await child(number=1), str)
    assert_type(await plain(1), list[float])
    assert_type(fetch("x").name, str)


@ol.workflow
async def together(number: int) -> None:
    assert_type(await ol.gather(fetch("x"), count(b"x")), tuple[bytes, int])
    assert_type(await ol.gather(fetch("x"), count(b"x"), helper(1)), tuple[bytes, int, Order])
    assert_type(
        await ol.gather(fetch("x"), count(b"x"), helper(1), child(1)),
        tuple[bytes, int, Order, str],
    )
    assert_type(await ol.gather(*(count(b"x") for _ in range(number))), list[int])
    assert_type(await ol.gather(*[helper(each) for each in range(number)]), list[Order])
    assert_type(await ol.gather(count(b"x"), fetch("x"), return_exceptions=True), list[Any])
    assert_type(await ol.race(count(b"x"), count(b"y")), ol.RaceResult[int])
    assert_type((await ol.race(count(b"x"), count(b"y"))).index, int)
    assert_type((await ol.race(count(b"x"), count(b"y"))).value, int)


@ol.workflow
async def mapped(numbers: list[int]) -> None:
    assert_type(await ol.map(crunch, numbers), list[float])
    assert_type(await ol.map(helper, range(10), concurrency=3), list[Order])
    async for each in ol.map(crunch, numbers):
        assert_type(each, float)


@ol.workflow
async def options() -> None:
    assert_type(await fetch.options(id="a", timeout=3)("x"), bytes)
    assert_type(await save.options(retry=ol.Retry(max_attempts=2))(Order(1), text="x"), Order)
    assert_type(fetch.name, str)
    assert_type(await child.options(idempotency_key="a", title="x", tags=("a",))(1), str)


@ol.workflow
async def people_and_time() -> None:
    assert_type(await ol.ask("Who?"), str)
    assert_type(await ol.ask("How many?", int), int)
    assert_type(await ol.ask("How many?", int, key="many"), int)
    assert_type(await ol.ask("Which?", list[int]), list[int])
    assert_type(await ol.approve("Really?"), bool)
    assert_type(await ol.sleep(timedelta(days=1)), None)
    assert_type(await ol.sleep(minutes=3, until=None), None)
    assert_type(ol.now(), datetime)
    assert_type(ol.random(), float)
    assert_type(ol.uuid(), UUID)


async def desk() -> None:
    async with ol.open("runs.db") as engine:
        assert_type(engine, ol.Engine)
        handle = await engine.start(child, 1)
        assert_type(handle, ol.RunHandle[str])
        assert_type(await child.start(1), ol.RunHandle[str])
        assert_type(await plain.options(id="a").start(number=1), ol.RunHandle[list[float]])
        assert_type(await handle.result(), str)
        assert_type(await (await engine.start(plain.options(id="a"), number=1)).result(), list[float])
        assert_type(await engine.get(handle.run), ol.RunSummary)
        watching: AsyncIterator[Any] = handle.watch()
        print(watching)


def blocking() -> None:
    assert_type(ol.run(child, 1), str)
    assert_type(ol.run(plain, number=1), list[float])
    with ol.open() as engine:
        assert_type(engine, ol.BlockingEngine)
        assert_type(engine.start(child, 1), ol.BlockingRunHandle[str])
        assert_type(engine.start(child, 1).result(), str)


async def tested() -> None:
    bare: int = count.fn(b"x")
    awaited: bytes = await fetch.fn("x", limit=3)
    print(bare, awaited)
