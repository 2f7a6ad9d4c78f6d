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
from outlast.client import BlockingEngine, BlockingRunHandle, Engine
from outlast.client.blocking import BlockingDiagnostics, BlockingVersions
from outlast.client.diagnostics import Diagnostics
from outlast.client.loop_thread import LoopThread
from outlast.client.versions import VersionDiff, Versions
from outlast.errors import NotAllowed, NotDurable, StoreError
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.stores.memory import MemoryStore
from support import commands

T = TypeVar("T")
OWNER_WAIT_S = 30
RUN = RunId("r")
VERBS: dict[str, Callable[[ol.BlockingEngine], object]] = {
    "start": lambda engine: engine.start(waits_for_word),
    "handle": lambda engine: engine.handle(RUN),
    "list_runs": lambda engine: engine.list_runs(),
    "iter_runs": lambda engine: list(engine.iter_runs()),
    "watch": lambda engine: list(engine.watch(RUN)),
    "result": lambda engine: engine.result(RUN),
    "cancel": lambda engine: engine.cancel(RUN),
}


@ol.workflow
async def waits_for_word() -> bool:
    return await ol.approve("Go on?")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ol.BlockingEngine]:
    engine = ol.open_blocking(tmp_path / "runs.db")
    try:
        yield engine
    finally:
        engine.close()


# --- being the same desk

BLOCKING_ONLY = {BlockingEngine: {"close"}}
PAIRS = [
    (Engine, BlockingEngine),
    (ol.RunHandle, BlockingRunHandle),
    (Versions, BlockingVersions),
    (Diagnostics, BlockingDiagnostics),
]


def verbs_of(desk: type) -> set[str]:
    return {name for name in dir(desk) if not name.startswith("_")}


@pytest.mark.parametrize(("awaited", "blocking"), PAIRS)
def test_a_blocking_object_has_the_same_verbs(awaited: type, blocking: type) -> None:
    assert verbs_of(blocking) - BLOCKING_ONLY.get(blocking, set()) == verbs_of(awaited)


def test_every_verb_that_looks_is_answered(engine: ol.BlockingEngine) -> None:
    run = engine.start(waits_for_word).run
    assert engine.find(run[:30]) == run
    assert engine.diagnostics.created(run).workflow == "waits_for_word"
    assert engine.diagnostics.now() > 0
    assert engine.diagnostics.current_branch(run) == 0
    assert engine.diagnostics.lineage(run)[0][0] == 1
    assert len(list(engine.events(run, everything=True))) >= 2
    assert [each.run for each in engine.iter_runs()] == [run]
    assert engine.diagnostics.worker_id in [each.worker for each in engine.workers()]
    assert engine.diagnostics.take_over_later(run) == ""
    (version,) = [each.version for each in engine.versions.of("waits_for_word")]
    same = VersionDiff(version, version, "")
    assert engine.versions.diff(run) == engine.versions.diff(run[:30], version[:8]) == same
    assert engine.versions.replay(run).agrees
    assert engine.migrate(run).agrees
    assert engine.diagnose(run).status
    assert engine.recover(run) == []
    assert engine.verify(run).violations == ()
    engine.pause_all(reason="enough")
    assert engine.get(run).status == "paused"


# --- asking from within

OTHER: list[ol.BlockingEngine] = []
"""The engine that the code below asks."""


@ol.workflow
async def is_within(number: int) -> int:
    return number + 1


@ol.node
async def asks_on_the_loop(number: int) -> int:
    return OTHER[0].start(is_within, number).result()


@ol.node
async def runs_on_the_loop(number: int) -> int:
    return ol.run(is_within, number)


@ol.node
async def asks_in_a_thread(number: int) -> int:
    return await asyncio.to_thread(lambda: OTHER[0].start(is_within, number).result())


@ol.node
def asks_as_a_plain_node(number: int) -> int:
    return OTHER[0].start(is_within, number).result()


@ol.workflow
async def asks_by(node: str) -> int:
    return cast("int", await NODES[node](1))


@ol.workflow
async def asks_itself() -> int:
    return OTHER[0].start(is_within, 1).result()


@ol.workflow
def asks_itself_plainly() -> int:
    return OTHER[0].start(is_within, 1).result()


@ol.workflow
async def runs_itself() -> int:
    return ol.run(is_within, 1)


@ol.workflow
async def closes_its_engine() -> None:
    OTHER[0].close()


NODES = {each.name: each for each in (asks_on_the_loop, runs_on_the_loop, asks_in_a_thread, asks_as_a_plain_node)}


@pytest.fixture
def asked(engine: ol.BlockingEngine) -> Iterator[ol.BlockingEngine]:
    OTHER.append(engine)
    yield engine
    OTHER.clear()


@pytest.mark.parametrize("node", ["asks_on_the_loop", "runs_on_the_loop"])
def test_an_async_node_may_not_hold_up_the_loop_of_its_engine(asked: ol.BlockingEngine, node: str) -> None:
    with pytest.raises(NotAllowed, match=f"node {node} is async .* make it a plain function"):
        within(asked.start(asks_by, node).result)


