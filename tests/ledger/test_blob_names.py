"""Every blob that a log needs is named by one of its appends (S13)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import outlast as ol
from outlast.client.facade import Engine
from outlast.compose import working
from outlast.history.events import RunCreated
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.blob_names import blobs_of
from outlast.ledger.reading import records
from outlast.maintenance.transfer import copy_log
from outlast.settings import Settings
from outlast.store import Append
from outlast.stores.memory import MemoryStore
from outlast.values.codec import INLINE_LIMIT

LARGE = INLINE_LIMIT + 1


@ol.node
async def doubled(text: str) -> str:
    return text + text


@ol.workflow
async def child_of_large(text: str) -> str:
    return text


@ol.workflow
async def large_values(text: str) -> str:
    asked = await ol.ask("Which?", str)
    return await child_of_large(await doubled(text) + asked)


def test_all_blobs_of_a_log_are_named_by_its_appends() -> None:
    async def scene() -> None:
        store, other = MemoryStore(), MemoryStore()
        ledger = Ledger(store)
        named: dict[RunId, set[str]] = {}

        def seen(landed: Sequence[Append], _: float) -> None:
            for append in landed:
                named.setdefault(append.record.run, set()).update(append.blobs)

        ledger.observers.append(seen)
        async with asyncio.timeout(30), working(ledger, Settings(store=""), reports_start=False) as worker:
            engine = Engine(ledger, worker)
            handle = await engine.start(large_values, "p" * LARGE)
            while (await engine.get(handle.run)).status != "waiting":
                await asyncio.sleep(0.001)
            await handle.answer("a" * LARGE)
            assert len(await handle.result()) == 3 * LARGE
            assert len(named) == 2, "the run and its child"
            for run, hashes in named.items():
                events = [event async for record in records(store, run) for event in record.events()]
                needed = {ref.hash for event in events for ref in blobs_of(event)}
                assert needed == hashes == store.memory.uses[run]
                for name in needed:
                    assert await store.blobs.has(name), "the definitions included"
                versions = {event.version for event in events if isinstance(event, RunCreated)}
                assert versions < hashes
            assert len(named[handle.run]) == 5, "parameters, definition, answer, output of the node, result"
            await copy_log(store, other, handle.run)
            assert other.memory.uses[handle.run] == store.memory.uses[handle.run]
        await ledger.close()

    asyncio.run(scene())
