"""A real Chromium, and pages of it that note what must not happen: errors on the console, requests to other hosts."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from outlast.http.page import is_built

REQUIRED = "OUTLAST_REQUIRE_BROWSER"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first one has no user interface, which takes half of the time of a test."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDE, NARROW = 1280, 390
WAIT_MS = 60_000
expect.set_options(timeout=WAIT_MS)
Theme = Literal["light", "dark"]


def executable() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str:
    """Why the page cannot be tested here; empty if it can."""
    if executable() is None:
        return "there is no Chromium: run `make browser`"
    return "" if is_built() else "the page is not built: run `make web`"


def is_required() -> bool:
    return os.environ.get(REQUIRED, "") not in ("", "0")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable(), args=FLAGS)
        yield browser
        await browser.close()


class Tab:
    """One page of the browser, and what it did wrong."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        self._host = urlsplit(address).netloc
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", lambda request: self._on_request(request.url))
        page.on("dialog", lambda dialog: self.wrong.append(f"a dialog of the browser: {dialog.message}"))

    def _on_console(self, message: ConsoleMessage) -> None:
        # Chromium logs each refused request; the page's own answer to it is tested.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.wrong.append(f"console {message.type}: {message.text}")

    def _on_request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != self._host:
            self.wrong.append(f"request to another host: {url}")


async def new_context(
    browser: Browser, address: str, *, session: str = "", theme: Theme = "light", width: int = WIDE, **options: Any
) -> BrowserContext:
    """A browser of its own, with the cookie of a session."""
    height = 844 if width == NARROW else 860
    context = await browser.new_context(
        base_url=address,
        viewport={"width": width, "height": height},
        color_scheme=theme,
        locale="en-GB",
        timezone_id="Europe/Berlin",
        reduced_motion="reduce",
        **options,
    )
    if session:
        await context.add_cookies([{"name": "outlast_session", "value": session, "url": address, "httpOnly": True}])
    return context


async def is_loaded(page: Page) -> None:
    """The view is there and nothing of it is still being loaded."""
    await expect(page.get_by_role("main")).not_to_be_empty()
    await expect(page.get_by_role("status", name=re.compile("^Loading"))).to_have_count(0)


async def picture(page: Page, path: Path) -> None:
    await page.screenshot(path=path, full_page=False, animations="disabled", caret="hide")
