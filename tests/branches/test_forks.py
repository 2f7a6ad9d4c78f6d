"""A fork has the history of another run up to a place and goes on by itself; the other run is not touched."""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.errors import AlreadyExists, NotAllowed
from outlast.functions.dry_replay import dry_run
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.testing.answering import Patience, attended
from outlast.testing.crashes import RUN, Story
from outlast.testing.processes import Processes
from outlast.testing.store_factory import MemoryStoreFactory
from outlast.testing.world import World, compare, read_all
from outlast.values.codec import fetched

QUICK = (
    "first_workflow",
    "parallel",
    "retries",
    "race",
    "reminder",
    "approval",
    "child_runs",
    "steps",
    "plain_functions",
    "caught_errors",
    "timeouts",
    "children",
    "questions",
    "a map of helpers",
)
LONG = ("many_items", "long_node", "plain_asyncio", "typed_values", "long_living", "helpers", "races", "generations")
"""Those with more places, or whose results tell of the run they are from."""


stories: Any = importlib.import_module("tests.faults.test_engine_crash_loop")
"""The same module that is collected there: its workflows and its errors are to be the same ones."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


async def whole(client: ol.Engine, run: str) -> list[Any]:
    store: Any = client._store
    return [(r.first, r.branch, r.epoch, r.id, r.body, r.digest) for r in await store.read(RunId(run), 1, None, 10_000)]


def forked_everywhere(story: Story, folder: Path, step: int = 1) -> int:
    """Fork a run that is over at its events, also a fork, and see how all of them end."""
    world = World()
    with Processes() as processes:
        factory = MemoryStoreFactory(folder)
        factory.reset()
        store = factory.open()
        attempting = lambda: processes.attempting  # noqa: E731

        async def act(client: ol.Engine) -> int:
            await client.start(story.workflow.options(id=RUN), *story.args, **story.kwargs)
            async with attended(client, store, story.answers, None, resumes=False) as trouble:
                await Patience(store, attempting).until_over(story.over, trouble, resumes_held=False)
                log = [entry async for entry in client.events(RUN)]
                before = await whole(client, RUN)
                forks: dict[str, int] = {}
                for seq in range(0, len(log) + 1, step):
                    try:
                        handle = await client.fork(RUN, seq, id=f"fork-{seq}")
                    except NotAllowed as refusal:
                        assert "is over at event" in str(refusal)  # noqa: PT017
                        assert seq >= len(log) - 1
                        continue
                    forks[handle.run] = seq
                await client.fork(f"fork-{len(log) // 2 // step * step}", id="fork-of-fork")
                await Patience(store, attempting).until_over(story.over, trouble, resumes_held=False)
            assert await whole(client, RUN) == before
            await self_same(client, log, forks)
            return len(forks)

        async def self_same(client: ol.Engine, log: list[Any], forks: dict[str, int]) -> None:
            runs = await read_all(store)
            compare(world, runs)
            first = await _outcome(runs[RUN], store)
            for fork, seq in {**forks, "fork-of-fork": 0}.items():
                if story.expected is not None:
                    assert await _outcome(runs[RunId(fork)], store) == first, f"{fork} ended otherwise"
                copied = {x.event.node for x in log[:seq] if isinstance(x.event, e.NodeCompleted)}
                again = {node for (run, node), _ in world.executed.items() if run == fork} & copied
                assert not again, f"{fork} did again what it had copied: {again}"

        return processes.live(store, act, None, world)


async def _outcome(told: Any, store: Any) -> Any:
    match told.ending:
        case e.RunCompleted(output=output):
            return bytes(await fetched(output, store.blobs))
        case e.RunFailed(error=error):
            return error.kind, error.message
        case other:
            return type(other).__name__


@pytest.mark.parametrize("name", QUICK)
def test_a_fork_from_any_event_ends_like_the_run_itself(name: str, tmp_path: Path) -> None:
    forked = forked_everywhere(stories.story_of(name), tmp_path)
    print(f"\n{name}: {forked} forks")


@pytest.mark.parametrize("name", LONG)
def test_a_fork_from_any_event_of_a_long_run_ends_like_the_run_itself(name: str, tmp_path: Path) -> None:
    forked = forked_everywhere(stories.story_of(name), tmp_path, 1)
    print(f"\n{name}: {forked} forks")


# --- by hand -----------------------------------------------------------------------------------------------------------

done: Counter[str] = Counter()
is_open: set[str] = set()


@pytest.fixture(autouse=True)
def _anew() -> None:
    done.clear()
    is_open.clear()


@ol.node
async def work(name: str) -> str:
    done[name] += 1
    return f"{name}{done[name]}"


@ol.node
async def slow(name: str) -> str:
    done[name] += 1
    while name not in is_open:
        await asyncio.sleep(0.005)
    return f"{name}{done[name]}"


async def test_now_is_in_a_fork_what_it_was(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        first = ol.now()
        await work("a")
        second = ol.now()
        await ol.sleep(0.05)
        third = ol.now()
        await work("b")
        return [str(first), str(second), str(third)]

    engine = await stage.engine()
    handle = await engine.start(flow)
    times = await handle.result()
    await asyncio.sleep(0.05)
    fork = await engine.fork(handle.run, "work#2")
    assert await fork.result() == times
    again = await engine.fork(fork.run, "work#2")
    assert await again.result() == times
    assert done == {"a": 1, "b": 3}
    for run in (handle.run, fork.run, again.run):
        assert await stage.is_sound(engine, run)


async def test_an_event_on_a_branch_that_was_left_is_a_place_to_fork_from(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await work("b"), await work("c")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    await handle.result()
    await (await engine.jump(handle.run, "work#2")).result()
    await (await engine.jump(handle.run, "start")).result()
    await (await engine.activate(handle.run, 1)).result()
    seen = witness(engine, handle.run)
    log = await seen.look()
    done.clear()
    by_seq = {entry.seq: entry for entry in log}
    for seq in range(len(log) + 1):
        lineage = [] if seq == 0 else [x async for x in engine.events(handle.run, branch=by_seq[seq].branch)]
        copied = {
            x.event.node: x.event.output for x in lineage if x.seq <= seq and isinstance(x.event, e.NodeCompleted)
        }
        try:
            fork = await engine.fork(handle.run, seq)
        except NotAllowed as refusal:
            assert "is over at event" in str(refusal)  # noqa: PT017
            continue
        await fork.result()
        outputs = {
            x.event.node: x.event.output async for x in engine.events(fork.run) if isinstance(x.event, e.NodeCompleted)
        }
        for node, output in copied.items():
            assert bytes(outputs[node]) == bytes(output), (seq, node)
        assert await stage.is_sound(engine, fork.run)
    await seen.look()
    last = await engine.fork(handle.run)  # over, because a branch that was over is current
    assert (await last.result())[:2] == ["a1", "b2"]


@pytest.mark.parametrize("how", ["paused", "held", "failed", "running", "cancelled"])
async def test_a_run_that_stands_still_can_be_forked(stage: Any, witness: Any, how: str) -> None:
    @ol.node(repeatable=how != "held")
    async def fragile() -> str:
        done["fragile"] += 1
        while how != "failed" and "fragile" not in is_open:
            await asyncio.sleep(0.005)
        if how == "failed" and done["fragile"] == 1:
            raise ValueError("once")
        return f"f{done['fragile']}"

    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await fragile()]

    engine = await stage.engine(grace=0.1)
    handle = await engine.start(flow)
    while not done["fragile"]:
        await asyncio.sleep(0.005)
    if how == "paused":
        await engine.pause(handle.run)
        await stage.until(engine, handle.run, e.RunPaused)
    elif how == "cancelled":
        await engine.cancel(handle.run)
        await stage.until(engine, handle.run, e.RunCancelled)
    elif how == "held":
        await stage.crash(engine)
        engine = await stage.engine()
        await stage.until(engine, handle.run, e.RunFailed)
    elif how == "failed":
        with pytest.raises(ValueError, match="once"):
            await handle.result()
    seen = witness(engine, handle.run)
    await seen.look()
    status = (await engine.get(handle.run)).status
    fork = await engine.fork(handle.run, id="other", title="Another", by="ann")
    is_open.add("fragile")
    assert await fork.result() == ["a1", f"f{done['fragile']}"]
    if how != "running":
        assert (await engine.get(handle.run)).status == status
    await seen.look()
    await witness(engine, "other").look()
    assert (await engine.get("other")).title == "Another"
    before = await whole(engine, "other")
    for name in ("other", handle.run):
        with pytest.raises(AlreadyExists):
            await engine.fork(handle.run, 1, id=name)
    for name in ("", "a/b", "x" * 5000, "\n"):
        if name:
            with pytest.raises(ol.InvalidInput):
                await engine.fork(handle.run, 1, id=name)
    assert await whole(engine, "other") == before


@ol.node
async def use(values: list[str]) -> list[str]:
    done["use"] += 1
    return values


async def test_random_values_and_the_run_id_are_as_recorded_in_the_copied_part_and_new_after_it(stage: Any) -> None:
    @ol.workflow
    async def flow() -> list[list[str]]:
        return [await use([str(ol.uuid()), str(ol.random()), ol.context().run]) for _ in range(4)]

    engine = await stage.engine()
    handle = await engine.start(flow)
    first = await handle.result()
    fork = await engine.fork(handle.run, "use#2")
    second = await fork.result()
    again = await engine.fork(fork.run, "use#4")
    third = await again.result()
    assert done == {"use": 4 + 3 + 1}
    assert second[:1] == first[:1]
    assert third[:3] == second[:3]
    assert [run for *_, run in third] == [handle.run, fork.run, fork.run, again.run]
    made = [*first, *second[1:], *third[3:]]
    assert len({uuid for uuid, _, _ in made}) == len({number for _, number, _ in made}) == len(made)
    redone = await engine.jump(again.run, "use#3")  # its owner replays what was copied from both
    assert (await redone.result())[:2] == third[:2]
    for run in (handle.run, fork.run, again.run):
        assert (await dry_run(engine._store, run, flow)).agrees
        assert await stage.is_sound(engine, run)


async def test_forks_from_every_event_replay_what_random_values_decided(stage: Any) -> None:
    @ol.workflow
    async def child(text: str) -> str:
        return (await use([text]))[0]

    @ol.workflow
    async def flow() -> list[str]:
        made = [str(ol.uuid())]
        async with ol.step("together"):
            made += [text for texts in await ol.gather(*(use([str(ol.uuid())]) for _ in range(2))) for text in texts]
        for _ in range(4):
            pause = asyncio.create_task(asyncio.sleep(60))
            await use([made[0], str(ol.random())])
            if ol.random() < 0.5:
                pause.cancel()  # what the log has last, where a fork is cut between it and the next node
            await use([])
            pause.cancel()
            await ol.sleep(ol.random() / 1000)
        made.append(await child(ol.context().run))
        await ol.gather(*(use([str(ol.random())]) for _ in range(2)))
        return made

    engine = await stage.engine()
    handle = await engine.start(flow)
    await handle.result()
    log = [entry async for entry in engine.events(handle.run)]
    forks = [await engine.fork(handle.run, seq) for seq in range(len(log))]
    for fork in forks:
        await fork.result()
        length = len([entry async for entry in engine.events(fork.run)])
        other = await engine.fork(fork.run, length // 2)
        await other.result()
        for run in (fork.run, other.run):
            assert (await dry_run(engine._store, run, flow)).agrees
            assert await stage.is_sound(engine, run)
