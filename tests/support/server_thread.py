"""A server in a thread of this process, on a port of its own: for tests whose client blocks, or is another process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import outlast as ol
from outlast.compose import open_desk
from outlast.http.app import build, ready
from outlast.http.auth import Auth
from outlast.http.permissions import ROLES
from outlast.http.server import Options, Server, config_of, listen
from outlast.http.state import ServerState

PATIENCE_S = 120


class ServerThread:
    """A server over a store. `recover` is what a server does first; without it, runs stay as they are. It can be stopped
    and begun again on the same port."""

    def __init__(self, store: Path | str, *, worker: bool = False, recover: bool = True) -> None:
        self.store, self._worker, self._recover = store, worker, recover
        self.port = 0
        self.tokens: dict[str, str] = {}
        self.state: ServerState | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        self._is_up = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._is_up.wait(PATIENCE_S), "the server does not start"
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server does not end"

    def _end(self) -> None:
        assert self.state is not None
        self.state.drain()
        self._server.should_exit = True

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
            self._is_up.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        engine_of = ol.open(self.store) if self._worker else open_desk(str(self.store))
        async with engine_of as engine:
            self.state = ServerState(Auth())
            async with ready(self.state, engine, recover=self._recover):
                for role in ROLES:
                    if role not in self.tokens:
                        self.tokens[role], _ = await self.state.auth.create("token", role, role)
                socket = listen("127.0.0.1", self.port)
                self.port = socket.getsockname()[1]
                options = Options(port=self.port, grace=2)
                self._server = Server(config_of(build(self.state, engine), options), self.state)
                serving = asyncio.create_task(self._server.serve([socket]))
                await self._server.listening.wait()
                self._is_up.set()
                await serving


@contextmanager
def served(store: Path | str, **options: Any) -> Iterator[ServerThread]:
    server = ServerThread(store, **options)
    server.begin()
    try:
        yield server
    finally:
        server.end()
