"""A run that must have something for itself is looked for twice when it starts; its start may be cancelled in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.errors import NotAllowed

OWNER_WAIT_S = 10.0


@ol.workflow(exclusive="a chair")
async def sits_alone(name: str) -> str:
    return name


async def _given_up(client: Any, run: str) -> None:
    """Start a run, and be cancelled when it is there and has not been looked for again."""
    check_exclusive, looks = client._claims.check_exclusive, 0
    start = asyncio.create_task(client.start(sits_alone.options(id=run), run))

    async def looked(*args: Any) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            start.cancel()
            await asyncio.sleep(0.01)
        await check_exclusive(*args)

    client._claims.check_exclusive = looked
    with pytest.raises(asyncio.CancelledError):
        await start


@pytest.mark.parametrize("take_over_others", [True, False])
def test_a_start_that_is_cancelled_between_its_two_looks_goes_on_at_once(
    tmp_path: Path, take_over_others: bool
) -> None:
    async def scene() -> None:
        async with (
            ol.open(tmp_path / "runs.db", take_over_others=take_over_others) as engine,
            asyncio.timeout(OWNER_WAIT_S),
        ):
            await _given_up(engine, "given-up")
            assert await engine.result("given-up") == "given-up"

    asyncio.run(scene())


def test_a_start_that_is_cancelled_between_its_two_looks_keeps_nobody_out_of_what_it_wanted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with ol.open(tmp_path / "runs.db", worker=False) as desk:
            await _given_up(desk, "given-up")
        async with ol.open(tmp_path / "runs.db") as engine, asyncio.timeout(OWNER_WAIT_S):
            assert await engine.result("given-up") == "given-up"
            assert await (await engine.start(sits_alone, "next")).result() == "next"

    asyncio.run(scene())


def test_a_start_that_is_cancelled_and_finds_another_run_there_is_over(tmp_path: Path) -> None:
    """Whoever takes up what was left lying would not look again: both would be live."""

    async def scene() -> None:
        async with ol.open(tmp_path / "runs.db", worker=False) as desk:
            look = desk._claims.check_exclusive

            async def refused(*args: Any) -> None:
                if (await desk._store.head("given-up")) is not None:
                    raise NotAllowed("somebody was quicker")
                await look(*args)

            desk._claims.check_exclusive = refused  # type: ignore[method-assign]
            await _given_up(desk, "given-up")
            async with asyncio.timeout(OWNER_WAIT_S):
                while (await desk.get("given-up")).status != "cancelled":
                    await asyncio.sleep(0.01)

    asyncio.run(scene())
