"""A server with the workflows of the shop, and people who look at its page."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from outlast.http.permissions import ROLES, Role
from support.browser import WAIT_MS, WIDE, Tab, Theme, new_context, picture
from support.server_process import ServerProcess, auth_of, credential

FLOWS = Path(__file__).with_name("flows") / "shop.py"
API = "/api/v1"
CLAIM_S = 6
BOTH = pytest.mark.parametrize("site", ["sqlite", "postgres"], indirect=True)
"""On both kinds of store."""


class Site:
    """A server with the workflows of the shop, and people who look at its page."""

    def __init__(self, browser: Browser, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.is_postgres = store.startswith("postgres")
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
            FLOWS,
            *options,
            store=self.store,
            token=self._token,
            port=port,
            environment={"SHOP": str(self.folder), "OUTLAST_CLAIM": str(CLAIM_S)},
        )
        self.server.until_ready()

    def kill(self) -> None:
        self.server.end(signal.SIGKILL)

    def allow(self, name: str) -> None:
        """Let the nodes that wait for this go on."""
        (self.folder / name).touch()

    async def streams(self) -> int:
        """How many streams are open."""
        text = await asyncio.to_thread(self.server.text, "/metrics")
        return int(float(re.findall(r"^outlast_stream_clients (\S+)", text, re.MULTILINE)[0]))

    async def sql(self, statement: str) -> None:
        """Change a row of an SQLite store whose server has been killed."""
        with sqlite3.connect(self.store) as connection:
            connection.execute(statement)
        connection.close()

    async def end_session(self, role: Role) -> None:
        async with auth_of(self.store) as auth:
            await auth.revoke("session", self.sessions[role].split("_")[1])

    async def start(
        self, workflow: str, id: str, *, until: str = "", title: str = "", tags: Sequence[str] = (), **params: Any
    ) -> None:
        """Start a run with this id, and wait until it has this status."""
        await self.get("/runs", {"workflow": workflow, "params": params, "id": id, "title": title, "tags": list(tags)})
        if until:
            await self.until(id, until)

    async def until(self, run: str, status: str) -> Any:
        return await asyncio.to_thread(self.server.until, run, status)

    async def get(self, path: str, body: Any = None) -> Any:
        status, answer = await asyncio.to_thread(self.server.get, f"{API}{path}", body)
        assert status < 300, answer
        return answer

    async def open(
        self, path: str = "/", *, role: Role | None = "admin", theme: Theme = "light", width: int = WIDE
    ) -> Page:
        """The page at this path, in a browser of its own; of somebody who is signed out without a role."""
        context = await self.person(role, theme=theme, width=width)
        page = await context.new_page()
        await page.goto(path)
        return page

    async def person(self, role: Role | None, *, theme: Theme = "light", width: int = WIDE) -> BrowserContext:
        """A browser of its own, signed in with this role."""
        session = self.sessions[role] if role else ""
        context = await new_context(self._browser, self.server.address, session=session, theme=theme, width=width)
        context.set_default_timeout(WAIT_MS)
        self._opened.push_async_callback(context.close)
        context.on("page", lambda page: self.tabs.append(Tab(page, self.server.address)))
        return context

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
