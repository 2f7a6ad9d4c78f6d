"""What attempts log and print becomes their lines, nobody is disturbed by it, and a replay is silent (R4, S9)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.errors import OutcomeUnknown, StoreBusy
from outlast.execution import log_writer as lines_module
from outlast.execution.log_writer import LogWriter
from outlast.history.ids import RunId
from outlast.store import Line
from outlast.stores.memory import MemoryStore
from outlast.testing.contract.samples import A, B, begin, land
from outlast.testing.faults import Died, Fault, faulty
from outlast.values import secret_patterns
from outlast.values.context import LONGEST_TEXT, ReplaySilencer, capture, is_replaying
from outlast.values.secrets import Secret

SOON = 10.0
NOW = 1_700_000_000_000_000


class Patient(MemoryStore):
    """A store that tells when it is asked to keep lines, when it did and when it did not, and fails as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.came, self.failed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.batches: list[int] = []
        self.failures: list[Exception] = []
        self.gate: asyncio.Event | None = None

    async def keep(self, lines: Sequence[Line]) -> None:
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            self.failed.set()
            raise self.failures.pop()
        await super().keep(lines)
        self.batches.append(len(lines))
        self.came.set()

    async def texts(self, run: RunId = A, **asked: Any) -> list[str]:
        return [line.text for line in await self.lines(run, **asked)]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger that lets INFO through."""
    found = logging.getLogger("shop.packing")
    found.setLevel(logging.INFO)
    yield found
    found.setLevel(logging.NOTSET)
    found.propagate = True


@asynccontextmanager
async def listening(*, stdout: bool = False) -> AsyncIterator[tuple[Patient, LogWriter]]:
    store = Patient()
    for run in (A, B):
        await land(store, begin(run))
    log_writer = LogWriter(store, lambda: NOW)
    log_writer.install(stdout=stdout)
    try:
        yield store, log_writer
    finally:
        await log_writer.close()


def play(act: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SOON):
            await act()

    asyncio.run(bounded())


def line(text: str, *, run: RunId = A, node: str = "n", attempt: int = 1) -> Line:
    return Line(run, node, attempt, NOW, "INFO", "elsewhere", text)


# --- what is heard


def test_what_an_attempt_logs_is_its_line(logger: logging.Logger) -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            logger.info("before")
            with capture(log_writer, A, "pack", 2):
                logger.info("packed %d parcels", 3)
            logger.info("after")
            await log_writer.close()
            assert await store.lines(A) == [Line(A, "pack", 2, NOW, "INFO", "shop.packing", "packed 3 parcels", 1, 1)]

    play(act)


def test_attempts_that_run_at_once_are_told_apart(logger: logging.Logger) -> None:
    async def attempt(log_writer: LogWriter, run: RunId, node: str) -> None:
        with capture(log_writer, run, node, 1):
            for number in range(3):
                logger.info("%s of %s", number, node)
                await asyncio.sleep(0)

    async def act() -> None:
        async with listening() as (store, log_writer):
            await asyncio.gather(*(attempt(log_writer, run, node) for run in (A, B) for node in ("m", "n")))
            await log_writer.close()
            for run in (A, B):
                for node in ("m", "n"):
                    assert await store.texts(run, node=node) == [f"{number} of {node}" for number in range(3)]

    play(act)


def test_the_tasks_and_threads_of_an_attempt_speak_for_it(logger: logging.Logger) -> None:
    async def helper() -> None:
        logger.info("in a task")

    async def act() -> None:
        async with listening() as (store, log_writer):
            with capture(log_writer, A, "n", 1):
                await asyncio.create_task(helper())
                await asyncio.to_thread(logger.info, "in a thread")
                thread = threading.Thread(target=contextvars.copy_context().run, args=(logger.info, "in a copy"))
                thread.start()
                thread.join()
            await log_writer.close()
            assert await store.texts() == ["in a task", "in a thread", "in a copy"]

    play(act)


def test_many_threads_lose_no_line(logger: logging.Logger) -> None:
    def set_attempt_log(name: str) -> None:
        for number in range(200):
            logger.info("%s%d", name, number)

    async def act() -> None:
        async with listening() as (store, log_writer):
            with capture(log_writer, A, "n", 1):
                await asyncio.gather(*(asyncio.to_thread(set_attempt_log, name) for name in "abcd"))
            await log_writer.close()
            texts = await store.texts()
            for name in "abcd":
                assert [text for text in texts if text[0] == name] == [f"{name}{number}" for number in range(200)]

    play(act)


def test_an_error_is_kept_with_its_traceback(logger: logging.Logger) -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            with capture(log_writer, A, "n", 1):
                try:
                    raise KeyError("the lid")
                except KeyError:
                    logger.exception("cannot close it")
            await log_writer.close()
            (found,) = await store.lines(A)
            assert found.level == "ERROR"
            assert found.text.startswith("cannot close it\nTraceback (most recent call last):\n")
            assert found.text.endswith("KeyError: 'the lid'")

    play(act)


def test_the_programs_levels_and_filters_decide_and_debug_is_never_kept(logger: logging.Logger) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        return "hush" not in record.getMessage()

    async def act() -> None:
        async with listening() as (store, log_writer):
            logger.addFilter(refuse)
            with capture(log_writer, A, "n", 1):
                logger.setLevel(logging.WARNING)
                logger.info("not logged")
                logger.setLevel(logging.DEBUG)
                logger.debug("logged, not kept")
                logger.info("hush")
                logger.info("kept")
                logging.getLogger("outlast.ledger").error("our own")
                logging.getLogger("outlast").error("our own")
                logging.getLogger("outlasting").error("of others")
            logger.removeFilter(refuse)
            await log_writer.close()
            assert await store.texts() == ["kept", "of others"]

    play(act)


def test_a_logger_that_does_not_propagate_is_heard_too(logger: logging.Logger) -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            logger.propagate = False
            logger.addHandler(logging.NullHandler())
            with capture(log_writer, A, "n", 1):
                logger.info("aside")
            await log_writer.close()
            assert await store.texts() == ["aside"]

    play(act)
    logger.handlers.clear()


def test_the_value_of_a_secret_is_not_kept(logger: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    """R4"""
    monkeypatch.setenv("API_KEY", "hunter2-of-the-north")
    monkeypatch.setattr(secret_patterns, "known", {})

    async def act() -> None:
        async with listening() as (store, log_writer):
            key = Secret("API_KEY").reveal()
            with capture(log_writer, A, "n", 1):
                logger.info("with %s", key)
                logger.info("%s", "x" * (LONGEST_TEXT // 2 - 5) + key + "x" * LONGEST_TEXT)
            log_writer.add(line(f"from elsewhere: {key}"))
            await log_writer.close()
            texts = await store.texts()
            assert (texts[0], texts[2]) == ("with ***", "from elsewhere: ***")
            assert "hunt" not in texts[1], "it is masked before it is cut"

    play(act)


def test_a_long_text_is_cut_in_its_middle() -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            log_writer.add(line("b" + "x" * 20_000 + "e"))
            log_writer.add(line("x" * LONGEST_TEXT))
            log_writer.add(line("half a pair \ud83d"))
            await log_writer.close()
            cut, whole, odd = await store.texts()
            assert (len(cut), cut[0], cut[-1], "…" in cut) == (LONGEST_TEXT, "b", "e", True)
            assert (whole, odd) == ("x" * LONGEST_TEXT, "half a pair \\ud83d")

    play(act)


class Unspeakable:
    def __str__(self) -> str:
        raise ValueError("no words")


def test_a_record_that_cannot_be_shown_is_a_line_and_no_error(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            logger.propagate = False  # a handler of pytest raises
            with capture(log_writer, A, "n", 1):
                logger.info("%d parcels", "three")
                logger.info(Unspeakable())
            await log_writer.close()
            first, second = await store.texts()
            assert first.startswith("<TypeError in a record of ")
            assert second.startswith("<ValueError in a record of ")

    monkeypatch.setattr(logging, "lastResort", None)
    play(act)


def test_a_clock_that_fails_is_not_the_attempts_affair(logger: logging.Logger) -> None:
    def broken() -> int:
        raise OSError("no time")

    async def act() -> None:
        async with listening(stdout=True) as (_, log_writer):
            log_writer.clock = broken
            with capture(log_writer, A, "n", 1, stdout=True):
                logger.info("hello")
                print("hello")

    play(act)


# --- how the process is left


def test_after_the_last_keeper_nothing_is_in_place_any_more(logger: logging.Logger) -> None:
    before = logging.Logger.callHandlers, sys.stdout

    async def act() -> None:
        async with listening(stdout=True) as (_, one), listening(stdout=True) as (other, two):
            assert logging.Logger.callHandlers is not before[0]
            await one.close()
            await one.close()
            with capture(two, A, "n", 1, stdout=True):
                logger.info("still heard")
                print("still heard")
            await two.close()
            assert await other.texts() == ["still heard", "still heard"]
            assert (logging.Logger.callHandlers, sys.stdout) == before

    play(act)
    assert (logging.Logger.callHandlers, sys.stdout) == before


def test_a_hook_that_others_put_over_ours_stays_and_nothing_is_heard_twice(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.Logger, "callHandlers", logging.Logger.callHandlers)  # put back at the end of the test
    heard: list[str] = []

    async def act() -> None:
        async with listening() as (_, log_writer):
            ours = logging.Logger.callHandlers

            def theirs(self: logging.Logger, record: logging.LogRecord) -> None:
                heard.append(record.getMessage())
                ours(self, record)

            logging.Logger.callHandlers = theirs  # type: ignore[method-assign, assignment]
            await log_writer.close()
            assert logging.Logger.callHandlers is theirs
        async with listening() as (store, log_writer):
            with capture(log_writer, A, "n", 1):
                logger.info("once")
            await log_writer.close()
            assert await store.texts() == ["once"]
        assert heard == ["once"]

    play(act)


PROGRAM = """
import asyncio, logging
from outlast.execution.log_writer import LogWriter
from outlast.values.context import capture
from outlast.stores.memory import MemoryStore
from outlast.testing.contract.samples import A, begin

