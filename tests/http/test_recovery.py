"""What a server does about runs that others left behind, before it is ready."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import served

import outlast as ol
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.http.recovery import recover_all
from outlast.ledger import Ledger
from outlast.stores.sqlite import SqliteStore

MICROS = 1_000_000


async def left_behind(folder: Path) -> None:
    """Runs in each state that a killed server leaves: running in a node, waiting for a person, queued, not started, over."""
    async with ol.open(folder / "runs.db") as engine:
        for workflow, run, arguments in (
            (served.served_asks, "asks", ()),
            (served.served_double, "done", (4,)),
            (served.served_sleeps, "sleeps", ()),
        ):
            await engine.start(workflow.options(id=run), *arguments)  # type: ignore[attr-defined]
        while (await engine.get(RunId("asks"))).status != "waiting" or not (await engine.get(RunId("done"))).done_nodes:
            await asyncio.sleep(0.005)
        await engine.result(RunId("done"))
        while (await engine.get(RunId("sleeps"))).status != "waiting":
            await asyncio.sleep(0.005)
        await engine.pause(RunId("sleeps"), reason="by hand")
    store = SqliteStore(folder / "runs.db")
    ledger = Ledger(store)
    worker = ledger.new_worker_id()
    await store.enrol(worker, 0.001)
    entry, where = "served:served_double", str(Path(served.__file__).parent)
    for run in ("cut", "cut-too"):
        created = e.RunCreated(workflow="served_double", params=_raw(b'{"value":8}'), entry=entry, folder=where)
        begun = [e.NodeScheduled(node="double"), e.NodeStarted(node="double", inputs=_raw(b'{"value":8}'))]
        await ledger.create(RunId(run), [created, e.RunStarted(), *begun], worker)
    await asyncio.sleep(0.01)
    await ledger.close()
    await store.close()


def _raw(content: bytes) -> Any:
    import msgspec

    return msgspec.Raw(content)


@pytest.mark.parametrize("hold", [False, True])
async def test_interrupted_runs_are_resumed_or_held_before_the_server_is_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hold: bool
) -> None:
    await left_behind(tmp_path)
    caplog.set_level(logging.INFO, logger="outlast.http")
    async with ol.open(tmp_path / "runs.db", worker=False) as engine:
        done = await recover_all(engine, hold=hold)
        said = [record.getMessage() for record in caplog.records if record.name == "outlast.http"]
        assert (
            said[-1] == f"Recovery complete: {0 if hold else 2} resumed, {2 if hold else 0} held, 1 questions restored."
        )
        assert (done.resumed, done.held, done.questions) == ((0, 2, 1) if hold else (2, 0, 1))
        verb = "held" if hold else "resumed"
        assert sorted(line.split()[1] for line in said if f" {verb}: " in line) == ["cut", "cut-too"]
        assert "Question approve of run asks restored" in said
        summaries = {summary.run: summary async for summary in engine.iter_runs()}
        assert {run: str(each.status) for run, each in summaries.items()} == {
            "asks": "waiting",
            "done": "completed",
            "sleeps": "paused",
            "cut": "failed" if hold else "running",
            "cut-too": "failed" if hold else "running",
        }
        if hold:
            assert summaries[RunId("cut")].held
            assert summaries[RunId("cut")].recoverable
            assert summaries[RunId("cut")].reason == "Server restarted while workflow was running"
        again = await recover_all(engine, hold=hold)
        assert (again.held, again.questions) == (0, 1), "a second start holds nothing again"
    async with ol.open(tmp_path / "runs.db") as engine:
        if hold:
            await engine.resume(RunId("cut"), by="ann")
            await engine.resume(RunId("cut-too"), by="ann")
        for run in ("cut", "cut-too"):
            assert await engine.result(RunId(run)) == 16
            attempts = [each async for each in engine.events(RunId(run)) if isinstance(each.event, e.NodeStarted)]
            assert len(attempts) == 2
        assert (await engine.get(RunId("sleeps"))).reason == "by hand"


async def test_an_inconsistent_run_is_repaired_and_the_repair_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        await engine.start(served.served_asks.options(id="asks"))
        while (await engine.get(RunId("asks"))).status != "waiting":
            await asyncio.sleep(0.005)
    import apsw

    connection = apsw.Connection(str(tmp_path / "runs.db"))
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    waits = next(name for name in tables if "wait" in name)
    connection.execute(f"DELETE FROM {waits}")
    assert connection.changes()
    connection.close()
    caplog.set_level(logging.INFO, logger="outlast.http")
    async with ol.open(tmp_path / "runs.db", worker=False) as engine:
        done = await recover_all(engine)
        said = [record.getMessage() for record in caplog.records if record.name == "outlast.http"]
        assert any(line.startswith("Recovered run asks: ") for line in said), said
        assert done.questions == 1


async def test_a_start_over_an_empty_store_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="outlast.http")
    async with ol.open(tmp_path / "runs.db", worker=False) as engine:
        await recover_all(engine)
    said = [record.getMessage() for record in caplog.records if record.name == "outlast.http"]
    assert said == ["Recovery complete: 0 resumed, 0 held, 0 questions restored."]
