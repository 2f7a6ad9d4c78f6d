"""An engine that closes while its store is still writing leaves its runs to be gone on with (P1, P6)."""

from __future__ import annotations

import asyncio

import pytest

import outlast as ol
from outlast.stores.memory import Memory
from outlast.testing.processes import engine_over
from outlast.testing.store_factory import SlowMemoryStore


@ol.node
async def longer(text: str) -> str:
    await asyncio.sleep(0)
    return text + "."


@ol.workflow
async def dots() -> str:
    text = ""
    for _ in range(3):
        text = await longer(text)
    return text


@pytest.mark.parametrize("turns", range(0, 60, 3))
def test_a_run_goes_on_whenever_its_engine_was_closed(turns: int) -> None:
    """P1, P6"""
    memory = Memory()

    async def play() -> str:
        async with engine_over(SlowMemoryStore(memory)) as engine:
            await engine.start(dots.options(id="dots"))
            for _ in range(turns):
                await asyncio.sleep(0)
        async with engine_over(SlowMemoryStore(memory)) as engine:
            handle = await engine.start(dots.options(id="dots"))
            return str(await asyncio.wait_for(handle.result(), 20))

    assert asyncio.run(play()) == "..."
