"""A worker that leaves while nodes end: what they bring home is kept, and whoever comes next goes on from there (P2, P6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import outlast as ol
from outlast.errors import StoreError
from outlast.history.ids import RunId
from outlast.store import Append, Outcome
from outlast.stores.memory import Memory, MemoryStore
from outlast.testing.processes import engine_over

RUN, OTHER = RunId("run-1"), RunId("run-2")


class Slow(MemoryStore):
    """Its answers to appends of the other run wait until they are let go."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.is_slow = False
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(batch)
        if self.is_slow and any(append.record.run == OTHER for append in batch):
            self.asked.set()
            await self.go.wait()
        return outcomes


gates: dict[str, asyncio.Event] = {}


@ol.node
async def gated(name: str) -> str:
    await gates[name].wait()
    return name


@ol.node
async def after(name: str) -> str:
    return f"{name}, and on"


@ol.workflow
async def leaving_run(name: str) -> str:
    return await after(await gated(name))


def test_a_node_that_ends_while_its_worker_leaves_neither_ends_its_run_nor_strands_it() -> None:
    async def scene() -> None:
        memory = Memory()
        store = Slow(memory)
        gates.update({"one": asyncio.Event(), "two": asyncio.Event()})
        async with engine_over(store) as engine:
            for run, name in ((RUN, "one"), (OTHER, "two")):
                await engine.start(leaving_run.options(id=run), name)
            store.is_slow = True
            gates["two"].set()
            await store.asked.wait()  # the other run is being written, and the worker will wait for that
            asyncio.get_running_loop().call_later(0.02, gates["one"].set)
            asyncio.get_running_loop().call_later(0.1, store.go.set)
        head = await store.head(RUN)
        assert head is not None
        assert not head.closed, "nobody had told the code of its node, so it could not have ended"
        async with engine_over(MemoryStore(memory)) as engine:
            assert await asyncio.wait_for(engine.result(RUN), 10) == "one, and on"
            assert await asyncio.wait_for(engine.result(OTHER), 10) == "two, and on"

    asyncio.run(scene())


class Troubled(MemoryStore):
    """Takes no new runs while it is in trouble."""

    is_in_trouble = False
    refused: asyncio.Event

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        if self.is_in_trouble and any(append.record.first == 1 for append in batch):
            self.refused.set()
            raise StoreError("the disk is full; nothing was written")
        return await super().append(batch)


@ol.workflow
async def leaving_chain(left: int) -> str:
    if left:
        await after("first")
        await ol.continue_as_new(left - 1)
    return "the last of the chain"


def test_what_a_run_goes_on_as_is_not_lost_with_a_worker_that_could_not_create_it() -> None:
    """P1: nobody looks at a run that is over and was given back."""

    async def scene() -> None:
        memory = Memory()
        store = Troubled(memory)
        store.refused = asyncio.Event()
        async with engine_over(store, claim=0.2) as engine:
            await engine.start(leaving_chain.options(id=RUN), 1)
            store.is_in_trouble = True
            await asyncio.wait_for(store.refused.wait(), 10)
        async with engine_over(MemoryStore(memory), claim=0.2) as engine:
            assert await asyncio.wait_for(engine.result(RUN), 10) == "the last of the chain"

    asyncio.run(scene())
