"""`outlast serve` as a process, over a store and on a port of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from outlast.compose import open_settled
from outlast.http.auth import Auth
from outlast.http.permissions import Role
from outlast.settings import read_settings
from support import commands

PATIENCE = 120
"""Seconds after which a test gives up; on a busy machine a start, or a claim that expires, takes many of them."""


class ServerProcess:
    """A server that has been started. `token` is sent with its requests; `store` is by default a file in the folder."""

    def __init__(
        self,
        folder: Path,
        flows: Path,
        *options: str,
        store: str = "",
        token: str = "",
        port: int = 0,
        is_cold: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.token = folder, token
        self.log = folder / f"serve-{time.monotonic_ns()}.log"
        self.port = port or free_port()
        words = [sys.executable, "-m", "outlast", "serve", str(flows), "--port", str(self.port), *options]
        variables = {**os.environ, "OUTLAST_STORE": store or str(folder / "runs.db"), **(environment or {})}
        self.log_file = self.log.open("wb")
        start = subprocess.Popen if is_cold else commands.Popen
        self.process = start(words, cwd=folder, env=variables, stderr=self.log_file)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def resident(self) -> int:
        """Its resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

    def get(self, path: str, body: Any = None, *, token: str | None = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token or self.token}"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.address}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def text(self, path: str) -> str:
        request = urllib.request.Request(f"{self.address}{path}", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            text: str = response.read().decode()
            return text

    def until_ready(self) -> ServerProcess:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with suppress(OSError):
                if self.get("/readyz")[0] == 200:
                    return self
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def until(self, run: str, status: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while (found := self.get(f"/api/v1/runs/{run}")[1])["status"] != status:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.log_file.close()
        return code


@contextmanager
def server_process(folder: Path, flows: Path, *options: str, **more: Any) -> Iterator[ServerProcess]:
    """A server that is ready, and is killed at the end."""
    found = ServerProcess(folder, flows, *options, **more)
    try:
        yield found.until_ready()
    finally:
        found.end(signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@asynccontextmanager
async def auth_of(store: str | Path) -> AsyncIterator[Auth]:
    """The credentials in this store."""
    opened = open_settled(read_settings({"store": str(store)}))
    try:
        yield Auth(opened)
    finally:
        await opened.close()


async def new_credential(store: str | Path, kind: Literal["token", "session", "sign-in"], role: Role) -> str:
    """The text of a new credential in this store."""
    async with auth_of(store) as auth:
        return (await auth.create(kind, role, role, expires_s=3600))[0]


def credential(store: str | Path, kind: Literal["token", "session", "sign-in"], role: Role) -> str:
    return asyncio.run(new_credential(store, kind, role))
