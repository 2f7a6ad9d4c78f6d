"""Two servers on one store behave as one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.http_server import Served, serving


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "runs.db")


async def as_one(one: Served, other: Served) -> None:
    key = {"Idempotency-Key": "k"}
    body = {"workflow": "served_asks", "params": {}}
    asked = [server("POST", "/runs", json=body, headers=key) for server in (one, other) for _ in range(3)]
    found = [each for each in await asyncio.gather(*asked) if each.status_code != 409]
    assert {each.status_code for each in found} <= {200, 201}
    (run,) = {each.json()["run"] for each in found}
    await other.until(run, "waiting")
    answers = [server("POST", f"/runs/{run}/approve") for server in (one, other)]
    assert sorted(each.status_code for each in await asyncio.gather(*answers)) == [200, 409]
    assert (await one.until(run, "completed"))["result"] == "yes"
    made = (await one("POST", "/tokens", json={"name": "x", "role": "viewer"})).json()
    headers = {"Authorization": f"Bearer {made['secret']}"}
    assert (await other.client.get("/api/v1/runs", headers=headers)).status_code == 200
    page: Any = (await other("GET", "/runs?limit=1")).json()
    assert [each["run"] for each in page["runs"]] == [run]


async def test_two_servers_on_one_store_behave_as_one(store: str) -> None:
    async with serving(store) as one, serving(store) as other:
        await as_one(one, other)
