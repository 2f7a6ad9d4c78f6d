"""Requests to one server: repeated where that is safe, with the errors that the server names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from msgspec import Raw, Struct

from outlast import __version__
from outlast.errors import (
    CODES,
    AlreadyExists,
    InvalidInput,
    NotPermitted,
    OutlastError,
    ServerAway,
    ServerError,
    ServerMismatch,
)

T = TypeVar("T")

API = "/api/v1"
PATIENCE_S = 60.0
"""How long requests are repeated while a server that has answered before does not answer."""
FIRST_PATIENCE_S = 1.0
"""The same before its first answer: it does not run, or the address is wrong."""
PAUSE_S, MAX_PAUSE_S = 0.1, 2.0
"""The first pause before a request is repeated, and the longest."""
TIMEOUT_S = 30.0
PAGE = 1000
LONG_POLL_S = 30.0
"""How long the server may wait for an event before it answers."""
SILENCE_S = 45.0
"""A stream without a heartbeat for this long is lost."""
_REFUSED = ("http.unavailable", "http.rate_limited", "http.in_progress")
"""Codes of requests that were not carried out and may be repeated."""
_CLASSES: dict[str, type[OutlastError]] = {
    "http.unauthenticated": NotPermitted,
    "http.forbidden": NotPermitted,
    "http.key_reused": AlreadyExists,
    "http.invalid": InvalidInput,
    "http.malformed": InvalidInput,
    "http.too_large": InvalidInput,
    "http.not_found": ServerMismatch,
    "http.method_not_allowed": ServerMismatch,
}
"""The errors of codes of the HTTP layer; other codes of it are a `ServerError`."""


class Problem(Struct, frozen=True):
    """The parts of a problem document that a client uses."""

    code: str
    detail: str = ""
    remedy: str = ""
    field: str = ""
    run: str = ""
    seq: int = 0


def path_of(*parts: str) -> str:
    """A path with its parts escaped."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class Connection:
    """A connection to the server at an address. `patience_s` is how long requests are repeated while it is away."""

    def __init__(
        self,
        address: str,
        token: str = "",
        *,
        patience_s: float = PATIENCE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.address = address.rstrip("/")
        self._patience_s = patience_s
        self._has_answered = False
        headers = {"User-Agent": f"outlast/{__version__}"} | ({"Authorization": f"Bearer {token}"} if token else {})
        is_here = urlsplit(self.address).hostname in ("localhost", "127.0.0.1", "::1")
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(TIMEOUT_S, read=TIMEOUT_S + LONG_POLL_S),
            transport=transport,
            trust_env=not is_here,  # a proxy does not reach this machine's own servers
        )

    async def close(self) -> None:
        await self._client.aclose()

    # --- requests

    async def get(self, path: str, kind: type[T], **query: Any) -> T:
        """Read; repeated if it fails."""
        return await self._decoded("GET", path, kind, await self.send("GET", path, query=query))

    async def pages(
        self, path: str, kind: type[T], *, after: str | int = "", by: str = "cursor", **query: Any
    ) -> AsyncIterator[T]:
        """The pages of a list, from `after` on, which is sent as `by`."""
        following: str | int | None = after
        while following is not None:
            page: Any = await self.get(path, kind, **query, limit=PAGE, **{by: following})
            yield page
            following = page.next

    async def post(
        self, path: str, kind: type[T], body: Mapping[str, Any], *, repeats: bool = False, key: str = ""
    ) -> T:
        """Change something. `repeats`: to carry it out twice has no further effect. `key` is an Idempotency-Key."""
        headers = {"Idempotency-Key": key} if key else {}
        response = await self.send("POST", path, body=body, repeats=repeats or bool(key), headers=headers)
        return await self._decoded("POST", path, kind, response)

    async def delete(self, path: str) -> None:
        await self.send("DELETE", path)

    async def delete_once(self, path: str, kind: type[T], **query: Any) -> T:
        """Delete something that answers differently the second time."""
        return await self._decoded("DELETE", path, kind, await self.send("DELETE", path, query=query, repeats=False))

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeats: bool | None = None,
    ) -> httpx.Response:
        """A response of success; raises the error that the server names."""
        repeats = method != "POST" if repeats is None else repeats
        content = None if body is None else msgspec.json.encode(body)
        sent = dict(headers or {}) | ({"Content-Type": "application/json"} if content is not None else {})
        backoff = _Backoff(self._patience)
        while True:
            try:
                response = await self._client.request(
                    method, self.address + API + path, params=_params(query or {}), content=content, headers=sent
                )
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                trouble: OutlastError = self._away(error)
                may_repeat = True
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                trouble, may_repeat = self._lost(error, repeats), repeats
            else:
                self._has_answered = True
                if response.is_success:
                    return response
                trouble, may_repeat = self._refusal(response, repeats)
                backoff.at_least(response.headers.get("Retry-After", ""))
            if not may_repeat or not await backoff.wait():
                raise trouble

    @property
    def _patience(self) -> float:
        return self._patience_s if self._has_answered else min(FIRST_PATIENCE_S, self._patience_s)

    # --- streams

    async def messages(self, **query: Any) -> AsyncIterator[tuple[str, bytes]]:
        """The messages of a stream, by kind and data. Raises `ServerAway` when it is lost."""
        async for message in _messages(self._chunks("/stream", query)):
            yield message

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a long answer, without line ends. Raises `ServerAway` when it is lost before its end."""
        rest = b""
        async for chunk in self._chunks(path, {}):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line

    async def _chunks(self, path: str, query: Mapping[str, Any]) -> AsyncIterator[bytes]:
        timeout = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
        url = self.address + API + path
        try:
            async with self._client.stream("GET", url, params=_params(query), timeout=timeout) as response:
                self._has_answered = True
                if not response.is_success:
                    await response.aread()
                    error, may_repeat = self._refusal(response, repeats=True)
                    raise ServerAway(str(error)) if may_repeat else error
                async for chunk in response.aiter_bytes():
                    yield chunk
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._away(error) from error
        except httpx.HTTPError as error:
            raise self._lost(error, repeats=True) from error

    def backoff(self) -> _Backoff:
        return _Backoff(self._patience)

    # --- errors

    def _away(self, error: Exception) -> ServerAway:
        return ServerAway(
            f"Server not running: nothing answers at {self.address} ({str(error) or type(error).__name__})"
        )

    def _lost(self, error: Exception, repeats: bool) -> ServerAway:
        doubt = "" if repeats else "; the request may have been carried out: look at the run before you repeat it"
        return ServerAway(f"the connection to {self.address} was lost ({str(error) or type(error).__name__}){doubt}")

    def _refusal(self, response: httpx.Response, repeats: bool) -> tuple[OutlastError, bool]:
        """The error of a response, and whether the request may be repeated."""
        try:
            problem = msgspec.json.decode(response.content, type=Problem)
        except (msgspec.DecodeError, UnicodeError):
            is_away = response.status_code in (502, 503, 504)
            what = f"it answered {response.status_code} {_phrase(response.status_code)}"
            if is_away:
                return ServerAway(f"Server not running: {what} at {self.address}"), repeats
            return ServerMismatch(f"there is no Outlast server at {self.address}: {what}"), False
        error = _error_of(problem, self.address)
        is_away = response.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        return error, problem.code in _REFUSED or (is_away and repeats)

    async def _decoded(self, method: str, path: str, kind: type[T], response: httpx.Response) -> T:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.DecodeError, UnicodeError) as error:
            if not response.headers.get("content-type", "").startswith("application/json"):
                raise ServerMismatch(f"there is no Outlast server at {self.address}") from error
            raise ServerMismatch(
                f"the answer to {method} {path} is unknown here ({error}): this is Outlast {__version__}, the server is "
                f"{await self._version()}; install the same version on both sides"
            ) from error

    async def _version(self) -> str:
        with suppress(httpx.HTTPError, msgspec.DecodeError, UnicodeError, LookupError, TypeError):
            response = await self._client.get(f"{self.address}{API}/openapi.json")
            return str(msgspec.json.decode(response.content)["info"]["version"])
        return "of another version"


class _Backoff:
    """Pauses that double, until the patience is over."""

    def __init__(self, patience_s: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + patience_s
        self._pause = PAUSE_S

    def at_least(self, seconds: str) -> None:
        """What the server asks for in `Retry-After`."""
        if seconds.isdigit():
            self._pause = max(self._pause, min(float(seconds), MAX_PAUSE_S))

    async def wait(self) -> bool:
        """Pause; False if the patience is over."""
        if self._clock() + self._pause > self._until:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, MAX_PAUSE_S)
        return True


def _params(query: Mapping[str, Any]) -> httpx.QueryParams:
    """The query: what is None or empty is left out."""
    found: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in query.items():
        values = value if isinstance(value, list | tuple) else [value]
        found += [
            (name, str(each).lower() if isinstance(each, bool) else str(each))
            for each in values
            if each not in (None, "")
        ]
    return httpx.QueryParams(found)


def _error_of(problem: Problem, address: str) -> OutlastError:
    """The error of a problem, of the class that its code names."""
    known = CODES.get(problem.code)
    cls = known.error if known is not None and known.error is not None else _CLASSES.get(problem.code, ServerError)
    detail = problem.detail
    if cls is ServerMismatch:
        detail = (
            f"the server at {address} does not know this request ({detail}): install the same version on both sides"
        )
    elif cls is NotPermitted:
        detail = f"the server at {address} refused this: {detail}"
    elif problem.field:
        detail = f"{problem.field.partition('.')[2] or problem.field}: {detail}"
    error = cls.__new__(cls, detail)
    Exception.__init__(error, detail)  # some classes make the message from their parts
    vars(error).update(run=problem.run, seq=problem.seq)
    return error


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else ""


async def _messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, bytes]]:
    """Server-sent events. Only line feeds end a line here: JSON may hold other separators."""
    buffer, kind, data = b"", "message", b""
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b": ")
            if name == b"event":
                kind = value.decode()
            elif name == b"data":
                data = value
            elif not line:
                yield kind, data
                kind, data = "message", b""


def fields(**given: Any) -> dict[str, Any]:
    """A body: what is None is left out."""
    return {name: value for name, value in given.items() if value is not None}


NOTHING = Raw(b"null")
