"""Files that nodes write are whole under their name, or not there; what was interrupted is kept, and says so."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pausable
import pytest

import outlast as ol
from outlast.history import events as e


def names(folder: Path | str = ".") -> list[str]:
    """What lies in a folder, but for the store."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("runs."))


def hidden(folder: Path | str = ".") -> list[str]:
    return [name for name in names(folder) if name.startswith(".") and "~" in name]


async def said(engine: ol.Engine, run: str) -> list[tuple[str, str]]:
    await asyncio.sleep(0.3)  # lines are brought to the store a few times a second
    return [(line.logger, line.text) async for line in engine.lines(run)]


# --- outside of a run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_half(final: Path | str, text: str, error: BaseException) -> None:
    with ol.output_path(final) as path:
        path.write_text(text)
        raise error


def test_a_file_appears_when_the_block_ends_and_not_before(folder: Path) -> None:
    with ol.output_path("results/deep/report.csv") as path:
        assert (path.parent, path.suffix) == (folder / "results" / "deep", ".csv")
        path.write_text("1,2\n")
        assert not Path("results/deep/report.csv").exists()
    assert Path("results/deep/report.csv").read_text() == "1,2\n"
    assert names("results/deep") == ["report.csv"]


def test_a_file_that_was_there_is_replaced_only_by_a_complete_one(folder: Path) -> None:
    final = folder / "report.csv"
    final.write_text("old")
    with pytest.raises(ValueError, match="half-way"):
        write_half(final, "half", ValueError("half-way"))
    assert final.read_text() == "old"
    assert (folder / "report_interrupted.csv").read_text() == "half"
    with ol.output_path(final) as path:
        path.write_text("new")
        assert final.read_text() == "old"
    assert final.read_text() == "new"
    assert names() == ["report.csv", "report_interrupted.csv"]


def test_a_partial_file_replaces_nothing(folder: Path) -> None:
    Path("all_interrupted.tar.gz").write_text("the user's own")
    Path("all_interrupted-2.tar.gz").mkdir()
    Path("all_interrupted-3.tar.gz").symlink_to("nowhere")
    for text in ("older", "newer"):
        with pytest.raises(KeyboardInterrupt):
            write_half("all.tar.gz", text, KeyboardInterrupt())
    assert Path("all_interrupted.tar.gz").read_text() == "the user's own"
    assert [Path(f"all_interrupted-{number}.tar.gz").read_text() for number in (4, 5)] == ["older", "newer"]
    assert len(names()) == 5
    assert os.readlink("all_interrupted-3.tar.gz") == "nowhere"


def test_a_partial_file_with_a_long_name_is_kept_under_a_shorter_one(folder: Path) -> None:
    with pytest.raises(ValueError, match="half-way"):
        write_half("ü" * 120 + ".csv", "half", ValueError("half-way"))
    (name,) = names()
    assert name.endswith("ü_interrupted.csv")
    assert Path(name).read_text() == "half"


DYING = """
import os, sys, outlast as ol
dies_at, events, armed = int(sys.argv[1]), 0, False

def count(event, args):
    global events
    if armed and event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"):
        events += 1
        if events == dies_at:
            os._exit(9)

sys.addaudithook(count)
with ol.output_path("report.csv") as path:
    path.write_text("half")
    armed = True
    raise SystemExit(0)
"""


def test_a_death_between_any_two_steps_of_keeping_a_partial_file_loses_nothing(folder: Path) -> None:
    died = 0
    while True:
        place = folder / str(died)
        place.mkdir()
        (place / "report_interrupted.csv").write_text("the user's own")
        ended = subprocess.run([sys.executable, "-c", DYING, str(died + 1)], cwd=place, check=False).returncode
        assert (place / "report_interrupted.csv").read_text() == "the user's own"
        assert "half" in [each.read_text() for each in place.iterdir()]
        if ended == 0:
            break
        assert ended == 9
        died += 1
    assert died >= 3, "two names that are tried, and the renaming"


def test_an_interruption_before_anything_was_written_leaves_nothing(folder: Path) -> None:
    with pytest.raises(ValueError, match="early"), ol.output_path("report.csv"):
        raise ValueError("early")
    assert names() == []


