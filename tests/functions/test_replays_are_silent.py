"""What workflow code prints is printed once, and not again by a replay."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import outlast as ol
from outlast.functions.dry_replay import dry_run
from outlast.history import events as e

PRINTED = ["before", "after"]


def in_async_code() -> Any:
    @ol.workflow(name="printing")
    async def printing() -> str:
        print("before")
        print("before", file=sys.stderr)
        answer = await ol.ask("Go on?")
        print("after")
        print("after", file=sys.stderr)
        return answer

    return printing


def in_plain_code() -> Any:
    @ol.workflow(name="printing")
    def printing() -> str:
        print("before")
        print("before", file=sys.stderr)
        answer = ol.ask("Go on?").wait()
        print("after")
        print("after", file=sys.stderr)
        return answer

    return printing


@pytest.mark.parametrize("make", [in_async_code, in_plain_code], ids=["async", "plain"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["not kept", "kept"])
async def test_what_was_printed_before_a_restart_is_not_printed_again(
    stage: Any, capsys: pytest.CaptureFixture[str], make: Callable[[], Any], is_kept: bool
) -> None:
    engine = await stage.engine(capture_stdout=is_kept)
    handle = await engine.start(make())
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.crash(engine)
    engine = await stage.engine(capture_stdout=is_kept)
    await engine.answer(handle.run, "yes")
    assert await (await engine.handle(handle.run)).result() == "yes"
    said = capsys.readouterr()
    assert said.out.split() == PRINTED
    assert [line for line in said.err.splitlines() if line in PRINTED] == PRINTED


async def test_a_rehearsal_prints_nothing(stage: Any, capsys: pytest.CaptureFixture[str]) -> None:
    engine = await stage.engine()
    workflow = in_async_code()
    handle = await engine.start(workflow)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await engine.answer(handle.run, "yes")
    await handle.result()
    capsys.readouterr()
    assert (await dry_run(engine._store, handle.run, workflow)).agrees
    assert capsys.readouterr() == ("", "")


async def test_code_that_ends_because_nobody_drives_it_prints_nothing(
    stage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    @ol.workflow
    async def leaving() -> str:
        try:
            return await ol.ask("Go on?")
        finally:
            print("left")

    engine = await stage.engine()
    handle = await engine.start(leaving)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.close(engine)
    assert capsys.readouterr().out == ""


async def test_the_streams_are_the_programs_own_again_after_a_replay(stage: Any) -> None:
    streams = sys.stdout, sys.stderr
    engine = await stage.engine()
    workflow = in_async_code()
    handle = await engine.start(workflow)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await dry_run(engine._store, handle.run, workflow)
    assert (sys.stdout, sys.stderr) == streams
