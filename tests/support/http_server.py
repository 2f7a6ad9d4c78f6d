"""A server in this process: the real application over a real engine and a SQLite file, with a client for each role."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

import outlast as ol
from outlast.http.app import Application
from outlast.http.permissions import ROLES

BASE = "http://localhost"


class Served:
    """The server, and what its clients send. Without a role it is an admin who asks."""

    def __init__(self, app: Application, engine: ol.Engine, tokens: dict[str, str]) -> None:
        self.app = app
        self.state = app.state
        self.engine = engine
        self.tokens = tokens
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE)

    async def __call__(self, method: str, path: str, *, role: str | None = "admin", **more: Any) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if role is not None:
            headers.setdefault("Authorization", f"Bearer {self.tokens[role]}")
        where = path if path.startswith("/api/workflows") or not path.startswith("/") else f"/api/v1{path}"
        return await self.client.request(method, where, headers=headers, **more)

    async def start(self, workflow: str, *, wait: float = 0, **params: Any) -> str:
        response = await self("POST", "/runs", json={"workflow": workflow, "params": params, "wait": wait})
        assert response.status_code == 201, response.text
        return str(response.json()["run"])

    async def until(self, run: str, status: str) -> Any:
        while (view := (await self("GET", f"/runs/{run}")).json())["status"] != status:
            await asyncio.sleep(0.005)
        return view


@asynccontextmanager
async def serving(store: Path | str, *, worker: bool = True, **options: Any) -> AsyncIterator[Served]:
    async with ol.open(store, worker=worker) as engine:
        app = ol.asgi(engine, **options)
        async with app.lifespan():
            tokens: dict[str, str] = {role: (await app.state.auth.create("token", role, role))[0] for role in ROLES}
            server = Served(app, engine, tokens)
            async with server.client:
                yield server
