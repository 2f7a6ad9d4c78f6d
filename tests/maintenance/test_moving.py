"""Runs brought to another store go on there, once, with all that belongs to them (P1, V1)."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import outlast as ol
from outlast.address import place_of
from outlast.client import Engine
from outlast.compose import open_both, open_store
from outlast.errors import AlreadyExists, InvalidInput, NotAllowed, RunDeleted, StoreError
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.ledger.verification import verify
from outlast.lifecycle.status import RunStatus
from outlast.maintenance.transfer import Moved, copy_log, copy_runs
from outlast.settings import read_settings
from outlast.store import LANDED, Append, Head, RunFilter
from outlast.testing.faults import Died, Fault, faulty
from outlast.testing.processes import engine_over

LARGE = "x" * 1_200_000
done: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _fresh(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    done.clear()
    with caplog.at_level("CRITICAL"):
        yield


@ol.node
async def moved_step(name: str) -> str:
    done[name] += 1
    return name


@ol.node
async def moved_large() -> str:
    done["large"] += 1
    return LARGE


@ol.node
async def moved_trouble() -> str:
    raise ValueError("no")


@ol.workflow
async def moved_step_alone(name: str) -> str:
    return await moved_step(name)


@ol.workflow
async def moved_story(name: str) -> str:
    large = await moved_large()
    first = await moved_step(f"{name} first")
    answer = await ol.ask("go on?", str)
    return f"{first}, {answer}, {await moved_step(f'{name} last')}, {len(large)}"


@ol.workflow
async def moved_quick(name: str) -> str:
    return await moved_step(name)


@ol.workflow
async def moved_failing() -> str:
    return await moved_trouble()


@ol.workflow
async def moved_parent(name: str) -> str:
    return f"parent of {await moved_story(name)}"


@ol.workflow
async def moved_long(name: str, rest: int) -> str:
    await moved_step(f"{name} {rest}")
    if rest:
        await ol.continue_as_new(name, rest - 1)
    return await ol.ask("go on?", str)


@ol.workflow
async def moved_parent_of_long(name: str) -> str:
    return f"parent of {await moved_long(name, 2)}"


# --- two stores


async def waiting(desk: Engine, run: RunId) -> None:
    while (await desk.get(run)).status is not RunStatus.WAITING:
        await asyncio.sleep(0.01)


async def copied(here: str, there: str, *runs: str, force: bool = False) -> list[Moved]:
    settings = [read_settings({"store": address}) for address in (here, there)]
    async with open_both(settings[0], settings[1]) as (source, target, stores):
        named = [RunId(run) for run in runs] or None
        copying = copy_runs(source, target, stores, named, place=place_of(there), force=force)
        return [moved async for moved in copying]


@asynccontextmanager
async def at_work(address: str) -> AsyncIterator[Engine]:
    store = open_store(address)
    try:
        async with engine_over(store) as engine:
            yield engine
    finally:
        await store.close()


async def must_be_sound(address: str, *runs: str) -> None:
    store = open_store(address)
    for run in runs:
        proof = await verify(store, RunId(run))
        assert proof.is_sound, proof.violations
    await store.close()


async def asking(address: str, count: int) -> list[RunId]:
    """Which runs ask something, as soon as so many do."""
    store = open_store(address)
    try:
        while len(found := (await store.waits(kind="interaction"))[0]) < count:
            await asyncio.sleep(0.01)
        return [due.run for due in found]
    finally:
        await store.close()


async def half_way(address: str, run: str = "story") -> None:
    async with at_work(address) as engine:
        await engine.start(moved_story.options(id=run), run)
        await waiting(engine, RunId(run))


async def answered(engine: Engine, run: str) -> str:
    """Answer what a run asks, as soon as it does, and wait for its end."""
    while not await engine.questions(RunId(run)):
        await asyncio.sleep(0.01)
    await engine.answer(RunId(run), "yes")
    return str(await engine.result(RunId(run)))


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


@pytest.fixture(params=["postgres", "s3", "sqlite"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    if request.param == "s3":
        from support.servers import s3

        return s3.shared().address(f"moving/{tmp_path.name}")
    return str(tmp_path / "other.db")


def test_a_run_goes_on_in_another_store_from_where_it_was(sqlite: str, other: str) -> None:
    async def journey() -> None:
        await half_way(sqlite)
        (moved,) = await copied(sqlite, other, "story")
        assert (moved.how, moved.blobs) == ("going on", 2), "the large value and the definition"
        async with at_work(other) as engine:
            assert await answered(engine, "story") == f"story first, yes, story last, {len(LARGE)}"
        async with at_work(sqlite) as engine:
            assert (await engine.get(RunId("story"))).status is RunStatus.PAUSED
        await must_be_sound(sqlite, "story")
        await must_be_sound(other, "story")
        assert done == {"large": 1, "story first": 1, "story last": 1}

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_no_verb_makes_a_run_that_left_go_on_unawares(sqlite: str, other: str) -> None:
    async def journey() -> None:
        await half_way(sqlite)
        await copied(sqlite, other, "story")
        run = RunId("story")
        async with at_work(sqlite) as engine:
            verbs = {
                "resume": lambda: engine.resume(run),
                "retry": lambda: engine.retry(run),
                "retry of a node": lambda: engine.retry(run, "moved_large"),
                "jump": lambda: engine.jump(run, "moved_large"),
                "rewind": lambda: engine.rewind(run),
            }
            head = (await engine.get(run)).at
            for verb, act in verbs.items():
                with pytest.raises(
                    NotAllowed, match=f"was copied to {re.escape(place_of(other))} and continues there.*--force"
                ):
                    await act()
                assert (await engine.get(run)).at == head, verb
            await engine.resume(run, force=True)
            assert await answered(engine, "story") == f"story first, yes, story last, {len(LARGE)}"

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_run_comes_back_with_what_was_done_elsewhere(sqlite: str, other: str) -> None:
    async def journey() -> None:
        await half_way(sqlite)
        await copied(sqlite, other, "story")
        async with at_work(other) as engine:
            await waiting(engine, RunId("story"))
        (moved,) = await copied(other, sqlite, "story")
        assert moved.how == "going on"
        async with at_work(sqlite) as engine:
            assert await answered(engine, "story") == f"story first, yes, story last, {len(LARGE)}"
        await must_be_sound(sqlite, "story")
        await must_be_sound(other, "story")
        assert set(done.values()) == {1}

    asyncio.run(asyncio.wait_for(journey(), 60))


# --- runs of every kind


def test_all_runs_arrive_as_they_were(sqlite: str, other: str) -> None:
    async def journey() -> None:
        await half_way(sqlite, "waiting")
        await half_way(sqlite, "paused")
        await half_way(sqlite, "branched")
        async with at_work(sqlite) as engine:
            await engine.result(await started(engine, moved_quick, "completed"))
            with pytest.raises(Exception, match="no"):
                await engine.result(await started(engine, moved_failing, "failed"))
            await waiting(engine, RunId("branched"))
            await engine.jump(RunId("branched"), "moved_step", by="a person")
            await waiting(engine, RunId("branched"))
        store = open_store(sqlite)
        desk = Engine(Ledger(store))
        await desk.pause(RunId("paused"), reason="for lunch")
        await desk.start(moved_quick.options(id="created"), "created")
        await desk._leave()
        await store.close()
        moved = {each.run: each.how for each in await copied(sqlite, other)}
        assert moved == {
            "waiting": "going on",
            "branched": "going on",
            "created": "going on",
            "paused": "as it was",
            "completed": "over",
            "failed": "over",
        }
        await must_be_sound(other, *moved)
        async with at_work(other) as engine:
            assert await engine.result(RunId("created")) == "created"
            assert await engine.result(RunId("completed")) == "completed"
            paused = await engine.get(RunId("paused"))
            assert (paused.status, paused.reason) == (RunStatus.PAUSED, "for lunch")
            assert (await engine.get(RunId("failed"))).status is RunStatus.FAILED
            assert await answered(engine, "branched")
            assert await answered(engine, "waiting")
        again = await copied(sqlite, other)
        assert {each.how for each in again} == {"there already"}
        assert sum(each.events + each.blobs for each in again) == 0

    asyncio.run(asyncio.wait_for(journey(), 60))


async def started(engine: Engine, workflow: ol.Workflow, run: str) -> RunId:  # type: ignore[type-arg]
    arguments = () if workflow is moved_failing else (run,)
    await engine.start(workflow.options(id=run), *arguments)
    return RunId(run)


def test_a_run_that_nobody_has_started_awaits_its_start_in_the_other_store(sqlite: str, other: str) -> None:
    """It is started once, in the store to which it was copied."""

    async def create() -> None:
        async with ol.open(sqlite) as desk:
            await desk.start(moved_quick.options(id="later", start=False), "later")

    async def start() -> None:
        async with ol.open(sqlite, worker=False) as desk:
            with pytest.raises(NotAllowed, match="was copied to"):
                await desk.begin(RunId("later"))
        async with ol.open(other) as desk:
            assert (await desk.get(RunId("later"))).awaits_start
            handle = await desk.begin(RunId("later"))
            assert await handle.result(timeout=20) == "later"
            assert (await desk.verify(RunId("later"))).is_sound

    asyncio.run(create())
    for how in ("as it was", "there already"):
        assert [moved.how for moved in asyncio.run(copied(sqlite, other))] == [how]
    assert not done
    asyncio.run(start())
    assert done == {"later": 1}


def test_a_parent_brings_the_children_it_waits_for(sqlite: str, other: str) -> None:
    async def journey() -> None:
        async with at_work(sqlite) as engine:
            await engine.start(moved_parent.options(id="parent"), "child")
            (child,) = await asking(sqlite, 1)
        with pytest.raises(NotAllowed, match=r"the parent of run .* waits for it: copy run parent"):
            await copied(sqlite, other, child)
        assert [each.run for each in await copied(sqlite, other, "parent")] == [child, "parent"]
        async with at_work(other) as engine:
            await answered(engine, child)
            assert str(await engine.result(RunId("parent"))).startswith("parent of child first, yes")
        await must_be_sound(other, child, "parent")
        assert set(done.values()) == {1}

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_all_families_come_whole(sqlite: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")

    async def journey() -> None:
        async with at_work(sqlite) as engine:
            for name in ("one", "two"):
                await engine.start(moved_parent.options(id=name), name)
            await asking(sqlite, 2)
        moved = await copied(sqlite, other)
        assert len(moved) == 4
        assert {each.how for each in moved} == {"going on"}
        async with at_work(other) as engine:
            for run in await asking(other, 2):
                await engine.answer(run, "yes")
            for name in ("one", "two"):
                assert str(await engine.result(RunId(name))).startswith(f"parent of {name} first, yes")
        assert done.pop("large") == 2, "once in each child"
        assert set(done.values()) == {1}

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_run_brings_what_goes_on_for_it(sqlite: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")

    async def journey() -> None:
        async with at_work(sqlite) as engine:
            await engine.start(moved_long.options(id="long"), "a", 2)
            (newest,) = await asking(sqlite, 1)
        moved = await copied(sqlite, other, "long")
        assert [each.how for each in moved] == ["going on", "over", "over"]
        assert [moved[0].run, moved[-1].run] == [newest, "long"]
        async with at_work(other) as engine:
            await answered(engine, newest)
            assert await engine.result(RunId("long")) == "yes"
        await must_be_sound(other, *(each.run for each in moved))
        assert done == {"a 2": 1, "a 1": 1, "a 0": 1}

    asyncio.run(asyncio.wait_for(journey(), 60))


@pytest.mark.parametrize("which", [["parent"], []], ids=["named", "all"])
def test_a_parent_brings_what_its_children_go_on_as(sqlite: str, tmp_path: Path, which: list[str]) -> None:
    other = str(tmp_path / "other.db")

    async def journey() -> None:
        async with at_work(sqlite) as engine:
            await engine.start(moved_parent_of_long.options(id="parent"), "a")
            (newest,) = await asking(sqlite, 1)
            runs = [each.run async for each in engine.iter_runs()]
        for child in set(runs) - {"parent"}:
            with pytest.raises(NotAllowed, match=r"the parent of run .* waits for it: copy run parent"):
                await copied(sqlite, other, child)
        moved = await copied(sqlite, other, *which)
        assert {each.run for each in moved} == set(runs)
        assert [moved[0].run, moved[-1].run] == [newest, "parent"]
        async with at_work(other) as engine:
            await answered(engine, newest)
            assert await engine.result(RunId("parent")) == "parent of yes"
        await must_be_sound(other, *runs)
        assert done == {"a 2": 1, "a 1": 1, "a 0": 1}

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_live_worker_is_asked_to_pause_first(sqlite: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")

    async def journey() -> None:
        async with at_work(sqlite) as engine:
            await engine.start(moved_story.options(id="story"), "story")
            await waiting(engine, RunId("story"))
            assert [each.how for each in await copied(sqlite, other)] == ["going on"]
            assert (await engine.get(RunId("story"))).status is RunStatus.PAUSED
        async with at_work(other) as engine:
            assert (await answered(engine, "story")).startswith("story first, yes")
        assert set(done.values()) == {1}

    asyncio.run(asyncio.wait_for(journey(), 60))


# --- what is refused


def test_what_has_gone_on_elsewhere_is_not_set_going_again(sqlite: str, tmp_path: Path) -> None:
    """Moved on from the second store to a third, it must not go on in the second because the first is copied again."""
    second, third = str(tmp_path / "second.db"), str(tmp_path / "third.db")

    async def journey() -> None:
        await half_way(sqlite)
        await copied(sqlite, second)
        await copied(second, third)
        assert [each.how for each in await copied(sqlite, second)] == ["there already"]
        async with at_work(second) as engine:
            assert (await engine.get(RunId("story"))).status is RunStatus.PAUSED

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_run_that_left_is_copied_to_no_third_store_without_force(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, third = str(tmp_path / "second.db"), str(tmp_path / "third.db")

    async def journey() -> None:
        async with at_work(sqlite) as engine:
            await engine.start(moved_parent.options(id="parent"), "child")
            (child,) = await asking(sqlite, 1)
        await copied(sqlite, second, "parent")
        with pytest.raises(NotAllowed, match=f"run parent was copied to {second} and continues there"):
            await copied(sqlite, third, "parent")
        assert {each.how for each in await copied(sqlite, third)} == {"not copied"}
        store = open_store(third)
        assert [await store.head(RunId(run)) for run in ("parent", child)] == [None, None]
        await store.close()
        monkeypatch.chdir(tmp_path)
        assert {each.how for each in await copied(sqlite, "second.db", "parent")} == {"there already"}
        moved = await copied(sqlite, third, "parent", force=True)
        assert {each.how for each in moved} == {"going on"}
        assert {each.how for each in await copied(second, third)} == {"not copied"}, "it has gone on in both"

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_of_two_copies_to_two_stores_at_once_one_is_refused(sqlite: str, tmp_path: Path) -> None:
    async def journey() -> None:
        async with at_work(sqlite) as engine:
            await engine.start(moved_story.options(id="story"), "story")
            await waiting(engine, RunId("story"))
            others = [str(tmp_path / name) for name in ("second.db", "third.db")]
            outcomes = await asyncio.gather(
                *(copied(sqlite, other, "story") for other in others), return_exceptions=True
            )
        assert sorted(type(each).__name__ for each in outcomes) == ["NotAllowed", "list"], outcomes

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_another_run_of_that_id_is_refused_and_keeps_no_other_waiting(sqlite: str, other: str) -> None:
    async def journey() -> None:
        for address in (sqlite, other):
            async with at_work(address) as engine:
                await engine.result(await started(engine, moved_quick, "same"))
        async with at_work(sqlite) as engine:
            await engine.result(await started(engine, moved_quick, "different"))
        with pytest.raises(AlreadyExists, match="the target store already has another run same"):
            await copied(sqlite, other, "same")
        found = {each.run: each.how for each in await copied(sqlite, other)}
        assert found == {"same": "not copied", "different": "over"}

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_run_that_somebody_set_going_in_both_stores_is_refused(sqlite: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")

    async def journey() -> None:
        await half_way(sqlite)
        await copied(sqlite, other)
        for address in (sqlite, other):
            async with at_work(address) as engine:
                if address == sqlite:
                    await engine.resume(RunId("story"), force=True)
                await answered(engine, "story")
        with pytest.raises(AlreadyExists, match="continued in both stores"):
            await copied(sqlite, other, "story")

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_store_is_not_copied_onto_itself(sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="both addresses name the same store"):
        asyncio.run(copied(sqlite, "runs.db"))


# --- interrupted


@pytest.mark.parametrize(
    "ways",
    [
        {"there": ("die_after",)},
        pytest.param(
            dict.fromkeys(("here", "there"), ("die_before", "die_after", "lose_answer")), marks=pytest.mark.soak
        ),
    ],
    ids=["there", "everywhere"],
)
def test_a_copy_that_dies_at_any_call_is_given_again_and_completes(
    ways: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    """At every call to a store, before its effect and after it, or without its answer."""
    deaths = 0

    async def made(path: Path) -> str:
        await half_way(str(path / "runs.db"))
        return str(path / "runs.db")

    async def interrupted(source: str, target: str, place: str, fault: Fault) -> bool:
        """Whether the fault came before the end."""
        here, there = open_store(source, durability="relaxed"), open_store(target, durability="relaxed")
        stores = {"here": here, "there": there}
        stores[place], faults = faulty(stores[place], fault)
        ledgers = [Ledger(store) for store in stores.values()]
        desks = [Engine(ledger) for ledger in ledgers]
        try:
            pair = (stores["here"], stores["there"])
            [_ async for _ in copy_runs(desks[0], desks[1], pair, [RunId("story")], place=place_of(target))]
        except (Died, StoreError):
            return True
        finally:
            for store in (here, there):
                await store.close()
        return faults.calls >= fault.call

    async def journey(source: str) -> None:
        nonlocal deaths
        for place in ways:
            for way in ways[place]:
                call, has_more = 0, True
                while has_more:
                    call += 1
                    folder = tmp_path / f"{place}-{way}-{call}"
                    folder.mkdir()
                    shutil.copy(source, folder / "runs.db")
                    shutil.copytree(f"{source}.blobs", folder / "runs.db.blobs")
                    one, two = str(folder / "runs.db"), str(folder / "there.db")
                    has_more = await interrupted(one, two, place, Fault(way, call))  # type: ignore[arg-type]
                    deaths += has_more
                    assert next(each.how for each in await copied(one, two)) in ("going on", "there already")
                    await must_be_sound(two, "story")
                    await must_be_sound(one, "story")
                    store = open_store(two)
                    head, summary = await store.head(RunId("story")), await store.summary(RunId("story"))
                    holding = await store.holding(RunId("story"))
                    await store.close()
                    assert head is not None
                    assert summary is not None
                    assert head.ready or holding, "nobody would go on with it"
                    assert summary.status is not RunStatus.PAUSED
                    shutil.rmtree(folder)

    source = asyncio.run(made(tmp_path))
    asyncio.run(asyncio.wait_for(journey(source), 120))
    print(f"\n{deaths} interruptions")
    assert deaths > 10


def test_half_a_log_is_shown_by_no_list_and_taken_by_no_worker(sqlite: str, other: str) -> None:
    class Stopped(Exception):
        pass

    async def journey() -> None:
        await half_way(sqlite)
        here, there = open_store(sqlite), open_store(other)
        landed = 0
        append = there.append

        async def some(batch):  # type: ignore[no-untyped-def]
            nonlocal landed
            if landed == 2:
                raise Stopped
            landed += 1
            return await append(batch)

        there.append = some  # type: ignore[method-assign]
        with pytest.raises(Stopped):
            await copy_log(here, there, RunId("story"))
        there.append = append  # type: ignore[method-assign]
        assert (await there.search(RunFilter())).items == ()
        await there.enrol(WorkerId("w"), 30)
        assert await there.claim(WorkerId("w"), workflows=None, limit=10) == []
        assert await copy_log(here, there, RunId("story")) > 0
        assert len((await there.search(RunFilter())).items) == 1
        for store in (here, there):
            await store.close()

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_copied_store_keeps_the_ids_of_deleted_runs(sqlite: str, other: str) -> None:
    async def journey() -> None:
        async with at_work(sqlite) as engine:
            for name in ("kept", "gone", "both"):
                handle = await engine.start(moved_step_alone.options(id=name), name)
                await handle.result()
        await copied(sqlite, other, "both")
        async with at_work(sqlite) as engine:
            await engine.delete(RunId("gone"), by="anna", reason="asked to")
            await engine.delete(RunId("both"))
        assert {moved.run for moved in await copied(sqlite, other)} == {"kept"}
        async with at_work(other) as engine:
            with pytest.raises(AlreadyExists, match=r"run gone was deleted on .* by anna: asked to"):
                await engine.start(moved_step_alone.options(id="gone"), "gone")
            assert await engine.result(RunId("both")) == "both", "what the target has is not deleted there"
            await engine.delete(RunId("kept"), by="bert")
        with pytest.raises(RunDeleted, match=r"run kept was deleted on .* by bert"):
            await copied(sqlite, other, "kept")

    asyncio.run(asyncio.wait_for(journey(), 60))


def test_a_run_that_is_deleted_while_all_are_copied_does_not_stop_the_copy(sqlite: str, other: str) -> None:
    """Nothing of it remains in the target, also not the part of its log that was copied before."""

    async def journey() -> None:
        async with at_work(sqlite) as engine:
            for name in ("first", "part", "gone", "last"):
                handle = await engine.start(moved_step_alone.options(id=name), name)
                await handle.result()
        settings = [read_settings({"store": address}) for address in (sqlite, other)]
        async with open_both(settings[0], settings[1]) as (source, target, stores):
            (record,) = await stores[0].read(RunId("part"), 1, 1, 1)
            head = Head(RunId("part"), record.last, record.digest, record.epoch)
            assert await stores[1].append([Append(record, head)]) == [LANDED]
            moved = list[RunId]()
            async for each in copy_runs(source, target, stores, None, place=place_of(other)):
                moved.append(each.run)
                if each.run == "last":
                    for run in ("gone", "part"):
                        await source.delete(RunId(run))
            assert moved == ["last", "first"]
            assert sorted((await stores[1].runs())[0]) == ["first", "last"]
            assert [each.run for each in await stores[1].tombstones()] == ["gone", "part"]

    asyncio.run(asyncio.wait_for(journey(), 60))
