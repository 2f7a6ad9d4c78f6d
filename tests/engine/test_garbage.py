"""A run that has ended leaves its memory at once, not when the garbage collector runs the next time."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import outlast as ol
from outlast.engine.driver import RunDriver
from outlast.functions.code import Code
from support.workflow_tools import soon


def alive() -> list[int]:
    return [sum(type(each) is kind for each in gc.get_objects()) for kind in (RunDriver, Code)]


async def test_a_run_that_has_ended_leaves_nothing_to_the_garbage_collector(stage: Any) -> None:
    @ol.node
    async def reporting(number: int) -> int:
        ol.progress(number, 3)
        return number

    @ol.workflow
    async def garbage() -> int:
        ol.progress(0, 3)
        return sum(await ol.gather(*map(reporting, range(3))))

    engine = await stage.engine()
    gc.collect()
    gc.disable()
    try:
        before = alive()
        for _ in range(5):
            assert await soon((await engine.start(garbage)).result()) == 3
        await asyncio.sleep(0.05)
        assert alive() == before
    finally:
        gc.enable()
