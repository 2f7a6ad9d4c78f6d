"""Clients of streams over real connections, which break at random."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

ENDS = ("RunCompleted", "RunFailed", "RunCancelled")


class Watcher:
    """A client that follows runs until all have ended. Its connections go to any of the ports. With `breaks`, each is cut
    after that many events on average, and the client goes on from its cursor; what arrived with the last of them is
    lost. `seen` has what it received of each run."""

    def __init__(
        self, ports: Sequence[int], token: str, runs: Iterable[str], chance: random.Random, *, breaks: float = 0.0
    ) -> None:
        self.runs = list(runs)
        self.seen: dict[str, list[tuple[int, str]]] = {run: [] for run in self.runs}
        self.connections = 0
        self.times: list[float] = []
        """When each event arrived, by the clock of the loop."""
        self._ports, self._token, self._chance, self._breaks = ports, token, chance, breaks
        self._cursor = ""
        self._left = set(self.runs)

    async def follow(self) -> None:
        while self._left:
            most = self._chance.expovariate(1 / self._breaks) if self._breaks else math.inf
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._connection(most)
            if self._left:
                await asyncio.sleep(self._chance.random() / 10)

    async def _connection(self, most: float) -> None:
        reader, writer = await connected(self._chance.choice(self._ports), self._token, self.runs, self._cursor)
        self.connections += 1
        rest, enough = b"", len(self.times) + most
        try:
            while self._left and len(self.times) <= enough:
                *frames, rest = (rest + await chunk(reader)).split(b"\n\n")
                for frame in frames:
                    if len(self.times) <= enough:
                        self._take(frame)
        finally:
            writer.transport.abort()

    def _take(self, frame: bytes) -> None:
        fields = dict(line.split(b": ", 1) for line in frame.split(b"\n"))
        self._cursor = fields.get(b"id", self._cursor.encode()).decode()
        assert fields[b"event"] not in (b"expired", b"missing"), frame
        if fields[b"event"] != b"event":
            return
        self.times.append(asyncio.get_running_loop().time())
        data: Any = msgspec.json.decode(fields[b"data"])
        kind = data["event"]["type"]
        self.seen[data["run"]].append((data["event"]["seq"], kind))
        if kind in ENDS:
            self._left.discard(data["run"])


async def connected(
    port: int, token: str, runs: Sequence[str], cursor: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose head has been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    last = f"Last-Event-ID: {cursor}\r\n" if cursor else ""
    query = "&".join(f"run={run}" for run in runs)
    head = f"GET /api/v1/stream?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{last}\r\n"
    writer.write(head.encode())
    try:
        status = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in status.split(b"\r\n")[0]:
            raise OSError(status.decode())
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """The next chunk of a body; the end of the body is an error."""
    size = int(await reader.readuntil(b"\r\n"), 16)
    data = await reader.readexactly(size + 2)
    if not size:
        raise asyncio.IncompleteReadError(b"", None)
    return data[:-2]
