"""The desk for code that does not await: what becomes of those who wait when it is closed, forked, or left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

import pytest

import outlast as ol
from outlast.client import Blocking, Client
from outlast.client.looping import LoopThread
from outlast.errors import StoreError
from outlast.history.ids import RunId

T = TypeVar("T")
PATIENCE = 30
RUN = RunId("r")
VERBS: dict[str, Callable[[ol.Blocking], object]] = {
    "start": lambda engine: engine.start(waits_for_word),
    "handle": lambda engine: engine.handle(RUN),
    "list": lambda engine: engine.list(),
    "all": lambda engine: list(engine.all()),
    "watch": lambda engine: list(engine.watch(RUN)),
    "result": lambda engine: engine.result(RUN),
    "cancel": lambda engine: engine.cancel(RUN),
}


@ol.workflow
async def waits_for_word() -> bool:
    return await ol.approve("Go on?")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ol.Blocking]:
    engine = ol.connect(tmp_path / "runs.db")
    try:
        yield engine
    finally:
        engine.close()


# --- closing


def test_whoever_waits_in_another_thread_is_told_that_the_engine_was_closed(engine: ol.Blocking) -> None:
    handle, has_begun = engine.start(waits_for_word), threading.Event()

    def watching() -> None:
        for _ in handle.watch():
            has_begun.set()

    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(watching)
        assert has_begun.wait(PATIENCE)
        engine.close()
        with pytest.raises(StoreError, match="the engine was closed"):
            waiting.result(PATIENCE)


def test_an_engine_may_be_closed_twice(engine: ol.Blocking) -> None:
    engine.close()
    engine.close()


@pytest.mark.parametrize("verb", VERBS)
def test_after_the_end_every_verb_says_that_the_engine_was_closed(engine: ol.Blocking, verb: str) -> None:
    engine.start(waits_for_word.options(id=RUN))
    engine.close()
    with pytest.raises(StoreError, match="the engine was closed"):
        VERBS[verb](engine)


def test_an_iterator_that_was_begun_says_that_the_engine_was_closed(engine: ol.Blocking) -> None:
    entries = engine.start(waits_for_word).watch()
    next(entries)
    engine.close()
    with pytest.raises(StoreError, match="the engine was closed"):
        list(entries)


def test_a_handle_still_shows_itself_after_the_engine_was_closed(engine: ol.Blocking) -> None:
    handle = engine.start(waits_for_word)
    engine.close()
    assert handle.run in handle._repr_html_()


def test_a_person_who_interrupts_the_closing_is_not_shown_what_it_left_undone(caplog: pytest.LogCaptureFixture) -> None:
    is_closing, has_ended = threading.Event(), threading.Event()

    @asynccontextmanager
    async def opening() -> AsyncIterator[Client]:
        yield cast("Client", None)
        is_closing.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            has_ended.set()

    class Interrupted(LoopThread):
        times = 0

        def _awaited(self, future: Future[T]) -> T:
            if not self._is_stopped or self.times:
                return super()._awaited(future)
            self.times += 1
            assert is_closing.wait(PATIENCE)
            future.cancel()  # as whoever is interrupted while waiting does
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Blocking(opening(), Interrupted()).close()
    assert has_ended.is_set()
    assert caplog.text == ""


# --- the end of the program


ENDINGS = {
    "a watch that was left by break": "for _ in engine.start(waits_for_word).watch(): break",
    "a watch": "kept = engine.start(waits_for_word).watch(); next(kept)",
    "a list of runs": "engine.start(waits_for_word); engine.start(waits_for_word); kept = engine.all(); next(kept)",
    "events": "kept = engine.events(engine.start(waits_for_word).run); next(kept)",
    "a watch of a closed engine": "kept = engine.start(waits_for_word).watch(); next(kept); engine.close()",
}


FLOWS = """
    import outlast as ol

    @ol.workflow
    async def waits_for_word() -> bool:
        return await ol.approve("Go on?")
"""
PROGRAM = """
    import outlast as ol
    from flows import waits_for_word

    engine = ol.connect("runs.db")
"""


def _program(folder: Path, lines: str) -> subprocess.CompletedProcess[str]:
    (folder / "flows.py").write_text(textwrap.dedent(FLOWS))
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM) + lines + "\n")
    return subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.parametrize("left", ENDINGS)
def test_a_program_ends_by_itself_and_in_silence_whatever_it_leaves_behind(tmp_path: Path, left: str) -> None:
    ended = _program(tmp_path, ENDINGS[left])
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


# --- forks


FORKING = """
    import os

    child = os.fork()
    if child == 0:
        try:
            {act}
        except ol.OutlastError as error:
            print(type(error).__name__, error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("parent", engine.start(waits_for_word).run != "")
    engine.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_is_told_that_the_engine_is_not_its_own(tmp_path: Path) -> None:
    ended = _program(tmp_path, textwrap.dedent(FORKING).format(act="engine.start(waits_for_word)"))
    assert ended.stdout.startswith("Refused the engine belongs to process "), ended.stderr
    assert ended.stdout.endswith("open one in this process\nparent True\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_leaves_the_closing_of_the_engine_to_its_parent(tmp_path: Path) -> None:
    ended = _program(tmp_path, textwrap.dedent(FORKING).format(act="engine.close()"))
    assert (ended.stdout, ended.stderr) == ("parent True\n", "")
