"""Nothing is open by default: roles, tokens, sessions, origins and hosts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import outlast.http.api
from outlast.http import auth as auth_module
from outlast.http import rate_limit
from outlast.http.guard import Hosts
from outlast.http.operations import OPERATIONS, Operation
from outlast.http.permissions import GRANTED, PERMISSIONS, ROLES, Role
from outlast.http.rate_limit import RateLimit

Serve = Any
assert outlast.http.api
GUARDED = [each for each in OPERATIONS if each.permission is not None]
OPEN = {"get_openapi", "sign_in"}


def test_only_the_document_and_the_sign_in_need_no_credential() -> None:
    assert {each.id for each in OPERATIONS if each.permission is None} == OPEN
    assert len({each.id for each in OPERATIONS}) == len(OPERATIONS)


def test_each_verb_has_a_permission_of_its_own() -> None:
    assert GRANTED["viewer"] < GRANTED["operator"] < GRANTED["admin"] == set(PERMISSIONS)
    for each in OPERATIONS:
        if each.is_audited and each.permission is not None and each.id != "sign_out":
            assert each.permission not in GRANTED["viewer"], each.id


def _path(operation: Operation) -> str:
    values = {"run": "r1", "workflow": "served_double", "hash": "0" * 64, "id": "0" * 16}
    return operation.path.format(**values)


@pytest.mark.parametrize("role", [None, *ROLES])
async def test_each_route_is_open_to_those_who_may_use_it_and_to_nobody_else(serve: Serve, role: Role | None) -> None:
    async with serve() as server:
        await server("POST", "/runs", json={"workflow": "served_asks", "id": "r1"})
        for operation in GUARDED:
            if operation.id == "sign_out":
                continue
            headers = {"Authorization": f"Bearer {server.tokens[role]}"} if role else {}
            response = await server.client.request(operation.method, _path(operation), json={}, headers=headers)
            if role is None:
                assert response.status_code == 401, operation.id
                assert response.headers["www-authenticate"].startswith("Bearer")
            elif operation.permission in GRANTED[role]:
                assert response.status_code not in (401, 403), (operation.id, response.text)
            else:
                assert response.status_code == 403, operation.id
                assert operation.permission in response.json()["detail"]


async def test_metrics_need_a_credential_and_health_does_not(serve: Serve) -> None:
    async with serve() as server:
        assert (await server.client.get("/healthz")).status_code == 200
        assert (await server.client.get("/readyz")).status_code == 200
        assert (await server.client.get("/metrics")).status_code == 401
        headers = {"Authorization": f"Bearer {server.tokens['viewer']}"}
        assert (await server.client.get("/metrics", headers=headers)).status_code == 200


async def test_a_token_counts_in_the_header_only(serve: Serve) -> None:
    async with serve() as server:
        token = server.tokens["admin"]
        for query in (f"token={token}", f"access_token={token}", f"authorization=Bearer%20{token}"):
            assert (await server.client.get(f"/api/v1/runs?{query}")).status_code == 401
        cookies = {"Cookie": f"outlast_session={token}"}
        assert (await server.client.get("/api/v1/runs", headers=cookies)).status_code == 401
        for header in (token, f"Basic {token}", f"Bearer {token}x", "Bearer ", f"Bearer {token[:-1]}A"):
            if header == f"Bearer {token}":
                continue
            response = await server.client.get("/api/v1/runs", headers={"Authorization": header})
            assert response.status_code == 401, header


async def test_the_store_holds_no_secret_of_a_token(serve: Serve, tmp_path: Path) -> None:
    async with serve() as server:
        body = {"name": "deploy", "role": "viewer", "expires_in": 3600}
        made = (await server("POST", "/tokens", json=body)).json()
        secret = made["secret"].split("_", 2)[2]
        assert secret not in (await server("GET", "/tokens")).text
        headers = {"Authorization": f"Bearer {made['secret']}"}
        assert (await server.client.get("/api/v1/session", headers=headers)).json()["role"] == "viewer"
        listed = {each["id"]: each for each in (await server("GET", "/tokens")).json()["tokens"]}
        assert listed[made["token"]["id"]]["used"] is not None
        assert listed[made["token"]["id"]]["by"].startswith("admin (token ")
    secrets = [secret, *(text.split("_", 2)[2] for text in server.tokens.values())]
    for path in tmp_path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(each.encode() in content for each in secrets), path


async def test_a_token_ends_when_it_is_revoked_or_expires(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_module, "CACHE_S", 0.05)
    async with serve() as server:
        made = (await server("POST", "/tokens", json={"name": "a", "role": "viewer"})).json()
        short = (await server("POST", "/tokens", json={"name": "b", "role": "viewer", "expires_in": 1})).json()
        other = auth_module.Auth(server.state.store)  # another server process on the same store
        assert (await other.principal(f"Bearer {made['secret']}", None)) is not None
        who = await other.principal(f"Bearer {short['secret']}", None)
        assert who is not None
        assert await other.is_valid(who)
        assert (await server("DELETE", f"/tokens/{made['token']['id']}")).status_code == 204
        headers = {"Authorization": f"Bearer {made['secret']}"}
        assert (await server.client.get("/api/v1/runs", headers=headers)).status_code == 401
        await asyncio.sleep(0.1)
        assert (await other.principal(f"Bearer {made['secret']}", None)) is None
        await asyncio.sleep(1)
        assert (await other.principal(f"Bearer {short['secret']}", None)) is None
        assert not await other.is_valid(who)
        assert (await server("DELETE", f"/tokens/{made['token']['id']}")).status_code == 404


# --- sessions


async def _signed_in(server: Any) -> dict[str, str]:
    code, _ = await server.state.auth.create("sign-in", "ann", "operator", expires_s=60)
    response = await server("POST", "/session", json={"code": code}, role=None)
    assert response.status_code == 201, response.text
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    server.client.cookies.clear()
    return {"Cookie": cookie.partition(";")[0], "Origin": "http://localhost"}


async def test_a_sign_in_code_is_spent_once(serve: Serve) -> None:
    async with serve() as server:
        code, _ = await server.state.auth.create("sign-in", "ann", "admin", expires_s=60)
        assert (await server("GET", f"/session?code={code}", role=None)).status_code in (401, 422)
        asked = [server("POST", "/session", json={"code": code}, role=None) for _ in range(5)]
        found = sorted(each.status_code for each in await asyncio.gather(*asked))
        assert found == [201, 401, 401, 401, 401]
        late, _ = await server.state.auth.create("sign-in", "ann", "admin", expires_s=-1)
        for wrong in (late, "", code[:-1] + "A", "oli_0000000000000000_" + "A" * 43, server.tokens["admin"]):
            response = await server("POST", "/session", json={"code": wrong}, role=None)
            assert response.status_code == 401, wrong
        page = await server.client.get("/sign-in")
        assert "text/html" in page.headers["content-type"]
        assert "<script>" not in page.text


async def test_a_session_counts_for_pages_of_this_server_only(serve: Serve) -> None:
    async with serve() as server:
        session = await _signed_in(server)
        assert (await server.client.get("/api/v1/session", headers=session)).json()["by"].startswith("ann (session ")
        body = {"workflow": "served_double", "params": {"value": 1}}
        assert (await server.client.post("/api/v1/runs", json=body, headers=session)).status_code == 201
        cookie = {"Cookie": session["Cookie"]}
        for more in (
            {},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://localhost:1234"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            response = await server.client.post("/api/v1/runs", json=body, headers={**cookie, **more})
            assert (response.status_code, response.json()["code"]) == (403, "http.wrong_origin"), more
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"):
            headers = {**session, "Content-Type": media}
            response = await server.client.post("/api/v1/runs", content=b"{}", headers=headers)
            assert response.status_code == 415
        assert (await server.client.request("DELETE", "/api/v1/session", headers=session)).status_code == 204
        assert (await server.client.get("/api/v1/session", headers=session)).status_code == 401, (
            "a session is not replayed"
        )


async def test_another_host_name_is_refused(serve: Serve) -> None:
    async with serve(allow_hosts=("outlast.example",)) as server:
        for host in ("evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80", "[::1].evil.example"):
            response = await server("GET", "/runs", headers={"Host": host})
            assert (response.status_code, response.json()["code"]) == (421, "http.wrong_host"), host
        for host in ("localhost:8470", "127.0.0.1:8470", "[::1]:8470", "outlast.example", "OUTLAST.example:443"):
            assert (await server("GET", "/runs", headers={"Host": host})).status_code == 200, host
    assert Hosts(("*",)).accepts("any.example")


async def test_without_tokens_only_this_machine_and_only_if_asked(serve: Serve) -> None:
    async with serve(insecure_local=True) as server:
        assert (await server.client.get("/api/v1/runs")).status_code == 200
        body = {"workflow": "served_double", "params": {"value": 1}}
        assert (await server.client.post("/api/v1/runs", json=body)).status_code == 201
        for more in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await server.client.post("/api/v1/runs", json=body, headers=more)).status_code == 403
            assert (await server.client.get("/api/v1/runs", headers=more)).status_code == 403
        wrong = {"Authorization": "Bearer olt_0000000000000000_" + "A" * 43}
        assert (await server.client.get("/api/v1/runs", headers=wrong)).status_code == 401


def stop_refilling(server: Any) -> None:
    """The buckets hold ten requests, however slow the machine is."""
    server.state.limit.rate = 0.001


async def test_requests_are_limited_for_each_token(serve: Serve) -> None:
    async with serve(rate=5) as server:
        stop_refilling(server)
        found = [(await server("GET", "/workers", role="viewer")) for _ in range(20)]
        refused = [each for each in found if each.status_code == 429]
        assert len(refused) == 10
        assert refused[0].json()["code"] == "http.rate_limited"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert (await server("GET", "/workers", role="admin")).status_code == 200
    limit = RateLimit(0.001, burst=1)
    assert limit.wait_s("a") == 0.0
    assert limit.wait_s("a") > 0
    assert limit.wait_s("b") == 0.0


async def test_the_limit_of_a_token_does_not_depend_on_how_it_is_sent(serve: Serve) -> None:
    async with serve(rate=5) as server:
        stop_refilling(server)
        token = server.tokens["viewer"]
        spellings = [f"Bearer {token}", f"bearer {token}", f"Bearer   {token}", f"BEARER {token} "]
        found = [
            (await server.client.get("/api/v1/workers", headers={"Authorization": each})).status_code
            for _ in range(6)
            for each in spellings
        ]
        assert (found.count(429), found.count(200)) == (14, 10)


async def test_tokens_that_do_not_exist_share_the_limit_of_their_address(serve: Serve) -> None:
    async with serve(rate=5) as server:
        stop_refilling(server)
        made_up = [f"Bearer olt_{number:016x}_" + "A" * 43 for number in range(24)]
        found = [
            (await server.client.get("/api/v1/workers", headers={"Authorization": each})).status_code
            for each in made_up
        ]
        assert (found.count(429), found.count(401)) == (14, 10)
        assert (await server("GET", "/workers", role="viewer")).status_code == 200, (
            "a valid token is not limited by them"
        )
        assert (await server.client.post("/api/v1/session", json={"code": "x"})).status_code == 429


def test_senders_that_are_forgotten_are_those_that_were_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MOST_SENDERS", 10)
    limit = RateLimit(0.001, burst=1)
    assert limit.wait_s("busy") == 0.0
    for number in range(100):
        limit.wait_s(f"other {number % 4}")
    assert limit.wait_s("busy") > 0
    for number in range(100):
        limit.wait_s(f"new {number}")
    assert len(limit._buckets) <= 11
