"""The parent's side of one helper process: starts, calls, kills and reaps it."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from outlast.execution import process_entry
from outlast.execution.process_wire import GRACE, PREFIX, Ack, Call, Note, opening, read_note
from outlast.history.events import Failure
from outlast.values.codec import decode

OnMessage: TypeAlias = Callable[[str, Any], object]
"""Receives ("checkpoint", bytes), ("progress", dict), ("line", dict) and ("output", dict). An awaitable result is
awaited. True, for a checkpoint, ends the call there."""
Confirm: TypeAlias = Callable[[], Awaitable[None]]
"""Returns when the attempt may begin."""

_PATH = "OUTLAST_HELPER_PATH"
# Not `-m`: only this process may have the path at which the interpreter finds this package.
_START = (
    f"import os, sys; sys.path[:] = os.environ.pop({_PATH!r}).split('\\n'); del sys.argv[0]; "
    "from outlast.execution.process_child import main; main()"
)
_read_failure = msgspec.json.Decoder(Failure).decode


async def no_confirmation() -> None:
    """Permit every attempt."""


class ProcessDied(Exception):
    """The helper process ended during the call, or could not be started; the message names the exit code or signal."""


class HelperProcess:
    """One helper process."""

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self.end = asyncio.create_task(self._reap())
        """Done when the process has ended; its exit code."""

    @classmethod
    async def start(cls) -> HelperProcess:
        if process_entry.is_loading:
            raise ProcessDied(
                "a helper process loads the script, and the script starts more helper processes: "
                'put the code that starts work under: if __name__ == "__main__"'
            )
        near, far = socket.socketpair()
        near.setblocking(False)
        try:
            with far:
                process = await asyncio.create_subprocess_exec(
                    *_command(), stdin=far.fileno(), env=_environment(), start_new_session=True
                )
        except BaseException as error:
            near.close()
            if isinstance(error, OSError):
                raise ProcessDied(f"a helper process could not be started: {error}") from error
            raise
        return cls(process, near)

    def is_alive(self) -> bool:
        """Whether an idle helper can be used: it may have been killed meanwhile."""
        try:
            return self._process.returncode is None and bool(self._channel.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def call(self, call: Call, inputs: bytes, on_message: OnMessage | None) -> bytes | Failure:
        self._number += 1
        try:
            await self._send(replace(call, number=self._number), inputs)
            while True:
                note, body = await self._receive()
                if note.kind == "done":
                    return body
                if note.kind == "failed":
                    return _read_failure(body)
                await self._forward(note, body, on_message)
        except _ChannelClosed:
            code = await self.terminate()
            raise ProcessDied(f"the helper process ended while it ran {call.entry}: {_exit_text(code)}") from None

    def kill(self) -> None:
        """End the process, and the processes it has started, now."""
        if self._process.returncode is None:
            self._kill_group()

    async def terminate(self) -> int:
        """Kill the process if it still runs, wait until it has ended, and return its exit code. No call may be under
        way."""
        self.kill()
        self._channel.close()
        return await asyncio.shield(self.end)

    async def shut_down(self) -> None:
        """Let an idle helper exit by itself; kill it after a short time."""
        self._channel.close()
        await asyncio.wait([self.end], timeout=GRACE)
        await self.terminate()

    async def _forward(self, note: Note, body: bytes, on_message: OnMessage | None) -> None:
        answer: object = None
        if on_message is not None and note.call == self._number:  # a thread may have outlived an earlier call
            answer = on_message(note.kind, body if note.kind == "checkpoint" else decode(body))
            if inspect.isawaitable(answer):
                answer = await answer
        if note.kind == "checkpoint":
            await self._send(Ack(note.serial, answer is True), b"")
        # Buffered notes are received without yielding: let other tasks run in between.
        await asyncio.sleep(0)

    async def _send(self, head: Call | Ack, body: bytes) -> None:
        try:
            await self._loop.sock_sendall(self._channel, opening(head, body))
            await self._loop.sock_sendall(self._channel, body)
        except OSError:
            raise _ChannelClosed from None

    async def _receive(self) -> tuple[Note, bytes]:
        head_size, body_size = PREFIX.unpack(await self._read_exactly(PREFIX.size))
        note = read_note(await self._read_exactly(head_size))
        return note, bytes(await self._read_exactly(body_size))

    async def _read_exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while len(view):
            try:
                count = await self._loop.sock_recv_into(self._channel, view)
            except OSError:
                count = 0
            if not count:
                raise _ChannelClosed
            view = view[count:]
        return buffer

    async def _reap(self) -> int:
        code = await self._process.wait()
        self._kill_group()  # its child processes must neither outlive it nor keep its channel open
        return code

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


class _ChannelClosed(Exception):
    """The helper has closed its end of the channel."""


def _command() -> list[str]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", _START, *map(str, sys.argv)]


def _environment() -> dict[str, str]:
    return {**os.environ, _PATH: "\n".join(map(str, sys.path))}


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"
