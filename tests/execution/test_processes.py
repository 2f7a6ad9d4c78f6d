"""Functions in helper processes: what they are given and give back, and that each of them can be ended at any moment."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import textwrap
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.errors import InvalidInput
from outlast.execution import process_child, process_helper, remote
from outlast.execution.process_entry import main_of_this_process
from outlast.execution.process_wire import AttemptInfo, Call
from outlast.execution.processes import PoolClosed, ProcessDied, ProcessPool
from outlast.history.events import Failure
from outlast.values.codec import INLINE_LIMIT, decode, encode
from outlast.values.failures import error_from

PATIENCE = 60.0
ANY_ERROR = ("builtins:Exception",)

Scene = Callable[[ProcessPool], Coroutine[Any, Any, Any]]


def play(scene: Scene, size: int = 1) -> Any:
    """Run the scene with a pool, close the pool, and leave nothing behind."""

    async def whole() -> Any:
        pool = ProcessPool(size)
        try:
            async with asyncio.timeout(PATIENCE):
                return await scene(pool)
        finally:
            async with asyncio.timeout(PATIENCE):
                await pool.close()

    threads, fds = set(threading.enumerate()), _fds()
    result = asyncio.run(whole())
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)  # the one that waited for a process may be about to end
        assert not thread.is_alive(), thread
    assert _fds() == fds
    return result


def _fds() -> int:
    return len(os.listdir("/dev/fd"))


async def call(pool: ProcessPool, entry: str, /, **inputs: Any) -> Any:
    """The decoded result; a failure is raised as the error it was."""
    answer = await answered(pool, entry, **inputs)
    if isinstance(answer, Failure):
        raise error_from(answer)
    return decode(answer)


async def answered(
    pool: ProcessPool,
    entry: str,
    /,
    *,
    on_message: Callable[[str, Any], object] | None = None,
    attempt: AttemptInfo | None = None,
    main: str = "",
    **inputs: Any,
) -> bytes | Failure:
    attempt = attempt or AttemptInfo("r1", "n1", transient=ANY_ERROR)
    body = msgspec.json.encode({name: encode(value) for name, value in inputs.items()})
    name = entry if ":" in entry else f"labour:{entry}"
    return await pool.run(Call(name, main, attempt), body, on_message=on_message)


async def begun(pool: ProcessPool, entry: str, /, **inputs: Any) -> tuple[asyncio.Task[Any], dict[str, Any]]:
    """The call as a task, and the progress it reported first."""
    heard: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        answered(pool, entry, on_message=lambda _, said: heard.done() or heard.set_result(said), **inputs)
    )
    await asyncio.wait([task, heard], return_when=asyncio.FIRST_COMPLETED)
    assert heard.done(), task
    return task, heard.result()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# --- what goes in and what comes out -----------------------------------------------------------------------------------


def test_values_are_those_of_the_annotations_and_the_bare_function_is_called() -> None:
    async def scene(pool: ProcessPool) -> None:
        inputs = b'{"parcel":{"weight":2.5,"due":"2026-03-01"}}'
        answer = await pool.run(Call("labour:heavier", "", AttemptInfo("r1", "n1")), inputs)
        assert answer == b'{"weight":3.5,"due":"2026-03-01"}'

    play(scene)


def test_every_kind_of_parameter_gets_its_value() -> None:
    async def scene(pool: ProcessPool) -> None:
        inputs = b'{"first":1,"second":2,"*":["2026-03-01"],"last":3,"rate":0.5}'
        answer = await pool.run(Call("labour:collected", "", AttemptInfo("r1", "n1")), inputs)
        assert isinstance(answer, bytes)
        assert decode(answer) == {
            "first": 1,
            "second": 2,
            "more": [date(2026, 3, 1)],
            "last": 3,
            "named": {"rate": 0.5},
        }
        assert await pool.run(Call("labour:pid", "", AttemptInfo("r1", "n1")), b"null")

    play(scene)


def test_large_values_go_in_and_come_out_whole() -> None:
    async def scene(pool: ProcessPool) -> None:
        text = "0123456789" * (25 * INLINE_LIMIT // 10)
        assert await call(pool, "doubled", text=text) == text + text

    play(scene)


def test_a_helper_has_the_surroundings_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["story.py", "--verbose"])
    monkeypatch.setenv("SHOP", "open")
    found = play(lambda pool: call(pool, "surroundings"))
    assert found == {"cwd": str(tmp_path), "argv": sys.argv, "path": sys.path, "environment": dict(os.environ)}


def test_the_function_knows_its_attempt() -> None:
    attempt = AttemptInfo("r1", "pay", 3, "r1/pay")
    answer = play(lambda pool: answered(pool, "attempt_known", attempt=attempt))
    assert decode(answer) == {"run": "r1", "node": "pay", "attempt": 3, "token": "r1/pay"}


def test_processes_are_started_when_needed_and_used_again() -> None:
    async def scene(pool: ProcessPool) -> None:
        assert not pool._living
        first = await call(pool, "pid")
        assert first != os.getpid()
        assert await call(pool, "pid") == first
        task, heard = await begun(pool, "busy")
        assert heard["pid"] == first
        assert await call(pool, "pid") != first
        assert len(pool._living) == 2
        await _cancelled(task)

    play(scene, size=2)


def test_no_more_calls_run_at_once_than_the_pool_has_processes() -> None:
    async def scene(pool: ProcessPool) -> None:
        task, _ = await begun(pool, "busy")
        others = [asyncio.create_task(call(pool, "pid")) for _ in range(3)]
        await asyncio.sleep(0)
        assert len(pool._living) == 1
        await _cancelled(task)
        assert len(set(await asyncio.gather(*others))) == 1

    play(scene)


def test_a_pool_needs_a_process() -> None:
    with pytest.raises(InvalidInput):
        ProcessPool(0)


# --- failures ----------------------------------------------------------------------------------------------------------


def test_an_error_is_a_failure_of_its_own_class_with_the_users_frames_only() -> None:
    failure = play(lambda pool: answered(pool, "raised", name="shop"))
    assert (failure.kind, failure.message, failure.category) == ("labour:ShopError", "sold out", "transient")
    assert "labour.py" in failure.trace
    assert "process_entry.py" not in failure.trace


@pytest.mark.parametrize(
    ("transient", "permanent", "category"),
    [
        (ANY_ERROR, ("labour:ShopError",), "permanent"),
        (("labour:ShopError",), (), "transient"),
        (("builtins:ValueError",), (), "permanent"),
        (("labour:NoSuchError", "nowhere:Error", "labour:pid"), (), "permanent"),
    ],
)
def test_the_retry_policys_classes_are_found_by_name(
    transient: tuple[str, ...], permanent: tuple[str, ...], category: str
) -> None:
    attempt = AttemptInfo("r1", "n1", transient=transient, permanent=permanent)
    assert play(lambda pool: answered(pool, "raised", name="shop", attempt=attempt)).category == category


def test_what_would_end_a_process_is_a_failure_and_the_process_goes_on() -> None:
    async def scene(pool: ProcessPool) -> None:
        before = await call(pool, "pid")
        for name, kind in (("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")):
            failure = await answered(pool, "raised", name=name)
            assert isinstance(failure, Failure)
            assert (failure.kind, failure.category) == (f"builtins:{kind}", "permanent")
        assert await call(pool, "pid") == before

    play(scene)


def test_an_error_that_cannot_be_told_is_a_failure_by_name() -> None:
    failure = play(lambda pool: answered(pool, "raised", name="odd"))
    assert failure.kind == "labour:Odd"
    assert "KeyboardInterrupt" in failure.message


@pytest.mark.parametrize("entry", ["unstorable", "nested"])
def test_a_result_that_cannot_be_stored_is_a_permanent_failure(entry: str) -> None:
    """R1"""
    inputs = {"depth": 100_000} if entry == "nested" else {}
    failure = play(lambda pool: answered(pool, entry, **inputs))
    assert (failure.kind, failure.category) == ("outlast.not_storable", "permanent")
    assert failure.message.startswith("result")


def test_inputs_too_deep_to_be_read_are_a_failure() -> None:
    body = b'{"text":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    failure = play(lambda pool: pool.run(Call("labour:doubled", "", AttemptInfo("r1", "n1")), body))
    assert isinstance(failure, Failure)


@pytest.mark.parametrize("entry", ["endless", "endless_and_logged"])
def test_a_recursion_without_end_is_a_failure_and_the_process_goes_on(entry: str) -> None:
    async def scene(pool: ProcessPool) -> None:
        before = await call(pool, "pid")
        failure = await answered(pool, entry)
        assert isinstance(failure, Failure)
        assert failure.kind == "builtins:RecursionError"
        assert await call(pool, "pid") == before

    play(scene)


@pytest.mark.parametrize(
    ("entry", "inputs"),
    [
        ("labour:nothing", {}),
        ("labour:Parcel.<locals>.inner", {}),
        ("labour:log", {}),
        ("no.such.module:f", {}),
        ("__main__:f", {}),
        ("labour:doubled", {}),
        ("labour:doubled", {"text": "a", "other": 1}),
        ("labour:doubled", {"text": 1}),
    ],
)
def test_what_cannot_be_called_so_is_a_permanent_failure(entry: str, inputs: dict[str, Any]) -> None:
    failure = play(lambda pool: answered(pool, entry, **inputs))
    assert (failure.kind, failure.category) == ("outlast.invalid_input", "permanent")


# --- what a function says while it runs --------------------------------------------------------------------------------


def test_what_a_function_says_is_heard_in_order() -> None:
    events: list[Any] = []

    async def keep(kind: str, said: Any) -> None:
        events.append((kind, said))
        if kind == "checkpoint":
            for _ in range(20):
                await asyncio.sleep(0)
            events.append(("kept", said))

    async def scene(pool: ProcessPool) -> None:
        attempt = AttemptInfo("r1", "n1", checkpoint=b"1")
        assert decode(await answered(pool, "counted", upto=3, on_message=keep, attempt=attempt)) == 1  # type: ignore[arg-type]

    play(scene)
    assert events == [
        ("checkpoint", b"2"),
        ("kept", b"2"),
        ("progress", {"done": 2, "of": 3}),
        ("checkpoint", b"3"),
        ("kept", b"3"),
        ("progress", {"done": 3, "of": 3}),
    ]


def test_a_function_does_not_go_on_before_its_checkpoint_is_kept() -> None:
    async def scene(pool: ProcessPool) -> None:
        def keep(kind: str, _: Any) -> None:
            (helper,) = pool._living
            # The function reports its progress next. It cannot be proved that it never would; this long it does not.
            assert kind != "checkpoint" or not select.select([helper._channel], [], [], 0.2)[0]

        assert await answered(pool, "counted", upto=2, on_message=keep) == b"0"

    play(scene)


def test_nobody_needs_to_listen() -> None:
    assert play(lambda pool: call(pool, "counted", upto=3)) == 0


def test_a_checkpoint_that_cannot_be_kept_ends_the_process() -> None:
    def refuse(*_: object) -> None:
        raise OSError("no space")

    async def scene(pool: ProcessPool) -> None:
        with pytest.raises(OSError, match="no space"):
            await answered(pool, "counted", upto=3, on_message=refuse)
        assert not pool._living
        assert await call(pool, "counted", upto=3) == 0

    play(scene)


def test_a_checkpoint_of_text_is_the_users_error() -> None:
    assert play(lambda pool: answered(pool, "misused_checkpoint")).kind == "builtins:TypeError"


def test_outside_of_a_helper_there_is_no_attempt() -> None:
    assert remote.current() is None
    assert process_child._helper is None


def test_what_is_logged_is_sent_and_what_is_printed_is_not(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """R4"""
    monkeypatch.setenv("SHOP_KEY", "open sesame")
    lines: list[dict[str, Any]] = []

    async def scene(pool: ProcessPool) -> None:
        read = await answered(pool, "noisy", name="SHOP_KEY", on_message=lambda _, line: lines.append(line))
        assert read == b'""'

    play(scene)
    assert [(line["level"], line["logger"]) for line in lines] == [
        ("INFO", "labour"),
        ("ERROR", "labour"),
        ("WARNING", "labour"),
    ]
    assert lines[0]["text"] == "the key is ***"
    assert lines[1]["text"].startswith("not a good day \\udc80\nTraceback")
    assert all(type(line["time"]) is float for line in lines)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "this is printed\nthis is written\n" in printed.err


def test_what_was_logged_before_a_crash_is_known_after_it() -> None:
    lines: list[dict[str, Any]] = []

    async def scene(pool: ProcessPool) -> None:
        with pytest.raises(ProcessDied):
            await answered(pool, "leave", code=3, on_message=lambda _, line: lines.append(line))

    play(scene)
    assert [line["text"] for line in lines] == ["good bye"]


def test_a_talkative_function_leaves_the_loop_to_others() -> None:
    async def scene(pool: ProcessPool) -> None:
        begun, heard = asyncio.Event(), 0

        def listen(*_: object) -> None:
            nonlocal heard
            heard += 1
            if heard == 30:
                raise RuntimeError("nobody else had a turn")
            if heard == 1:
                begun.set()
                (helper,) = pool._living
                _await_bytes(helper._channel, 8000)  # more than thirty lines

        task = asyncio.create_task(answered(pool, "talkative", on_message=listen))
        await begun.wait()
        assert heard < 30
        await _cancelled(task)

    play(scene)


def _await_bytes(channel: socket.socket, count: int) -> None:
    waiting = array.array("i", [0])
    deadline = time.monotonic() + PATIENCE
    while waiting[0] < count:
        assert time.monotonic() < deadline
        fcntl.ioctl(channel, termios.FIONREAD, waiting)


def test_what_a_thread_of_an_earlier_call_said_is_not_heard() -> None:
    async def scene(pool: ProcessPool) -> None:
        heard: list[Any] = []
        await call(pool, "word_left")
        (helper,) = pool._idle
        assert (await asyncio.to_thread(select.select, [helper._channel], [], [], PATIENCE))[0]
        await answered(pool, "pid", on_message=lambda *said: heard.append(said))
        assert heard == []

    play(scene)


# --- ends --------------------------------------------------------------------------------------------------------------


def test_a_cancelled_call_kills_its_process_at_once() -> None:
    async def scene(pool: ProcessPool) -> None:
        task, heard = await begun(pool, "busy")
        assert is_there(heard["pid"])
        await _cancelled(task)
        assert not is_there(heard["pid"])
        assert await call(pool, "pid") != heard["pid"]

    play(scene)


def test_a_call_that_is_cancelled_twice_leaves_no_process() -> None:
    async def scene(pool: ProcessPool) -> int:
        task, heard = await begun(pool, "busy")
        task.cancel()
        await asyncio.sleep(0)
        await _cancelled(task)
        return heard["pid"]

    assert not is_there(play(scene))


def test_a_call_that_is_cancelled_while_its_process_starts_leaves_no_process() -> None:
    async def scene(pool: ProcessPool) -> None:
        task = asyncio.create_task(call(pool, "pid"))
        for _ in range(10):
            await asyncio.sleep(0)
        await _cancelled(task)
        assert not pool._living
        assert await call(pool, "pid")

    play(scene)


@pytest.mark.parametrize("leaves", [False, True])
def test_what_a_function_started_does_not_outlive_its_process(leaves: bool) -> None:
    async def scene(pool: ProcessPool) -> None:
        task, heard = await begun(pool, "busy_with_another", leaves=leaves)
        if leaves:
            with pytest.raises(ProcessDied, match="code 5"):
                await task
        else:
            await _cancelled(task)
        await asyncio.to_thread(_await_end, heard["other"])

    play(scene)


def _await_end(pid: int) -> None:
    """A process that is not our child: nobody tells us, so look whether it is there, or only not reaped yet."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
        if not found or found.startswith("Z"):
            return
    raise AssertionError(f"process {pid} is still there")