def test_two_writers_of_one_file_do_not_meet(folder: Path) -> None:
    with ol.output_path("report.csv") as one, ol.output_path("report.csv") as other:
        one.write_text("one")
        other.write_text("other")
    assert Path("report.csv").read_text() == "one"  # the inner block ended first
    assert names() == ["report.csv"]


def test_a_link_stays_a_link_and_leads_to_the_new_file(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    Path("elsewhere/real.csv").write_text("old")
    Path("report.csv").symlink_to("elsewhere/real.csv")
    with ol.output_path("report.csv") as path:
        path.write_text("new")
    assert Path("report.csv").is_symlink()
    assert Path("elsewhere/real.csv").read_text() == "new"


def test_a_name_may_be_long_and_odd(folder: Path) -> None:
    for name in ("ü" * 100 + ".csv", "no extension", ".hidden", "a" * 230 + ".csv", f"x.{'y' * 200}"):
        with ol.output_path(name) as path:
            path.write_text(name)
        assert Path(name).read_text() == name
    assert len(names()) == 5


def test_what_is_no_file_is_refused(folder: Path) -> None:
    (folder / "there").mkdir()
    for name in ("", "folder/"):
        with pytest.raises(ol.InvalidInput, match="does not name a file"):
            ol.output_path(name)
    with pytest.raises(ol.InvalidInput, match="is a folder"), ol.output_path("there"):
        pass
    with pytest.raises(ol.InvalidInput, match="nothing was written"), ol.output_path("report.csv"):
        Path("report.csv").write_text("by another way")
    with pytest.raises(ol.InvalidInput, match="a folder was created at the path"), ol.output_path("other.csv") as path:
        path.mkdir()


async def test_without_a_run_it_can_be_awaited_too(folder: Path) -> None:
    async with ol.output_path("report.csv") as path:
        path.write_text("new")
    assert names() == ["report.csv"]


# --- in a run


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_node_writes_a_file_and_a_line_says_so(stage: Any, place: str) -> None:
    if place == "loop":

        @ol.node
        async def writing() -> str:
            async with ol.output_path("out/report.csv") as path:
                path.write_text("all")
            return path.name

    else:

        @ol.node
        def writing() -> str:
            with ol.output_path("out/report.csv") as path:
                path.write_text("all")
            return path.name

    @ol.workflow
    async def write() -> str:
        return await writing()

    engine = await stage.engine()
    handle = await engine.start(write)
    hidden_name = await handle.result()
    assert handle.run in hidden_name
    assert "~writing~" in hidden_name
    assert names("out") == ["report.csv"]
    assert await said(engine, handle.run) == [("outlast.output", "out/report.csv")]


async def test_a_workflow_itself_does_not_write(stage: Any) -> None:
    @ol.workflow
    async def write() -> None:
        ol.output_path("report.csv")

    engine = await stage.engine()
    with pytest.raises(ol.NotDurable, match="Do this in a node"):
        await (await engine.start(write)).result()


async def test_the_next_attempt_keeps_what_a_killed_one_left_and_touches_nothing_else(stage: Any) -> None:
    seen: list[Path] = []

    @ol.node
    async def writing(name: str) -> list[str]:
        async with ol.output_path(f"out/{name}.csv") as path:
            path.write_text("half")
            seen.append(path)
            if ol.context().attempt == 1:
                await asyncio.Event().wait()
            left = hidden("out")
            path.write_text("all")
        return left

    @ol.workflow
    async def write(name: str) -> list[str]:
        return await writing(name)

    engine = await stage.engine()
    handle = await engine.start(write, "report")
    while not seen:
        await asyncio.sleep(0.001)
    leftover = seen[0]
    await stage.crash(engine)
    Path("out/report_interrupted.csv").write_text("the user's own")  # a crash that is played left its file here
    leftover.write_text("left by a kill")
    other = leftover.with_name(leftover.name.replace("report", "another"))
    other.write_text("left, too, under a name that is not written again")
    later = leftover.with_name(leftover.name.replace("~0-1.", "~0-3."))
    later.write_text("of a later attempt, in a worker that replaced this one")
    foreign = leftover.with_name(leftover.name.replace(handle.run, "another-run").replace("~writing~", "~writing~0"))
    foreign.write_text("somebody else's")
    engine = await stage.engine()
    left = await engine.result(handle.run)
    assert sorted(left) == sorted([seen[1].name, foreign.name, later.name])
    assert Path("out/report.csv").read_text() == "all"
    assert Path("out/report_interrupted.csv").read_text() == "the user's own"
    assert Path("out/report_interrupted-2.csv").read_text() == "left by a kill"
    assert Path("out/another_interrupted.csv").read_text() == "left, too, under a name that is not written again"
    said_now = await said(engine, handle.run)
    assert ("outlast.output.interrupted", "out/report_interrupted-2.csv") in said_now


@pytest.mark.parametrize("place", ["loop", "thread", "process"])
async def test_a_pause_at_a_checkpoint_keeps_the_partial_file(stage: Any, place: str) -> None:
    half = threading.Event()

    if place == "loop":

        @ol.node
        async def writing(path: str) -> int:
            async with ol.output_path(path) as hidden:
                hidden.write_text("first half, ")
                half.set()
                while ol.context().attempt == 1 and not Path("go").exists():
                    await asyncio.sleep(0.005)
                await ol.checkpoint("half")
                hidden.write_text("first half, second half")
            return ol.context().attempt

    elif place == "thread":

        @ol.node
        def writing(path: str) -> int:
            half.set()
            return pausable.writing_in_a_process.fn(path)

    else:
        writing = pausable.writing_in_a_process

    @ol.workflow
    async def write() -> int:
        return await writing("out/report.csv")

    engine = await stage.engine(grace=30.0, processes=1)
    handle = await engine.start(write)
    while not (half.is_set() or Path("half").exists()):
        await asyncio.sleep(0.005)
    await handle.pause()
    await stage.until(engine, handle.run, e.PauseRequested)
    Path("go").touch()
    await stage.until(engine, handle.run, e.RunPaused)
    assert names("out") == ["report_interrupted.csv"]
    assert Path("out/report_interrupted.csv").read_text() == "first half, "
    assert await said(engine, handle.run) == [("outlast.output.interrupted", "out/report_interrupted.csv")]
    assert await (await engine.resume(handle.run)).result() == 2
    assert Path("out/report.csv").read_text() == "first half, second half"
    assert names("out") == ["report.csv", "report_interrupted.csv"]


@pytest.mark.parametrize("place", ["loop", "thread", "process"])
async def test_a_node_that_has_to_be_stopped_leaves_its_partial_file(stage: Any, place: str) -> None:
    half, go = threading.Event(), threading.Event()

    if place == "loop":

        @ol.node
        async def writing(path: str) -> None:
            with ol.output_path(path) as hidden:
                hidden.write_text("first half, ")
                half.set()
                await asyncio.Event().wait()

    elif place == "thread":

        @ol.node
        def writing(path: str) -> None:
            with ol.output_path(path) as hidden:
                hidden.write_text("first half, ")
                half.set()
                go.wait()

    else:
        writing = pausable.writing_in_a_process

    @ol.workflow
    async def write() -> None:
        await writing("out/report.csv")

    engine = await stage.engine(grace=0.01, processes=1)
    handle = await engine.start(write)
    while not (half.is_set() or Path("half").exists()):
        await asyncio.sleep(0.005)
    await handle.pause()
    await stage.until(engine, handle.run, e.RunPaused)
    assert names("out") == ["report_interrupted.csv"]
    go.set()  # the thread goes on, and its file is nobody's any more
    while engine._worker.attempts._left_running:
        await asyncio.sleep(0.001)
    assert names("out") == ["report_interrupted.csv"]


async def test_a_process_that_dies_leaves_its_partial_file(stage: Any) -> None:
    @ol.workflow
    async def write() -> int:
        return await pausable.dying_while_writing("report.csv")

    engine = await stage.engine(processes=1)
    assert await (await engine.start(write)).result() == 2
    assert Path("report.csv").read_text() == "all of it"
    assert Path("report_interrupted.csv").read_text() == "half"
    assert hidden() == []
