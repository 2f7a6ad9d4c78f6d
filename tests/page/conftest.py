"""The page in a real Chromium, on a real server.

All coroutines of these tests run in one event loop for each process, so that they share its browser. Where there is no
Chromium or no built page they are skipped, and the summary says so; with OUTLAST_REQUIRE_BROWSER=1 they fail.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import shop
from playwright.async_api import Browser, Page

from outlast.http.permissions import ROLES, Role
from support.browser import WIDE, Tab, Theme, chromium, is_required, missing, new_context, picture
from support.server_process import ServerProcess, credential

TIMEOUT_S = 120.0
WAIT_MS = 20_000


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


class Site:
    """A server with the workflows of the shop, and people who look at its page."""

    def __init__(self, browser: Browser, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.sessions = {role: credential(store, "session", role) for role in ROLES}
        self._token = credential(store, "token", "admin")
        self._browser = browser
        self._opened = AsyncExitStack()
        self.tabs: list[Tab] = []
        self.server: ServerProcess
        self.begin()

    def begin(self, *options: str, port: int = 0) -> None:
        self.server = ServerProcess(
            self.folder,
            Path(shop.__file__),
            *options,
            store=self.store,
            token=self._token,
            port=port,
            environment={"SHOP": str(self.folder)},
        )
        self.server.until_ready()

    def kill(self) -> None:
        self.server.end(signal.SIGKILL)

    def allow(self, name: str) -> None:
        """Let the nodes that wait for this go on."""
        (self.folder / name).touch()

    async def start(
        self, workflow: str, id: str, *, until: str = "", title: str = "", tags: Sequence[str] = (), **params: Any
    ) -> None:
        """Start a run with this id, and wait until it has this status."""
        body = {"workflow": workflow, "params": params, "id": id, "title": title, "tags": list(tags)}
        status, answer = await asyncio.to_thread(self.server.get, "/api/v1/runs", body)
        assert status in (200, 201), answer
        if until:
            await self.until(id, until)

    async def until(self, run: str, status: str) -> Any:
        return await asyncio.to_thread(self.server.until, run, status)

    async def get(self, path: str, body: Any = None) -> Any:
        status, answer = await asyncio.to_thread(self.server.get, f"/api/v1{path}", body)
        assert status < 300, answer
        return answer

    async def open(
        self, path: str = "/", *, role: Role | None = "admin", theme: Theme = "light", width: int = WIDE
    ) -> Page:
        """The page at this path, in a browser of its own; of somebody who is signed out without a role."""
        session = self.sessions[role] if role else ""
        context = await new_context(self._browser, self.server.address, session=session, theme=theme, width=width)
        context.set_default_timeout(WAIT_MS)
        self._opened.push_async_callback(context.close)
        context.on("page", lambda page: self.tabs.append(Tab(page, self.server.address)))
        page = await context.new_page()
        await page.goto(path)
        return page

    def check(self) -> None:
        """No tab did what it must not."""
        wrong = [each for tab in self.tabs for each in tab.wrong]
        assert not wrong, "\n".join(wrong)

    async def keep_evidence(self) -> None:
        for number, tab in enumerate(self.tabs):
            if not tab.page.is_closed():
                path = self.folder / f"failed-{number}.png"
                await picture(tab.page, path)
                print(f"{tab.page.url}: {path}; {tab.wrong}")
        print(self.server.log.read_text()[-4000:])

    async def close(self) -> None:
        await self._opened.aclose()
        self.kill()


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