@pytest.mark.parametrize(
    ("entry", "inputs", "told"),
    [
        ("leave", {"code": 3}, "labour:leave: it exited with code 3"),
        ("leave", {"code": 0}, "it exited with code 0"),
        ("die", {"number": signal.SIGKILL}, "it was killed by SIGKILL"),
        ("die", {"number": signal.SIGSEGV}, "it was killed by SIGSEGV"),
    ],
)
def test_a_process_that_dies_is_told_and_the_pool_goes_on(entry: str, inputs: dict[str, int], told: str) -> None:
    async def scene(pool: ProcessPool) -> None:
        before = await call(pool, "pid")
        with pytest.raises(ProcessDied, match=told):
            await answered(pool, entry, **{name: int(value) for name, value in inputs.items()})
        assert await call(pool, "pid") != before

    play(scene)


def test_a_process_that_dies_is_told_even_if_a_fork_of_it_lives_on(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)

    async def scene(pool: ProcessPool) -> None:
        with pytest.raises(ProcessDied, match="code 7"):
            await call(pool, "gone_but_for_a_fork", pipe=str(pipe))

    try:
        play(scene)
    finally:
        os.close(end)


def test_an_idle_process_that_was_killed_is_replaced() -> None:
    async def scene(pool: ProcessPool) -> None:
        before = await call(pool, "pid")
        (helper,) = pool._living
        os.kill(before, signal.SIGKILL)
        await helper.end
        assert await call(pool, "pid") != before

    play(scene)