async def main():
    store = MemoryStore()
    await store.append([begin(A)])
    keeper = LogWriter(store, lambda: 1)
    keeper.install()
    with capture(keeper, A, "n", 1):
        logging.getLogger("shop").warning("a last resort")
        logging.getLogger("shop").info("hidden by the default level")
        logging.basicConfig(level=logging.INFO, format="configured: %(message)s")
        logging.getLogger("shop").info("shown")
    await keeper.close()
    print([line.text for line in await store.lines(A)])

asyncio.run(main())
"""


def test_a_program_that_configures_logging_late_or_never_sees_what_it_would_see_without_us() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["a last resort", "configured: shown"]
    assert done.stdout.splitlines() == ["['a last resort', 'shown']"]


# --- stdout


def test_what_is_printed_becomes_lines_and_is_printed_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    async def act() -> None:
        async with listening(stdout=True) as (store, log_writer):
            with capture(log_writer, A, "loud", 1, stdout=True):
                print("one", "two")
                print("thr", end="")
                sys.stdout.writelines(["ee\nfour", "\n"])
                await asyncio.to_thread(print, "five")
                print("six, without an end", end="")
            with capture(log_writer, A, "quiet", 1):
                print("\nnot taken down")
            print("nobody's")
            await log_writer.close()
            found = await store.lines(A)
            assert [each.text for each in found] == ["one two", "three", "four", "five", "six, without an end"]
            assert {(each.node, each.level, each.logger) for each in found} == {("loud", "STDOUT", "")}

    play(act)
    assert capsys.readouterr().out == "one two\nthree\nfour\nfive\nsix, without an end\nnot taken down\nnobody's\n"


def test_printing_without_an_end_of_line_is_not_gathered_for_ever() -> None:
    async def act() -> None:
        async with listening(stdout=True) as (store, log_writer):
            with capture(log_writer, A, "n", 1, stdout=True):
                for _ in range(30):
                    print("." * 1_000, end="")
            await log_writer.close()
            texts = await store.texts()
            assert sum(map(len, texts)) > 20_000
            assert all(len(text) <= LONGEST_TEXT for text in texts)

    play(act)


def test_the_stand_in_is_as_good_as_stdout() -> None:
    async def act() -> None:
        beneath = sys.stdout
        async with listening(stdout=True) as (_, log_writer):
            assert sys.stdout is not beneath
            assert (sys.stdout.encoding, sys.stdout.isatty()) == (beneath.encoding, beneath.isatty())
            assert sys.stdout.write("hello") == 5
            sys.stdout.flush()
            stand_in = sys.stdout
            await log_writer.close()
            assert sys.stdout is beneath
            print("whoever kept it can still write", file=stand_in)

    play(act)


# --- on the way to the store


def test_lines_come_to_the_store_by_themselves_and_together() -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            for round in (1, 2):
                for number in range(100):
                    log_writer.add(line(f"{round}.{number}"))
                await store.came.wait()
                store.came.clear()
            assert store.batches == [100, 100]

    play(act)


def test_the_task_is_not_there_while_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "FLUSH_INTERVAL_S", 0)

    async def act() -> None:
        async with listening() as (store, log_writer):
            for _ in range(2):
                assert not tasks_of_keepers()
                log_writer.add(line("hello"))
                await store.asked.wait()
                await asyncio.gather(*tasks_of_keepers())
                store.asked.clear()
            assert await store.texts() == ["hello", "hello"]

    play(act)


def tasks_of_keepers() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "outlast-log-writer"]


def test_the_task_does_not_run_in_the_context_of_who_spoke_first(logger: logging.Logger) -> None:
    seen: list[ReplaySilencer | None] = []

    class Curious(Patient):
        async def keep(self, lines: Sequence[Line]) -> None:
            seen.append(is_replaying.get())
            logger.info("said while keeping")
            await super().keep(lines)

    async def act() -> None:
        store = Curious()
        await land(store, begin(A))
        log_writer = LogWriter(store, lambda: NOW)
        log_writer.install()
        is_replaying.set(ReplaySilencer())
        with capture(log_writer, A, "n", 1):
            logger.info("hello")
        await store.came.wait()
        await log_writer.close()
        assert seen == [None]
        assert await store.texts() == ["hello"]

    play(act)


def test_lines_added_before_we_listen_wait_and_those_after_the_end_are_lost() -> None:
    async def act() -> None:
        store = Patient()
        await land(store, begin(A))
        log_writer = LogWriter(store, lambda: NOW)
        log_writer.add(line("early"))
        log_writer.install()
        await store.came.wait()
        await log_writer.close()
        log_writer.add(line("late"))
        await log_writer.close()
        assert await store.texts() == ["early"]

    play(act)


def test_close_brings_what_waits_though_nobody_listened() -> None:
    async def act() -> None:
        store = Patient()
        await land(store, begin(A))
        log_writer = LogWriter(store, lambda: NOW)
        log_writer.add(line("hello"))
        await log_writer.close()
        assert await store.texts() == ["hello"]

    play(act)


def test_what_waits_is_bounded_and_says_for_each_attempt_how_much_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_WAITING", 10)

    async def act() -> None:
        async with listening() as (store, log_writer):
            for number in range(6):
                log_writer.add(line(str(number), node="m"))
            for number in range(13):
                log_writer.add(line(str(number), node="n"))
            await log_writer.close()
            (said,) = await store.lines(A, node="m")
            assert (said.level, said.text) == (
                "WARNING",
                "6 lines were dropped: they were logged faster than the store accepts them",
            )
            said, *rest = await store.lines(A, node="n")
            assert said.text == "3 lines were dropped: they were logged faster than the store accepts them"
            assert [each.text for each in rest] == [str(number) for number in range(3, 13)]

    play(act)


def test_lines_that_the_store_refused_are_brought_again_in_order(caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            store.failures = [StoreBusy("not now"), StoreBusy("not now")]
            log_writer.add(line("one"))
            log_writer.add(line("two"))
            await store.came.wait()
            assert await store.texts() == ["one", "two"]

    play(act)
    assert len([record for record in caplog.records if "could not be stored" in record.message]) == 1


def test_lines_that_were_put_back_and_dropped_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_WAITING", 5)
    monkeypatch.setattr(lines_module, "FLUSH_INTERVAL_S", 0)

    async def act() -> None:
        async with listening() as (store, log_writer):
            store.failures, store.gate = [StoreBusy("not now")], asyncio.Event()
            for number in range(7):
                log_writer.add(line(str(number)))
            await store.asked.wait()
            for number in range(7, 10):
                log_writer.add(line(str(number)))
            store.gate.set()
            await store.came.wait()
            said, *rest = await store.texts()
            assert said == "5 lines were dropped: they were logged faster than the store accepts them"
            assert rest == ["5", "6", "7", "8", "9"]

    play(act)


@pytest.mark.parametrize("error", [OutcomeUnknown("who knows"), TypeError("a mistake of ours")])
def test_lines_that_may_have_been_kept_are_not_brought_twice(error: Exception) -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            store.failures = [error]
            log_writer.add(line("one"))
            await store.failed.wait()
            log_writer.add(line("two"))
            await log_writer.close()
            assert await store.texts() == ["two"]

    play(act)


def test_close_does_not_fail_though_the_store_does() -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            store.failures = [StoreBusy("not now")] * 9
            log_writer.add(line("one"))
            await log_writer.close()
            assert await store.lines(A) == []

    play(act)


def test_a_store_that_fails_on_command_does_not_count_lines_but_takes_none_of_the_dead() -> None:
    async def act() -> None:
        store, faults = faulty(Patient(), Fault("die_after", 2))
        await land(store, begin(A))
        await store.keep([line("one")])
        assert [each.text for each in await store.lines(A)] == ["one"]
        assert faults.calls == 1
        with pytest.raises(Died):
            await store.head(A)
        with pytest.raises(Died):
            await store.keep([line("two")])

    play(act)


# --- replays


class Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


def test_nothing_that_a_replay_logs_reaches_any_handler(logger: logging.Logger) -> None:
    root, own = Listener(), Listener()

    async def workflow(replay: ReplaySilencer) -> None:
        is_replaying.set(replay)
        logger.info("live")
        replay.on = True
        logger.info("said before")
        await asyncio.create_task(deeper())
        await asyncio.to_thread(logger.error, "said before")
        replay.on = False
        logger.info("live again")

    async def deeper() -> None:
        logger.warning("said before")

    async def act() -> None:
        async with listening():
            other = ReplaySilencer(on=True)
            await asyncio.gather(asyncio.create_task(workflow(ReplaySilencer())), asyncio.create_task(workflow(other)))
            logger.info("outside")

    logging.getLogger().addHandler(root)
    logger.addHandler(own)
    try:
        play(act)
    finally:
        logging.getLogger().removeHandler(root)
        logger.removeHandler(own)
    assert own.heard == root.heard
    assert sorted(own.heard) == ["live", "live again", "live again", "outside"]


def test_an_attempt_is_heard_though_its_drivers_context_is_silent(logger: logging.Logger) -> None:
    async def act() -> None:
        async with listening() as (store, log_writer):
            is_replaying.set(ReplaySilencer(on=True))
            logger.info("said before")
            with capture(log_writer, A, "n", 1):
                logger.info("new")
            logger.info("said before")
            await log_writer.close()
            assert await store.texts() == ["new"]

    play(act)


def test_a_silent_context_is_loud_again_when_nobody_listens(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    async def act() -> None:
        is_replaying.set(ReplaySilencer(on=True))
        async with listening():
            logger.info("silent")
        logger.info("loud")

    play(act)
    assert [record.message for record in caplog.records if record.name == logger.name] == ["loud"]
