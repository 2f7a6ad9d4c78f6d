"""Files that appear under their names complete, or not at all.

A file is written under a temporary name in the same folder, flushed and renamed; then the folder is flushed. So a file that
exists is complete, also after a loss of power.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

IS_WINDOWS = os.name == "nt"


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Write a new file. It gets its name when the block ends without an error. `FileExistsError` if the name is taken
    when the block begins or ends."""
    if os.path.lexists(path):
        raise FileExistsError(path)
    part = path.with_name(f".{path.name[:100]}.part-{os.urandom(8).hex()}")
    file = part.open("xb")
    try:
        yield file
        file.close()
        flush(part)
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # not every file system has links
            part.rename(path)
        flush(path.parent)
    finally:
        with suppress(OSError):  # closing writes the rest of the buffer, which may fail
            file.close()
        part.unlink(missing_ok=True)


def publish(part: str, path: str) -> None:
    """Give a file that is written and closed its name in the same folder, replacing the file that has this name."""
    flush(part)
    os.replace(part, path)
    flush(os.path.dirname(path) or ".")


def flush(path: str | Path) -> None:
    """Make the content of a file durable, or the names in a folder, where the system supports it."""
    if IS_WINDOWS and os.path.isdir(path):
        return
    handle = os.open(path, os.O_RDWR if IS_WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
