"""Sign-in with OpenID Connect: who the provider names gets a session with the role of a claim, and nobody else does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import OctKey, RSAKey

from outlast.errors import InvalidInput
from outlast.http import oidc
from outlast.http.auth import OIDC_FOLDER, OidcOptions
from support.oidc_provider import OidcProvider, oidc_provider

Serve = Any


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with oidc_provider() as found:
        yield found


def options(provider: OidcProvider, **roles: Any) -> OidcOptions:
    return OidcOptions(issuer=provider.url, client="outlast", secret="s", roles=roles or {"staff": "operator"})


def browser(server: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://localhost")


async def begun(client: httpx.AsyncClient) -> str:
    response = await client.get("/oidc/login")
    assert response.status_code == 303, response.text
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    return response.headers["location"]


async def signed_in(client: httpx.AsyncClient, provider: OidcProvider) -> httpx.Response:
    code, state = provider.approve(await begun(client))
    return await client.get("/oidc/callback", params={"code": code, "state": state})


async def test_an_account_gets_a_session_with_the_role_of_its_claim(serve: Serve, provider: OidcProvider) -> None:
    async with serve(oidc=options(provider)) as server, browser(server) as client:
        address = await begun(client)
        query = parse_qs(urlsplit(address).query)
        assert query["redirect_uri"] == ["http://localhost/oidc/callback"]
        assert query["code_challenge_method"] == ["S256"]
        arrived = await signed_in(client, provider)
        assert arrived.status_code == 200
        assert any("SameSite=Strict" in each and "HttpOnly" in each for each in arrived.headers.get_list("set-cookie"))
        session = (await client.get("/api/v1/session")).json()
        assert (session["role"], session["kind"]) == ("operator", "session")
        assert session["by"].startswith("zoe@example.com (session ")
        (entry,) = [
            each for each in (await server("GET", "/audit")).json()["entries"] if each["action"] == "sign_in_oidc"
        ]
        assert (entry["status"], entry["by"]) == (201, session["by"])


async def test_a_session_follows_the_mapping_that_the_server_has_now(serve: Serve, provider: OidcProvider) -> None:
    provider.claims = {"groups": ["staff", "leads"]}
    mapping: dict[str, Any] = {"staff": "viewer", "leads": "admin"}
    async with serve(oidc=options(provider, **mapping)) as server, browser(server) as client:
        await signed_in(client, provider)
        assert (await client.get("/api/v1/session")).json()["role"] == "admin"
        cookies = client.cookies
    async with serve(oidc=options(provider, staff="viewer")) as server, browser(server) as client:
        client.cookies = cookies
        assert (await client.get("/api/v1/session")).json()["role"] == "viewer"
    async with serve(oidc=options(provider, others="viewer")) as server, browser(server) as client:
        client.cookies = cookies
        assert (await client.get("/api/v1/session")).status_code == 401
    async with serve() as server, browser(server) as client:
        client.cookies = cookies
        assert (await client.get("/api/v1/session")).status_code == 401, "without a provider there is no mapping"


OTHER_KEY = RSAKey.generate_key(2048, {"kid": "first"})


@pytest.mark.parametrize(
    "lie",
    [
        {"claims": {"iss": "http://127.0.0.1:1"}},
        {"claims": {"aud": "another"}},
        {"claims": {"aud": ["outlast", "another"]}},
        {"claims": {"exp": 1000}},
        {"claims": {"exp": None}},
        {"claims": {"sub": None}},
        {"claims": {"nonce": "another"}},
        {"claims": {"nonce": None}},
        {"signs_with": OTHER_KEY},
        {"signs_with": OctKey.import_key("x" * 64), "header": {"alg": "HS256"}},
        {"claims": {"groups": ["strangers"]}, "status": 403},
        {"claims": {"groups": None}, "status": 403},
    ],
    ids=range(12),
)
async def test_a_provider_that_lies_signs_nobody_in(serve: Serve, provider: OidcProvider, lie: dict[str, Any]) -> None:
    status = lie.get("status", 401)
    for name, value in lie.items():
        setattr(provider, name, value)
    async with serve(oidc=options(provider)) as server, browser(server) as client:
        refused = await signed_in(client, provider)
        assert refused.status_code == status, refused.text
        assert (await client.get("/api/v1/session")).status_code == 401
        assert not await server.state.auth.list("session")


async def test_a_sign_in_is_finished_once_by_the_browser_that_began_it(serve: Serve, provider: OidcProvider) -> None:
    async with serve(oidc=options(provider)) as server, browser(server) as client, browser(server) as other:
        code, state = provider.approve(await begun(client))
        given = {"code": code, "state": state}
        await begun(other)
        assert (await other.get("/oidc/callback", params=given)).status_code == 401, "another browser"
        assert (await other.get("/oidc/callback", params={"code": code})).status_code == 401
        assert (await other.get("/oidc/callback?error=access_denied")).status_code == 401
        cookies = dict(client.cookies)
        assert (await client.get("/oidc/callback", params=given)).status_code == 200
        client.cookies.update(cookies)
        assert (await client.get("/oidc/callback", params=given)).status_code == 401, "once"


async def test_a_sign_in_takes_no_longer_than_its_time(
    serve: Serve, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "FLOW_S", 0.0)
    async with serve(oidc=options(provider)) as server, browser(server) as client:
        response = await client.get("/oidc/login")
        code, state = provider.approve(response.headers["location"])
        headers = {"Cookie": response.headers["set-cookie"].partition(";")[0]}
        late = await client.get("/oidc/callback", params={"code": code, "state": state}, headers=headers)
        assert (late.status_code, late.json()["detail"].startswith("this sign-in was not begun")) == (401, True)
        assert len(await server.engine._store.documents(OIDC_FOLDER)) == 1
        await server.state.auth.sweep()
        assert not await server.engine._store.documents(OIDC_FOLDER)


async def test_new_keys_of_the_provider_are_read(
    serve: Serve, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "RENEW_S", 0.0)
    async with serve(oidc=options(provider)) as server, browser(server) as client:
        assert (await signed_in(client, provider)).status_code == 200
        provider.key = RSAKey.generate_key(2048, {"kid": "second"})
        assert (await signed_in(client, provider)).status_code == 200


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "http://127.0.0.1:1"},
        {"token_endpoint": None},
        {"jwks_uri": "http://provider.example/jwks"},
    ],
)
async def test_a_wrong_discovery_document_is_refused(
    serve: Serve, provider: OidcProvider, document: dict[str, Any]
) -> None:
    provider.document = document
    async with serve(oidc=options(provider)) as server, browser(server) as client:
        refused = await client.get("/oidc/login")
        assert (refused.status_code, refused.json()["code"]) == (503, "http.unavailable")


async def test_a_provider_that_is_away_is_said_to_be(serve: Serve, provider: OidcProvider) -> None:
    away = OidcOptions(issuer="http://127.0.0.1:9", client="outlast", roles={"staff": "viewer"})
    async with serve(oidc=away) as server, browser(server) as client:
        assert (await client.get("/oidc/login")).status_code == 503


def test_a_provider_without_tls_or_roles_is_refused() -> None:
    with pytest.raises(InvalidInput, match="https"):
        oidc.Oidc(OidcOptions(issuer="http://provider.example", client="x", roles={"a": "viewer"}))
    with pytest.raises(InvalidInput, match="role"):
        oidc.Oidc(OidcOptions(issuer="https://provider.example", client="x"))