def test_what_a_function_left_running_ends_with_its_process() -> None:
    async def scene(pool: ProcessPool) -> None:
        other = await call(pool, "process_left")
        (helper,) = pool._living
        os.kill(await call(pool, "pid"), signal.SIGKILL)
        await helper.end
        await asyncio.to_thread(_await_end, other)

    play(scene)


def test_a_fork_of_the_helper_does_not_speak_for_it() -> None:
    async def scene(pool: ProcessPool) -> None:
        said: list[Any] = []
        for _ in range(3):
            answer = await answered(pool, "forked", on_message=lambda *message: said.append(message))
            assert isinstance(answer, bytes)
            await asyncio.to_thread(_await_end, int(answer))
        assert said == []

    play(scene)


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    async def scene(pool: ProcessPool) -> None:
        for _ in range(2):
            with pytest.raises(ProcessDied, match="could not be started"):
                await call(pool, "pid")

    play(scene)


def test_closing_ends_calls_at_work_and_calls_that_wait() -> None:
    async def scene(pool: ProcessPool) -> None:
        task, heard = await begun(pool, "busy")
        waiting = asyncio.create_task(call(pool, "pid"))
        await asyncio.sleep(0)
        await pool.close()
        assert not is_there(heard["pid"])
        for each in (task, waiting, asyncio.create_task(call(pool, "pid"))):
            with pytest.raises(PoolClosed):
                await each
        await pool.close()

    play(scene)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_an_idle_process_that_does_not_leave_is_killed(monkeypatch: pytest.MonkeyPatch, is_stopped: bool) -> None:
    monkeypatch.setattr(process_helper, "GRACE", 0.1)

    async def scene(pool: ProcessPool) -> int:
        await call(pool, "thread_left")
        pid = await call(pool, "pid")
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
        return pid

    assert not is_there(play(scene))


# --- scripts -----------------------------------------------------------------------------------------------------------

SCRIPT = """
    import asyncio, dataclasses, os, sys, threading
    from outlast.execution import remote
    from outlast.execution.process_entry import main_of_this_process
    from outlast.execution.process_wire import AttemptInfo, Call
    from outlast.execution.processes import ProcessPool

    @dataclasses.dataclass
    class Box:
        size: int

    class BoxError(Exception):
        pass

    total = 0

    def grown(box: Box) -> Box:
        global total
        total += 1
        assert sys.modules["__main__"].total == sys.modules["__mp_main__"].total == total
        return Box(box.size + total)

    def refused() -> None:
        raise BoxError("no")

    def busy() -> None:
        remote.current().progress({"pid": os.getpid()})
        while True:
            pass

    def threaded() -> None:
        threading.Thread(target=threading.Event().wait).start()

    async def ask(pool, name, inputs=b"null", on_message=None):
        attempt = AttemptInfo("r1", "n1", transient=("__main__:BoxError",))
        return await pool.run(Call(f"__main__:{name}", main_of_this_process(), attempt), inputs, on_message=on_message)
"""


def script(folder: Path, ending: str) -> Path:
    path = folder / "story.py"
    path.write_text(textwrap.dedent(SCRIPT) + textwrap.dedent(ending))
    return path


