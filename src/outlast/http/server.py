"""The process that serves: uvicorn, with streams that are woken at shutdown and slow requests that are closed."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import FrameType
from typing import Any

import uvicorn
from msgspec import Struct
from starlette.routing import BaseRoute
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from outlast.client import Engine
from outlast.compose import open_settled, working
from outlast.errors import InvalidInput, StoreError, StoreUnusable
from outlast.http.app import build, counting, ready
from outlast.http.auth import SIGN_IN_S, Auth, OidcOptions
from outlast.http.recovery import recover_all
from outlast.http.state import ServerState
from outlast.ledger import Ledger
from outlast.services.tracing import tracing
from outlast.settings import Settings
from outlast.stores.encrypted import check_keys

log = logging.getLogger("outlast.http")

REQUEST_DEADLINE_S = 30.0
"""From the first byte of a request, or the connection, to the end of its body."""
STORE_RETRY_S = 1.0


class Options(Struct, frozen=True, kw_only=True):
    """How to serve. `grace` is how long open requests may take at shutdown."""

    host: str = "127.0.0.1"
    port: int = 8470
    worker: bool = True
    insecure_local: bool = False
    allow_hosts: tuple[str, ...] = ()
    rate: float = 0.0
    grace: float = 10.0
    request_deadline: float = REQUEST_DEADLINE_S
    root_path: str = ""
    trusted_proxies: tuple[str, ...] = ()
    oidc: OidcOptions | None = None


class Protocol(HttpToolsProtocol):
    """Closes a connection whose request does not arrive in time. Answers, streams included, may take as long as they do."""

    deadline_s = REQUEST_DEADLINE_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        # asyncio does so only for sockets that name their protocol. Without it, an answer of two parts waits 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._expect()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._expect()

    def on_message_complete(self) -> None:
        self._unexpect()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unexpect()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(self.deadline_s, self._too_late)

    def _unexpect(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """Tells the state first when it has to exit, so that streams end and new requests are refused."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state
        self.address: tuple[str, int] = (config.host, config.port)
        self.listening = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            found = (sockets or self.servers[0].sockets)[0].getsockname()
            self.address = (found[0], found[1])
            self.listening.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal ends it in good order: uvicorn would raise it again, before the engine is closed. The second one
        closes all connections at once."""
        self._loop.call_soon_threadsafe(self._state.drain)
        self.force_exit = self.should_exit
        self.should_exit = True


async def serve(
    settings: Settings,
    options: Options,
    *,
    announce: Callable[[ServerState, str], Awaitable[None]] | None = None,
    more: Sequence[BaseRoute] = (),
) -> None:
    """Serve until a signal. `announce` is called with the address once the server is ready."""
    listener = listen(options.host, options.port)
    state = ServerState(Auth(insecure_local=options.insecure_local))
    app = build(
        state, allow_hosts=(*options.allow_hosts, options.host), rate=options.rate, more=more, oidc=options.oidc
    )
    server = Server(config_of(app, options), state)
    serving = asyncio.create_task(server.serve([listener]), name="outlast-http")
    stop = asyncio.Event()

    async def begun() -> None:
        await server.listening.wait()
        host, port = server.address
        shown = f"[{host}]" if ":" in host else host
        log.info("Serving on http://%s:%d%s", shown, port, options.root_path)
        if announce is not None:
            await announce(state, f"http://{shown}:{port}{options.root_path}")

    engine = asyncio.create_task(_engine(state, settings, options, stop, begun), name="outlast-engine")
    try:
        await asyncio.wait({serving, engine}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.should_exit = True
        state.drain()
        await asyncio.wait({serving})
        stop.set()
        await engine
    await serving


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; `InvalidInput` if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"cannot listen on {host}, port {port}: {reason}; choose another --host or --port"
        ) from error


def config_of(app: Any, options: Options) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=type("Protocol", (Protocol,), {"deadline_s": options.request_deadline}),
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(options.trusted_proxies),
        forwarded_allow_ips=list(options.trusted_proxies) or None,
        root_path=options.root_path,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=max(1, round(options.grace)),
        h11_max_incomplete_event_size=65_536,
    )


async def _engine(
    state: ServerState,
    settings: Settings,
    options: Options,
    stop: asyncio.Event,
    begun: Callable[[], Awaitable[None]],
) -> None:
    """Open the store as soon as it can be reached, recover, and keep the worker running until the server stops."""
    while not stop.is_set():
        try:
            async with _opened(state, settings, options) as engine, ready(state, engine, recover=False):
                await begun()
                await stop.wait()
                await engine.drain()
            return
        except StoreUnusable:
            raise
        except StoreError as error:
            if state.is_ready or state.is_draining:
                raise
            log.warning("the store cannot be reached, next try in %g s: %s", STORE_RETRY_S, error)
            waiting = asyncio.create_task(state.drained.wait())
            await asyncio.wait({waiting}, timeout=STORE_RETRY_S)
            waiting.cancel()
            if state.drained.is_set():
                return


@asynccontextmanager
async def _opened(state: ServerState, settings: Settings, options: Options) -> AsyncIterator[Engine]:
    """The engine, after recovery: the worker begins when there is nothing inconsistent left to begin with."""
    store = open_settled(settings)
    try:
        await check_keys(store)
        ledger = Ledger(store)
        try:
            desk = Engine(ledger, root=str(settings.root), apps=settings.apps)
            async with AsyncExitStack() as opened:
                await opened.enter_async_context(tracing(ledger))
                opened.enter_context(counting(state, ledger))
                opened.push_async_callback(desk._leave)
                await recover_all(desk, hold=settings.on_restart == "hold")
                if not options.worker:
                    yield desk
                    return
                worker = await opened.enter_async_context(working(ledger, settings, reports_start=False))
                engine = Engine(ledger, worker, root=str(settings.root), apps=settings.apps)
                opened.push_async_callback(engine._leave)
                yield engine
        finally:
            await ledger.close()
    finally:
        await store.close()


async def sign_in_code(state: ServerState, name: str = "admin") -> str:
    """A one-time code for a session of an admin."""
    text, _ = await state.auth.create("sign-in", name, "admin", expires_s=SIGN_IN_S)
    return text
