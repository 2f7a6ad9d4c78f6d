"""Whether the file that a process has open is still the one at its path.

SQLite goes on with a file that was moved or replaced, and nobody finds again what it writes there.
"""

from __future__ import annotations

import os
from pathlib import Path

from outlast.errors import StoreUnusable

MOVED = (
    "the database file {} was {}; nothing was written. Put the file that was there back, together with its -wal file, or "
    "restart this process"
)


class FileIdentity:
    """The file at a path, as it is when this is made."""

    def __init__(self, path: Path) -> None:
        self._path = os.path.abspath(path)  # the process may change its folder
        self._expected = self._found()

    def check(self) -> None:
        """Raise `StoreUnusable` unless the same file is at the path. Cheap enough for every transaction."""
        try:
            found = self._found()
        except OSError as error:
            raise StoreUnusable(
                MOVED.format(self._path, f"moved or removed while it was open ({error.strerror})")
            ) from None
        if found != self._expected:
            raise StoreUnusable(MOVED.format(self._path, "replaced by another file while it was open"))

    def _found(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino
