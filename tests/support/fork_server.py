"""A process that has imported `outlast` and forks for every requested program, which saves the imports.

`python fork_server.py FD` reads requests from the socket FD: one byte with four descriptors, which become stdin,
stdout and stderr of the program, and a channel; closing a fifth, a pipe, kills the program. The forked process reads
its request from the channel and writes its process id to it; the server writes the exit code. `commands` is the
client.

The forked process returns to the end of this file and runs the program there, so that it ends like any Python
process.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

ENCODINGS = [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)]
PATH = [place for place in sys.path[1:] if place not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]


def warm_up() -> None:
    """Import the modules of most commands, and those that Typer and Rich import on first use."""
    from typer.testing import CliRunner

    from outlast.cli.app import app

    sys.path.append(str(Path(__file__).parents[1]))
    from support import built_command

    built_command.keep()
    for words in (["--help"], ["ps", "--store", "nowhere.db"]):
        CliRunner().invoke(app, words)
    for name in ("stores.sqlite", "stores.postgres", "http.app", "http.server"):
        importlib.import_module(f"outlast.{name}")


def serve(control: socket.socket) -> dict[str, Any]:
    """Fork for every request until all clients are gone; returns in the forked processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    running: dict[int, socket.socket] = {}
    lifelines: dict[int, int] = {}
    while True:
        waited_for: list[Any] = [control, woken, *lifelines]
        ready = select.select(waited_for, [], [])[0]
        if woken in ready:
            woken.recv(4096)
            report_ended(running)
        for cut in lifelines.keys() & set(ready):
            os.close(cut)
            if (pid := lifelines.pop(cut)) in running:
                os.kill(pid, signal.SIGKILL)
        if control not in ready:
            continue
        byte, descriptors, _, _ = socket.recv_fds(control, 1, 5)
        if not byte:
            os._exit(0)
        channel = socket.socket(fileno=descriptors[3])
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for inherited in (control, woken, waker, *running.values()):
                inherited.close()
            for descriptor in (*lifelines, *descriptors[4:]):
                os.close(descriptor)
            return received(channel, descriptors)
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        lifelines.update(dict.fromkeys(descriptors[4:], pid))
        running[pid] = channel


def report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as channel:
            send(channel, os.waitstatus_to_exitcode(status))


def send(channel: socket.socket, number: int) -> None:
    with suppress(OSError):  # the client is gone
        channel.sendall(b"%d\n" % number)


def received(channel: socket.socket, descriptors: list[int]) -> dict[str, Any]:
    """Become the requested process: its streams, folder and environment."""
    with channel.makefile("rb") as stream:
        request: dict[str, Any] = json.loads(stream.readline())
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        standard = opened(number)
        vars(sys).update({name: standard, f"__{name}__": standard})
    send(channel, os.getpid())  # from now on signals act as on any process
    channel.close()
    return request


def opened(number: int) -> io.TextIOWrapper:
    """A standard stream, opened like Python opens it."""
    raw = io.FileIO(number, "wb" if number else "rb", closefd=False)
    raw.name = f"<{('stdin', 'stdout', 'stderr')[number]}>"
    is_buffered = not number or not os.environ.get("PYTHONUNBUFFERED")
    binary: Any = raw
    if is_buffered:
        binary = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
    encoding, errors = ENCODINGS[number]
    by_line = number == 2 or os.isatty(number)
    text: Any = io.TextIOWrapper(
        binary, encoding, errors, newline="\n", line_buffering=by_line, write_through=not is_buffered
    )
    text.mode = "w" if number else "r"
    return cast("io.TextIOWrapper", text)


def run(arguments: list[str]) -> None:
    """Run like `python`: `-m MODULE …`, `-c CODE …` or `SCRIPT …`."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.orig_argv = [sys.executable, *arguments]
    given = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    importlib.invalidate_caches()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[:] = [os.getcwd(), *given, *PATH]
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
        return
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[:] = ["", *given, *PATH]
        exec(compile(arguments[1], "<string>", "exec", dont_inherit=True), main.__dict__)
        return
    sys.argv, script = arguments, os.path.abspath(arguments[0])
    sys.path[:] = [os.path.dirname(os.path.realpath(script)), *given, *PATH]
    main.__dict__.update(__file__=script, __loader__=SourceFileLoader("__main__", script), __cached__=None)
    with io.open_code(script) as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    exec(code, main.__dict__)


if __name__ == "__main__":
    warm_up()
    assert threading.active_count() == 1, "a thread would be missing in forked processes"
    gc.collect()
    gc.freeze()
    run(serve(socket.socket(fileno=int(sys.argv[1])))["arguments"])
