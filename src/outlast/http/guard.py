"""What every request passes: host check, shutdown, security headers, metrics. Plain ASGI, without buffering."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.http.problems import HttpError, response_of

if TYPE_CHECKING:
    from outlast.http.state import ServerState

ALIVE = ("/healthz", "/readyz")
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>[^\[\]:/@\s]+))(?::[0-9]{1,5})?")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; connect-src 'self'; font-src 'self'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; form-action 'self'; frame-ancestors 'none'; base-uri 'self'"
)
HEADERS: tuple[tuple[bytes, bytes], ...] = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": CSP,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "cache-control": "no-store",
    }.items()
)


class Hosts:
    """Which `Host` headers are accepted. A DNS rebinding attack needs a name, so addresses always are."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {"localhost", socket.gethostname().lower(), *(name.lower() for name in names)}

    def accepts(self, host: str) -> bool:
        if "*" in self._names:
            return True
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match["address"] or match["name"]
        if name.lower().rstrip(".") in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class Guard:
    """Wraps the application of one server."""

    def __init__(self, app: ASGIApp, state: ServerState, hosts: Hosts) -> None:
        self._app = app
        self._state = state
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                there = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in HEADERS if name not in there]
                message = {**message, "headers": headers}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, sent)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.detail[:120]})
        else:
            await response_of(refusal)(scope, receive, sent)
        if self._state.metrics is not None and scope["type"] == "http":
            self._state.metrics.observe(_route(scope), scope["method"], status, time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> HttpError | None:
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in ALIVE:
            return None
        if not self._hosts.accepts(headers.get("host", "")):
            return HttpError("http.wrong_host", "the Host header does not name this server")
        if self._state.is_draining:
            return HttpError("http.unavailable", "the server shuts down", headers={"Retry-After": "2"})
        return None


def _route(scope: Scope) -> str:
    """The template of the path: no label of a metric holds an id."""
    route = scope.get("route")
    return route.path if route is not None else "none"
