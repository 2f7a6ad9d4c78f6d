"""THE BUILDER: from an address to an open store and the desk over it; the only module that knows all the others.

An address is a path, `sqlite:///path` (three slashes and a relative path, four and an absolute one) or `memory:`. Drivers
are imported when a store of their kind is opened, never before.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from outlast.client import Client
from outlast.errors import BadInput, StoreUnusable
from outlast.store import Store

__all__ = ["default_store", "open_desk", "open_store", "project_root", "read_key"]

VARIABLE = "OUTLAST_STORE"
DEFAULT = Path(".outlast", "runs.db")
COMING = ("postgresql", "s3")
LONGEST_KEY = 64


def default_store(given: str | None = None) -> str:
    """Which store is meant: the one `given`, else the one OUTLAST_STORE names, else .outlast/runs.db of the project."""
    if given is not None:
        return given
    return os.environ.get(VARIABLE) or str(project_root(Path.cwd()) / DEFAULT)


def project_root(start: Path) -> Path:
    """The nearest folder upward from `start` that is set up for Outlast, else `start`."""
    for folder in (start, *start.parents):
        if (folder / "outlast.toml").is_file() or _is_ours(folder / "pyproject.toml"):
            return folder
    return start


def _is_ours(pyproject: Path) -> bool:
    try:
        content = pyproject.read_bytes()
    except OSError:
        return False
    if b"outlast" not in content:
        return False
    try:
        return "outlast" in tomllib.loads(content.decode()).get("tool", {})
    except ValueError as error:
        raise BadInput(f"{pyproject} does not read, so it cannot say whether it names a store: {error}") from error


def open_store(address: str | Path, *, readonly: bool = False) -> Store:
    """The store at an address. With `readonly` it must be there; otherwise it is made."""
    scheme, rest = _parted(address) if isinstance(address, str) else ("", str(address))
    if scheme == "memory":
        from outlast.stores.memory import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        if not rest.startswith("///") or "?" in rest:
            raise BadInput(
                f"{address!r} is not an SQLite address; write sqlite:///runs.db or sqlite:////folder/runs.db"
            )
        rest = rest[3:]
    if not rest:
        raise BadInput("the address of the store is empty; name a file, for instance .outlast/runs.db")
    return _open_sqlite(Path(os.path.expanduser(rest)), readonly)


def _parted(address: str) -> tuple[str, str]:
    """Scheme and rest; no scheme means a path. A single letter is a drive."""
    scheme, colon, rest = address.partition(":")
    if not colon or len(scheme) < 2 or not scheme.replace("+", "").isalnum():
        return "", address
    if scheme == "sqlite" or address == "memory:":
        return scheme, rest
    known = "a path, sqlite:///path and memory:"
    if scheme in COMING:
        raise BadInput(f"stores of the kind {scheme} are coming; this version opens {known}")
    raise BadInput(
        f"there is no kind of store called {scheme[:40]!r}: this version opens {known}; {' and '.join(COMING)} are coming. "
        "A file with a colon in its name is written ./name"
    )


def _open_sqlite(path: Path, readonly: bool) -> Store:
    from outlast.stores.sqlite import SqliteStore

    try:
        place = path.absolute()
        if place.is_dir():
            raise StoreUnusable(f"{place} is a folder; name the file in it, for instance {place / 'runs.db'}")
        if readonly and not place.exists():
            raise StoreUnusable(f"there is no store at {place}")
        return SqliteStore(place, blobs=_blobs_of(place), readonly=readonly)
    except (OSError, ValueError) as error:
        raise StoreUnusable(f"could not open {str(path)!r}: {error}") from error


def _blobs_of(path: Path) -> Path:
    """By the file's own name, so that the same file has the same blobs however it was named."""
    if path.parts[-2:] == DEFAULT.parts:
        return path.with_name("blobs")
    return path.with_name(path.name + ".blobs")


@asynccontextmanager
async def open_desk(given: str | None = None, *, key: bytes = b"", readonly: bool = False) -> AsyncIterator[Client]:
    """The desk over the store that is meant, closed at the end."""
    store = open_store(default_store(given), readonly=readonly)
    try:
        yield Client(store, key=key)
    finally:
        await store.close()


def read_key(path: Path) -> bytes:
    """The key in a file: all of its bytes, 1 to 64 of them."""
    try:
        key = path.read_bytes()
    except (OSError, ValueError) as error:
        raise BadInput(f"the key file {str(path)!r} does not read: {error}") from error
    if not 1 <= len(key) <= LONGEST_KEY:
        raise BadInput(
            f"the key file {path} holds {len(key)} bytes; a key is all of a file of 1 to {LONGEST_KEY} bytes"
        )
    return key
