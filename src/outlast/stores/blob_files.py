"""The files of a folder of blobs, one after the other: to count them and to copy them.

Blobs are never changed and are named by what is in them, so a copy needs no lock, and shows by itself whether it is whole.
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
    """Every blob below `root`, in no order. What is still being written, or is none, is left out."""
    first, second = _HALVES
    if not root.is_dir():
        return
    for folder in root.iterdir():
        if first.fullmatch(folder.name) and folder.is_dir():
            yield from (file for file in folder.iterdir() if second.fullmatch(file.name))


def sizes(root: Path) -> tuple[int, int]:
    """How many blobs there are below `root`, and how many bytes."""
    count = size = 0
    for file in blob_files(root):
        with suppress(FileNotFoundError):  # removed since it was listed
            size += file.stat().st_size
            count += 1
    return count, size


def copy_blob(file: Path, root: Path) -> Generator[int, None, bool]:
    """Copy a blob into the folder below `root`, durably but for the names of its folders; yields the bytes of each piece.
    Returns whether they are what the name says: what is damaged is copied as it is."""
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
    """Make the names of all blobs below `root` durable."""
    for folder in (*(each for each in root.iterdir() if each.is_dir()), root):
        flush(folder)