def told(*command: str | Path, **options: Any) -> str:
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=PATIENCE, **options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


GUARDED = """
    async def main() -> None:
        pool = ProcessPool(1)
        print(*[(await ask(pool, "grown", b'{"box":{"size":1}}')).decode() for _ in range(2)])
        failure = await ask(pool, "refused")
        print(failure.kind, failure.category)
        await pool.close()

    if __name__ == "__main__":
        asyncio.run(main())
"""
OUTPUT = '{"size":2} {"size":3}\n__main__:BoxError transient\n'


def test_functions_of_the_script_that_was_run_can_be_called(tmp_path: Path) -> None:
    assert told(script(tmp_path, GUARDED)) == OUTPUT


def test_functions_of_a_module_that_was_run_can_be_called(tmp_path: Path) -> None:
    package = tmp_path / "tale"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "other.py").touch()
    script(package, "from . import other\n" + textwrap.dedent(GUARDED))
    assert told("-m", "tale.story", cwd=tmp_path) == OUTPUT


def test_a_script_without_a_guard_does_not_start_processes_without_end(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        pool = ProcessPool(1)

        async def main():
            print(await ask(pool, "refused"))
            await pool.close()

        asyncio.run(main())
        """,
    )
    assert "if __name__ ==" in told(path)


def test_a_script_that_cannot_be_loaded_is_a_failure_each_time(tmp_path: Path) -> None:
    path = tmp_path / "story.py"
    path.write_text("raise OSError('not today')")

    async def scene(pool: ProcessPool) -> None:
        for _ in range(2):
            failure = await answered(pool, "__main__:f", main=str(path))
            assert isinstance(failure, Failure)
            assert (failure.kind, failure.message) == ("builtins:OSError", "not today")
            assert not await call(pool, "is_script_there")

    play(scene)


def test_the_main_of_a_script_is_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__spec__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "story.py", raising=False)
    assert main_of_this_process() == "story.py"


@pytest.mark.parametrize(
    "then", ["", "await ask(pool, 'threaded')", "await busily(pool)", "fork(); await busily(pool)"]
)
def test_helpers_are_gone_when_their_parent_was_killed(tmp_path: Path, then: str) -> None:
    """Idle, idle but for a thread, or busy, and also if a fork of the parent holds everything open that the parent did."""
    path = script(
        tmp_path,
        f"""
        async def busily(pool) -> None:
            await ask(pool, "busy", on_message=lambda *said: print(*said, flush=True))

        def fork() -> None:
            if os.fork() == 0:
                os.closerange(1, 3)
                sys.stdin.read()
                os._exit(0)

        async def main() -> None:
            pool = ProcessPool(2)
            print("idle", await ask(pool, "grown", b'{{"box":{{"size":1}}}}'), flush=True)
            {then}
            print("idle again", flush=True)
            await asyncio.Event().wait()

        if __name__ == "__main__":
            asyncio.run(main())
        """,
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, path], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        for _ in range(2):
            assert parent.stdout.readline()
        parent.kill()
        # The helpers hold this pipe too: it ends when the last of them does. The fork waits for the end of its input.
        assert select.select([parent.stderr], [], [], PATIENCE)[0]
        assert parent.stderr.read() == ""


def test_a_call_that_waited_for_a_helper_is_confirmed_before_it_begins() -> None:
    """X5"""

    async def scene(pool: ProcessPool) -> None:
        confirmed: list[bool] = []

        async def confirm() -> None:
            confirmed.append(bool(pool._idle) or not pool._living)

        body = msgspec.json.encode({})
        task, _ = await begun(pool, "busy")
        waiting = asyncio.create_task(pool.run(Call("labour:pid", "", AttemptInfo("r1", "n1")), body, confirm=confirm))
        await asyncio.sleep(0)
        assert confirmed == []
        await _cancelled(task)
        await waiting
        assert confirmed == [False], "a helper was there, and was the call's"

    play(scene, size=1)
