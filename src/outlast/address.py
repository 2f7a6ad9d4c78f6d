"""What the address of a store means: memory, or a file and the blobs beside it.

An address is a path, `sqlite:///path` (three slashes and a relative path, four and an absolute one) or `memory:`. Nothing
here looks at a disk: whether there is a store at an address is found out by whoever opens it.
"""

from __future__ import annotations

import os
from pathlib import Path

from outlast.errors import BadInput

__all__ = ["DEFAULT", "blobs_beside", "file_at"]

DEFAULT = Path(".outlast", "runs.db")
"""Where a project's runs are if nobody says otherwise."""
KINDS = "a path, sqlite:///path or memory:"
COMING = ("postgresql", "s3")


def file_at(address: str | Path) -> Path | None:
    """The file that an address names, None if it is memory; `BadInput` if it is of no kind that this version opens."""
    scheme, rest = _parted(address) if isinstance(address, str) else ("", str(address))
    if scheme == "memory":
        return None
    if scheme == "sqlite":
        if not rest.startswith("///") or "?" in rest:
            raise BadInput(
                f"{address!r} is not an SQLite address; write sqlite:///runs.db or sqlite:////folder/runs.db"
            )
        rest = rest[3:]
    if not rest:
        raise BadInput("the address of the store is empty; name a file, for instance .outlast/runs.db")
    return Path(os.path.expanduser(rest))


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


def blobs_beside(path: Path) -> Path:
    """Where a file's blobs are: by its own name, so that the same file has the same blobs however it was named."""
    if path.parts[-2:] == DEFAULT.parts:
        return path.with_name("blobs")
    return path.with_name(path.name + ".blobs")
