"""The web page: files that `make web` builds into the folder `page` of this package, and that the wheel carries.

`index.html` answers for every view, is never cached, and contains its prefix and its build. Assets have a hash
of their content in their name: they are cached for ever, and a name of an older build is not found.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import html
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from outlast.http import sign_in_page
from outlast.http.problems import HttpError, response_of

FOLDER = Path(__file__).parent / "page"
VIEWS = ("runs", "inbox", "start", "workflows", "workers", "sweeper", "audit", "tokens", "bulk", "settings")
"""First parts of the paths that the page routes itself."""
MISSING = (
    "the web page is not built: run `make web` (needs Node 20) in the source checkout, or install Outlast from a wheel"
)
MEDIA = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
"""What a build holds. A file of another kind is not served."""
COMPRESSED = frozenset((".js", ".css", ".svg", ".json"))
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_BASE = re.compile(r"<base\b[^>]*>")


def routes() -> Sequence[BaseRoute]:
    views = [Route(path, index) for view in VIEWS for path in (f"/{view}", f"/{view}/{{rest:path}}")]
    return [
        Route("/", index),
        *views,
        Route("/assets/{name}", asset),
        Route("/icon.svg", icon),
        Route("/sign-in", sign_in),
        *_sign_in_files(),
    ]


def is_built() -> bool:
    return (FOLDER / "index.html").is_file()


def build() -> str:
    """The build of the page that is served now: an open page compares it with its own. Empty without a page."""
    return hashlib.sha256((FOLDER / "index.html").read_bytes()).hexdigest()[:16] if is_built() else ""


async def index(request: Request) -> Response:
    """The page, for every view."""
    if not is_built():
        return PlainTextResponse(f"{MISSING}\n", 404)
    text = (FOLDER / "index.html").read_text("utf-8")
    root = html.escape(request.scope.get("root_path", ""))
    head = f'<base href="{root}/"><meta name="outlast-build" content="{build()}">'
    if request.app.state.outlast.auth.oidc_roles:
        head += '<meta name="outlast-oidc" content="oidc/login">'
    return Response(_BASE.sub(lambda _: head, text), media_type="text/html")


async def sign_in(request: Request) -> Response:
    """The page's own sign-in, or a plain one without the page."""
    return await index(request) if is_built() else Response(sign_in_page.SIGN_IN, media_type="text/html")


async def asset(request: Request) -> Response:
    """A file of the build. Its name changes with its content."""
    name: str = request.path_params["name"]
    path = FOLDER / "assets" / name
    if not _NAME.fullmatch(name) or path.suffix not in MEDIA or not path.is_file():
        return response_of(HttpError("http.not_found", f"the page has no file {name[:100]!r}"))
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    if path.suffix not in COMPRESSED:
        return Response(path.read_bytes(), headers=headers, media_type=MEDIA[path.suffix])
    headers["Vary"] = "Accept-Encoding"
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = await asyncio.to_thread(_compressed, path)
        headers["Content-Encoding"] = "gzip"
    else:
        content = path.read_bytes()
    return Response(content, headers=headers, media_type=MEDIA[path.suffix])


async def icon(_: Request) -> Response:
    """The icon of the page. Its name stays the same, so that it is not cached."""
    path = FOLDER / "icon.svg"
    return Response(path.read_bytes(), media_type=MEDIA[".svg"]) if path.is_file() else Response(status_code=404)


@lru_cache(maxsize=256)
def _compressed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


def _sign_in_files() -> list[Route]:
    async def script(_: Request) -> Response:
        return Response(sign_in_page.SCRIPT, media_type="text/javascript")

    async def style(_: Request) -> Response:
        return Response(sign_in_page.STYLE, media_type="text/css")

    return [Route("/sign-in.js", script), Route("/sign-in.css", style)]