@pytest.mark.parametrize("node", ["asks_in_a_thread", "asks_as_a_plain_node"])
def test_a_node_in_a_thread_may_ask_its_own_engine(asked: ol.BlockingEngine, node: str) -> None:
    assert within(asked.start(asks_by, node).result) == 2


@pytest.mark.parametrize("workflow", [asks_itself, asks_itself_plainly, runs_itself, closes_its_engine])
def test_workflow_code_may_not_wait_for_an_engine(asked: ol.BlockingEngine, workflow: ol.Workflow[[], int]) -> None:
    with pytest.raises(NotDurable, match=r"as a child run, or move this into a node"):
        within(lambda: asked.start(workflow).result())


def test_workflow_code_may_not_start_runs_of_its_own(asked: ol.BlockingEngine) -> None:
    @ol.workflow
    async def starts_a_run_of_its_own() -> int:
        return await (await client.start(is_within, 1)).result()

    client = asked._awaited
    with pytest.raises(NotDurable, match="a workflow cannot start is_within"):
        within(lambda: asked.start(starts_a_run_of_its_own).result())


def test_what_runs_on_the_loop_of_an_engine_may_not_wait_for_it(engine: ol.BlockingEngine) -> None:
    async def ask() -> None:
        engine.list_runs()

    with pytest.raises(NotAllowed, match="the engine's own loop"):
        within(lambda: engine._thread.do(ask()))


def within(verb: Callable[[], T]) -> T:
    """What it answers, if it does so in time: a test that hangs tells nothing."""
    future: Future[T] = Future()

    def answer() -> None:
        try:
            future.set_result(verb())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=answer, daemon=True).start()
    return future.result(OWNER_WAIT_S)


# --- closing


def test_whoever_waits_in_another_thread_is_told_that_the_engine_was_closed(engine: ol.BlockingEngine) -> None:
    handle, has_begun = engine.start(waits_for_word), threading.Event()

    def watching() -> None:
        for _ in handle.watch():
            has_begun.set()

    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(watching)
        assert has_begun.wait(OWNER_WAIT_S)
        engine.close()
        with pytest.raises(StoreError, match="the engine was closed"):
            waiting.result(OWNER_WAIT_S)


def test_an_engine_may_be_closed_twice(engine: ol.BlockingEngine) -> None:
    engine.close()
    engine.close()


@pytest.mark.parametrize("verb", VERBS)
def test_after_the_end_every_verb_says_that_the_engine_was_closed(engine: ol.BlockingEngine, verb: str) -> None:
    engine.start(waits_for_word.options(id=RUN))
    engine.close()
    with pytest.raises(StoreError, match="the engine was closed"):
        VERBS[verb](engine)


def test_an_iterator_that_was_begun_says_that_the_engine_was_closed(engine: ol.BlockingEngine) -> None:
    entries = engine.start(waits_for_word).watch()
    next(entries)
    engine.close()
    with pytest.raises(StoreError, match="the engine was closed"):
        list(entries)


def test_a_handle_still_shows_itself_after_the_engine_was_closed(engine: ol.BlockingEngine) -> None:
    handle = engine.start(waits_for_word)
    engine.close()
    assert handle.run in handle._repr_html_()


def test_a_person_who_interrupts_the_closing_is_not_shown_what_it_left_undone(caplog: pytest.LogCaptureFixture) -> None:
    is_closing, has_ended = threading.Event(), threading.Event()

    @asynccontextmanager
    async def opening() -> AsyncIterator[Engine]:
        yield Engine(Ledger(MemoryStore()))
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
            assert is_closing.wait(OWNER_WAIT_S)
            future.cancel()  # as whoever is interrupted while waiting does
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BlockingEngine(opening(), Interrupted()).close()
    assert has_ended.is_set()
    assert caplog.text == ""


# --- the end of the program


ENDINGS = {
    "a watch that was left by break": "for _ in engine.start(waits_for_word).watch(): break",
    "a watch": "kept = engine.start(waits_for_word).watch(); next(kept)",
    "a list of runs": "engine.start(waits_for_word); engine.start(waits_for_word); kept = engine.iter_runs(); next(kept)",
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

    engine = ol.open_blocking("runs.db")
"""


def _program(folder: Path, lines: str) -> subprocess.CompletedProcess[str]:
    (folder / "flows.py").write_text(textwrap.dedent(FLOWS))
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM) + lines + "\n")
    return commands.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=OWNER_WAIT_S, check=False
    )


@pytest.mark.parametrize("left", ENDINGS)
def test_a_program_ends_by_itself_and_in_silence_whatever_it_leaves_behind(tmp_path: Path, left: str) -> None:
    ended = _program(tmp_path, ENDINGS[left])
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


# --- forks


FORKING = """
    import os
    import warnings

    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # Python 3.12 and newer
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
    assert ended.stdout.startswith("NotAllowed the engine belongs to process "), ended.stderr
    assert ended.stdout.endswith("open an engine in this process\nparent True\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_leaves_the_closing_of_the_engine_to_its_parent(tmp_path: Path) -> None:
    ended = _program(tmp_path, textwrap.dedent(FORKING).format(act="engine.close()"))
    assert (ended.stdout, ended.stderr) == ("parent True\n", "")
