"""Going back to before children: they are cancelled until they have ended, or kept; recoveries do neither (P1)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.errors import InvalidInput
from outlast.functions import registry
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.lifecycle.status import RunStatus
from outlast.stores.sqlite import SqliteStore

done: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _anew(stage: Any) -> None:
    done.clear()
    for known in (asking_child, continuing_child, parent_of_asking, parent_of_continuing):
        registry.register(known.name, known)


@ol.node
async def work(name: str) -> str:
    done[name] += 1
    return f"{name}{done[name]}"


@ol.workflow
async def asking_child() -> str:
    return await ol.ask("Who is it?")


@ol.workflow
async def continuing_child(left: int) -> str:
    if left:
        await ol.continue_as_new(left - 1)
    return await ol.ask("Who is it?")


@ol.workflow
async def parent_of_asking() -> list[str]:
    return [await work("a"), await asking_child()]


@ol.workflow
async def parent_of_continuing() -> list[str]:
    return [await work("a"), await continuing_child(1)]


async def asked(engine: ol.Engine, workflow: str) -> RunId:
    """The run of this workflow that asks."""
    while True:
        for each in (await engine.list_runs(ol.RunFilter(workflow=workflow))).items:
            if any(wait.kind == "interaction" for wait in each.summary.waits):
                return each.summary.run
        await asyncio.sleep(0.01)


async def ended(engine: ol.Engine, run: str) -> RunStatus:
    while (status := (await engine.get(run)).status) not in ("completed", "failed", "cancelled"):
        await asyncio.sleep(0.01)
    return status


async def opened(engine: ol.Engine, run: str) -> list[e.BranchOpened]:
    return [
        entry.event async for entry in engine.events(run, everything=True) if isinstance(entry.event, e.BranchOpened)
    ]


async def received(stage: Any, engine: ol.Engine, run: str, child: str) -> e.ChildEnded:
    """The end of a child, once it is in the log of its parent."""
    found = await stage.until(engine, run, lambda event: isinstance(event, e.ChildEnded) and event.child == child)
    assert isinstance(found.event, e.ChildEnded)
    return found.event


VERBS: dict[str, Any] = {
    "jump": lambda client, run, **more: client.jump(run, "work", **more),
    "rewind": lambda client, run, **more: client.rewind(run, 1, **more),
    "retry": lambda client, run, **more: client.retry(run, "work", **more),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_child_of_the_part_that_is_left_is_cancelled(stage: Any, witness: Any, verb: str) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    await VERBS[verb](engine, handle.run)
    (branch,) = await opened(engine, handle.run)
    assert (branch.cancelled, branch.detached) == ((child,), ())
    assert await ended(engine, child) is RunStatus.CANCELLED
    assert (await received(stage, engine, handle.run, child)).status == "cancelled"
    again = await asked(engine, "asking_child")
    assert again != child
    await engine.answer(again, "Ada")
    assert await handle.result() == ["a2", "Ada"]
    await witness(engine, handle.run).look()


@pytest.mark.parametrize("verb", VERBS)
async def test_a_child_of_the_part_that_is_left_can_be_kept(stage: Any, witness: Any, verb: str) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    await VERBS[verb](engine, handle.run, children="keep")
    (branch,) = await opened(engine, handle.run)
    assert (branch.cancelled, branch.detached) == ((), (child,))
    await engine.answer(child, "Bob")
    assert await ended(engine, child) is RunStatus.COMPLETED
    assert (await received(stage, engine, handle.run, child)).status == "completed"
    await witness(engine, handle.run).look()


async def test_the_run_that_a_child_continued_as_is_cancelled(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_continuing)
    successor = await asked(engine, "continuing_child")
    await engine.jump(handle.run, "work")
    (branch,) = await opened(engine, handle.run)
    assert branch.cancelled != (successor,)
    assert await ended(engine, successor) is RunStatus.CANCELLED
    assert (await received(stage, engine, handle.run, branch.cancelled[0])).status == "cancelled"


async def test_a_child_is_cancelled_once_however_often_its_parent_is_taken_over(stage: Any) -> None:
    """The worker of the child does not hear of it: a second request must not be written all the same."""
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    await stage.crash(engine)
    stage.forget("asking_child")
    engine = await stage.engine()
    await engine.jump(handle.run, "work")
    for _ in range(2):
        await stage.until(engine, handle.run, lambda event: isinstance(event, e.ChildStarted))
        await stage.crash(engine)
        engine = await stage.engine()
    assert [type(event).__name__ for event in await stage.events(engine, child)].count("CancelRequested") == 1
    registry.register("asking_child", asking_child)
    assert await ended(engine, child) is RunStatus.CANCELLED


async def branch_without_more(file: Path, run: RunId, cutoff: int) -> None:
    """A branch as its owner leaves it that dies right after BranchOpened."""
    from outlast.lifecycle.branch_plan import BranchPlan

    store = SqliteStore(file, durability="relaxed", commit="inline")
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 30.0)
    (claim,) = await store.claim(worker, runs=[run])
    writer = await ledger.take_over(claim)
    await writer.open_branch(BranchPlan(cutoff=cutoff))
    while not await writer.release(ready=not writer.state.is_closed):
        pass
    await ledger.close()
    await store.close()


async def test_whoever_owns_the_run_next_cancels_what_the_owner_before_did_not(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    await stage.crash(engine)
    await branch_without_more(stage.file, handle.run, 2)
    engine = await stage.engine()
    assert await ended(engine, child) is RunStatus.CANCELLED


async def test_the_end_of_the_run_cancels_what_no_owner_had_cancelled(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    await stage.crash(engine)
    await branch_without_more(stage.file, handle.run, 2)
    desk = await stage.engine(worker=False)
    await desk.cancel(handle.run)
    assert (await desk.get(handle.run)).status == "cancelled"
    engine = await stage.engine()
    assert await ended(engine, child) is RunStatus.CANCELLED
    assert (await received(stage, engine, handle.run, child)).status == "cancelled"


async def test_the_doctor_finds_a_child_that_nobody_cancelled_and_cancels_it(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    await stage.crash(engine)
    await branch_without_more(stage.file, handle.run, 2)
    desk = await stage.engine(worker=False)
    found = next(each for each in (await desk.diagnose(handle.run)).findings if child in each.sentence)
    assert (found.code, found.standing) == ("G1", "repairable")
    await desk.recover(handle.run)
    assert not any(child in each.sentence for each in (await desk.diagnose(handle.run)).findings)
    assert "CancelRequested" in [type(event).__name__ for event in await stage.events(desk, child)]


async def test_a_child_that_was_never_created_is_not_created_later(stage: Any) -> None:
    """Its parent died between ChildStarted and the child; a former owner may still come to create it."""
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    created = await engine.diagnostics.created(child)
    await stage.crash(engine)
    store = SqliteStore(stage.file, durability="relaxed", commit="inline")
    ledger, other = Ledger(store), RunId("never-created")
    worker = ledger.new_worker_id()
    await store.enrol(worker, 30.0)
    (claim,) = await store.claim(worker, runs=[handle.run])
    writer = await ledger.take_over(claim)
    await writer.append([e.ChildStarted(child=other, workflow="asking_child", node="other")])
    while not await writer.release():
        pass
    desk = await stage.engine(worker=False)
    await desk.jump(handle.run, "work")
    assert (await desk.get(other)).status == "cancelled"
    assert (await received(stage, desk, handle.run, other)).status == "cancelled"
    with pytest.raises(ol.AlreadyExists):
        await ledger.create_ready(other, created)
    await ledger.close()
    await store.close()


async def test_a_run_of_the_same_id_that_is_no_child_is_not_cancelled(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    stranger = await engine.start(asking_child.options(id="stranger"))
    await stage.until(engine, stranger.run, e.InteractionRequested)
    await stage.crash(engine)
    store = SqliteStore(stage.file, durability="relaxed", commit="inline")
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 30.0)
    (claim,) = await store.claim(worker, runs=[handle.run])
    writer = await ledger.take_over(claim)
    await writer.append([e.ChildStarted(child="stranger", workflow="asking_child", node="other")])
    while not await writer.release():
        pass
    await ledger.close()
    await store.close()
    desk = await stage.engine(worker=False)
    await desk.jump(handle.run, "work")
    assert set((await opened(desk, handle.run))[0].cancelled) == {child, "stranger"}
    assert (await received(stage, desk, handle.run, "stranger")).status == "cancelled"
    assert (await desk.get("stranger")).status == "waiting"


async def test_children_that_nobody_wants_otherwise_are_refused(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    await asked(engine, "asking_child")
    with pytest.raises(InvalidInput, match="cancel"):
        await engine.jump(handle.run, "work", children="leave")
    assert await engine.diagnostics.current_branch(handle.run) == 0


@pytest.mark.parametrize("children", ["cancel", "keep"])
@pytest.mark.parametrize("verb", VERBS)
async def test_a_preview_says_what_becomes_of_the_children_and_changes_nothing(
    stage: Any, verb: str, children: Any
) -> None:
    from outlast.client import branch_plans

    engine = await stage.engine()
    handle = await engine.start(parent_of_asking)
    child = await asked(engine, "asking_child")
    before = await stage.events(engine, handle.run)
    if verb == "retry":
        events = await engine.diagnostics.preview_retry(handle.run, "work", children=children)
    else:
        plan = branch_plans.to_place("work", inputs=None) if verb == "jump" else branch_plans.back(1)
        events = await engine.diagnostics.preview(handle.run, verb, branch_plans.leaving(plan, children))
    assert await stage.events(engine, handle.run) == before
    (branch,) = [event for event in events if isinstance(event, e.BranchOpened)]
    assert (branch.cancelled, branch.detached) == (((child,), ()) if children == "cancel" else ((), (child,)))
    await VERBS[verb](engine, handle.run, children=children)
    assert (await opened(engine, handle.run))[0].cancelled == branch.cancelled
