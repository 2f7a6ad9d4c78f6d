"""Recorded runs, read back into memory from what `outlast export` wrote."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from outlast.errors import InvalidInput
from outlast.history.record import Record
from outlast.maintenance.export import Blob, exported, read_line
from outlast.store import Head
from outlast.stores.memory import Memory, MemoryStore


def remembered(lines: Iterable[bytes | str], where: str = "") -> Memory:
    """The runs of an export. They are there to be read: no lists, no claims, nothing that waits."""
    memory = Memory()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            _take_in(memory, read_line(line))
        except InvalidInput as error:
            raise InvalidInput(f"{where or 'the export'}, line {number}: {error}") from error
    return memory


def _take_in(memory: Memory, told: Record | Blob) -> None:
    if isinstance(told, Blob):
        if told.data is not None:
            memory.blobs[told.hash] = told.data
        return
    head = memory.heads.get(told.run) or Head(told.run, 0, b"")
    if told.first != head.version + 1:
        raise InvalidInput(f"run {told.run} goes on with event {told.first}, after {head.version}")
    first = head.branch_first if head.branch == told.branch else told.first
    memory.logs.setdefault(told.run, []).append(told)
    memory.heads[told.run] = Head(told.run, told.last, told.digest, max(head.epoch, told.epoch), told.branch, first)


def files_at(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """The files that a path, a pattern or several of them name; `InvalidInput` if one names none."""
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Path] = []
    for each in named:
        here = sorted(glob.glob(str(each), recursive=True))
        if not here:
            raise InvalidInput(f"there is no file {str(each)!r} here: a check of nothing would always pass")
        found += map(Path, here)
    return found


async def write(memory: Memory, path: Path) -> None:
    """All runs of a memory, as an export."""
    store = MemoryStore(memory)
    with path.open("wb") as file:
        for run in list(memory.heads):
            async for line in exported(store, run):
                file.write(line + b"\n")
