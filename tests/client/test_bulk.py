"""Bulk actions: the runs are fixed when they are confirmed, each has one outcome, and a crash changes neither."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import served

import outlast as ol
from outlast.client.bulk import BULK, Target
from outlast.errors import InvalidInput, NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.store import RunFilter

ASKING = RunFilter(workflow="served_asks", statuses=(RunStatus.WAITING,))


async def until(engine: ol.Engine, run: str, status: str) -> None:
    while (await engine.get(RunId(run))).status != status:
        await asyncio.sleep(0.005)


async def started(engine: ol.Engine, workflow: Any, *args: Any, status: str = "waiting") -> RunId:
    run: RunId = (await engine.start(workflow, *args)).run
    await until(engine, run, status)
    return run


async def outcomes(engine: ol.Engine, bulk: RunId) -> dict[str, str]:
    await engine.result(bulk)
    return {each.run: each.result for each in (await engine.bulk.progress(bulk)).outcomes}


async def test_the_runs_that_match_at_confirmation_are_fixed(tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        asking = {await started(engine, served.served_asks) for _ in range(3)}
        await started(engine, served.served_sleeps)
        bulk = await engine.bulk.start("approve", ASKING, by="ines")
        later = await started(engine, served.served_asks)
        assert await outcomes(engine, bulk) == dict.fromkeys(asking, "done")
        assert (await engine.get(later)).status == "waiting"
        for run in asking:
            assert await engine.result(run) == "yes"
            answered = [
                each.event.by async for each in engine.events(run) if isinstance(each.event, e.InteractionAnswered)
            ]
            assert answered == [f"ines, bulk {bulk}"]


async def test_each_action_does_what_its_verb_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        monkeypatch.setenv("SERVED_FLAKY", "ill")
        one = await started(engine, served.served_sleeps)
        failed = await started(engine, served.served_fails, "a", status="failed")
        asking = await started(engine, served.served_asks)

        async def acted(action: Any, run: RunId, **more: Any) -> str:
            bulk = await engine.bulk.start(action, targets=[Target(run)], reason="because", **more)
            return (await outcomes(engine, bulk))[run]

        assert await acted("pause", one) == "done"
        await until(engine, one, "paused")
        assert (await engine.get(one)).reason == "because"
        assert await acted("pause", one) == "skipped"
        assert await acted("resume", one) == "done"
        await until(engine, one, "waiting")
        assert await acted("cancel", one) == "done"
        await until(engine, one, "cancelled")
        monkeypatch.setenv("SERVED_FLAKY", "well")
        assert await acted("retry", failed) == "done"
        await until(engine, failed, "completed")
        assert await acted("answer", asking, value="perhaps") == "failed", "of the wrong type"
        assert await acted("reject", asking) == "done"
        assert await engine.result(asking) == "no"


async def test_outcomes_add_up_and_failures_are_tried_again(tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        asking, over = await started(engine, served.served_asks), await started(engine, served.served_asks)
        await engine.answer(over, True)
        await until(engine, over, "completed")
        wanted = [Target(asking), Target(over), Target("missing")]
        bulk = await engine.bulk.start("cancel", targets=[*wanted, Target(asking)])
        assert await outcomes(engine, bulk) == {asking: "done", over: "skipped", "missing": "failed"}
        found = await engine.bulk.progress(bulk)
        assert [each.run for each in found.targets] == [each.run for each in wanted], "each once"
        assert [found.count(each) for each in ("done", "skipped", "failed")] == [1, 1, 1]
        again = await engine.bulk.retry(bulk, by="ines")
        assert await outcomes(engine, again) == {"missing": "failed"}
        assert await engine.bulk.retry(bulk, by="ines") == again
        assert await engine.bulk.retry(bulk, by="mara") == again, "there is one"
        done = await engine.bulk.start("cancel", targets=[Target(await started(engine, served.served_asks))])
        await engine.result(done)
        with pytest.raises(NotAllowed, match="has no failures"):
            await engine.bulk.retry(done)


async def test_a_preview_counts_what_the_action_then_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVED_FLAKY", "ill")
    async with ol.open(tmp_path / "runs.db") as engine:
        for _ in range(2):
            await started(engine, served.served_asks)
        await started(engine, served.served_sleeps)
        await started(engine, served.served_fails, "a", status="failed")
        await started(engine, served.served_rejected, "a", status="failed")
        await started(engine, served.served_double, 1, status="completed")
        paused = await started(engine, served.served_sleeps)
        await engine.pause(paused)
        await until(engine, paused, "paused")
        preview = await engine.bulk.preview(RunFilter())
        assert preview.matched == 7
        assert preview.allowed == {
            "cancel": 4,
            "pause": 3,
            "resume": 2,
            "retry": 2,
            "delete": 2,
            "approve": 2,
            "reject": 2,
            "answer": 2,
        }
        assert all(sum(preview.skipped[name].values()) == 7 - allowed for name, allowed in preview.allowed.items())
        for action, done in (("resume", 2), ("reject", 2), ("pause", 2), ("cancel", 2)):
            bulk = await engine.bulk.start(action, RunFilter())  # type: ignore[arg-type]
            assert len(await outcomes(engine, bulk)) == 7, "no bulk action among them"
            assert (await engine.bulk.progress(bulk)).count("done") == done, action
            await asyncio.sleep(0.1)


async def test_a_cancelled_run_is_not_cancelled_again(tmp_path: Path) -> None:
    """A second cancellation would end its clean-up."""
    async with ol.open(tmp_path / "runs.db", worker=False) as desk:
        run = (await desk.start(served.served_sleeps)).run
        await desk._ledger.deliver(run, [e.CancelRequested(by="mara")])
        async with ol.open(tmp_path / "runs.db", take_over_others=False) as engine:
            bulk = await engine.bulk.start("cancel", targets=[Target(run)])
            assert await outcomes(engine, bulk) == {run: "skipped"}
    async with ol.open(tmp_path / "runs.db") as engine:
        await until(engine, run, "cancelled")


async def test_an_interrupted_attempt_is_not_repeated(tmp_path: Path) -> None:
    """The events of a run say what a lost attempt of the same action did."""
    async with ol.open(tmp_path / "runs.db") as engine:
        run = await started(engine, served.served_asks)
        async with ol.open(tmp_path / "runs.db", worker=False) as desk:
            bulk = RunId("bulk-1")
            order = {"action": "pause", "by": "ines", "reason": "", "value": None}
            writer = await desk._ledger.create(bulk, await _half_way(desk, order, run), desk._ledger.new_worker_id())
            await desk.pause(run, by=f"ines, bulk {bulk}")
            await until(engine, run, "paused")
            await engine.resume(run)
            await until(engine, run, "waiting")
            while not await writer.release(ready=True):
                pass
        assert await outcomes(engine, bulk) == {run: "done"}
        assert (await engine.get(run)).status == "waiting", "it was not paused a second time"


async def _half_way(desk: ol.Engine, order: dict[str, Any], run: RunId) -> list[e.AnyEvent]:
    """A bulk action whose first attempt has started."""
    from outlast.client.bulk import Order, act, bulk

    packed = bulk._arguments.pack((Order(**order), [Target(run)]), {})
    version = await desk._claims.definitions.keep(bulk)
    given = act._arguments.pack((Target(run), Order(**order)), {}).inputs
    return [
        e.RunCreated(workflow=BULK, version=version, params=packed.inputs, by="ines", entry="outlast.client.bulk:bulk"),
        e.RunStarted(),
        e.NodeScheduled(node="one/0/act", attempt=1, cause="first"),
        e.NodeStarted(node="one/0/act", attempt=1, inputs=given, repeatable=True),
    ]


async def test_a_key_is_one_bulk_action(tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        await started(engine, served.served_asks)
        one = await engine.bulk.start("approve", ASKING, key="k")
        await engine.result(one)
        await started(engine, served.served_asks)
        assert await engine.bulk.start("approve", ASKING, key="k") == one
        assert len((await engine.bulk.progress(one)).targets) == 1


async def test_what_is_refused_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        with pytest.raises(InvalidInput, match="no run matches"):
            await engine.bulk.start("cancel", ASKING)
        runs = [await started(engine, served.served_asks) for _ in range(3)]
        monkeypatch.setattr("outlast.client.bulk.MAX_RUNS", 2)
        for given in ({"filter": ASKING}, {"targets": map(Target, runs)}):
            with pytest.raises(InvalidInput, match="narrow the filter"):
                await engine.bulk.start("cancel", **given)  # type: ignore[arg-type]
        with pytest.raises(ol.errors.NotFound, match="not a bulk action"):
            await engine.bulk.progress(runs[0])


async def test_a_condition_that_stores_do_not_know(tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        await started(engine, served.served_rejected, "a", status="failed")
        preview = await engine.bulk.preview(RunFilter(), lambda summary: summary.held)
        assert preview.matched == 0
        assert (await engine.bulk.preview(RunFilter(), lambda summary: not summary.held)).matched == 1
