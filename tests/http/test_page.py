"""The web page is served from its build: one document for all views, files that never change, nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import outlast as ol
from outlast.http import page

Serve = Any
INDEX = (
    '<!doctype html><html><head><base href="/"><script type="module" src="./assets/index-a1.js"></script></head></html>'
)
SCRIPT = "console.log('hello');\n" * 100


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "index-a1.js").write_text(SCRIPT)
    (folder / "assets" / "font-b2.woff2").write_bytes(b"font")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "assets" / "notes.pem").write_text("secret")
    (tmp_path / "secret.js").write_text("secret")
    monkeypatch.setattr(page, "FOLDER", folder)
    return folder


@pytest.mark.parametrize("path", ["/", "/runs", "/runs/report.v2@home", "/runs/r1/timeline", "/inbox/", "/sign-in"])
async def test_each_view_answers_with_the_page_which_is_never_cached(serve: Serve, built: Path, path: str) -> None:
    async with serve() as server:
        response = await server.client.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert response.headers["cache-control"] == "no-store"
        assert '<base href="/">' in response.text
        assert 'src="./assets/index-a1.js"' in response.text


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/v1/nothing",
        "/api/v1/runs/x/nothing",
        "/assets/",
        "/assets/index-a0.js",
        "/assets/notes.pem",
        "/assets/..%2fsecret.js",
        "/assets/..%2f..%2fsecret.js",
        "/assets/%2e%2e/secret.js",
        "/assets/.%2e%5csecret.js",
        "/index-a1.js",
        "/favicon.ico",
        "/secret.js",
        "/runsx",
        "/wp-login.php",
    ],
)
async def test_what_is_not_there_never_answers_with_the_page(serve: Serve, built: Path, path: str) -> None:
    async with serve() as server:
        response = await server("GET", path)
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["cache-control"] == "no-store"


async def test_files_of_the_page_are_cached_for_ever_and_sent_compressed(serve: Serve, built: Path) -> None:
    async with serve() as server:
        async with server.client.stream(
            "GET", "/assets/index-a1.js", headers={"Accept-Encoding": "gzip, br"}
        ) as packed:
            assert packed.headers["content-encoding"] == "gzip"
            assert packed.headers["vary"] == "Accept-Encoding"
            assert gzip.decompress(b"".join([part async for part in packed.aiter_raw()])).decode() == SCRIPT
        plain = await server.client.get("/assets/index-a1.js", headers={"Accept-Encoding": "identity"})
        assert plain.text == SCRIPT
        assert "content-encoding" not in plain.headers
        font = await server.client.get("/assets/font-b2.woff2")
        assert (font.content, font.headers["content-type"]) == (b"font", "font/woff2")
        icon = await server.client.get("/icon.svg")
        assert (icon.text, icon.headers["content-type"]) == ("<svg/>", "image/svg+xml")
        for each in (packed, plain, font):
            assert each.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert each.headers["x-content-type-options"] == "nosniff"
        assert (await server.client.post("/")).status_code == 405


async def test_the_page_may_load_nothing_from_elsewhere_and_is_in_no_frame(serve: Serve, built: Path) -> None:
    async with serve() as server:
        headers = (await server.client.get("/")).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        for kind in ("script-src", "style-src", "worker-src", "connect-src", "font-src", "base-uri"):
            assert policy[kind] == "'self'", kind
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"


async def test_an_open_page_can_tell_that_another_build_is_served(serve: Serve, built: Path) -> None:
    async with serve() as server:
        build = page.build()
        assert f'<meta name="outlast-build" content="{build}">' in (await server.client.get("/runs")).text
        (built / "index.html").write_text(INDEX.replace("a1", "a2"))
        assert page.build() not in ("", build)
        assert page.build() in (await server.client.get("/runs")).text


@pytest.mark.parametrize("prefix", ["/outlast", '/a"><script>'])
async def test_mounted_under_a_prefix_the_page_knows_it(tmp_path: Path, built: Path, prefix: str) -> None:
    async with ol.open(tmp_path / "runs.db") as engine:
        app = ol.asgi(engine)
        outer = Starlette(routes=[Mount(prefix, app)])
        async with (
            app.lifespan(),
            httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://localhost") as c,
        ):
            response = await c.get(f"{prefix}/runs/r1")
            assert response.status_code == 200
            assert "<script>" not in response.text
            shown = prefix.replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
            assert f'<base href="{shown}/">' in response.text
            assert (await c.get(f"{prefix}/assets/index-a1.js")).text == SCRIPT


async def test_without_a_build_it_says_how_to_get_one_and_people_can_sign_in(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "FOLDER", tmp_path / "none")
    async with serve() as server:
        response = await server.client.get("/")
        assert response.status_code == 404
        assert "make web" in response.text
        assert response.text.count("\n") == 1
        assert "One-time code" in (await server.client.get("/sign-in")).text
        assert (await server.client.get("/sign-in.js")).headers["content-type"].startswith("text/javascript")


@pytest.mark.usefixtures("built")
async def test_the_page_is_told_of_a_provider_that_signs_people_in(serve: Serve) -> None:
    async with serve() as server:
        assert "outlast-oidc" not in (await server.client.get("/sign-in")).text
        server.state.auth.oidc_roles = {"team": "viewer"}
        assert '<meta name="outlast-oidc" content="oidc/login">' in (await server.client.get("/sign-in")).text
