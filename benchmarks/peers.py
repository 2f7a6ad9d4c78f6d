"""Environments of the peers: each its own, under `.make/peers`, from a hash-locked list in `requirements`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.measures import MADE, ROOT

PEERS = ("dbos",)


def home_of(peer: str) -> Path:
    return MADE / "peers" / peer


def interpreter_of(peer: str) -> Path:
    """The peer's Python, set up first if its list of packages is new."""
    lock = ROOT / "requirements" / f"peer-{peer}.txt"
    home = home_of(peer)
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    ready = home / ".ready"
    if not ready.exists() or ready.read_text() != wanted:
        _install(home, lock)
        ready.write_text(wanted)
    return home / "bin" / "python"


def _install(home: Path, lock: Path) -> None:
    print(f"setting up {home.relative_to(ROOT)} …", file=sys.stderr, flush=True)
    venv.create(home, clear=True, with_pip=True)
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run(
        [home / "bin" / "python", "-m", "pip", "install", *options, "-r", lock],
        check=True,
        stdout=sys.stderr,
        timeout=600,
    )


def is_home(peer: str) -> bool:
    """Whether this process runs in the peer's environment."""
    return Path(sys.prefix).resolve() == home_of(peer).resolve()
