"""Workflows that the tests of the server start."""

import asyncio
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import outlast as ol


@ol.node
async def double(value: int) -> int:
    return value * 2


@ol.workflow
async def served_double(value: int) -> int:
    """Twice a number."""
    return await double(value)


@ol.node
async def exactly(value: Any) -> Any:
    return value


@ol.workflow
async def served_echo(value: Any) -> Any:
    return await exactly(value)


@ol.node
async def priced(price: Decimal) -> Decimal:
    return price


@ol.workflow
async def served_price(price: Decimal) -> Decimal:
    return await priced(price)


@ol.node
async def nothing_known(_: int) -> float:
    return float("nan")


@ol.workflow
async def served_nan(value: int = 0) -> float:
    return await nothing_known(value)


@ol.workflow
async def served_asks(text: str = "Publish?") -> str:
    return "yes" if await ol.approve(text) else "no"


@ol.node
async def flaky(name: str) -> str:
    if os.environ.get("SERVED_FLAKY") != "well":
        raise ValueError(f"{name} is broken")
    return name


@ol.workflow
async def served_fails(name: str) -> str:
    return await flaky(name)


@ol.node
async def refused(name: str) -> str:
    raise ol.Rejected(f"{name} was refused")


@ol.workflow
async def served_rejected(name: str) -> str:
    return await refused(name)


@ol.workflow
async def served_sleeps(seconds: float = 3600) -> None:
    await ol.sleep(seconds)


@ol.node
async def wait_for_file(path: str) -> str:
    while not (Path(path).exists() and (text := Path(path).read_text())):  # a file that is being written may be empty
        await asyncio.sleep(0.01)
    return text


@ol.workflow
async def served_slow(path: str) -> str:
    return await wait_for_file(path)


@ol.workflow(exclusive="place:{place}")
async def served_alone(place: str) -> bool:
    return await ol.approve(f"Leave {place}?")


@ol.node
async def large(size: int) -> str:
    return ("abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]


@ol.workflow
async def served_large(size: int) -> str:
    return await large(size)


@ol.node
async def counted(number: int) -> int:
    await asyncio.sleep(0.05)
    return number


@ol.workflow
async def served_counts(nodes: int) -> int:
    return sum([await counted(number) for number in range(nodes)])


@ol.workflow
async def served_repeats(times: int, size: int) -> int:
    return sum([len(await large(size)) for _ in range(times)])


@ol.workflow
async def served_parent(value: int = 1) -> int:
    return await served_double(value)
