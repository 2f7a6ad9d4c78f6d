"""An exclusive start checks its key twice; it may be cancelled between the two checks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.client import starts
from outlast.errors import NotAllowed

OWNER_WAIT_S = 10.0


@ol.workflow(exclusive="a chair")
async def sits_alone(name: str) -> str:
    return name


async def _given_up(client: Any, run: str, patch: pytest.MonkeyPatch) -> None:
    """Start a run, and cancel the start during its second check."""
    check_exclusive, looks = starts.check_exclusive, 0  # type: ignore[attr-defined]
    start = asyncio.create_task(client.start(sits_alone.options(id=run), run))

    async def looked(*args: Any) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            start.cancel()
            await asyncio.sleep(0.01)
        await check_exclusive(*args)

    patch.setattr(starts, "check_exclusive", looked)
    with pytest.raises(asyncio.CancelledError):
        await start


@pytest.mark.parametrize("take_over_others", [True, False])
def test_a_start_that_is_cancelled_between_its_two_looks_goes_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take_over_others: bool
) -> None:
    async def scene() -> None:
        async with (
            ol.open(tmp_path / "runs.db", take_over_others=take_over_others) as engine,
            asyncio.timeout(OWNER_WAIT_S),
        ):
            await _given_up(engine, "given-up", monkeypatch)
            assert await engine.result("given-up") == "given-up"

    asyncio.run(scene())


def test_a_start_that_is_cancelled_between_its_two_looks_keeps_nobody_out_of_what_it_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with ol.open(tmp_path / "runs.db", worker=False) as desk:
            await _given_up(desk, "given-up", monkeypatch)
        async with ol.open(tmp_path / "runs.db") as engine, asyncio.timeout(OWNER_WAIT_S):
            assert await engine.result("given-up") == "given-up"
            assert await (await engine.start(sits_alone, "next")).result() == "next"

    asyncio.run(scene())


def test_a_start_that_is_cancelled_and_finds_another_run_there_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that took over the remaining run would not check again: both runs would be live."""

    async def scene() -> None:
        async with ol.open(tmp_path / "runs.db", worker=False) as desk:
            check_exclusive = starts.check_exclusive  # type: ignore[attr-defined]

            async def refused(*args: Any) -> None:
                if (await desk._store.head("given-up")) is not None:
                    raise NotAllowed("another run was quicker")
                await check_exclusive(*args)

            monkeypatch.setattr(starts, "check_exclusive", refused)
            await _given_up(desk, "given-up", monkeypatch)
            async with asyncio.timeout(OWNER_WAIT_S):
                while (await desk.get("given-up")).status != "cancelled":
                    await asyncio.sleep(0.01)

    asyncio.run(scene())
