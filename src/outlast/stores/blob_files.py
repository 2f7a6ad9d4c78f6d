"""Lists, counts and copies the files of a folder of blobs.

Blobs never change and are named by their content, so a copy needs no lock, and its hash shows whether it is complete.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

from outlast.atomic_file import flush
from outlast.stores.blob_folder import CHUNK

_HALVES = re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{62}")


def blob_files(root: Path) -> Iterator[Path]:
    """Yield every blob below `root` in any order, without unfinished and foreign files."""
    first, second = _HALVES
    if not root.is_dir():
        return
    for folder in root.iterdir():
        if first.fullmatch(folder.name) and folder.is_dir():
            yield from (file for file in folder.iterdir() if second.fullmatch(file.name))


def sizes(root: Path) -> tuple[int, int]:
    """Return the number of blobs below `root` and their size in bytes."""
    count = size = 0
    for file in blob_files(root):
        with suppress(FileNotFoundError):  # removed since it was listed
            size += file.stat().st_size
            count += 1
    return count, size


def copy_blob(file: Path, root: Path) -> Generator[int, None, bool]:
    """Copy a blob into its folder below `root` and flush it, but not its folders. Yield the size of each chunk. Return
    whether the bytes match the name; a damaged blob is copied unchanged."""
    target = root / file.parent.name / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    hasher = hashlib.blake2b(digest_size=32)
    with file.open("rb") as source, target.open("xb") as copy:
        while chunk := source.read(CHUNK):
            hasher.update(chunk)
            copy.write(chunk)
            yield len(chunk)
    flush(target)
    return hasher.hexdigest() == file.parent.name + file.name


def flush_folders(root: Path) -> None:
    """Flush the folders of all blobs below `root`."""
    for folder in (*(each for each in root.iterdir() if each.is_dir()), root):
        flush(folder)
