"""Errors as problem details (RFC 9457), each with a stable code and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from outlast import errors
from outlast.errors import OutlastError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class Problem(Struct, frozen=True, kw_only=True):
    """Why a request was refused or failed. `code` is stable; `remedy` says what to do; `field` is the part of the request
    that is invalid; `run` and `seq` say where a log is damaged."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    field: str | UnsetType = UNSET
    run: str | UnsetType = UNSET
    seq: int | UnsetType = UNSET


HTTP_CODES: dict[str, tuple[int, str]] = {
    "http.malformed": (400, "Send valid JSON that is less deeply nested, in UTF-8."),
    "http.unauthenticated": (401, "Send `Authorization: Bearer TOKEN` with a valid token, or sign in."),
    "http.forbidden": (403, "Use a token whose role has this permission."),
    "http.wrong_origin": (403, "Send the request from the server's own page, or with a token in the header."),
    "http.not_found": (404, "See `/api/v1/openapi.json` for the paths of this server."),
    "http.method_not_allowed": (405, "Use one of the methods in the header `Allow`."),
    "http.timeout": (408, "Send the whole request in less time."),
    "http.in_progress": (409, "Repeat the request after the time in `Retry-After`."),
    "http.too_large": (413, "Send a smaller body."),
    "http.range": (416, "Request a range within the size of the content."),
    "http.wrong_host": (421, "Use the host name of the server, or add yours with `--allow-host`."),
    "http.media_type": (415, "Send the body as `application/json`."),
    "http.invalid": (422, "Correct the part of the request that `field` names."),
    "http.key_reused": (422, "Choose another Idempotency-Key, or repeat the first request unchanged."),
    "http.rate_limited": (429, "Repeat the request after the time in `Retry-After`."),
    "http.internal": (500, "Report a bug, with the server's log."),
    "http.unavailable": (503, "Repeat the request after the time in `Retry-After`."),
}
"""Every code of the HTTP layer with its status and its remedy; all other codes are those of `outlast.errors`."""

STATUS_OF: dict[type[OutlastError], int] = {
    errors.RunDeleted: 410,
    errors.NotFound: 404,
    errors.InvalidInput: 422,
    errors.NotAllowed: 409,
    errors.Conflict: 409,
    errors.Damaged: 409,
    errors.StoreFull: 507,
    errors.StoreError: 503,
    OutlastError: 409,
}
"""The status of an error class and, unless they are listed, of its subclasses."""


class HttpError(Exception):
    """A request that the HTTP layer itself refuses."""

    def __init__(self, code: str, detail: str, *, field: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.code, self.detail, self.field = code, detail, field
        self.status, self.remedy = HTTP_CODES[code]
        self.headers = dict(headers or {})


def unavailable(detail: str) -> HttpError:
    return HttpError("http.unavailable", detail, headers={"Retry-After": str(RETRY_AFTER_S)})


def status_of(error: OutlastError) -> int:
    return next(status for cls, status in STATUS_OF.items() if isinstance(error, cls))


_RENAMED = {413: "Content Too Large", 416: "Range Not Satisfiable", 422: "Unprocessable Content"}
"""Names by RFC 9110, where older versions of Python have others."""


def phrase_of(status: int) -> str:
    """The name of a status, the same on every version of Python."""
    return _RENAMED.get(status) or HTTPStatus(status).phrase


def response_of(error: HttpError | OutlastError) -> Response:
    """The problem response of an error."""
    headers: dict[str, str] = {}
    if isinstance(error, HttpError):
        status, code, detail, remedy, field = error.status, error.code, error.detail, error.remedy, error.field
        headers = error.headers
    else:
        status, code, detail, remedy, field = status_of(error), error.code, str(error), error.remedy, ""
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = str(RETRY_AFTER_S)
    problem = Problem(
        type=f"urn:outlast:problem:{code}",
        title=phrase_of(status),
        status=status,
        detail=detail.encode("utf-8", "replace").decode(),
        code=code,
        remedy=remedy,
        field=field or UNSET,
        run=getattr(error, "run", "") or UNSET,
        seq=getattr(error, "seq", 0) or UNSET,
    )
    return Response(msgspec.json.encode(problem), status, headers, MEDIA_TYPE)
