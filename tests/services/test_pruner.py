"""The pruner frees what deleted runs left; of several processes on a store one does it."""

from __future__ import annotations

import asyncio

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.lifecycle.status import RunStatus
from outlast.services.leases import lease_of
from outlast.services.pruner import SERVICE, Pruner, collect, purge
from outlast.store import Store, Tombstone
from outlast.stores.memory import Memory, MemoryStore

RUN = RunId("run-1")


async def deleted(store: Store, events: int = 3) -> None:
    ledger = Ledger(store)
    writer = await ledger.create(RUN, [e.RunCreated(workflow="w"), e.RunStarted()], ledger.new_worker_id())
    for number in range(events):
        await writer.append([e.NodeScheduled(node=f"n{number}")])
    await writer.release()
    tombstone = Tombstone(run=RUN, workflow="w", status=RunStatus.COMPLETED, created=1, deleted=2)
    assert await store.delete(tombstone, writer.head.version)


def test_one_of_two_pruners_frees_what_a_deleted_run_left() -> None:
    async def scene() -> None:
        memory = Memory()
        stores = [MemoryStore(memory), MemoryStore(memory)]
        await deleted(stores[0])
        services = [asyncio.create_task(Pruner(store, interval=0.01).run()) for store in stores]
        async with asyncio.timeout(10):
            while memory.logs.get(RUN):
                await asyncio.sleep(0.01)
        lease = await lease_of(stores[0], SERVICE)
        assert lease is not None
        for _ in range(5):
            await asyncio.sleep(0.02)
            again = await lease_of(stores[0], SERVICE)
            assert again is not None
            assert again.holder == lease.holder
        for service in services:
            service.cancel()
        await asyncio.wait(services)
        assert await lease_of(stores[0], SERVICE) is None

    asyncio.run(scene())


def test_a_purge_goes_in_steps_and_may_stop_between_them() -> None:
    async def scene() -> None:
        store = MemoryStore()
        await deleted(store, events=500)
        steps = purge(store)
        assert await anext(steps) == 1
        await steps.aclose()
        assert await store.tombstone(RUN) is not None
        assert [step async for step in purge(store)], "the rest"
        assert not await store.purge()

    asyncio.run(scene())


def test_a_blob_is_kept_for_a_day_and_as_long_as_a_log_names_it() -> None:
    async def scene() -> None:
        store = MemoryStore()
        named, other = await store.blobs.put(b"named"), await store.blobs.put(b"other")
        ledger = Ledger(store)
        begun = [e.RunCreated(workflow="w", version=named.hash)]
        await ledger.create(RUN, begun, ledger.new_worker_id())
        assert [number async for number in collect(store)] == []
        store.skew += 2 * 86_400_000_000
        assert [number async for number in collect(store)] == [1]
        assert (await store.blobs.has(named.hash), await store.blobs.has(other.hash)) == (True, False)

    asyncio.run(scene())
