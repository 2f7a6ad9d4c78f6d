"""What a request may be: media type, size, depth, names, methods; and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest

Serve = Any
PROBLEM = {"type", "title", "status", "detail", "code", "remedy"}


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found.keys() >= PROBLEM
    assert found["code"] == code
    assert found["status"] == status
    assert found["remedy"]
    return found


async def test_a_body_of_another_media_type_is_refused(serve: Serve) -> None:
    async with serve() as server:
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            response = await server("POST", "/runs", content=b"{}", headers={"Content-Type": media})
            problem(response, 415, "http.media_type")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"workflow": "served_echo", "params": {"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"workflow": "\xff"}',
        b"",
        b"nul",
        b'{"workflow": "x"} x',
    ],
    ids=["cut", "deep", "not-utf-8", "empty", "word", "more"],
)
async def test_a_body_that_is_not_json_is_refused(serve: Serve, body: bytes) -> None:
    async with serve() as server:
        response = await server("POST", "/runs", content=body, headers={"Content-Type": "application/json"})
        problem(response, 400, "http.malformed")


async def test_json_of_another_shape_names_the_field(serve: Serve) -> None:
    async with serve() as server:
        found = problem(await server("POST", "/runs", json={"workflow": 7}), 422, "http.invalid")
        assert found["field"] == "body.workflow"
        found = problem(await server("POST", "/runs", json={"workflow": "x", "wiat": 1}), 422, "http.invalid")
        assert "wiat" in found["detail"]
        found = problem(await server("GET", "/runs?limit=0"), 422, "http.invalid")
        assert found["field"] == "query.limit"
        problem(await server("GET", "/runs?limt=1"), 422, "http.invalid")
        problem(await server("GET", "/runs?limit=1&limit=2"), 422, "http.invalid")
        problem(await server("GET", "/workflows?x=1"), 422, "http.invalid")


async def test_a_body_is_bounded_however_it_is_sent(serve: Serve) -> None:
    async with serve() as server:
        server.state.max_body = 10_000
        large = b'{"workflow": "' + b"x" * 20_000 + b'"}'
        headers = {"Content-Type": "application/json"}
        problem(await server("POST", "/runs", content=large, headers=headers), 413, "http.too_large")

        async def chunks() -> Any:
            for _ in range(30):
                yield b" " * 1000

        problem(await server("POST", "/runs", content=chunks(), headers=headers), 413, "http.too_large")


async def test_a_method_that_a_path_does_not_have_is_refused_with_those_it_has(serve: Serve) -> None:
    async with serve() as server:
        response = await server("PUT", "/runs", json={})
        problem(response, 405, "http.method_not_allowed")
        assert response.headers["allow"] == "GET, HEAD, OPTIONS, POST"
        assert (await server("OPTIONS", "/runs")).headers["allow"] == "GET, HEAD, OPTIONS, POST"
        assert (await server("HEAD", "/runs")).status_code == 200


async def test_what_is_not_there_is_a_problem_too(serve: Serve) -> None:
    async with serve() as server:
        problem(await server("GET", "/nowhere"), 404, "http.not_found")
        problem(await server("GET", "/runs/unknown"), 404, "outlast.not_found")
        problem(await server("GET", "/runs/..%2f..%2fetc%2fpasswd"), 404, "http.not_found")
        problem(await server("GET", "/workflows/unknown"), 404, "outlast.not_found")
        problem(await server("POST", "/runs", json={"workflow": "unknown"}), 404, "outlast.not_found")


async def test_every_answer_has_strict_headers(serve: Serve) -> None:
    async with serve() as server:
        for path in ("/runs", "/nowhere", "/openapi.json"):
            headers = (await server("GET", path)).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["cache-control"] == "no-store"


async def test_a_parameter_that_does_not_fit_is_refused_and_nothing_starts(serve: Serve) -> None:
    async with serve() as server:
        for params in ({"value": "x"}, {}, {"value": 1, "more": 2}):
            response = await server("POST", "/runs", json={"workflow": "served_double", "params": params})
            found = problem(response, 422, "outlast.invalid_input")
            assert "double" in found["detail"]
        response = await server("POST", "/runs", json={"workflow": "served_double", "params": [1]})
        problem(response, 422, "http.invalid")
        assert (await server("GET", "/runs")).json()["runs"] == []
