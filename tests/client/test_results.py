"""Waiting for the result of a run, for a while or until it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import outlast as ol


@ol.workflow
async def awaited(rest: int) -> str:
    answer = await ol.ask("what?", str)
    if rest:
        await ol.continue_as_new(rest - 1)
    if answer == "fail":
        raise TimeoutError("of the workflow")
    return answer


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ol.BlockingEngine]:
    with ol.open(tmp_path / "runs.db") as engine:
        yield engine


def answered(engine: ol.BlockingEngine, run: str, value: str) -> None:
    while True:
        try:
            engine.answer(engine.handle(run).run, value)
            return
        except ol.NotAsked:
            pass


def test_who_waits_for_a_while_is_told_that_the_run_goes_on(engine: ol.BlockingEngine) -> None:
    handle = engine.start(awaited, 1)
    for waiting in (lambda: handle.result(timeout=0.01), lambda: engine.result(handle.run, timeout=0)):
        with pytest.raises(ol.StillRunning, match="it continues") as told:
            waiting()
        assert isinstance(told.value, TimeoutError)
    answered(engine, handle.run, "first")
    while (last := engine.diagnostics.continued_as(handle.run)) == handle.run:
        pass
    with pytest.raises(ol.StillRunning):
        handle.result(timeout=0.01)
    answered(engine, last, "done")
    assert handle.result(timeout=60) == "done"
    assert handle.result(timeout=0) == "done", "the end of a run that is over is seen at once"


def test_a_timeout_of_the_workflow_itself_is_another_error(engine: ol.BlockingEngine) -> None:
    handle = engine.start(awaited, 0)
    answered(engine, handle.run, "fail")
    with pytest.raises(TimeoutError, match="of the workflow") as raised:
        handle.result(timeout=60)
    assert not isinstance(raised.value, ol.StillRunning)


def test_nothing_is_kept_of_those_who_waited_for_a_while(tmp_path: Path) -> None:
    async def waiting() -> None:
        async with ol.open(tmp_path / "runs.db") as engine:
            handle = await engine.start(awaited, 0)
            for _ in range(10):
                with pytest.raises(ol.StillRunning):
                    await handle.result(timeout=0)
            assert engine._worker is not None
            assert all(len(driver._waiters) <= 1 for driver in engine._worker.drivers.values())

    asyncio.run(waiting())
