"""The ASGI application of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

import outlast.http.api  # noqa: F401 - fills the table of operations
from outlast.client import Engine
from outlast.errors import OutlastError
from outlast.http import page, streams
from outlast.http.auth import Auth, OidcOptions
from outlast.http.guard import Guard, Hosts
from outlast.http.operations import OPERATIONS, SAFE, routes, sender
from outlast.http.problems import HttpError, response_of
from outlast.http.rate_limit import RateLimit
from outlast.http.recovery import recover_all
from outlast.http.state import ServerState
from outlast.ledger import Ledger

SWEEP_S = 600.0
"""How often expired sessions and old audit entries are removed."""


def asgi(
    engine: Engine,
    *,
    allow_hosts: Iterable[str] = (),
    insecure_local: bool = False,
    rate: float = 0.0,
    routes: Sequence[BaseRoute] = (),
    oidc: OidcOptions | None = None,
) -> Application:
    """An ASGI application over an open engine: `app.mount("/outlast", ol.asgi(engine))`.

    Its `lifespan()` recovers what was interrupted. A framework does not run the lifespan of an application that is mounted:
    enter it in the lifespan of the outer application. Without that, recovery runs with the first request."""
    state = ServerState(Auth(insecure_local=insecure_local))
    return build(state, engine, allow_hosts=allow_hosts, rate=rate, more=routes, oidc=oidc)


class Application:
    """The guarded application. `state` is its server; `lifespan()` recovers, and ends what it began."""

    def __init__(self, app: ASGIApp, state: ServerState, engine: Engine | None) -> None:
        self._app = app
        self.state = state
        self._engine = engine
        self._opening = asyncio.Lock()
        self._open: AsyncExitStack | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if self._engine is not None and not self.state.is_ready and not self.state.is_draining:
            await self._begin()
        await self._app(scope, receive, send)

    async def _begin(self) -> None:
        async with self._opening:
            if self._open is None and self._engine is not None:
                opened = AsyncExitStack()
                await opened.enter_async_context(ready(self.state, self._engine))
                self._open = opened

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        await self._begin()
        try:
            yield
        finally:
            self.state.drain()
            opened, self._open = self._open, None
            if opened is not None:
                await opened.aclose()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except OutlastError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


@asynccontextmanager
async def ready(state: ServerState, engine: Engine, *, recover: bool = True) -> AsyncIterator[None]:
    """The server is ready while this is entered: recovery is done, metrics and the sweep of sessions run."""
    state.attach(engine)
    services = [_sweeping(state)]
    with counting(state, engine._ledger):
        if recover:
            await recover_all(engine)
        if state.metrics is not None:
            services.append(state.metrics.run())
        tasks = [asyncio.create_task(service) for service in services]
        state.is_ready = True
        try:
            yield
        finally:
            state.is_ready = False
            if state.feeds is not None:
                state.feeds.close()
            if state.tasks:  # starts that were accepted
                await asyncio.wait(state.tasks, timeout=30)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def counting(state: ServerState, ledger: Ledger) -> AbstractContextManager[None]:
    """Count in metrics what this ledger appends, if the package for metrics is installed."""
    try:
        from outlast.http.metrics import Metrics
    except ImportError:
        return nullcontext()
    state.metrics = state.metrics or Metrics(state)
    return state.metrics.counting(ledger)


async def _sweeping(state: ServerState) -> None:
    while True:
        await asyncio.sleep(SWEEP_S)
        with suppress(OutlastError):
            await state.auth.sweep()
            await state.audit.sweep()


def build(
    state: ServerState,
    engine: Engine | None = None,
    *,
    allow_hosts: Iterable[str] = (),
    rate: float = 0.0,
    more: Sequence[BaseRoute] = (),
    oidc: OidcOptions | None = None,
) -> Application:
    """The application of a server. `more` are routes of streams and pages, which find the state in `app.state.outlast`."""
    inner = Starlette(
        routes=[
            *routes(OPERATIONS),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            *streams.routes(),
            *_oidc_routes(state, oidc),
            *page.routes(),
            *more,
        ],
        exception_handlers={404: _not_found, 405: _not_allowed, Exception: _failed},
    )
    inner.router.redirect_slashes = False
    inner.state.outlast = state
    state.limit = RateLimit(rate) if rate else None
    return Application(Guard(inner, state, Hosts(allow_hosts)), state, engine)


def _oidc_routes(state: ServerState, options: OidcOptions | None) -> list[Route]:
    if options is None:
        return []
    from outlast.http.oidc import Oidc, routes

    state.auth.oidc_roles = options.roles
    return routes(Oidc(options))


async def healthz(_: Request) -> Response:
    """The process answers. The store is not asked."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """The server serves requests: recovery is done, the store answers, no shutdown has begun."""
    state: ServerState = request.app.state.outlast
    if state.is_draining:
        return _not_ready("draining")
    if not state.is_ready:
        return _not_ready("starting")
    return JSONResponse({"status": "ready"}) if await state.store_answers() else _not_ready("store unavailable")


def _not_ready(status: str) -> Response:
    return JSONResponse({"status": status}, 503, {"Retry-After": "1"})


async def metrics(request: Request) -> Response:
    """The metrics, with the permission `metrics:read`."""
    state: ServerState = request.app.state.outlast
    try:
        who = await sender(request, state)
        if not who.may("metrics:read"):
            raise HttpError("http.forbidden", "this role does not have the permission metrics:read")
        if state.metrics is None:
            raise HttpError("http.unavailable", "metrics need the package prometheus-client")
    except (HttpError, OutlastError) as error:
        return response_of(error)
    return Response(state.metrics.text(), media_type="text/plain; version=0.0.4")


async def _not_found(request: Request, _: Exception) -> Response:
    return response_of(HttpError("http.not_found", f"there is nothing at {request.url.path[:200]!r}"))


async def _not_allowed(request: Request, error: Any) -> Response:
    headers = dict(getattr(error, "headers", None) or {"Allow": ", ".join(sorted(SAFE))})
    return response_of(HttpError("http.method_not_allowed", f"{request.method[:20]} is not allowed", headers=headers))


async def _failed(_: Request, __: Exception) -> Response:
    return response_of(HttpError("http.internal", "the server failed to carry this out; its log says why"))
