"""Where the token for a server comes from: the environment, the profile, or the file that `outlast login` writes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from outlast.atomic_file import publish
from outlast.errors import InvalidInput
from outlast.settings import read_profile

VARIABLE = "OUTLAST_TOKEN"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def token_for(address: str, profile: str = "") -> str:
    """The token for a server: of the variable, else of the profile, else the one that was kept; empty if there is none."""
    return os.environ.get(VARIABLE, "") or (read_profile(profile).token if profile else "") or kept(address)


def kept(address: str) -> str:
    return _read().get(_key(address), "")


def keep(address: str, token: str) -> Path:
    """Keep the token for a server in a file that only its owner can read."""
    return _write(_read() | {_key(address): token})


def forget(address: str) -> bool:
    """Remove the token for a server; whether there was one."""
    known = _read()
    if known.pop(_key(address), None) is None:
        return False
    _write(known)
    return True


def file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "outlast" / "tokens.json"


def _key(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _read() -> dict[str, str]:
    path = file()
    try:
        if os.name == "posix" and path.stat().st_mode & _OTHERS:
            raise InvalidInput(f"{path} can be read by other users: run `chmod 600 {path}`")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInput(f"the file of tokens {path} cannot be read: {error}; remove it") from error


def _write(tokens: dict[str, str]) -> Path:
    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f".{path.name}.part-{os.urandom(8).hex()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(msgspec.json.format(msgspec.json.encode(tokens)))
        publish(str(part), str(path))
    except OSError as error:
        raise InvalidInput(f"the file of tokens {path} cannot be written: {error}") from error
    return path
