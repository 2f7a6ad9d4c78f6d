"""The OpenAPI document is complete and kept to: generated requests find no 5xx and no answer that is not described."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
import served
from hypothesis import HealthCheck

import outlast.http.api
from outlast.http.openapi import document
from outlast.http.operations import OPERATIONS
from outlast.http.permissions import ROLES
from outlast.http.problems import HTTP_CODES
from support.server_process import credential, server_process

Serve = Any
assert outlast.http.api
DOCUMENT = json.loads(document(OPERATIONS))
PARAMETERS: dict[str, Any] = {
    "served_asks": {},
    "served_double": {"value": 1},
    "served_rejected": {"name": "x"},
    "served_sleeps": {},
}


def test_every_operation_is_described() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    for each in OPERATIONS:
        described = DOCUMENT["paths"][each.path][each.method.lower()]
        assert described["operationId"] == each.id
        assert described["summary"].endswith(".")
        assert bool(described["security"]) is (each.permission is not None)
        assert described.get("x-permission") == each.permission
    assert sum(len(methods) for methods in DOCUMENT["paths"].values()) == len(OPERATIONS)


def test_the_document_in_the_reference_is_current() -> None:
    reference = Path(__file__).parents[2] / "docs/reference/openapi.json"
    assert json.loads(reference.read_text(encoding="utf-8")) == DOCUMENT, "run `make schema`"


def test_all_references_lead_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= DOCUMENT["components"]["schemas"].keys()


def test_every_body_has_an_example_that_fits_it() -> None:
    import msgspec

    for each in OPERATIONS:
        assert (each.example is None) is (each.body is None), each.id
        if each.body is not None:
            msgspec.json.decode(json.dumps(each.example), type=each.body)


async def _exercise(serve: Serve, cases: int) -> Counter[int]:
    """Send so many generated requests of each operation to a server with runs in several states; count the statuses."""
    async with serve() as server:
        for run, (workflow, params) in zip(("asks", "done", "failed", "sleeps"), PARAMETERS.items(), strict=True):
            await server("POST", "/runs", json={"workflow": workflow, "params": params, "id": run})
        schema = schemathesis.openapi.from_dict(DOCUMENT)
        loop = asyncio.get_running_loop()
        seen: list[int] = []

        def send(case: Any) -> None:
            kwargs = case.as_transport_kwargs(base_url="http://localhost")
            kwargs["headers"] = {
                **dict(kwargs.get("headers") or {}),
                "Authorization": f"Bearer {server.tokens['admin']}",
            }
            kwargs.pop("timeout", None)
            kwargs.pop("verify", None)
            if cookies := kwargs.pop("cookies", None):
                kwargs["headers"]["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
            body = kwargs.pop("data", None)
            future = asyncio.run_coroutine_threadsafe(
                server.client.request(
                    kwargs.pop("method"), kwargs.pop("url"), content=body, follow_redirects=False, **kwargs
                ),
                loop,
            )
            try:
                response = future.result(60)
            except (UnicodeEncodeError, ValueError):
                return  # the client cannot send this
            seen.append(response.status_code)
            _keeps_to_it(case, response)

        def run_all() -> None:
            for result in schema.get_all_operations():
                operation = result.ok()
                if operation.path.endswith("/tokens/{id}"):
                    continue

                @hypothesis.given(case=operation.as_strategy())
                @hypothesis.settings(
                    max_examples=cases,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )
                def exercise(case: Any) -> None:
                    path = case.path_parameters or {}
                    chosen = zlib.crc32(repr(path).encode())
                    if "run" in path and chosen % 2:  # one that is there, else it is a 404 every time
                        path["run"] = ("asks", "done", "failed", "sleeps")[chosen // 2 % 4]
                    send(case)

                exercise()

        await asyncio.to_thread(run_all)
        return Counter(seen)


def _keeps_to_it(case: Any, response: Any) -> None:
    import jsonschema_rs

    shown = f"{case.method} {response.request.url}: {response.status_code} {response.text[:300]}"
    assert response.status_code < 500, shown
    described = DOCUMENT["paths"][case.operation.path][case.method.lower()]["responses"]
    found = described.get(str(response.status_code))
    assert found is not None, shown
    if "content" in found and response.content:
        given = response.headers["content-type"]
        media = (given if isinstance(given, str) else given[0]).partition(";")[0]
        assert media in found["content"], shown
        schema = found["content"][media]["schema"]
        if media.endswith("json") and schema:
            whole = {**schema, "components": DOCUMENT["components"]}
            error = next(iter(jsonschema_rs.validator_for(whole).iter_errors(json.loads(response.text))), None)
            assert error is None, f"{shown}\n{error}"


def follow_links(folder: Path, scenarios: int, steps: int) -> Counter[int]:
    """Send chains of generated requests, each to something that an answer named, to a server; count the statuses."""
    seen: Counter[int] = Counter()
    made: list[str] = []
    wrong: list[str] = []
    token = credential(folder / "runs.db", "token", "admin")
    with server_process(folder, Path(served.__file__), token=token) as server:
        schema = schemathesis.openapi.from_dict(DOCUMENT)
        schema.config.update(base_url=f"http://127.0.0.1:{server.port}")
        schema.config.output.sanitization.update(enabled=False)
        workflows = list(PARAMETERS)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}", headers={"Authorization": f"Bearer {token}"}
        ) as client:
            for (
                workflow,
                params,
            ) in PARAMETERS.items():  # chains begin at runs that are there, whatever comes first in them
                started = client.post("/api/v1/runs", json={"workflow": workflow, "params": params})
                made.append(started.raise_for_status().json()["run"])

        class Chains(schema.as_state_machine()):  # type: ignore[misc]
            def before_call(self, case: Any) -> None:
                if case.operation.path == "/api/v1/runs" and isinstance(case.body, dict):  # one that exists
                    case.body["workflow"] = workflows[zlib.crc32(repr(case.body).encode()) % len(workflows)]
                    case.body["params"] = PARAMETERS[case.body["workflow"]]
                    for name in ("id", "wait"):  # nobody answers: a wait would last as long as it may
                        case.body.pop(name, None)
                path = case.path_parameters or {}
                if path.get("id") == token.split("_")[1]:  # its own credential
                    path["id"] = "0" * 16
                if made and path.get("run", made[0]) not in made:  # else it is a 404 most of the time
                    path["run"] = made[zlib.crc32(repr(path).encode()) % len(made)]

            def get_call_kwargs(self, case: Any) -> dict[str, Any]:
                return {"headers": {"Authorization": f"Bearer {token}"}, "timeout": 60}

            def validate_response(self, response: Any, case: Any, **_: Any) -> None:
                seen[response.status_code] += 1
                if response.status_code == 201 and case.operation.path == "/api/v1/runs":
                    made.append(json.loads(response.text)["run"])
                try:
                    _keeps_to_it(case, response)
                except AssertionError as error:
                    wrong.append(str(error))

        settings = hypothesis.settings(
            max_examples=1,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=False,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        for number in range(scenarios):  # each by itself: the server remembers, so no chain can be played again
            Chains._hypothesis_internal_use_seed = number
            Chains.run(settings=settings)
        assert not wrong, "\n".join(wrong[:5])
        assert server.process.poll() is None
        assert "Traceback" not in server.log.read_text()
    return seen


def test_chains_of_generated_requests_are_answered_as_the_document_says(tmp_path: Path) -> None:
    found = follow_links(tmp_path, 6, 10)
    assert found.total() >= 50
    assert found[200] + found[201] >= 8


@pytest.mark.soak
def test_thousands_of_requests_in_chains_are_answered_as_the_document_says(tmp_path: Path) -> None:
    found = follow_links(tmp_path, 300, 20)
    print(f"{found.total()} requests in chains, answered with {dict(sorted(found.items()))}")
    assert found.total() >= 5000
    assert found.keys() >= {200, 201, 404, 409, 422}


async def test_generated_requests_are_answered_as_the_document_says(serve: Serve) -> None:
    found = await _exercise(serve, 6)
    assert found[200] > 20
    assert found[404] > 20


@pytest.mark.soak
def test_thousands_of_generated_requests_are_answered_as_the_document_says(serve: Serve) -> None:
    found = asyncio.run(_exercise(serve, 160))
    print(f"{found.total()} requests, answered with {dict(sorted(found.items()))}")
    assert found.total() >= 5000
    assert found.keys() >= {200, 201, 404, 409, 422}


def test_the_reference_lists_every_operation() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/http.md").read_text()
    for each in OPERATIONS:
        permission = f"`{each.permission}`" if each.permission else "none"
        assert f"| `{each.method} {each.path}` | {permission} | {each.summary} |" in page, each.id
    for code, (status, _) in HTTP_CODES.items():
        assert f"| `{code}` | {status} |" in page, code
    for role in ROLES:
        assert f"`{role}`" in page
