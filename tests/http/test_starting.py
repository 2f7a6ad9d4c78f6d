"""Starting runs over HTTP: results, exact values, idempotency, starts without starting, batches."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

Serve = Any
JSON = {"Content-Type": "application/json"}


async def test_a_start_answers_with_the_run_and_waits_if_asked(serve: Serve) -> None:
    async with serve() as server:
        body = {"workflow": "served_double", "params": {"value": 21}, "wait": 10, "title": "T", "tags": ["a"]}
        response = await server("POST", "/runs", json=body)
        assert response.status_code == 201
        found = response.json()
        assert (found["status"], found["result"], found["created"], found["error"]) == ("completed", 42, True, None)
        assert response.headers["location"] == f"/api/v1/runs/{found['run']}"
        view = (await server("GET", f"/runs/{found['run']}")).json()
        assert (view["title"], view["tags"], view["params"]) == ("T", ["a"], {"value": 21})
        created = (await server("GET", f"/runs/{found['run']}/events?limit=1")).json()["events"][0]
        assert created["fields"]["by"].startswith("admin (token ")


async def test_a_wait_that_is_over_answers_with_the_run_as_it_is(serve: Serve) -> None:
    async with serve() as server:
        body = {"workflow": "served_sleeps", "wait": 0.05}
        found = (await server("POST", "/runs", json=body)).json()
        assert (found["status"], found["result"]) == ("waiting", None)
        failed = await server("POST", "/runs", json={"workflow": "served_rejected", "params": {"name": "x"}, "wait": 9})
        assert failed.json()["status"] == "failed"
        assert "x was refused" in failed.json()["error"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "123456789012345678901234567890",
        "-9223372036854775809",
        "9007199254740993",
        '{"$":"decimal","v":"1.100000000000000000001"}',
        '{"$":"float","v":"nan"}',
        '{"$":"float","v":"-inf"}',
        '"\\u2028 \\ud83d\\ude00"',
        "0.1",
        "[1.5,{}]",
    ],
)
async def test_values_stay_exact(serve: Serve, text: str) -> None:
    async with serve() as server:
        content = f'{{"workflow": "served_echo", "params": {{"value": {text}}}, "wait": 10}}'
        response = await server("POST", "/runs", content=content, headers=JSON)
        assert response.status_code == 201, response.text
        result = msgspec.json.decode(response.content, type=dict[str, msgspec.Raw])["result"]
        assert msgspec.json.decode(result) == msgspec.json.decode(text)
        if text.strip("-").isdigit():
            assert bytes(result).decode() == text


async def test_a_decimal_is_given_as_text_and_a_number_that_is_too_exact_is_refused(serve: Serve) -> None:
    async with serve() as server:
        body = {"workflow": "served_price", "params": {"price": "19.990"}, "wait": 10}
        assert (await server("POST", "/runs", json=body)).json()["result"] == "19.990"
        content = '{"workflow": "served_echo", "params": {"value": 0.1234567890123456789012}}'
        response = await server("POST", "/runs", content=content, headers=JSON)
        assert response.status_code == 422
        assert "more exact" in response.json()["detail"]
        for value in ("1e999", '{"a": 1, "a": 2}', "NaN"):
            content = f'{{"workflow": "served_echo", "params": {{"value": {value}}}}}'
            assert (await server("POST", "/runs", content=content, headers=JSON)).status_code in (400, 422)


async def test_a_value_that_is_not_a_number_breaks_no_list(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_nan", wait=10)
        assert (await server("GET", f"/runs/{run}")).json()["result"] == {"$": "float", "v": "nan"}
        assert [each["run"] for each in (await server("GET", "/runs")).json()["runs"]] == [run]
        assert (await server("GET", f"/runs/{run}/output")).json() == {"$": "float", "v": "nan"}


async def test_the_same_key_is_the_same_start(serve: Serve) -> None:
    async with serve() as server:
        key = {"Idempotency-Key": "invoice 17"}
        body = {"workflow": "served_double", "params": {"value": 1}, "wait": 10}
        first = await server("POST", "/runs", json=body, headers=key)
        again = await server("POST", "/runs", json=body, headers=key)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["run"] == again.json()["run"]
        assert again.json()["result"] == 2
        assert again.json()["created"] is False
        for other in ({**body, "params": {"value": 2}}, {**body, "workflow": "served_echo"}):
            refused = await server("POST", "/runs", json=other, headers=key)
            assert (refused.status_code, refused.json()["code"]) == (422, "http.key_reused"), refused.text
        same = await server("POST", "/runs/batch", json={"items": [{**body, "wait": 0, "key": "invoice 17"}]})
        assert same.json()["items"][0]["started"]["run"] == first.json()["run"]
        assert len((await server("GET", "/runs")).json()["runs"]) == 1


async def test_a_key_whose_start_is_in_progress_is_refused_for_now(serve: Serve) -> None:
    async with serve() as server:
        body = {"workflow": "served_double", "params": {"value": 1}}
        asked = [server("POST", "/runs", json=body, headers={"Idempotency-Key": "k"}) for _ in range(20)]
        found = await asyncio.gather(*asked)
        assert {each.status_code for each in found} <= {200, 201, 409}
        assert sum(each.status_code == 201 for each in found) == 1
        assert len({each.json()["run"] for each in found if each.status_code != 409}) == 1
        for each in found:
            if each.status_code == 409:
                assert (each.json()["code"], each.headers["retry-after"]) == ("http.in_progress", "1")
        assert any(each.status_code == 409 for each in found)


async def test_a_run_with_its_own_id_is_refused_under_other_parameters(serve: Serve) -> None:
    async with serve() as server:
        body = {"workflow": "served_double", "params": {"value": 1}, "id": "mine"}
        assert (await server("POST", "/runs", json=body)).status_code == 201
        assert (await server("POST", "/runs", json=body)).status_code == 200
        refused = await server("POST", "/runs", json={**body, "params": {"value": 2}})
        assert (refused.status_code, refused.json()["code"]) == (409, "outlast.already_exists")


async def test_a_client_that_leaves_cancels_nothing(serve: Serve) -> None:
    async with serve() as server:
        body = {"workflow": "served_asks", "id": "left", "wait": 30}
        asking = asyncio.create_task(server("POST", "/runs", json=body))
        while not (await server("GET", "/inbox")).json()["questions"]:
            await asyncio.sleep(0.005)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert (await server("POST", "/runs/left/approve")).status_code == 200
        assert (await server.until("left", "completed"))["result"] == "yes"


async def test_a_run_created_without_starting_is_begun_by_start_alone(serve: Serve) -> None:
    body = {"workflow": "served_double", "params": {"value": 4}, "id": "later", "start": False}
    async with serve() as server:
        response = await server("POST", "/runs", json=body)
        assert (response.status_code, response.json()["status"]) == (201, "created")
        assert (await server("POST", "/runs", json=body)).status_code == 200
        refused = await server("POST", "/runs", json={**body, "params": {"value": 5}})
        assert refused.status_code == 409
    async with serve() as server:  # a restart, with recovery and a sweep
        await server("POST", "/sweep", json={"stale_after": 0})
        await asyncio.sleep(0.2)
        view = (await server("GET", "/runs/later")).json()
        assert (view["status"], view["awaits_start"], view["done_nodes"]) == ("created", True, 0)
        assert (await server("POST", "/runs/later/start")).status_code == 200
        assert (await server.until("later", "completed"))["result"] == 8
        again = await server("POST", "/runs/later/start")
        assert (again.status_code, again.json()["code"]) == (409, "outlast.not_allowed")


async def test_a_start_names_the_queue_the_priority_and_the_fairness_key(serve: Serve) -> None:
    body = {"workflow": "served_double", "params": {"value": 4}, "wait": 10}
    placing = {"queue": "gpu", "priority": -7, "fairness_key": "acme"}
    async with serve() as server:
        found = (await server("POST", "/runs", json=body | placing)).json()
        assert found["result"] == 8
        created = (await server("GET", f"/runs/{found['run']}/events?limit=1")).json()["events"][0]["fields"]
        assert placing.items() <= created.items()
        for wrong in ({"queue": "a/b"}, {"priority": 101}, {"priority": 1.5}, {"fairness_key": "x" * 201}):
            assert (await server("POST", "/runs", json=body | wrong)).status_code in (400, 422)


async def test_a_batch_has_a_result_for_each_item(serve: Serve) -> None:
    async with serve() as server:
        items = [
            {"workflow": "served_double", "params": {"value": 1}},
            {"workflow": "unknown"},
            {"workflow": "served_double", "params": {"value": "x"}},
            {"workflow": "served_double", "params": {"value": 3}, "id": "third"},
        ]
        found = (await server("POST", "/runs/batch", json={"items": items})).json()["items"]
        assert [each["status"] for each in found] == [201, 404, 422, 201]
        assert found[1]["code"] == "outlast.not_found"
        assert found[3]["started"]["run"] == "third"
        assert (await server.until("third", "completed"))["result"] == 6
