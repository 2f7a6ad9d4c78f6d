"""The OpenAPI 3.1 document, written from the table of operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import fields

from outlast.http.problems import MEDIA_TYPE, Problem, phrase_of
from outlast.views.schema import plain

if TYPE_CHECKING:
    from outlast.http.operations import Operation

_REF = "#/components/schemas/{name}"
_ALWAYS = (401, 403, 421, 429, 503)
_PATHS: dict[str, dict[str, Any]] = {
    "run": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:@=+-]{0,199}$"},
    "workflow": {"type": "string", "minLength": 1},
    "hash": {"type": "string", "pattern": "^[0-9a-f]{16,128}$"},
    "id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
}


_SUBJECTS = {
    "/api/v1/runs/{run}": ("run", "$response.body#/run"),
    "/api/v1/bulk/{run}": ("run", "$response.body#/run"),
    "/api/v1/tokens/{id}": ("id", "$response.body#/token/id"),
}
"""What operations are about, by the beginning of their paths: the parameter, and where an answer names it."""


def document(operations: Sequence[Operation], *, server: str = "/") -> bytes:
    """The document as JSON, with `server` as the address of the API."""
    return _document(tuple(each.id for each in operations), server)


@lru_cache(maxsize=8)
def _document(_: tuple[str, ...], server: str) -> bytes:
    from outlast import __version__
    from outlast.http.operations import OPERATIONS

    types = list(_types(OPERATIONS))
    schemas, components = msgspec.json.schema_components([Problem, *types], ref_template=_REF)
    known = dict(zip(map(_key, [Problem, *types]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, known)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Outlast", "version": __version__, "license": {"name": "Apache-2.0"}},
            "servers": [{"url": server}],
            "paths": paths,
            "components": {
                "schemas": plain(msgspec.json.decode(msgspec.json.encode(components))),
                "links": {
                    name: {"operationId": each.id, "parameters": {parameter: place}}
                    for each in OPERATIONS
                    for name, parameter, place in _leads(each)
                },
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer"},
                    "session": {"type": "apiKey", "in": "cookie", "name": "outlast_session"},
                },
            },
        }
    )


def _key(kind: Any) -> str:
    return repr(kind)


def _types(operations: Sequence[Operation]) -> Iterator[Any]:
    seen: set[str] = set()
    for each in operations:
        query = [field.type for field in fields(each.query)] if each.query is not None else []
        for kind in (each.body, each.answers, *query):
            if kind is not None and kind is not bytes and _key(kind) not in seen:
                seen.add(_key(kind))
                yield kind


def _leads(operation: Operation) -> Iterator[tuple[str, str, str]]:
    """The link to an operation on what another one answered: its name, its parameter and the place in that answer."""
    for path, (parameter, place) in _SUBJECTS.items():
        if operation.path.startswith(path):
            yield operation.id, parameter, place


def _links(operation: Operation) -> dict[str, Any]:
    """The operations that accept what this one has made or changed."""
    from outlast.http.operations import OPERATIONS

    if operation.method != "POST" or operation.answers is None:
        return {}
    own = next((path for path in _SUBJECTS if f"{operation.path}/".startswith(path.partition("{")[0])), None)
    there = {field.name for field in fields(operation.answers)}
    if own is None or _SUBJECTS[own][1].split("/")[1] not in there:
        return {}
    ref = "#/components/links/{}"
    return {each.id: {"$ref": ref.format(each.id)} for each in OPERATIONS if each.path.startswith(own)}


def _operation(operation: Operation, known: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": list(_parameters(operation, known)),
        "responses": _responses(operation, known),
        "security": [{"token": []}, {"session": []}] if operation.permission else [],
    }
    if operation.description:
        found["description"] = operation.description
    if operation.permission:
        found["x-permission"] = operation.permission
    if operation.body is not None:
        media: dict[str, Any] = {"schema": known[_key(operation.body)]}
        if operation.example is not None:
            media["example"] = operation.example
        found["requestBody"] = {"required": operation.body_required, "content": {"application/json": media}}
    return found


def _parameters(operation: Operation, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from outlast.http.operations import path_parameters

    for name in path_parameters(operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": _PATHS[name]}
    for field in fields(operation.query) if operation.query is not None else ():
        schema = dict(known[_key(field.type)])
        description = schema.pop("description", "")
        shown = {"name": field.name, "in": "query", "required": field.required, "schema": schema}
        yield {**shown, "description": description} if description else shown
    for name, text in operation.headers.items():
        schema = {"type": "string", "maxLength": 200, "pattern": "^[ -~]*$"}
        yield {"name": name, "in": "header", "required": False, "description": text, "schema": schema}


def _responses(operation: Operation, known: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in operation.statuses:
        response: dict[str, Any] = {"description": phrase_of(status)}
        if operation.answers is not None and status != HTTPStatus.NO_CONTENT:
            schema = {} if operation.answers is bytes else known[_key(operation.answers)]
            response["content"] = {operation.content: {"schema": schema}}
            if links := _links(operation):
                response["links"] = links
        found[str(status)] = response
    refused = {*operation.refuses, *((400, 408, 413, 415, 422) if operation.body is not None else (422,))}
    if "{run}" in operation.path:
        refused |= {404, 410}
    refused |= set(_ALWAYS) if operation.permission else {421, 429, 503}
    for status in sorted(refused):
        problem = {"schema": known[_key(Problem)]}
        found[str(status)] = {"description": phrase_of(status), "content": {MEDIA_TYPE: problem}}
    return found


def main() -> None:
    """Print the document of all operations."""
    import json
    import sys

    import outlast.http.api  # noqa: F401 - fills the table of operations
    from outlast.http.operations import OPERATIONS

    json.dump(json.loads(document(OPERATIONS)), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
