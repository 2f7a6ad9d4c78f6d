"""Checks that the open file is still the one at its path.

SQLite continues to write to a file that was moved or replaced, and those writes are lost.
"""

from __future__ import annotations

import os
from pathlib import Path

from outlast.errors import StoreUnusable

MOVED = (
    "the database file {} was {}; nothing was written. Restore the original file together with its -wal file, or restart "
    "this process"
)


class FileIdentity:
    """The identity of the file at a path when this object is created."""

    def __init__(self, path: Path) -> None:
        self._path = os.path.abspath(path)  # the process may change its working directory
        self._expected = self._identity()

    def check(self) -> None:
        """Raise `StoreUnusable` unless the same file is at the path. Cheap enough for every transaction."""
        try:
            found = self._identity()
        except OSError as error:
            raise StoreUnusable(MOVED.format(self._path, f"moved or removed while open ({error.strerror})")) from None
        if found != self._expected:
            raise StoreUnusable(MOVED.format(self._path, "replaced by another file while open"))

    def _identity(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino
