"""Two S3 servers from wheels, on free loopback ports.

`seaweed` is a real object store with its data on disk; concurrent writes to one object wait a second there.
`ministack` keeps its data in memory and is fast under contention. Both support conditional writes. A process has at
most one of each (`shared`), which ends with the process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["seaweed", "ministack"]

BUCKET = "outlast"
KEY, SECRET = "outlast-tests", "not-a-secret-of-anybody"
PATIENCE = 60.0
"""Seconds within which a server must answer."""


class S3Server:
    """A running server. `address` opens a store on it; the credentials are in the environment of this process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self.process = process
        self.port = port
        self._folder = folder

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def address(self, prefix: str) -> str:
        return address(self.port, prefix)

    def stop(self) -> None:
        """Stop it, and remove its data."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def address(port: int, prefix: str) -> str:
    """The address of a folder in the bucket behind a port, of a server or of a proxy."""
    return f"s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{port}&allow_http=true&region=us-east-1"


# --- one of each


_shared: dict[Kind, S3Server] = {}


def shared(kind: Kind = "seaweed") -> S3Server:
    """The server of this process, started on first use."""
    if kind not in _shared:
        os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
        os.environ.pop("AWS_SESSION_TOKEN", None)
        _shared[kind] = start(kind)
        atexit.register(stop_shared)
    return _shared[kind]


def stop_shared() -> None:
    """Stop the shared servers."""
    while _shared:
        _shared.popitem()[1].stop()


def start(kind: Kind) -> S3Server:
    """A new server with an empty bucket."""
    folder = Path(tempfile.mkdtemp(prefix=f"outlast-{kind}-"))
    ports = _free_ports(10)
    command, variables = _COMMANDS[kind](folder, ports)
    log = folder / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            command,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "HOME": str(folder), **variables},
            preexec_fn=_die_with_parent,
        )
    server = S3Server(process, ports[0], folder)
    try:
        _wait_for(server, log)
    except BaseException:
        server.stop()
        raise
    return server


Command: TypeAlias = Callable[[Path, list[int]], tuple[list[str], Mapping[str, str]]]


def _seaweed(folder: Path, ports: list[int]) -> tuple[list[str], Mapping[str, str]]:
    """Every port is explicit, also for gRPC: derived ports might be in use."""
    roles = ("s3", "master", "volume", "filer", "admin")
    listening = {f"{role}.port": ports[at] for at, role in enumerate(roles)}
    listening |= {f"{role}.port.grpc": ports[5 + at] for at, role in enumerate(roles)}
    options = {
        "dir": folder / "data",
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "bucket": BUCKET,
        "master.telemetry": "false",
        "webdav": "false",
        "admin.ui": "false",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "filer.localSocket": folder / "filer.sock",
        **listening,
    }
    (folder / "data").mkdir()
    command = [_program("weed"), f"-logdir={folder}", "mini", *(f"-{name}={value}" for name, value in options.items())]
    return command, {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}


def _ministack(_: Path, ports: list[int]) -> tuple[list[str], Mapping[str, str]]:
    return [_program("ministack")], {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(ports[0]), "SERVICES": "s3"}


_COMMANDS: dict[Kind, Command] = {"seaweed": _seaweed, "ministack": _ministack}


def _program(name: str) -> str:
    """A program from a wheel, beside the interpreter."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed: run `make setup`")
    return found


def _die_with_parent() -> None:
    """End the server when the tests end in any way (Linux; elsewhere only `stop` ends it)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    """Ports that are free now. All are reserved at once, so they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait_for(server: S3Server, log: Path) -> None:
    """Wait until the server accepts an object; creates the bucket if it is missing."""
    import obstore.exceptions
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        endpoint=server.endpoint,
        region="us-east-1",
        access_key_id=KEY,
        secret_access_key=SECRET,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    until = time.monotonic() + PATIENCE
    while True:
        try:
            store.put("up", b"")
            return
        except FileNotFoundError:
            _make_bucket(server)
        except obstore.exceptions.BaseError as error:
            if time.monotonic() > until or server.process.poll() is not None:
                said = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the server does not answer: {error}\n{said}") from error
        time.sleep(0.05)


def _make_bucket(server: S3Server) -> None:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("PUT", f"/{BUCKET}")
        connection.getresponse().read()
    finally:
        connection.close()
