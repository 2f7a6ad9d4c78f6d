"""The page in a real Chromium, on a real server.

All coroutines of these tests run in one event loop for each process, so that they share its browser. Where there is no
Chromium or no built page they are skipped, and the summary says so; with OUTLAST_REQUIRE_BROWSER=1 they fail.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from support.browser import chromium, is_required, missing
from support.site import Site

TIMEOUT_S = 400.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    site: Any = arguments.get("site")

    async def whole() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            try:
                await pyfuncitem.obj(**arguments)
                if site is not None:
                    site.check()
            except BaseException:
                if site is not None:
                    await site.keep_evidence()
                raise

    pyfuncitem.funcargs["loop"].run(whole())
    return True


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def browser(loop: asyncio.Runner) -> Iterator[Browser]:
    if reason := missing():
        (pytest.fail if is_required() else pytest.skip)(reason)
    opened = AsyncExitStack()
    yield loop.run(opened.enter_async_context(chromium()))
    loop.run(opened.aclose())


@pytest.fixture(params=["sqlite"])
def site(request: pytest.FixtureRequest, loop: asyncio.Runner, browser: Browser, tmp_path: Path) -> Iterator[Site]:
    """On SQLite; tests that are parametrized with `BOTH` also run on PostgreSQL."""
    store = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    opened = Site(browser, tmp_path, store)
    try:
        yield opened
    finally:
        loop.run(opened.close())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if reason := missing():
        terminalreporter.write_line(f"THE PAGE WAS NOT TESTED: {reason}", red=True, bold=True)
