"""Who did what, from where, with which result; and never a secret."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

import outlast as ol
from outlast.http import audit as audit_module
from outlast.http.audit import FOLDER, Audit, AuditEntry, AuditFilter
from outlast.http.server import Options, config_of

Serve = Any


async def entries(server: Any, query: str = "") -> list[dict[str, Any]]:
    answer = await server("GET", f"/audit{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


async def test_what_changes_something_is_recorded_with_its_result(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_asks", text="Refund?")
        await server.until(run, "waiting")
        await server("POST", f"/runs/{run}/approve", role="operator", json={"comment": "the customer is right"})
        await server.until(run, "completed")
        await server("POST", f"/runs/{run}/approve", role="operator")
        await server("POST", f"/runs/{run}/cancel", role="viewer")
        await server("GET", "/runs")
        found = await entries(server)
        shown = [(each["action"], each["subject"], each["role"], each["status"], each["code"]) for each in found]
        assert shown == [
            ("cancel_run", run, "viewer", 403, "http.forbidden"),
            ("approve_run", run, "operator", 409, "outlast.run_gone"),
            ("approve_run", run, "operator", 200, ""),
            ("start_run", run, "admin", 201, ""),
        ]
        assert {each["address"] for each in found} == {"127.0.0.1"}
        assert found[-1]["by"].startswith("admin (token ")
        assert found[-1]["note"] == "served_asks"
        decided = (await server("GET", "/inbox/decided", role="viewer")).json()["decisions"]
        assert [(each["run"], each["interaction"], each["text"], each["answer"]) for each in decided] == [
            (run, "approve", "Refund?", "yes")
        ]
        assert decided[0]["comment"] == "the customer is right"
        more = await server.start("served_asks")
        await server.until(more, "waiting")
        bulk = (await server("POST", "/bulk", json={"action": "reject", "runs": [{"run": more}]})).json()["run"]
        await server("POST", "/bulk", json={"action": "cancel", "runs": [{"run": more}]})
        decided = (await server("GET", "/inbox/decided")).json()["decisions"]
        assert [(each["run"], each["interaction"], each["text"], each["answer"]) for each in decided[:-1]] == [
            (bulk, "", "Reject 1 run", "no")
        ]
        for role in ("viewer", "operator"):
            assert (await server("GET", "/audit", role=role)).status_code == 403


async def test_entries_are_filtered_and_come_in_pages_once_each(serve: Serve) -> None:
    async with serve() as server:
        answers = await asyncio.gather(*(server("POST", f"/runs/none-{n}/pause") for n in range(30)))
        assert {each.status_code for each in answers} == {404}
        await server.start("served_double", value=1)
        seen, cursor = [], ""
        while cursor is not None:
            page = (await server("GET", f"/audit?action=pause_run&limit=7&cursor={cursor}")).json()
            seen += [each["subject"] for each in page["entries"]]
            cursor = page["next"]
        assert sorted(seen) == sorted(f"none-{n}" for n in range(30))
        assert [each["action"] for each in await entries(server, "?refused=false")] == ["start_run"]
        assert len(await entries(server, "?subject=none-3")) == 1
        assert await entries(server, "?by=nobody") == []
        assert len(await entries(server, "?by=ADMIN&address=127.0.0.1")) == 31
        now = int(time.time() * 1e6)
        assert await entries(server, f"?since={now}") == []
        assert len(await entries(server, f"?until={now}&since={now - 60_000_000}")) == 31
        documents = await server.state.store.documents(FOLDER)
        assert len(documents) < 31, "requests that end together share a write"


async def test_no_secret_is_in_an_entry(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outlast.audit")
    async with serve() as server:
        made = (await server("POST", "/tokens", json={"name": "deploy", "role": "operator"})).json()
        code = await server.state.auth.create("sign-in", "ines", "admin")
        signed = await server.client.post("/api/v1/session", json={"code": code[0]})
        session = signed.headers["set-cookie"].split("=", 1)[1].split(";", 1)[0]
        await server.client.post("/api/v1/session", json={"code": code[0]})
        await server("DELETE", f"/tokens/{made['token']['id']}")
        run = await server.start("served_asks")
        await server.until(run, "waiting")
        await server("POST", f"/runs/{run}/answer", json={"value": "hunter2"})
        found = await entries(server)
        assert [each["action"] for each in found] == [
            "answer_question",
            "start_run",
            "revoke_token",
            "sign_in",
            "sign_in",
            "create_token",
        ]
        assert [(each["by"], each["status"]) for each in found if each["action"] == "sign_in"] == [
            ("", 401),
            (f"ines (session {session[4:20]})", 201),
        ]
        assert found[-1]["subject"] == found[2]["subject"] == made["token"]["id"]
        kept = b"".join(each.body for each in await server.state.store.documents(FOLDER)).decode()
        for text in (kept, json.dumps(found), caplog.text):
            for secret in (made["secret"], code[0], session, server.tokens["admin"], "hunter2"):
                assert secret.split("_", 2)[-1] not in text
        assert f"revoke_token {made['token']['id']} from 127.0.0.1: 204" in caplog.text


async def test_requests_without_a_credential_are_recorded_up_to_a_rate(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as server:
        monkeypatch.setattr(server.state.audit, "_unknown", audit_module.RateLimit(0.001, 3))
        for _ in range(9):
            assert (await server("POST", "/runs", role=None, json={})).status_code == 401
        assert [each["by"] for each in await entries(server)] == ["", "", ""]


@pytest.mark.parametrize(
    ("trusted", "sender", "forwarded", "expected"),
    [
        ((), "10.0.0.9", "6.6.6.6", "10.0.0.9"),
        (("10.0.0.1",), "10.0.0.9", "6.6.6.6", "10.0.0.9"),
        (("10.0.0.1",), "10.0.0.1", "6.6.6.6, 7.7.7.7", "7.7.7.7"),
        (("10.0.0.1", "10.0.0.2"), "10.0.0.1", "6.6.6.6, 7.7.7.7, 10.0.0.2", "7.7.7.7"),
    ],
    ids=["no-proxy", "another-proxy", "the-last-counts", "two-proxies"],
)
async def test_the_address_is_that_which_the_configured_proxies_saw(
    serve: Serve, trusted: tuple[str, ...], sender: str, forwarded: str, expected: str
) -> None:
    async with serve() as server:
        config = config_of(server.app, Options(trusted_proxies=trusted))
        app = ProxyHeadersMiddleware(config.app, config.forwarded_allow_ips) if config.proxy_headers else config.app
        transport = httpx.ASGITransport(app, client=(sender, 1234))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"Authorization": f"Bearer {server.tokens['admin']}", "X-Forwarded-For": forwarded}
            await client.post("/api/v1/runs/none/pause", headers=headers)
        assert [each["address"] for each in await entries(server)] == [expected]


async def test_old_entries_are_removed(tmp_path: Path) -> None:
    async with ol.open(tmp_path / "runs.db", worker=False) as engine:
        audit = Audit(engine._store)
        now = time.time_ns() // 1000
        for age in (0, 364, 366, 800):
            entry = AuditEntry(
                time=now - age * 86_400_000_000, by=f"{age}", role="admin", address="", action="pause_run", status=200
            )
            await audit.record(entry, is_known=True)
        await audit.sweep()
        found, next = await audit.find(AuditFilter())
        assert ([each.by for each in found], next) == (["0", "364"], "")


async def test_the_search_of_one_request_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "SCANNED", 4)
    async with ol.open(tmp_path / "runs.db", worker=False) as engine:
        audit = Audit(engine._store)
        for number in range(10):
            by = "ines" if number == 0 else "mara"
            await audit.record(
                AuditEntry(time=number + 1, by=by, role="admin", address="", action="pause_run", status=200),
                is_known=True,
            )
        found, pages, after = [], 0, ""
        while True:
            page, after = await audit.find(AuditFilter(by="ines"), after=after)
            found += page
            pages += 1
            if not after:
                break
        assert ([each.by for each in found], pages) == (["ines"], 4)
