"""A run that is claimed twice by one worker goes on under the later claim, whichever is taken up first (P3, P6)."""

from __future__ import annotations

import asyncio

import pytest

import outlast as ol
from outlast.history.ids import RunId
from outlast.stores.memory import MemoryStore
from outlast.testing.processes import engine_over

RUN = RunId("run-1")


@ol.workflow
async def claimed_twice() -> bool:
    return await ol.approve("Go on?")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_stale_claim_does_not_end_what_the_later_one_began(order: tuple[int, int]) -> None:
    async def whole() -> None:
        store = MemoryStore()
        async with engine_over(store) as engine:
            handle = await engine.start(claimed_twice.options(id=RUN))
            worker = engine._worker
            assert worker is not None
            claims = [(await store.claim(worker.id, runs=[RUN]))[0] for _ in range(2)]
            for place in order:
                await worker.takeovers.adopt(claims[place])
            assert worker.drivers[RUN].writer.epoch == claims[1].epoch
            await handle.answer(True)
            async with asyncio.timeout(5):
                assert await handle.result()

    asyncio.run(whole())
