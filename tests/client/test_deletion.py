"""Deleting runs: what is refused, what remains, and that an interrupted deletion is continued."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from obstore.store import MemoryStore as Objects

import outlast as ol
from outlast.client import Engine
from outlast.client.bulk import Target
from outlast.compose import open_store, working
from outlast.errors import InvalidInput, NotAllowed, RunDeleted
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId, derived_run
from outlast.ledger import Ledger
from outlast.services.pruner import Pruner, collect
from outlast.settings import read_settings
from outlast.store import Store, Tombstone
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.opening import bucket_over

KINDS = ("memory", "sqlite", "postgres", "objects")
Address: TypeAlias = str | Memory | Objects
Play: TypeAlias = Callable[[Callable[[Engine, Store], Awaitable[None]]], None]
BIG = "x" * 1_200_000
"""A value that is stored as a blob."""


@ol.node
async def bigger(text: str) -> str:
    return text + BIG


@ol.workflow
async def deletion_doubles(number: int) -> int:
    return 2 * number


@ol.workflow
async def deletion_big(text: str) -> int:
    return len(await bigger(text))


@ol.workflow
async def deletion_fails(recoverable: bool) -> None:
    if not recoverable:
        raise ol.Rejected("no")
    raise ValueError("not now")


@ol.workflow
async def deletion_waits() -> str:
    return await ol.ask("Go on?", str)


@ol.workflow
async def deletion_parent() -> str:
    await deletion_doubles(1)
    return await ol.ask("Go on?", str)


@ol.workflow
async def deletion_family() -> str:
    return await deletion_waits.options(id="the-child")()


@ol.workflow
async def deletion_continues(left: int) -> str:
    if left:
        ol.continue_as_new(left - 1)
    return await ol.ask("Go on?", str)


@ol.workflow
async def deletion_long_family() -> str:
    return await deletion_continues.options(id="the-child")(2)


@asynccontextmanager
async def engine_over(store: Store) -> AsyncIterator[Engine]:
    ledger = Ledger(store)
    async with working(ledger, read_settings({"store": "memory:"})) as worker:
        engine = Engine(ledger, worker)
        yield engine
        await engine._leave()
    await ledger.close()


def store_at(address: Address) -> Store:
    if isinstance(address, Memory):
        return MemoryStore(address)
    return ObjectStore(bucket_over(address, "memory")) if isinstance(address, Objects) else open_store(address)


def played(store: Store, scene: Callable[[Engine, Store], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(60):
            try:
                async with engine_over(store) as engine:
                    await scene(engine, store)
            finally:
                await store.close()

    asyncio.run(play())


@pytest.fixture(params=KINDS)
def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    if request.param == "postgres":
        address: Address = request.getfixturevalue("postgres_url")
    else:
        address = {"memory": Memory(), "sqlite": str(tmp_path / "runs.db"), "objects": Objects()}[request.param]
    return lambda scene: played(store_at(address), scene)


@pytest.fixture
def play() -> Play:
    return lambda scene: played(MemoryStore(), scene)


async def ended(engine: Engine, number: int, **options: Any) -> RunId:
    handle = await engine.start(deletion_doubles.options(**options), number)
    await handle.result()
    return handle.run


async def failed(engine: Engine, *, recoverable: bool) -> RunId:
    handle = await engine.start(deletion_fails, recoverable)
    with pytest.raises((ol.Rejected, ValueError)):
        await handle.result()
    return handle.run


async def waiting(engine: Engine, workflow: Any = deletion_waits, *arguments: Any) -> RunId:
    handle = await engine.start(workflow, *arguments)
    return (await handle.asked(timeout=20)).run


def test_one_of_three_runs_is_deleted(everywhere: Play) -> None:
    """S12: it is in no list, and its id and its key are refused with the name of the run."""

    async def scene(engine: Engine, store: Store) -> None:
        keyed = await ended(engine, 1, idempotency_key="monday")
        named = await ended(engine, 2, id="named")
        kept = await ended(engine, 3)
        tombstone = await engine.delete(keyed, by="anna", reason="asked to")
        assert (tombstone.run, tombstone.key, tombstone.by) == (keyed, "monday", "anna")
        assert {run.run for run in await engine.list_runs()} == {named, kept}
        assert [run async for run in engine.diagnostics.run_ids()].count(keyed) == 0
        told = f"run {keyed} was deleted on .* by anna: asked to"
        for start, name in (
            ({"idempotency_key": "monday"}, "idempotency key 'monday'"),
            ({"id": keyed}, f"id {keyed}"),
        ):
            with pytest.raises(ol.AlreadyExists, match=f"{told}: its {name} stays used"):
                await engine.start(deletion_doubles.options(**start), 1)
        for verb in (engine.get, engine.resume, engine.cancel, engine.explain, engine.verify, engine.diagnose):
            with pytest.raises(RunDeleted, match=told):
                await verb(keyed)
        with pytest.raises(RunDeleted, match=told):
            await engine.find(keyed[:12])
        with pytest.raises(RunDeleted, match=told):
            [entry async for entry in engine.events(keyed)]
        for run in (named, kept):
            assert (await engine.verify(run)).is_sound
        assert not await store.purge(), "nothing is left to remove"
        assert await store.read(keyed) == []

    everywhere(scene)


def test_blobs_that_no_kept_run_names_are_removed_after_a_day(everywhere: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        runs = []
        for text in ("a", "b"):
            handle = await engine.start(deletion_big, text)
            await handle.result()
            runs.append(handle.run)
        await engine.delete(runs[0])
        assert [number async for number in collect(store)] == [], "they were put a moment ago"
        await asyncio.sleep(0.01)
        removed = [number async for number in collect(store, grace_s=0)]
        assert removed
        assert removed[-1] >= 1
        assert (await engine.verify(runs[1])).is_sound
        assert await engine.output(runs[1], "bigger") == "b" + BIG

    everywhere(scene)


def test_what_has_not_ended_or_can_be_resumed_is_kept(play: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        asks, over = await waiting(engine), await failed(engine, recoverable=False)
        resumable = await failed(engine, recoverable=True)
        for force in (False, True):
            with pytest.raises(NotAllowed, match="is waiting: cancel it first"):
                await engine.delete(asks, force=force)
        with pytest.raises(NotAllowed, match="can be resumed: delete it with --force"):
            await engine.delete(resumable)
        await engine.delete(over)
        await engine.delete(resumable, force=True)
        await engine.cancel(asks)
        with pytest.raises(ol.RunCancelled):
            await engine.result(asks)
        await engine.delete(asks)
        assert not len(await engine.list_runs())

    play(scene)


def test_a_child_is_kept_as_long_as_its_parent_has_not_ended(play: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        parent = await waiting(engine, deletion_parent)
        child = derived_run(parent, "deletion_doubles")
        with pytest.raises(NotAllowed, match=f"child of run {parent}"):
            await engine.delete(child)
        await engine.answer(parent, "yes")
        assert await engine.result(parent) == "yes"
        await engine.delete(child)
        assert (await engine.verify(parent)).is_sound
        fork = await engine.fork(parent, "ask")
        await engine.delete(parent)
        await engine.answer((await fork.asked(timeout=20)).run, "again")
        assert await fork.result() == "again", "a fork has its own log"

    play(scene)


def test_a_parent_adopts_the_end_of_a_deleted_child_when_it_goes_back(play: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        handle = await engine.start(deletion_family)
        await engine.answer((await handle.asked(timeout=20)).run, "yes")
        assert await handle.result() == "yes"
        await engine.delete(RunId("the-child"))
        again = await engine.jump(handle.run, 3)  # the event before the end of the child
        assert await again.result(timeout=20) == "yes"

    play(scene)


def test_a_parent_whose_child_was_deleted_receives_a_failure_after_a_crash() -> None:
    """The process died after the deletion of a child, before its parent was told."""

    async def scene() -> None:
        store = MemoryStore()
        async with engine_over(store) as engine:
            handle = await engine.start(deletion_family)
            child = (await handle.asked(timeout=20)).run
        head = await store.head(child)
        assert head is not None
        status = ol.RunStatus.FAILED
        tombstone = Tombstone(run=child, workflow="deletion_waits", status=status, created=0, deleted=1, by="anna")
        assert await store.delete(tombstone, head.version)
        async with engine_over(store) as engine:
            with pytest.raises(ol.AlreadyExists, match=r"run the-child was deleted on .* by anna"):
                await engine.result(handle.run, timeout=20)

    asyncio.run(scene())


async def family(store: Store, *ending: e.AnyEvent) -> WorkerId:
    """A parent that waits for its child, which ended like this; both belong to the worker."""
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 30)
    created = [e.RunCreated(workflow="parent"), e.RunStarted(), e.ChildStarted(child="kid", workflow="w", node="w")]
    await (await ledger.create(RunId("parent"), created, worker)).release()
    kid = e.RunCreated(workflow="w", parent="parent", parent_node="w", as_child="kid")
    await ledger.create(RunId("kid"), [kid, e.RunStarted(), *ending], worker)
    return worker


async def ends_of_children(engine: Engine) -> list[str]:
    told = [entry.event async for entry in engine.events(RunId("parent"))]
    return [event.status for event in told if isinstance(event, e.ChildEnded)]


def test_a_held_child_that_is_deleted_fails_for_its_parent(play: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        held = e.RunFailed(error=e.Failure("Error", "a person must decide"), held=True)
        await store.retire(await family(store, held))
        with pytest.raises(NotAllowed, match="is held and can be resumed"):
            await engine.delete(RunId("kid"))
        await engine.delete(RunId("kid"), force=True, by="anna", reason="wrong order")
        assert await ends_of_children(engine) == ["failed"]
        with pytest.raises(RunDeleted, match=r"run kid was deleted on .* by anna: wrong order"):
            await engine.get(RunId("kid"))

    play(scene)


class Killed(BaseException):
    """Stands for the death of the process."""


class KillingStore(MemoryStore):
    """The process is killed when it has replaced a run by its tombstone."""

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        await super().delete(tombstone, version)
        raise Killed


def test_the_parent_of_a_held_child_receives_its_end_before_the_child_is_deleted() -> None:
    """P6: after the deletion nobody could deliver it, and the parent would wait for ever"""

    async def scene() -> None:
        store = KillingStore()
        held = e.RunFailed(error=e.Failure("Error", "a person must decide"), held=True)
        await store.retire(await family(store, held))
        engine = Engine(Ledger(store))
        with pytest.raises(Killed):
            await engine.delete(RunId("kid"), force=True)
        assert await store.tombstone(RunId("kid")) is not None
        assert await ends_of_children(engine) == ["failed"]

    asyncio.run(scene())


def test_a_child_that_continued_as_another_is_kept_until_that_has_ended(play: Play) -> None:
    """P6: its parent would never learn of the end of the successor"""

    async def scene(engine: Engine, store: Store) -> None:
        handle = await engine.start(deletion_long_family)
        last = (await handle.asked(timeout=20)).run
        for run in ("the-child", derived_run(RunId("the-child"), "continued")):
            for force in (False, True):
                with pytest.raises(
                    NotAllowed, match=f"is a child of run {handle.run} and continues as run {last}: wait"
                ):
                    await engine.delete(RunId(run), force=force)
        await engine.answer(last, "yes")
        assert await handle.result(timeout=20) == "yes"
        await engine.delete(RunId("the-child"))

    play(scene)


def test_a_run_that_continued_as_another_is_kept_until_that_has_ended(play: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        handle = await engine.start(deletion_continues, 2)
        last = (await handle.asked(timeout=20)).run
        middle = derived_run(handle.run, "continued")
        for run in (handle.run, middle):
            with pytest.raises(NotAllowed, match=f"continues as run {last}"):
                await engine.delete(run)
        await engine.delete(middle, force=True)
        with pytest.raises(RunDeleted, match=f"run {middle} was deleted"):
            await handle.result(timeout=20)
        assert (await engine.diagnose(handle.run)).is_sound, "a deleted successor is not created again"
        await engine.answer(last, "yes")
        assert await engine.result(last) == "yes"
        await engine.delete(handle.run)
        await engine.delete(last)

    play(scene)


def test_an_end_that_was_not_delivered_is_delivered_before_the_run_is_deleted(play: Play) -> None:
    """Its worker died between the end of the child and the delivery to the parent."""

    async def scene(engine: Engine, store: Store) -> None:
        await family(store, e.RunCompleted())
        with pytest.raises(NotAllowed, match="try again in a moment"):
            await engine.delete(RunId("kid"), force=True)
        store.skew += 60_000_000
        await engine.delete(RunId("kid"), force=True)
        assert await ends_of_children(engine) == ["completed"]

    play(scene)


def test_prune_deletes_what_ended_before_and_says_what_it_keeps(play: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        over = [await ended(engine, number) for number in range(3)]
        other = await failed(engine, recoverable=False)
        await failed(engine, recoverable=True)
        await waiting(engine)
        assert (await engine.prune(3600)).runs == 0, "they ended a moment ago"
        planned = await engine.prune(0, dry_run=True)
        assert (planned.runs, sum(planned.refused.values())) == (4, 1)
        assert len(await engine.list_runs()) == 6, "a dry run changes nothing"
        found = await engine.prune(0, workflow="deletion_doubles", by="anna", reason="old")
        assert (found.runs, found.refused, found.first <= found.last) == (3, {}, True)
        assert [each.run for each in await store.tombstones()] == sorted(over)
        assert (await engine.prune(0, status="failed")).runs == 1
        assert (await store.tombstone(other)) is not None
        assert (await engine.prune(0, force=True)).runs == 1
        assert [each.status for each in await engine.list_runs()] == [ol.RunStatus.WAITING]
        for older in (-1, float("nan"), float("inf"), 10**400):
            with pytest.raises(InvalidInput, match="older must be"):
                await engine.prune(older, dry_run=True)
        with pytest.raises(InvalidInput, match="only runs that have ended"):
            await engine.prune(0, status="waiting")

    play(scene)


def test_a_deletion_that_was_interrupted_is_continued_by_the_service(everywhere: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        run = await ended(engine, 1)
        await engine._deletions.replace(run, "", "")  # the process ends here: nothing is purged
        with pytest.raises(RunDeleted):
            await engine.get(run)
        await Pruner(store).prune()
        assert await store.read(run) == []
        assert not await store.purge()

    everywhere(scene)


def test_a_bulk_action_deletes_and_a_repeated_attempt_finds_the_tombstone(play: Play) -> None:
    async def scene(engine: Engine, store: Store) -> None:
        over, asks = await ended(engine, 1), await waiting(engine)
        bulk = await engine.bulk.start("delete", targets=[Target(over), Target(asks), Target("no-such-run")], by="anna")
        await engine.result(bulk, timeout=20)
        found = {each.run: each for each in (await engine.bulk.progress(bulk)).outcomes}
        assert (found[over].result, found[asks].result) == ("done", "skipped")
        assert "cancel it first" in found[asks].reason
        tombstone = await store.tombstone(over)
        assert tombstone is not None
        assert tombstone.by == f"anna, bulk {bulk}"

    play(scene)
