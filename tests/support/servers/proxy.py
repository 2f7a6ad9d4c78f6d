"""A proxy on loopback in front of an HTTP server that answers with errors, loses answers, or delays them.

It runs in its own thread. `plan` decides about every request. A request is forwarded byte for byte in its own
connection, so a signature over its headers stays valid.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

Deed: TypeAlias = Literal[
    "pass", "refuse_500", "refuse_503", "drop", "apply_500", "apply_drop", "apply_half", "apply_late", "hang"
]
DEEDS: tuple[Deed, ...] = (
    "refuse_500",
    "refuse_503",
    "drop",
    "apply_500",
    "apply_drop",
    "apply_half",
    "apply_late",
    "hang",
)
"""Answer with an error and do nothing; close the connection and do nothing; forward and answer with an error, close,
or close in the middle of the answer; forward after the client has given up; never answer and do nothing."""


class Request(NamedTuple):
    method: str
    path: str
    raw: bytes


class FaultProxy:
    """A fault proxy, as a context manager. `pause` is the delay of a late or hanging request in seconds."""

    def __init__(self, port: int, plan: Callable[[Request], Deed] = lambda _: "pass", *, pause: float = 2.0) -> None:
        self.plan = plan
        self.port = 0
        self.done: Counter[Deed] = Counter()
        self._upstream = port
        self._pause = pause
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                if not await self._answer(request, writer):
                    return
        except (OSError, asyncio.IncompleteReadError, ValueError):
            return
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; whether the connection may be used again."""
        deed = self.plan(request)
        self.done[deed] += 1
        if deed in ("refuse_500", "refuse_503"):
            writer.write(_error(500 if deed == "refuse_500" else 503))
            await writer.drain()
            return True
        if deed in ("hang", "apply_late"):
            await asyncio.sleep(self._pause)
        answer = b"" if deed in ("drop", "hang") else await self._passed_on(request)
        match deed:
            case "pass":
                writer.write(answer)
            case "apply_half":
                writer.write(answer[: len(answer) // 2])
            case "apply_500":
                writer.write(_error(500))
            case _:
                pass
        with suppress(OSError):
            await writer.drain()
        return False  # the server closes after its answer, so this connection is closed too

    async def _passed_on(self, request: Request) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            writer.write(request.raw)
            await writer.drain()
            return await reader.read(-1)
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection, changed to close it afterwards; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = [line.partition(":") for line in lines if line]
    size = next((int(value) for name, _, value in fields if name.lower() == "content-length"), 0)
    kept = [f"{name}:{value}" for name, _, value in fields if name.lower() != "connection"]
    body = await reader.readexactly(size)
    method, path, _ = first.split(" ")
    raw = "\r\n".join([first, *kept, "connection: close", "", ""]).encode("latin-1") + body
    return Request(method, path, raw)


def _error(status: int) -> bytes:
    body = b"<Error><Code>SlowDown</Code><Message>not now</Message></Error>"
    return b"HTTP/1.1 %d Sorry\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )
