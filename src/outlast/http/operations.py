"""The table of operations, and what follows from it: routes, validation, permissions.

An operation is a function with its method, path and permission. The types of its query, body and answer (msgspec structs)
are those of its parameters and of what it returns.
`openapi` writes the document from the same table.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from types import NoneType
from typing import Any, Generic, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, ValidationError
from msgspec.structs import fields
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from outlast.client import Engine
from outlast.errors import OutlastError
from outlast.http.audit import AuditEntry
from outlast.http.auth import COOKIE, Principal
from outlast.http.permissions import Permission
from outlast.http.problems import HttpError, response_of, status_of, unavailable
from outlast.http.state import ServerState

log = logging.getLogger("outlast.http")

T = TypeVar("T")
JSON = "application/json"
BASE = "/api/v1"
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")


class Call:
    """One request to an operation: its validated parts, who sends it, and the server."""

    __slots__ = ("decision", "note", "path", "principal", "request", "state", "subject")

    def __init__(self, request: Request, state: ServerState, principal: Principal, path: Mapping[str, str]) -> None:
        self.request = request
        self.state = state
        self.principal = principal
        self.path = path
        self.subject = next(iter(path.values()), "")
        """What the request is about, for the audit; a handler sets it if it is not in the path."""
        self.note = ""
        """More about it, in words, for the audit."""
        self.decision: dict[str, str] = {}
        """The question that was decided: `interaction`, `text` and `answer` of its audit entry."""

    @property
    def engine(self) -> Engine:
        return self.state.engine

    @property
    def by(self) -> str:
        """Who is recorded in the log."""
        return self.principal.by

    def must_be_allowed(self, permission: Permission) -> None:
        if not self.principal.may(permission):
            detail = f"role {self.principal.role} does not have the permission {permission}"
            raise HttpError("http.forbidden", detail)


class Reply(Struct, Generic[T], frozen=True):
    """An answer with another status than the operation's own, or with headers."""

    value: T
    status: int = 0
    headers: dict[str, str] = {}


Handler: TypeAlias = Callable[..., Awaitable[Any]]


class Operation(Struct, frozen=True, kw_only=True):
    """One operation. `answers` is the type of its JSON, None if it answers without a body or streams one. `statuses` are
    those of success, the first is the default. `permission` None means that no credential is needed."""

    id: str
    method: str
    path: str
    permission: Permission | None
    handler: Handler
    summary: str
    description: str
    tag: str
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    body_required: bool = True
    answers: Any = None
    content: str = JSON
    statuses: tuple[int, ...] = (200,)
    headers: dict[str, str] = {}
    example: Any = None
    refuses: tuple[int, ...] = ()
    audited: bool | None = None
    """Whether requests are recorded; by default those that change something."""

    @property
    def is_audited(self) -> bool:
        return self.method not in SAFE if self.audited is None else self.audited


OPERATIONS: list[Operation] = []


def operation(
    method: str, path: str, permission: Permission | None, *, tag: str, base: str = BASE, **options: Any
) -> Callable[[Handler], Handler]:
    """Add the function to the table. The first line of its docstring is the summary. Its parameters `query` and `body`, and
    what it returns, are of the types of the operation. A body is required if one of its fields is."""

    def add(handler: Handler) -> Handler:
        summary, _, rest = (handler.__doc__ or "").strip().partition("\n")
        types = get_type_hints(handler)
        answers, body = types["return"], types.get("body")
        if get_origin(answers) is Reply:
            (answers,) = get_args(answers)
        found: dict[str, Any] = {
            "id": handler.__name__,
            "answers": None if answers is NoneType else answers,
            "query": types.get("query"),
            "body": body,
            "body_required": body is not None and any(field.required for field in fields(body)),
        }
        about = {"summary": summary, "description": " ".join(rest.split()), "tag": tag}
        place = {"method": method, "path": base + path, "permission": permission, "handler": handler}
        operation = Operation(**{**found, **place, **about, **options})
        OPERATIONS.append(operation)
        return handler

    return add


