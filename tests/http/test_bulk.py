"""Bulk actions over HTTP; `test_serving` kills a server half-way through one."""

from __future__ import annotations

from typing import Any

import pytest

Serve = Any


async def asking(server: Any, count: int) -> list[str]:
    runs = [await server.start("served_asks") for _ in range(count)]
    for run in runs:
        await server.until(run, "waiting")
    return runs


async def test_a_bulk_action_from_preview_to_result(serve: Serve) -> None:
    async with serve() as server:
        runs = await asking(server, 3)
        sleeping = await server.start("served_sleeps")
        await server.until(sleeping, "waiting")
        wanted = {"status": ["waiting"]}
        preview = (await server("POST", "/bulk/preview", json={"filter": wanted}, role="operator")).json()
        assert (preview["matched"], preview["allowed"]["approve"]) == (4, 3)
        assert preview["skipped"]["approve"] == {"has no open question": 1}
        named = {"runs": [runs[0], sleeping, "no-such-run"]}
        of_named = (await server("POST", "/bulk/preview", json=named, role="operator")).json()
        assert (of_named["matched"], of_named["allowed"]["approve"]) == (2, 1)
        body = {"action": "approve", "filter": wanted, "reason": "fine"}
        made = await server("POST", "/bulk", json=body, role="operator", headers={"Idempotency-Key": "one"})
        assert made.status_code == 201, made.text
        view = made.json()
        assert made.headers["location"] == f"/api/v1/bulk/{view['run']}"
        assert (view["confirmed"], view["action"], view["reason"]) == (4, "approve", "fine")
        await server.until(view["run"], "completed")
        view = (await server("GET", f"/bulk/{view['run']}", role="viewer")).json()
        assert (view["done"], view["skipped"], view["failed"]) == (3, 1, 0)
        assert {each["run"]: each["result"] for each in view["outcomes"]} == {
            **dict.fromkeys(runs, "done"),
            sleeping: "skipped",
        }
        again = await server("POST", "/bulk", json=body, headers={"Idempotency-Key": "one"})
        assert again.json()["run"] == view["run"]
        skipped = (await server("GET", f"/bulk/{view['run']}?result=skipped")).json()["outcomes"]
        assert [each["reason"] for each in skipped] == [f"run {sleeping} has no open question"]


async def test_outcomes_come_in_pages(serve: Serve) -> None:
    async with serve() as server:
        runs = await asking(server, 5)
        body = {"action": "reject", "runs": [{"run": run} for run in runs]}
        bulk = (await server("POST", "/bulk", json=body)).json()["run"]
        await server.until(bulk, "completed")
        seen, cursor = [], ""
        while cursor is not None:
            page = (await server("GET", f"/bulk/{bulk}?limit=2&result=done&cursor={cursor}")).json()
            seen += [each["run"] for each in page["outcomes"]]
            cursor = page["next"]
        assert seen == runs
        other = await server("GET", f"/bulk/{bulk}?result=failed&cursor={page['next'] or 'x'}")
        assert other.status_code == 422


async def test_failures_are_tried_again(serve: Serve) -> None:
    async with serve() as server:
        (run,) = await asking(server, 1)
        body = {"action": "pause", "runs": [{"run": run}, {"run": "missing"}]}
        bulk = (await server("POST", "/bulk", json=body)).json()["run"]
        await server.until(bulk, "completed")
        again = await server("POST", f"/bulk/{bulk}/retry")
        assert (again.status_code, again.json()["confirmed"]) == (201, 1)
        await server.until(again.json()["run"], "completed")
        found = (await server("GET", f"/bulk/{again.json()['run']}")).json()
        assert [(each["run"], each["result"]) for each in found["outcomes"]] == [("missing", "failed")]
        assert "missing" in found["outcomes"][0]["reason"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "cancel"}, "body.filter"),
        ({"action": "cancel", "filter": {}, "runs": [{"run": "a"}]}, "body.filter"),
        ({"action": "answer", "filter": {}}, "body.value"),
        ({"action": "cancel", "filter": {}, "value": 1}, "body.value"),
        ({"action": "destroy", "filter": {}}, "body.action"),
        ({"action": "cancel", "filter": {"statsu": ["failed"]}}, "body.filter"),
    ],
)
async def test_what_is_not_meant_is_refused(serve: Serve, body: Any, field: str) -> None:
    async with serve() as server:
        refused = await server("POST", "/bulk", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field)


async def test_a_role_needs_the_permission_of_the_action(serve: Serve) -> None:
    async with serve() as server:
        (run,) = await asking(server, 1)
        refused = await server("POST", "/bulk", json={"action": "cancel", "runs": [{"run": run}]}, role="viewer")
        assert refused.status_code == 403
        assert (await server("GET", f"/runs/{run}")).json()["status"] == "waiting"
        missing = await server("GET", f"/bulk/{run}")
        assert (missing.status_code, "not a bulk action" in missing.json()["detail"]) == (404, True)
