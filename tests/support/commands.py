"""Starts programs like `subprocess`, forked from a warm process where possible.

`Popen` and `run` replace those of `subprocess`. `python -m outlast …`, `python -c …` and `python SCRIPT …` are forked
from a `fork_server` that has imported Outlast, unless an option needs a fresh interpreter. With `OUTLAST_TEST_COLD=1`
every program starts in a fresh interpreter.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess, TimeoutExpired
from typing import Any

__all__ = ["DEVNULL", "PIPE", "STDOUT", "CompletedProcess", "Popen", "TimeoutExpired", "run"]

SHAPING = ("PYTHON", "LC_", "LANG", "TZ")
"""Prefixes of variables that an interpreter reads when it starts."""
IMITATED = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Those that the fork server applies."""
PYTEST_OF_A_USER = " ".join(
    f"-p no:{name}" for name in ("anyio", "hypothesispytest", "platformdirs", "schemathesis", "xdist")
)
"""For PYTEST_ADDOPTS: without the plugins that are installed for our own tests, which take longer than pytest to import."""
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_started_with = dict(os.environ)
_lock = threading.Lock()
_server: tuple[int, socket.socket] | None = None
_execute_child = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


def _control() -> socket.socket:
    """The socket of this process's server, which ends with this process."""
    global _server
    if _server is None or _server[0] != os.getpid():
        ours, its = socket.socketpair()
        with its:
            subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=DEVNULL,
                env=_started_with,
            ).returncode = 0  # it is not waited for
        _server = os.getpid(), ours
        atexit.register(ours.close)
    return _server[1]


def _shaping(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(SHAPING) and name not in IMITATED}


class Popen(subprocess.Popen[Any]):
    """A process, forked from the server where possible."""

    _channel: socket.socket | None = None

    def _execute_child(self, *arguments: Any) -> None:
        asked = _execute_child.bind(self, *arguments).arguments
        environment = dict(os.environ if asked["env"] is None else asked["env"])
        if not self._is_warm(asked, environment):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        self._channel, its = socket.socketpair()
        streams = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        streams = [number if stream == -1 else stream for number, stream in enumerate(streams)]
        request = {
            "arguments": [os.fsdecode(word) for word in asked["args"][1:]],
            "folder": os.fsdecode(asked["cwd"] or os.getcwd()),
            "environment": environment,
            "session": asked["start_new_session"],
        }
        with its, _lock:
            socket.send_fds(_control(), [b"x"], [*streams, its.fileno()])
        self._channel.sendall(json.dumps(request).encode() + b"\n")
        self.pid = self._number()
        self._child_created = True
        self._close_pipe_fds(*[asked[name] for name in PIPES])  # type: ignore[attr-defined]

    @staticmethod
    def _is_warm(asked: dict[str, Any], environment: dict[str, str]) -> bool:
        args = asked["args"]
        return (
            "OUTLAST_TEST_COLD" not in _started_with
            and not isinstance(args, str | bytes)
            and args[0] == sys.executable
            and (list(args[1:3]) == ["-m", "outlast"] or args[1] == "-c" or str(args[1]).endswith(".py"))
            and not asked["preexec_fn"]
            and not asked["pass_fds"]
            and not asked["shell"]
            and asked["restore_signals"]
            and _shaping(environment) == _shaping(_started_with)
        )

    def _number(self) -> int:
        """The next number from the server: the process id, then the exit code."""
        line = b""
        assert self._channel is not None
        while not line.endswith(b"\n"):
            more = self._channel.recv(1)
            if not more:
                raise RuntimeError("the fork server has ended")
            line += more
        return int(line)

    def poll(self) -> int | None:
        if self._channel is None:
            return super().poll()
        if self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            self._waitpid_lock.release()  # type: ignore[attr-defined]
            return self._ended_within(0)
        return None  # another thread waits

    def wait(self, timeout: float | None = None) -> int:
        if self._channel is None:
            return super().wait(timeout)
        code = self._ended_within(timeout)
        if code is None:
            assert timeout is not None
            raise TimeoutExpired(self.args, timeout)
        return code

    def _internal_poll(self, *arguments: Any, **named: Any) -> int | None:
        if self._channel is None:
            return super()._internal_poll(*arguments, **named)  # type: ignore[misc, no-any-return]
        return self.poll()

    def _ended_within(self, timeout: float | None) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            channel = self._channel
            if self.returncode is None and channel is not None and select.select([channel], [], [], timeout)[0]:
                self.returncode = self._number()
                channel.close()
        return self.returncode


def run(
    command: Any,
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> CompletedProcess[Any]:
    """`subprocess.run`."""
    if input is not None:
        options["stdin"] = PIPE
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def programs(folder: Path) -> tuple[dict[str, str], list[int]]:
    """For a shell: variables with a PATH to `outlast` and `python` in this folder, and the descriptors to pass on."""
    text = Path(__file__).with_name("forked_program.py").read_text()
    folder.mkdir()
    for name in ("outlast", "python"):
        (folder / name).write_text(f"#!{sys.executable} -IS\n{text}")
        (folder / name).chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    if "OUTLAST_TEST_COLD" in _started_with:
        return {"PATH": path}, []
    return {"PATH": path, "OUTLAST_FORK_SERVER": str(_control().fileno())}, [_control().fileno()]