def routes(operations: list[Operation]) -> list[Route]:
    """One route per path, with all of its methods: the router's own method matching would answer a wrong `Allow`."""
    by_path: dict[str, dict[str, Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, {})[each.method] = each
    literal_first = sorted(by_path.items(), key=lambda item: [part.startswith("{") for part in item[0].split("/")])
    return [Route(path, Endpoint(methods)) for path, methods in literal_first]


class Endpoint:
    """All operations of one path, as an ASGI application."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]
        self._allow = ", ".join(sorted((*self._operations, "OPTIONS")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._answered(request)
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        allow = {"Allow": self._allow}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allow)
        operation = self._operations.get(request.method)
        try:
            if operation is None:
                detail = f"{request.method[:20]} is not a method of this path; allowed are {self._allow}"
                raise HttpError("http.method_not_allowed", detail, headers=allow)
            return await perform(operation, request)
        except (HttpError, OutlastError) as error:
            return response_of(error)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            log.exception("request %s %r failed", request.method, request.url.path)
            return response_of(HttpError("http.internal", "the server failed to carry this out; its log says why"))


async def perform(operation: Operation, request: Request) -> Response:
    """Check who asks and what for, and carry the operation out."""
    state: ServerState = request.app.state.outlast
    call = Call(request, state, NOBODY, dict(request.path_params))
    if not operation.is_audited:
        return await _answer(operation, call)
    try:
        response = await _answer(operation, call)
    except (HttpError, OutlastError) as error:
        await _recorded(operation, call, error.status if isinstance(error, HttpError) else status_of(error), error.code)
        raise
    except Exception:
        await _recorded(operation, call, 500, "http.internal")
        raise
    await _recorded(operation, call, response.status_code, "")
    return response


async def _answer(operation: Operation, call: Call) -> Response:
    await _authorise(operation, call)
    given = {"query": _query(operation, call.request)}
    if not call.state.is_ready and operation.permission is not None:
        raise unavailable("the server is starting: recovery is not complete")
    if operation.body is not None:
        given["body"] = await _body(operation, call.request, call.state)
    given = {name: part for name, part in given.items() if part is not None}
    return _response(operation, await operation.handler(call, **given))


async def _recorded(operation: Operation, call: Call, status: int, code: str) -> None:
    who, client = call.principal, call.request.client
    entry = AuditEntry(
        time=time.time_ns() // 1000,
        by=who.by,
        role=who.role if who is not NOBODY else "",
        address=client.host if client is not None else "",
        action=operation.id,
        status=status,
        code=code,
        subject=call.subject[:200],
        note=call.note[:500],
        **call.decision,
    )
    await call.state.audit.record(entry, is_known=who is not NOBODY)


def _response(operation: Operation, answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    reply = answer if isinstance(answer, Reply) else Reply(answer)
    status = reply.status or operation.statuses[0]
    body = b"" if reply.value is None else msgspec.json.encode(reply.value)
    return Response(body, status, reply.headers, JSON if body else None)


# --- who asks


NOBODY = Principal("", "viewer", "local")


async def _authorise(operation: Operation, call: Call) -> None:
    if operation.permission is None:
        if call.state.limit is not None:
            call.state.limit.check(call.request, None)
        return
    call.principal = await sender(call.request, call.state)
    call.must_be_allowed(operation.permission)


async def sender(request: Request, state: ServerState) -> Principal:
    """Who sends a request; it is refused without a valid credential, and if another site's page may have sent it."""
    header = request.headers.get("authorization")
    principal = await state.auth.principal(header, request.cookies.get(COOKIE))
    if state.limit is not None:
        state.limit.check(request, principal)
    if principal is None:
        headers = {"WWW-Authenticate": 'Bearer realm="outlast"'}
        raise HttpError("http.unauthenticated", "this needs a valid token or session", headers=headers)
    if principal.kind != "token":
        must_be_same_origin(request, is_required=principal.kind == "session")
    return principal


def must_be_same_origin(request: Request, *, is_required: bool) -> None:
    """Refuse what the page of another site may have sent with the credentials of this one (CSRF). `is_required` refuses a
    request that changes something and does not say where it comes from."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is not None:
        is_same = origin == f"{request.url.scheme}://{request.headers.get('host', '')}"
    elif site is not None:
        is_same = site == "same-origin" or (request.method in SAFE and site == "none")
    else:
        is_same = request.method in SAFE or not is_required
    if not is_same:
        raise HttpError("http.wrong_origin", "this request may have been sent by the page of another site")


# --- what for


def _query(operation: Operation, request: Request) -> Any:
    given = request.query_params
    if operation.query is None:
        if given:
            name = next(iter(given))
            raise HttpError("http.invalid", f"there is no query parameter {name[:80]!r}", field=f"query.{name[:80]}")
        return None
    many = lists_of(operation.query)
    values: dict[str, Any] = {}
    for name in given:
        found = given.getlist(name)
        if name not in many and len(found) > 1:
            raise HttpError("http.invalid", f"query parameter {name[:80]!r} is given twice", field=f"query.{name[:80]}")
        values[name] = found if name in many else found[0]
    return converted(values, operation.query, "query")


def lists_of(query: type[Struct]) -> set[str]:
    """The parameters that may be given several times."""
    found = set()
    for field in fields(query):
        kinds = (field.type, *get_args(field.type))
        if any(get_origin(kind) in (tuple, list) for kind in kinds):
            found.add(field.name)
    return found


def converted(values: Mapping[str, Any], kind: type[Struct], where: str) -> Any:
    try:
        return msgspec.convert(values, kind, strict=False)
    except ValidationError as error:
        raise invalid(error, where) from None


def invalid(error: ValidationError, where: str) -> HttpError:
    message, _, path = str(error).partition(" - at `$")
    return HttpError("http.invalid", message, field=where + path.rstrip("`"))


async def _body(operation: Operation, request: Request, state: ServerState) -> Any:
    assert operation.body is not None
    data = await read_body(request, state)
    if not data and not operation.body_required:
        return msgspec.convert({}, operation.body)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise HttpError("http.media_type", f"the body is {media[:80]!r}; {JSON} is needed")
    return decoded(data, operation.body)


def decoded(data: bytes, kind: type[Struct]) -> Any:
    """The body as this type: 400 if it is not JSON, 422 if it is other JSON than is needed."""
    try:
        return msgspec.json.decode(data, type=kind)
    except ValidationError as error:
        raise invalid(error, "body") from None
    except RecursionError:
        raise HttpError("http.malformed", "the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise HttpError("http.malformed", f"the body is not JSON: {error}") from None


async def read_body(request: Request, state: ServerState) -> bytes:
    """The body, read in chunks and bounded in size and time."""
    limit = state.max_body
    too_large = HttpError("http.too_large", f"the body is larger than {limit} bytes")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(state.body_timeout_s):
            async for chunk in request.stream():
                data += chunk
                if len(data) > limit:
                    raise too_large
    except TimeoutError:
        raise HttpError("http.timeout", f"the body did not arrive within {state.body_timeout_s:g} s") from None
    return bytes(data)


def path_parameters(path: str) -> list[str]:
    return _PATH_PARAMETER.findall(path)
